"""Where the rows that a refresh removes lie, and the rows that it adds, written beside the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.refresh import CHANGES, Applied, provide, types_of
from neve.engine.row_delta import RowDelta
from neve.errors import JobFailed
from neve.model.names import quote
from neve.sql.applying import PLACE, WEIGHT, come_bag
from neve.sql.applying import find_bag as find_bag_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_STORED = "_neve_found_in"
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

    seen = Observation()
    counts = f"count_if({WEIGHT} < 0) AS gone", f"count_if(abs({WEIGHT}) > 1) AS doubled"
    watched = changes.observe(seen, *map(f.expr, counts))
    come = delta.write(watched.where(f"{WEIGHT} > 0"), few=few)
    if seen.get["doubled"]:
        raise JobFailed(f"{delta.table} holds two rows of one key: it is not what its changes were derived for")
    return Applied(come, seen.get["gone"])


def find_keyed(changes: DataFrame, place: str) -> Places:
    """The places of the rows that go, as the changes themselves tell them.

    Raises:
        JobFailed: one of them has no place.
    """
    with translated():
        found = dict(_positions(changes.where(f"{WEIGHT} < 0").selectExpr(f"{quote(place)} AS {PLACE}")))
    if None in found:
        raise JobFailed("a row to be replaced is not there")
    return {file: at for file, at in found.items() if file is not None}


def measure_bag(changes: DataFrame, columns: Sequence[str]) -> tuple[Applied, list[Range]]:
    """How many rows come and go, and what range those that go have in the columns where that can be told."""
    from pyspark.sql import functions as f

    weight = f.col(WEIGHT)
    goes = weight < 0
    types = {field.name: field.dataType for field in changes.schema.fields}
    ranged = [name for name in columns if _has_range(types[name])][:_RANGED]
    aggregates = [
        f.coalesce(f.sum(f.when(weight > 0, weight)), f.lit(0)),
        f.coalesce(f.sum(f.when(goes, -weight)), f.lit(0)),
    ]
    for name in map(quote, ranged):
        value = f.when(goes, f.col(name))
        aggregates += [f.min(value), f.max(value), f.count_if(goes & f.col(name).isNull()) > 0]
    with translated():
        row = changes.agg(*aggregates).collect()[0]
    ranges = [Range(name, *row[2 + 3 * index : 5 + 3 * index]) for index, name in enumerate(ranged)]
    return Applied(int(row[0]), int(row[1])), ranges


def find_bag(
    spark: SparkSession, delta: RowDelta, columns: Sequence[str], ranges: Sequence[Range], going: int
) -> Places:
    """The places of the rows that go.

    Raises:
        JobFailed: one of them is not there.
    """
    if not going:
        return {}
    provide(spark, _STORED, delta.table, delta.base, columns, place=PLACE)
    with translated():
        stored = spark.table(_STORED)
        for item in ranges:
            stored = stored.where(_within(item))
        stored.createOrReplaceTempView(_STORED)
        places = dict(_positions(spark.sql(find_bag_sql(_STORED, CHANGES, types_of(spark, columns)))))
    if sum(map(len, places.values())) != going:
        raise JobFailed(f"Spark: a row of {delta.table} to be removed is not there")
    return {file: at for file, at in places.items() if file is not None}


def write_bag(spark: SparkSession, delta: RowDelta, columns: Sequence[str], *, few: bool) -> None:
    """Writes the rows that come."""
    with translated():
        delta.write(spark.sql(come_bag(CHANGES, columns)), few=few)


def _positions(rows: DataFrame) -> Iterator[tuple[str | None, list[int]]]:
    """Positions by file, so that each file's name comes once; rows without a place are those of no file."""
    plain = rows.selectExpr(f"{PLACE}.file AS file", f"coalesce({PLACE}.pos, -1L) AS at")
    table = plain.coalesce(1).groupBy("file").agg({"at": "collect_list"}).toArrow()
    yield from zip(table[0].to_pylist(), table[1].to_pylist(), strict=True)


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
