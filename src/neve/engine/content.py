"""Whether two sets of rows are the same bag: a count and a hash that does not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.model.ingest import INGEST_DATE
from neve.model.names import TableName, quote
from neve.model.periods import Period

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
    from pyspark.sql.types import DataType

_ROWS, _SUM, _XOR = "rows", "hash_sum", "hash_xor"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of a bag of rows: equal bags have equal ones, and others hardly ever."""

    rows: int
    hash_sum: int
    hash_xor: int

    def without(self, part: Fingerprint) -> Fingerprint:
        """Of the bag that is left when a part of it goes."""
        return Fingerprint(self.rows - part.rows, self.hash_sum - part.hash_sum, self.hash_xor ^ part.hash_xor)

    @classmethod
    def of_row(cls, row: Row | dict[str, Any]) -> Fingerprint:
        return cls(int(row[_ROWS]), int(row[_SUM] or 0), int(row[_XOR] or 0))


def fingerprint(rows: DataFrame, columns: Sequence[str] | None = None) -> Fingerprint:
    """One pass over the rows."""
    with translated():
        return Fingerprint.of_row(rows.agg(*measures(rows, columns)).collect()[0])


def fingerprint_period(spark: SparkSession, table: TableName, period: Period, snapshot: int) -> Fingerprint:
    """Of the rows of a period as a snapshot has them."""
    from pyspark.sql import functions as f

    with translated():
        rows = spark.read.option("versionAsOf", snapshot).table(table.sql)
        return fingerprint(rows.where(f.col(INGEST_DATE).between(f.lit(period.first), f.lit(period.last))))


def observed(rows: DataFrame, observation: Observation, columns: Sequence[str] | None = None) -> DataFrame:
    """The rows, with their fingerprint taken as they pass by: read it with `Fingerprint.of_row(observation.get)`."""
    return rows.observe(observation, *measures(rows, columns))


def measures(rows: DataFrame, columns: Sequence[str] | None = None) -> list[Column]:
    """The aggregates of a fingerprint, over the named columns in this order, or all of them."""
    from pyspark.sql import functions as f

    types = {field.name: field.dataType for field in rows.schema.fields}
    names = list(types) if columns is None else list(columns)
    hashed = f.xxhash64(f.lit(0), *(_hashable(f.col(quote(name)), types[name]) for name in names))
    nulls = f.concat(*(f.when(f.col(quote(name)).isNull(), "0").otherwise("1") for name in names))
    mixed = f.xxhash64(hashed, nulls)
    return [
        f.count(f.lit(1)).alias(_ROWS),
        f.sum(mixed.cast("decimal(20,0)")).alias(_SUM),
        f.bit_xor(mixed).alias(_XOR),
    ]


def _hashable(column: Column, kind: DataType) -> Column:
    """Nested values go as JSON: Spark's hash passes over the NULLs inside them, and takes no maps at all."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    if isinstance(kind, MapType | ArrayType | StructType | VariantType):
        return f.to_json(f.struct(column), {"ignoreNullFields": "false"})
    return column
