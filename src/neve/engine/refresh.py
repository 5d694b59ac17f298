"""A refresh on Spark: relations of a derived text as views, and net changes applied to the table in one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from neve.engine.classes import scala_object, static
from neve.engine.errors import translated
from neve.engine.netting import netted
from neve.engine.staging import Branch
from neve.model.ingest import is_hidden
from neve.model.names import TableName, quote
from neve.sql.applying import PLACE_OF, WEIGHT, merge_bag, merge_keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES = "_neve_changes"
_SQL = "org.apache.spark.sql"
_PROPERTY = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True, slots=True)
class Applied:
    """Net rows that came and went; equal rows count as often as they are there."""

    inserted: int
    deleted: int


def provide(
    spark: SparkSession,
    relation: str,
    table: TableName,
    snapshot: int | None,
    columns: Sequence[str],
    *,
    place: str | None = None,
    split: int | None = None,
) -> None:
    """A relation of a derived text: a table as a snapshot has it. A table without one has no rows.

    `place` names a further column: the file and the position where each row lies. `split` is what a task reads, in
    bytes as Iceberg counts them.
    """
    with translated():
        if snapshot is None:
            rows = spark.table(table.sql).limit(0)
        else:
            options = {"versionAsOf": snapshot} | ({} if split is None else {"split-size": split})
            rows = spark.read.options(**options).table(table.sql)
        lies = [] if place is None else [f"{PLACE_OF} AS {quote(place)}"]
        rows.selectExpr(*(quote(name) for name in columns), *lies).createOrReplaceTempView(relation)


@dataclass
class Steps:
    """Relations that a derived text is computed by, one after the other. `close` forgets what was kept of them."""

    spark: SparkSession
    small: bool
    """Whether the sources have so few changes that a step of few rows may go to every task, wherever it is joined."""
    _kept: list[DataFrame] = field(default_factory=list)

    def add(self, name: str, rows: DataFrame, *, kept: bool, few: bool) -> None:
        """The rows under a name; kept ones are computed once, by whoever asks first."""
        from pyspark.sql import functions as f

        with translated():
            if kept:
                self._kept.append(rows.persist())
                rows = _as_kept(rows)
            (f.broadcast(rows) if few and self.small else rows).createOrReplaceTempView(name)

    def pin(self, rows: DataFrame) -> DataFrame:
        """Rows as a relation that stays equal to itself: every query finds staged files anew, as another table, so that
        nothing kept of them would be recognised."""
        with translated():
            java: Any = rows._jdf
            relations = scala_object(self.spark._jvm, f"{_SQL}.execution.LogicalRDD")
            return _frame(self.spark, relations.fromDataset(java.queryExecution().toRdd(), java, False))

    def close(self) -> None:
        while self._kept:
            self._kept.pop().unpersist()


def _as_kept(rows: DataFrame) -> DataFrame:
    """Kept rows as a relation of their own: all that is computed of them is planned without how they came to be, which
    Spark would look through each time. Spark may have kept the same rows before, under other names."""
    spark, java = rows.sparkSession, cast(Any, rows._jdf)
    kept = spark._jsparkSession.sharedState().cacheManager().lookupCachedData(java).get().cachedRepresentation()
    return _frame(spark, kept.withOutput(java.queryExecution().analyzed().output()))


def _frame(spark: SparkSession, plan: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    of_rows = static(spark._jvm, f"{_SQL}.classic.Dataset", "ofRows")
    return DataFrame(of_rows(spark._jsparkSession, plan), spark)


def compare(spark: SparkSession, result: str, stored: str, columns: Sequence[str]) -> DataFrame:
    """The net changes that make a stored relation the result of a query."""
    from pyspark.sql import functions as f

    names = [quote(name) for name in columns]
    with translated():
        come = spark.sql(result).select(*names, f.lit(1).cast("bigint").alias(WEIGHT))
        gone = spark.table(stored).select(*names, f.lit(-1).cast("bigint").alias(WEIGHT))
        return netted(come.unionAll(gone), columns, WEIGHT)


@contextmanager
def held(changes: DataFrame, *, read_off: bool = False) -> Iterator[DataFrame]:
    """Changes that are computed once, by whoever asks first, and kept until they have been applied. Those that are read
    off what is kept already need not be kept again."""
    if not read_off:
        changes.persist()
    try:
        with translated():
            found = changes if read_off else _as_kept(changes)
            found.createOrReplaceTempView(CHANGES)
        yield found
    finally:
        if not read_off:
            changes.unpersist()


def count(changes: DataFrame) -> Applied:
    """How many rows come and go."""
    from pyspark.sql import functions as f

    with translated():
        row = changes.agg(
            f.coalesce(f.sum(f.when(f.col(WEIGHT) > 0, f.col(WEIGHT))), f.lit(0)),
            f.coalesce(f.sum(f.when(f.col(WEIGHT) < 0, -f.col(WEIGHT))), f.lit(0)),
        ).collect()[0]
    return Applied(int(row[0]), int(row[1]))


def types_of(spark: SparkSession, columns: Sequence[str]) -> dict[str, str]:
    """Columns of the held changes with Spark's names of their types."""
    known = {field.name: field.dataType.simpleString() for field in spark.table(CHANGES).schema.fields}
    return {name: known[name] for name in columns}


def size_of(changes: DataFrame) -> int:
    """What held changes take in memory, in bytes, once they have been computed."""
    with translated():
        plan: Any = changes._jdf.queryExecution().analyzed()
        plan.invalidateStatsCache()  # from before they were computed
        return int(plan.stats().sizeInBytes())


def plan_small(spark: SparkSession) -> None:
    """Settings of a session for few changes: a query is one job, not one for each of its shuffles, and only the changes
    are sent to every task, which is a job of its own."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")


def examples(spark: SparkSession, columns: Sequence[str], *, come: bool, most: int) -> list[tuple[dict[str, Any], int]]:
    """Some of the kept changes, as JSON values and how often each is there. Hidden columns are left out."""
    from pyspark.sql import functions as f

    shown = [quote(name) for name in columns if not is_hidden(name)]
    with translated():
        rows = spark.table(CHANGES).where(f"{WEIGHT} {'>' if come else '<'} 0").limit(most)
        text = f.to_json(f.struct(*shown), {"ignoreNullFields": "false"})
        return [(json.loads(row[0]), int(row[1])) for row in rows.select(text, f.abs(WEIGHT)).collect()]


def apply_changes(
    spark: SparkSession,
    branch: Branch,
    columns: Sequence[str],
    *,
    kind: Literal["keyed", "scoped", "bag"],
    keys: Sequence[str],
    summary: Mapping[str, str],
) -> None:
    """Applies the held changes to the branch in one commit that carries the summary.

    A row that is to go and is not there fails the job: the stored table is not what the changes were derived for.
    """
    with translated():
        for key, value in summary.items():
            spark.conf.set(f"{_PROPERTY}{key}", value)
        if kind == "keyed":
            spark.sql(merge_keyed(branch.sql, CHANGES, columns, keys))
        else:
            spark.sql(merge_bag(branch.sql, CHANGES, types_of(spark, columns)))


def load_all(
    spark: SparkSession,
    branch: Branch,
    result: str,
    columns: Sequence[str],
    *,
    summary: Mapping[str, str],
    replace: bool = False,
) -> None:
    """Writes a whole result to the branch in one commit that carries the summary; `replace` what is there, if asked."""
    from pyspark.sql import functions as f

    with translated():
        rows = spark.sql(result).select(*(quote(name) for name in columns))
        writer = rows.writeTo(branch.sql)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        if replace:
            writer.overwrite(f.lit(True))
        else:
            writer.append()
