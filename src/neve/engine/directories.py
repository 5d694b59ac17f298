"""Rows of plain Parquet folders on Spark: which ones a change touches, and the files that it makes of them.

A change is described twice by one object: `touched` finds its rows, and lets Spark skip row groups by their statistics;
`marked` marks all rows of the files that must be written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neve.engine.errors import translated
from neve.engine.ingest import sorted_by
from neve.engine.parquet_files import FILE, HOME, POSITION, group_column, relative_path, scan, write_groups
from neve.engine.parquet_tasks import GROUP, Sink, WrittenFile
from neve.engine.row_values import check_deterministic
from neve.model.directories import FileWork, Outline
from neve.model.layout import SortField
from neve.model.names import quote
from neve.plan.directories import Dataset, Group

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DROP, _HIT, _NEW, _TARGET = "_neve_drop", "_neve_hit", "_neve_new", "_neve_target"
_BROADCAST_ROWS = 1_000_000
_NEEDS_CARE = r'[\x00-\x1f"\\]'


class RowWork(Protocol):
    """What is to become of rows: dropped, or replaced by others."""

    def touched(self, rows: DataFrame) -> DataFrame:
        """Only the rows that the work touches, marked."""

    def marked(self, rows: DataFrame) -> DataFrame:
        """All rows, marked; those of one file still together and in their order."""


@dataclass(frozen=True, slots=True)
class ByCondition:
    """Rows for which a condition is true: gone, or with new values. NULL is not true."""

    condition: Column
    new_values: Mapping[str, Column] | None

    def touched(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return self._mark(rows.where(self.condition), f.lit(True))

    def marked(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return self._mark(rows, f.coalesce(self.condition, f.lit(False)))

    def _mark(self, rows: DataFrame, hit: Column) -> DataFrame:
        from pyspark.sql import functions as f

        drops = self.new_values is None
        return rows.select("*", (hit if drops else f.lit(False)).alias(_DROP), hit.alias(_HIT), self._new(rows))

    def _new(self, rows: DataFrame) -> Column:
        from pyspark.sql import functions as f

        values = self.new_values or {}
        return f.struct(*(values.get(name, f.col(quote(name))).alias(name) for name in _data(rows))).alias(_NEW)


@dataclass(frozen=True, slots=True)
class ByPosition:
    """Rows by file and place. `matches` holds `_neve_drop` and, under prefixed names, the new values of columns."""

    matches: DataFrame
    rows: int
    new_columns: tuple[str, ...] = ()

    def touched(self, rows: DataFrame) -> DataFrame:
        return self._join(rows, "inner")

    def marked(self, rows: DataFrame) -> DataFrame:
        joined = self._join(rows, "left")
        if self.rows <= _BROADCAST_ROWS:
            return joined
        return joined.repartition(FILE).sortWithinPartitions(FILE, POSITION)

    def _join(self, rows: DataFrame, how: str) -> DataFrame:
        from pyspark.sql import functions as f

        names = _data(rows)
        given = f.broadcast(self.matches) if self.rows <= _BROADCAST_ROWS else self.matches
        joined = rows.join(given, [FILE, POSITION], how)
        new = [
            (f.col(given_name(names.index(name))) if name in self.new_columns else f.col(quote(name))).alias(name)
            for name in names
        ]
        hit = f.col(_DROP).isNotNull()
        own = [quote(name) for name in rows.columns]
        return joined.select(
            *own, f.coalesce(_DROP, f.lit(False)).alias(_DROP), hit.alias(_HIT), f.struct(*new).alias(_NEW)
        )


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Rows whose partition values are not those of the folder that they lie in; they keep all their values."""

    keys: tuple[str, ...]

    def touched(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return self.marked(rows).where(f.col(_HIT))

    def marked(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        target = group_column([f.col(quote(key)) for key in self.keys])
        same = f.struct(*(f.col(quote(name)) for name in _data(rows)))
        return rows.select(
            "*", f.lit(False).alias(_DROP), (~target.eqNullSafe(f.col(HOME))).alias(_HIT), same.alias(_NEW)
        )


def given_name(place: int) -> str:
    """The column of `matches` that holds the new values of the table's column at a place."""
    return f"_neve_given_{place}"


def check_work(work: RowWork, rows: DataFrame) -> None:
    """Refuses what Spark cannot make sense of, or would answer otherwise the next time."""
    with translated():
        check_deterministic(work.touched(rows))


def outline(work: RowWork, rows: DataFrame, dataset: Dataset) -> Outline:
    """What the work would do, file by file; one Spark job."""
    from pyspark.sql import functions as f

    with translated():
        found = (
            _placed(work.touched(rows), dataset)
            .groupBy(FILE, _TARGET)
            .agg(f.count_if(_DROP).alias("dropped"), f.count_if(~f.col(_DROP)).alias("changed"))
            .collect()
        )
    return add_up(
        (relative_path(row[FILE]), None if row[_TARGET] is None else tuple(row[_TARGET]), row.dropped, row.changed)
        for row in found
    )


def add_up(parts: Iterable[tuple[str, Group | None, int, int]]) -> Outline:
    """Rows by file and by the partition that they move to, if any: how many go, and how many change."""
    files: dict[str, FileWork] = {}
    targets: dict[Group, int] = {}
    for path, target, dropped, changed in parts:
        known = files.get(path, FileWork())
        moved = 0 if target is None else changed
        files[path] = FileWork(
            dropped=known.dropped + dropped, changed=known.changed + changed - moved, moved=known.moved + moved
        )
        if target is not None and moved:
            targets[target] = targets.get(target, 0) + moved
    return Outline(files=files, targets=targets)


def rewrite_files(work: RowWork, rows: DataFrame, dataset: Dataset, sink: Sink) -> list[WrittenFile]:
    """The rows that stay in their files, as they are or as they become; the group of each is its file."""
    from pyspark.sql import functions as f

    with translated():
        staying = _placed(work.marked(rows), dataset).where(~f.col(_DROP) & f.col(_TARGET).isNull())
        values = [
            f.when(f.col(_HIT), f.col(_NEW)[name]).otherwise(f.col(quote(name))).alias(name) for name in dataset.names
        ]
        return write_groups(staying.select(*values, f.col(FILE).alias(GROUP)), sink)


def moving_rows(work: RowWork, rows: DataFrame, dataset: Dataset) -> DataFrame:
    """The rows that leave their partition, as they become."""
    from pyspark.sql import functions as f

    moving = _placed(work.touched(rows), dataset).where(~f.col(_DROP) & f.col(_TARGET).isNotNull())
    return moving.select(*(f.col(_NEW)[name].alias(name) for name in dataset.names))


def write_partitions(
    rows: DataFrame, dataset: Dataset, sink: Sink, *, sort_by: Sequence[SortField] = (), spread: bool = False
) -> list[WrittenFile]:
    """Rows into new files of the partitions that they belong to; the group of each is its partition, as JSON.

    A folder without partitions gets one file, or with `spread` as many as there are tasks. A sink that takes several
    groups at once is given the rows where they are, and every task writes files of its own.
    """
    from pyspark.sql import functions as f

    with translated():
        grouped = rows.withColumn(GROUP, partition_group(dataset.keys))
        if sink.open_groups > 1:
            grouped = rows.coalesce(rows.sparkSession.sparkContext.defaultParallelism)
            grouped = grouped.withColumn(GROUP, partition_group(dataset.keys))
        elif dataset.keys:
            grouped = grouped.repartition(GROUP).sortWithinPartitions(GROUP, *map(sorted_by, sort_by))
        elif sort_by:
            grouped = grouped.repartition(1).sortWithinPartitions(*map(sorted_by, sort_by))
        elif not spread:
            grouped = grouped.coalesce(1)
        return write_groups(grouped.select(*(f.col(quote(name)) for name in grouped.columns)), sink)


def partition_group(keys: Sequence[str]) -> Column:
    """Partition values as JSON. Spark's own `to_json` costs more than all else, so it has only what needs care."""
    from pyspark.sql import functions as f

    parts: list[Column] = []
    for key in keys:
        text = f.nullif(f.col(quote(key)).cast("string"), f.lit(""))
        careful = f.regexp_replace(f.to_json(f.array(text)), r"^\[|\]$", "")
        plain = f.concat(f.lit('"'), text, f.lit('"'))
        parts += [f.coalesce(f.when(text.rlike(_NEEDS_CARE), careful).otherwise(plain), f.lit("null")), f.lit(",")]
    return f.concat(f.lit("["), *parts[:-1], f.lit("]"))


def group_of(text: str) -> Group:
    """The partition that a group of `write_partitions` names."""
    return tuple(json.loads(text))


def group_name(group: Group) -> str:
    """The name of a partition among the groups of files that are written."""
    return json.dumps(group, ensure_ascii=False)


def _placed(marked: DataFrame, dataset: Dataset) -> DataFrame:
    """Adds where a touched row must go, if not where it is."""
    from pyspark.sql import functions as f

    if not dataset.keys:
        return marked.withColumn(_TARGET, f.lit(None).cast("array<string>"))
    own = f.col(HOME) if HOME in marked.columns else group_column([f.col(quote(key)) for key in dataset.keys])
    target = group_column([f.col(_NEW)[key] for key in dataset.keys])
    return marked.withColumn(_TARGET, f.when(f.col(_HIT) & ~target.eqNullSafe(own), target))


def _data(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name not in (FILE, POSITION, HOME)]


def find_duplicates(
    session: SparkSession, dataset: Dataset, keys: Sequence[str], *, keep: str, order_by: Sequence[SortField]
) -> tuple[ByPosition, Outline]:
    """All but one row of each key: the first or last by an order, else by file name and place. NULL equals NULL."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    with translated():
        order = [*map(sorted_by, order_by), f.col(FILE).asc(), f.col(POSITION).asc()]
        rows = scan(session, dataset)
        window = Window.partitionBy(*(quote(key) for key in keys)).orderBy(*order)
        place = f.row_number().over(window)
        last = f.count(f.lit(1)).over(Window.partitionBy(*(quote(key) for key in keys)))
        wanted = f.lit(1) if keep == "first" else last
        losers = rows.select(FILE, POSITION, (place != wanted).alias(_DROP)).where(_DROP)
        losers = losers.localCheckpoint(eager=False)
        counts = {relative_path(row[0]): row[1] for row in losers.groupBy(FILE).count().collect()}
        return ByPosition(losers, sum(counts.values())), add_up((path, None, n, 0) for path, n in counts.items())
