"""Where the rows that a refresh removes lie, and the rows that it adds, written beside the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.refresh import CHANGES, Applied, provide
from neve.engine.row_delta import RowDelta
from neve.errors import JobFailed
from neve.model.names import quote
from neve.sql.applying import HASH, ORDINAL, PLACE, WEIGHT, find_bag, number_bag

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_STORED, _FOUND = "_neve_found_in", "_neve_found"
_RANGED = 8  # columns

Places = Mapping[str, Sequence[int]]
"""Positions of rows, by data file."""


@dataclass(frozen=True, slots=True)
class Range:
    """What the changes hold in a column: nothing outside of it can be equal to one of them."""

    column: str
    least: Any
    most: Any
    nulls: bool


def write_keyed(delta: RowDelta, changes: DataFrame, *, few: bool) -> Applied:
    """Writes the rows that come, in the same pass that computes the changes; of those that go, there are at most so
    many."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen, weight = Observation(), f.col(WEIGHT)
    watched = changes.observe(
        seen, f.count_if(weight < 0).alias("gone"), f.count_if(f.abs(weight) > 1).alias("doubled")
    )
    come = delta.write(watched.where(weight > 0), few=few)
    if seen.get["doubled"]:
        raise JobFailed(f"{delta.table} holds two rows of one key: it is not what its changes were derived for")
    return Applied(come, seen.get["gone"])


def find_keyed(changes: DataFrame, place: str) -> Places:
    """The places of the rows that go, as the changes themselves tell them.

    Raises:
        JobFailed: one of them has no place.
    """
    from pyspark.sql import functions as f

    with translated():
        found = dict(_positions(changes.where(f.col(WEIGHT) < 0).select(f.col(quote(place)).alias(PLACE))))
    if None in found:
        raise JobFailed("a row to be replaced is not there")
    return {file: at for file, at in found.items() if file is not None}


def measure_bag(changes: DataFrame, columns: Sequence[str]) -> tuple[Applied, list[Range]]:
    """How many rows come and go, and what range their values have in the columns where that can be told."""
    from pyspark.sql import functions as f

    weight = f.col(WEIGHT)
    types = {field.name: field.dataType for field in changes.schema.fields}
    ranged = [name for name in columns if _has_range(types[name])][:_RANGED]
    aggregates = [
        f.coalesce(f.sum(f.when(weight > 0, weight)), f.lit(0)),
        f.coalesce(f.sum(f.when(weight < 0, -weight)), f.lit(0)),
    ]
    for name in map(quote, ranged):
        aggregates += [f.min(name), f.max(name), f.count_if(f.col(name).isNull()) > 0]
    with translated():
        row = changes.agg(*aggregates).collect()[0]
    ranges = [Range(name, *row[2 + 3 * index : 5 + 3 * index]) for index, name in enumerate(ranged)]
    return Applied(int(row[0]), int(row[1])), ranges


def find_and_write_bag(
    spark: SparkSession, delta: RowDelta, columns: Sequence[str], ranges: Sequence[Range], measured: Applied
) -> Places:
    """Finds the rows that go, and writes the rows that come with numbers that no equal row has.

    Raises:
        JobFailed: a row that is to go is not there.
    """
    provide(spark, _STORED, delta.table, delta.base, [*columns, HASH, ORDINAL], place=PLACE)
    with translated():
        stored = spark.table(_STORED)
        for item in ranges:
            stored = stored.where(_within(item))
        stored.createOrReplaceTempView(_STORED)
        found = spark.sql(find_bag(_STORED, CHANGES, columns)).persist()
        try:
            found.createOrReplaceTempView(_FOUND)
            places, grown = _found(found)
            if sum(map(len, places.values())) != measured.deleted:
                raise JobFailed(f"Spark: a row of {delta.table} to be removed is not there")
            if measured.inserted:
                delta.write(spark.sql(number_bag(CHANGES, _FOUND if grown else None, columns)), few=True)
        finally:
            found.unpersist()
    return places


def _found(found: DataFrame) -> tuple[Places, bool]:
    """Where the rows that go lie, and whether any that come are equal to stored ones."""
    from pyspark.sql import functions as f

    lies = f.when(f.col(WEIGHT) < 0, f.col(PLACE))
    by_file = dict(_positions(found.select(lies.alias(PLACE))))
    return {file: at for file, at in by_file.items() if file is not None}, None in by_file


def _positions(rows: DataFrame) -> Iterator[tuple[str | None, list[int]]]:
    """Positions by file; rows without a place are those of no file."""
    from pyspark.sql import functions as f

    at = f.coalesce(f.col(f"{PLACE}.pos"), f.lit(-1))
    table = rows.groupBy(f"{PLACE}.file").agg(f.collect_list(at).alias("at")).toArrow()
    yield from zip(table["file"].to_pylist(), table["at"].to_pylist(), strict=True)


def _has_range(kind: DataType) -> bool:
    """Whether its least and greatest value come back from Python as they went."""
    from pyspark.sql.types import ByteType, DateType, DecimalType, IntegerType, LongType, ShortType, StringType

    if isinstance(kind, StringType):
        return kind == StringType()
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType | DecimalType | DateType)


def _within(item: Range) -> Column:
    from pyspark.sql import functions as f

    column = f.col(quote(item.column))
    if item.least is None:
        return column.isNull()
    inside = column.between(item.least, item.most)
    return inside | column.isNull() if item.nulls else inside
