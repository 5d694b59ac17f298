"""Rows of key-range tables on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.reading import exactly
from neve.model.ingest import FileFormat
from neve.model.names import TableName, quote
from neve.model.splits import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLED = 50_000
"""So many keys are enough to say where half of them lie."""

_SEED = 7


def rows_of(spark: SparkSession, query: str, *, order: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Some columns of a query's rows, in an order."""
    with translated():
        found = spark.sql(query)
        return found.orderBy(*map(quote, order)).select(*map(quote, columns))


def sample_keys(spark: SparkSession, table: TableName, condition: str, keys: Sequence[str]) -> list[list[Key]]:
    """Values of each key, of some rows for which a condition holds: of all where they are few."""
    with translated():
        return _sampled(spark.table(table.sql).where(condition).select(*map(quote, keys)))


def sample_files(spark: SparkSession, paths: Sequence[str], kind: FileFormat, column: str, key_type: str) -> list[Key]:
    """Values of a column of files as a row key has them; rows without one do not count."""
    from pyspark.sql import functions as f

    with translated():
        reader = spark.read.format(kind)
        rows = (reader.option("header", "true") if kind == "csv" else reader).load(exactly(paths))
        values = rows.select(f.col(quote(column)).cast(key_type).alias("key")).where("key IS NOT NULL")
        return _sampled(values)[0]


def _sampled(rows: DataFrame) -> list[list[Key]]:
    total = rows.count()
    some = rows if total <= SAMPLED else rows.sample(SAMPLED / total, seed=_SEED)
    found = some.collect()
    return [[_key(row[place]) for row in found] for place in range(len(rows.columns))]


def _key(value: Any) -> Key:
    key: Key = bytes(value) if isinstance(value, bytearray) else value
    return key
