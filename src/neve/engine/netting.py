"""Equal rows added up, whatever their columns are.

Spark 4.1 groups by maps too, but takes a NULL number in one for 0 then, and a NULL boolean for false, or fails on it.
So rows are told apart by the entries of their maps, and keep the maps themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neve.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_KEY = "_neve_entries_"


def netted(rows: DataFrame, columns: Sequence[str], weight: str) -> DataFrame:
    """The columns of equal rows, once, with the sum of their weights; rows whose weights come to nothing go."""
    from pyspark.sql import functions as f

    kinds = {column: rows.schema[column].dataType for column in columns}
    maps = [column for column in columns if holds_map(kinds[column])]
    entries = {column: f"{_KEY}{number}" for number, column in enumerate(maps)}
    keys = [quote(entries.get(column, column)) for column in columns]
    told = rows.withColumns({key: entries_of(f.col(quote(name)), kinds[name]) for name, key in entries.items()})
    sums = told.groupBy(*keys).agg(
        f.sum(quote(weight)).alias(weight), *(f.first(quote(column)).alias(column) for column in maps)
    )
    return sums.where(f"{quote(weight)} <> 0").select(*map(quote, (*columns, weight)))


def holds_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():
            return True
        case ArrayType():
            return holds_map(kind.elementType)
        case StructType():
            return any(holds_map(field.dataType) for field in kind.fields)
    return False


def entries_of(value: Column, kind: DataType) -> Column:
    """The value with the entries of each map in it in the order of their keys, which Spark can compare and group by."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():
            value_kind = kind.valueType
            plain = f.map_entries(value)
            if holds_map(value_kind):
                plain = f.transform(
                    plain, lambda e: f.struct(e["key"].alias("key"), entries_of(e["value"], value_kind))
                )
            return f.array_sort(plain)
        case ArrayType() if holds_map(kind):
            element = kind.elementType
            return f.transform(value, lambda each: entries_of(each, element))
        case StructType() if holds_map(kind):
            parts = [entries_of(value[field.name], field.dataType).alias(field.name) for field in kind.fields]
            return f.when(value.isNotNull(), f.struct(*parts))
    return value
