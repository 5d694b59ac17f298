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
from neve.sql.applying import PLACE, WEIGHT
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


@dataclass(frozen=True, slots=True)
class Seen:
    """How many rows come and go, and of how many different rows several go, or several come."""

    rows: Applied
    gone_together: int
    come_together: int


def see(changes: DataFrame) -> Seen:
    with translated():
        row = changes.agg(*_seen()).collect()[0]
    return Seen(Applied(row["come"], row["gone"]), row["gone_together"], row["come_together"])


def write_seen(delta: RowDelta, changes: DataFrame) -> Seen:
    """Writes the few rows that come, by one task, and sees them in the same pass.

    More are divided by their order among tasks: they would be computed, and seen, once more to find out where.
    """
    from pyspark.sql import Observation

    seen = Observation()
    write_bag(delta, changes.observe(seen, *_seen()), few=True)
    told = seen.get
    return Seen(Applied(told["come"], told["gone"]), told["gone_together"], told["come_together"])


def _seen() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.expr(f"coalesce(sum(greatest({WEIGHT}, 0)), 0) AS come"),
        f.expr(f"coalesce(-sum(least({WEIGHT}, 0)), 0) AS gone"),
        f.expr(f"count_if({WEIGHT} < -1) AS gone_together"),
        f.expr(f"count_if({WEIGHT} > 1) AS come_together"),
    ]


def read_places(changes: DataFrame, place: str, going: int) -> Places:
    """The places of the rows that go, as the changes themselves tell them.

    Raises:
        JobFailed: one of them has no place.
    """
    with translated():
        found = dict(_positions(changes.where(f"{WEIGHT} < 0").selectExpr(f"{quote(place)} AS {PLACE}")))
    places = {file: at for file, at in found.items() if file is not None}
    if sum(map(len, places.values())) != going:
        raise JobFailed("a row to be replaced is not there")
    return places


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


def write_bag(delta: RowDelta, changes: DataFrame, *, few: bool) -> None:
    """Writes the rows that come."""
    with translated():
        delta.write(_repeated(changes), few=few)


def _repeated(changes: DataFrame) -> DataFrame:
    """The rows that come, each as often as it does."""
    from pyspark.sql import functions as f

    often = f.explode(f.array_repeat(f.lit(0), f.col(WEIGHT).cast("int")))
    return changes.where(f"{WEIGHT} > 0").withColumn(WEIGHT, often)


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
