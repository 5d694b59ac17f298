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


def netted(rows: DataFrame, columns: Sequence[str], weight: str, *, in_order: bool = False) -> DataFrame:
    """The columns of equal rows, once, with the sum of their weights; rows whose weights come to nothing go.

    `in_order`: maps are equal only if their entries come in the same order, which `map_keys` and `explode` show.
    """
    from pyspark.sql import functions as f

    kinds = {column: rows.schema[column].dataType for column in columns}
    maps = [column for column in columns if _holds_map(kinds[column])]
    entries = {column: f"{_KEY}{number}" for number, column in enumerate(maps)}
    keys = [quote(entries.get(column, column)) for column in columns]
    told = rows.withColumns(
        {key: _entries_of(f.col(quote(name)), kinds[name], in_order=in_order) for name, key in entries.items()}
    )
    sums = told.groupBy(*keys).agg(
        f.sum(quote(weight)).alias(weight), *(f.first(quote(column)).alias(column) for column in maps)
    )
    return sums.where(f"{quote(weight)} <> 0").select(*map(quote, (*columns, weight)))


def _holds_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():
            return True
        case ArrayType():
            return _holds_map(kind.elementType)
        case StructType():
            return any(_holds_map(field.dataType) for field in kind.fields)
    return False


def _entries_of(value: Column, kind: DataType, *, in_order: bool) -> Column:
    """The value with the entries of its maps, as they come or by their keys: Spark can group by these."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case MapType():
            inner, entries = kind.valueType, f.map_entries(value)
            if _holds_map(inner):
                entries = f.transform(
                    entries,
                    lambda each: f.struct(each["key"], _entries_of(each["value"], inner, in_order=in_order)),
                )
            return entries if in_order else f.array_sort(entries)
        case ArrayType() if _holds_map(kind):
            element = kind.elementType
            return f.transform(value, lambda each: _entries_of(each, element, in_order=in_order))
        case StructType() if _holds_map(kind):
            parts = [
                _entries_of(value[field.name], field.dataType, in_order=in_order).alias(field.name)
                for field in kind.fields
            ]
            return f.when(value.isNotNull(), f.struct(*parts))
    return value
