"""A refresh on Spark: relations of a derived text as views, and net changes applied to the table in one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from neve.engine.errors import translated
from neve.engine.staging import Branch
from neve.model.ingest import is_hidden
from neve.model.names import TableName, quote
from neve.sql.applying import HASH, ORDINAL, WEIGHT, merge_bag, merge_keyed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

CHANGES = "_neve_changes"
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
) -> None:
    """A relation of a derived text: a table as a snapshot has it. A table without one has no rows.

    `place` names a further column: the file and the position where each row lies.
    """
    with translated():
        if snapshot is None:
            rows = spark.table(table.sql).limit(0)
        else:
            rows = spark.read.option("versionAsOf", snapshot).table(table.sql)
        lies = [] if place is None else [f"named_struct('file', _file, 'pos', _pos) AS {quote(place)}"]
        rows.selectExpr(*(quote(name) for name in columns), *lies).createOrReplaceTempView(relation)


def provide_changes(changes: DataFrame, relation: str, *, small: bool) -> None:
    """The changes of a source as a relation; small ones go to every task, wherever they are joined."""
    from pyspark.sql import functions as f

    with translated():
        (f.broadcast(changes) if small else changes).createOrReplaceTempView(relation)


def compare(spark: SparkSession, result: str, stored: str, columns: Sequence[str]) -> DataFrame:
    """The net changes that make a stored relation the result of a query."""
    from pyspark.sql import functions as f

    names = [quote(name) for name in columns]
    with translated():
        come = spark.sql(result).select(*names, f.lit(1).cast("bigint").alias(WEIGHT))
        gone = spark.table(stored).select(*names, f.lit(-1).cast("bigint").alias(WEIGHT))
        return come.unionAll(gone).groupBy(*names).agg(f.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")


@contextmanager
def held(changes: DataFrame) -> Iterator[DataFrame]:
    """Changes that are computed once, by whoever asks first, and kept until they have been applied."""
    stored = changes.persist()
    try:
        with translated():
            stored.createOrReplaceTempView(CHANGES)
        yield stored
    finally:
        stored.unpersist()


def hashed(changes: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Changes of a bag, with the hash that stored rows are found by."""
    with translated():
        return changes.withColumn(HASH, row_hash(changes, columns))


def count(changes: DataFrame) -> Applied:
    """How many rows come and go."""
    from pyspark.sql import functions as f

    with translated():
        row = changes.agg(
            f.coalesce(f.sum(f.when(f.col(WEIGHT) > 0, f.col(WEIGHT))), f.lit(0)),
            f.coalesce(f.sum(f.when(f.col(WEIGHT) < 0, -f.col(WEIGHT))), f.lit(0)),
        ).collect()[0]
    return Applied(int(row[0]), int(row[1]))


def size_of(changes: DataFrame) -> int:
    """What held changes take in memory, in bytes, once they have been computed."""
    with translated():
        java: Any = changes.select("*")._jdf
        return int(java.queryExecution().optimizedPlan().stats().sizeInBytes())


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
    """Applies the held changes, those of a bag with their hashes, to the branch in one commit that carries the summary.

    A row that is to go and is not there fails the job: the stored table is not what the changes were derived for.
    """
    with translated():
        for key, value in summary.items():
            spark.conf.set(f"{_PROPERTY}{key}", value)
        if kind == "keyed":
            spark.sql(merge_keyed(branch.sql, CHANGES, columns, keys))
        else:
            spark.sql(merge_bag(branch.sql, CHANGES, columns))


def load_all(
    spark: SparkSession,
    branch: Branch,
    result: str,
    columns: Sequence[str],
    *,
    hashed: bool,
    summary: Mapping[str, str],
    replace: bool = False,
) -> None:
    """Writes a whole result to the branch in one commit that carries the summary; `replace` what is there, if asked."""
    from pyspark.sql import functions as f

    with translated():
        rows = spark.sql(result).select(*(quote(name) for name in columns))
        if hashed:
            rows = with_ordinals(rows, columns)
        writer = rows.writeTo(branch.sql)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        if replace:
            writer.overwrite(f.lit(True))
        else:
            writer.append()


def with_ordinals(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with a hash and a number that tells equal rows apart."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    hashed = rows.withColumn(HASH, row_hash(rows, columns))
    among_equals = Window.partitionBy(HASH, *(quote(name) for name in columns)).orderBy(f.lit(1))
    return hashed.withColumn(ORDINAL, f.row_number().over(among_equals))


def row_hash(rows: DataFrame, columns: Sequence[str]) -> Column:
    """Equal rows have equal hashes, NaN and −0.0 as Spark compares them."""
    from pyspark.sql import functions as f

    types = {field.name: field.dataType for field in rows.schema.fields}
    return f.xxhash64(f.lit(len(columns)), *(_comparable(f.col(quote(name)), types[name]) for name in columns))


def _comparable(column: Column, kind: DataType) -> Column:
    """Spark hashes floats within lists and structs as it compares them; a map has no hash of its own."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DoubleType, FloatType

    if isinstance(kind, DoubleType | FloatType):
        return f.when(f.isnan(column), f.lit("NaN")).otherwise((column + f.lit(0.0)).cast("string"))
    return f.to_json(f.struct(column)) if "map<" in kind.simpleString() else column
