"""Spark's values as Python values that mean the same on every machine.

PySpark turns a TIMESTAMP into the local time of the machine without saying so, and knows no value for some intervals.
Here timestamps leave in UTC and say so, intervals as SQL text, variants as what they hold, floats as short as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from decimal import Context, Decimal
from math import isfinite
from struct import pack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]
_ENGINEERS = 6
"""Java writes decimals with no more places than these digit by digit."""


def readable(frame: DataFrame) -> DataFrame:
    """The frame with each column that PySpark misreads cast to one that it reads; `row_converter` does the rest."""
    kinds = [_readable_type(field.dataType) for field in frame.schema.fields]
    if all(kind == field.dataType for kind, field in zip(kinds, frame.schema.fields, strict=True)):
        return frame
    names = [f"c{index}" for index in range(len(kinds))]  # the frame's own may be there twice
    renamed = frame.toDF(*names)
    return renamed.select(*(renamed[name].cast(kind) for name, kind in zip(names, kinds, strict=True)))


def row_converter(kinds: Sequence[DataType]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """From a row of the readable frame to a row of the kinds that the frame had at first."""
    converts = [_converter(kind) for kind in kinds]
    if not any(converts):
        return lambda row: row
    return lambda row: [_apply(convert, value) for convert, value in zip(converts, row, strict=True)]


def _readable_type(kind: DataType) -> DataType:
    from pyspark.sql import types

    match kind:
        case types.TimestampType():
            return types.TimestampNTZType()
        case types.YearMonthIntervalType() | types.DayTimeIntervalType() | types.CalendarIntervalType():
            return types.StringType()
        case types.ArrayType(elementType=element, containsNull=null):
            return types.ArrayType(_readable_type(element), null)
        case types.MapType(keyType=key, valueType=value, valueContainsNull=null):
            return types.MapType(_readable_type(key), _readable_type(value), null)
        case types.StructType(fields=fields):
            return types.StructType([types.StructField(f.name, _readable_type(f.dataType), f.nullable) for f in fields])
        case _:
            return kind


def _converter(kind: DataType) -> Convert | None:
    """What turns a readable value into the final one; None where it is that already."""
    from pyspark.sql import types

    match kind:
        case types.TimestampType():
            return lambda value: value.replace(tzinfo=UTC)
        case types.FloatType():
            return _shortest
        case types.DecimalType(scale=scale) if scale > _ENGINEERS:
            return _scaled(scale)
        case types.VariantType():
            return lambda value: value.toPython()
        case types.ArrayType(elementType=element) if convert := _converter(element):
            return lambda value: [_apply(convert, item) for item in value]
        case types.MapType(keyType=key, valueType=inner):
            keys, values = _converter(key), _converter(inner)
            if keys or values:
                return lambda value: {_apply(keys, k): _apply(values, v) for k, v in value.items()}
            return None
        case types.StructType(fields=fields):
            inside = [_converter(field.dataType) for field in fields]
            return _struct_converter(kind.names, inside) if any(inside) else None
        case _:
            return None


def _struct_converter(names: Sequence[str], inside: Sequence[Convert | None]) -> Convert:
    from pyspark.sql.types import Row

    named = Row(*names)
    return lambda row: named(*(_apply(convert, value) for convert, value in zip(inside, row, strict=True)))


def _scaled(scale: int) -> Convert:
    """A decimal with the places of its column: Java writes small ones as engineers do, -100E-12 for -0.0000000001."""
    unit, exact = Decimal((0, (1,), -scale)), Context(prec=38)
    return lambda value: value if value.as_tuple().exponent == -scale else value.quantize(unit, context=exact)


def _shortest(value: float) -> float:
    """A 4-byte float as the shortest number that stands for it: 0.1, not 0.10000000149011612."""
    if not isfinite(value):
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(6, 9))
    return next((number for number in candidates if pack("f", number) == pack("f", value)), value)


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
