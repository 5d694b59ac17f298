"""What people say about rows, as Spark columns: conditions, new values, values that come in another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from neve.engine.errors import translated
from neve.errors import InvalidInput, InvalidQuery, InvalidSchema, Unsupported
from neve.model.directories import Expression
from neve.model.names import quote, shown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_MOST_DIGITS = 38


def condition_of(words: object) -> Column:
    """A condition as SQL text or as a Column."""
    from pyspark.sql import Column
    from pyspark.sql import functions as f

    if isinstance(words, Column):
        return words
    if not isinstance(words, str):
        raise InvalidInput(
            f"a condition cannot be a {type(words).__module__.partition('.')[0]} {type(words).__name__}",
            hint='write SQL, such as "amount > 10", or a PySpark Column',
        )
    if not words.strip():
        raise InvalidQuery("the condition is empty", hint='write a condition such as "amount > 10"')
    with translated():
        return f.expr(words)


def conjunction(condition: Column, wanted: Mapping[str, object]) -> Column:
    """The condition, for rows with these partition values."""
    from pyspark.sql import functions as f

    for key, value in wanted.items():
        condition = condition & f.col(quote(key)).eqNullSafe(f.lit(value))
    return condition


def new_values(rows: DataFrame, updates: Mapping[str, object]) -> dict[str, Column]:
    """A literal, an `expr("…")` or a Column for each column, as the column's type. All see the old row.

    Raises:
        InvalidSchema: a value would lose what comes after its point.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as f

    found = {}
    with translated():
        for name, value in updates.items():
            match value:
                case Expression(text):
                    column = f.expr(text)
                case Column():
                    column = value
                case _:
                    column = f.lit(value)
            found[name] = _assigned(rows, column, name)
    return found


def _assigned(rows: DataFrame, column: Column, name: str) -> Column:
    """The value as the type of the column, as SQL assigns it."""
    from pyspark.sql.types import IntegralType

    kind = rows.schema[name].dataType
    given = rows.select(column.alias(name)).schema[name].dataType
    if _has_fraction(given) and isinstance(kind, IntegralType):
        raise InvalidSchema(
            f"column {shown(name)} is {kind.simpleString()}, and a {given.simpleString()} would lose its fraction",
            hint="round it: cast(round(…) as bigint)",
        )
    _check_shape(given, kind, name)
    return column if given == kind else column.cast(kind)


def _has_fraction(kind: DataType) -> bool:
    from pyspark.sql.types import DecimalType, FractionalType

    return isinstance(kind, FractionalType) and not (isinstance(kind, DecimalType) and kind.scale == 0)


def _check_shape(given: DataType, kind: DataType, name: str) -> None:
    """Refuses structs with other fields: Spark would take the fields by their place, whatever their names."""
    from pyspark.sql.types import NullType

    if not isinstance(given, NullType) and _shape(given) != _shape(kind):
        raise InvalidSchema(
            f"column {shown(name)} is {kind.simpleString()}, which a {given.simpleString()} does not fit"
        )


def _shape(kind: DataType) -> object:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return [(field.name.casefold(), _shape(field.dataType)) for field in kind.fields]
        case ArrayType():
            return ["array", _shape(kind.elementType)]
        case MapType():
            return ["map", _shape(kind.keyType), _shape(kind.valueType)]
        case _:
            return None


def unchanged(rows: DataFrame, name: str, kind: DataType, *, target: str) -> Column:
    """A column of given rows as the target's type; a value that would not be the same there fails the job.

    Numbers may come wider or narrower, whole numbers as floats and anything as text, as files and frames bring them.
    """
    from pyspark.sql import functions as f

    column = f.col(quote(name))
    given = rows.schema[name].dataType
    if given == kind:
        return column
    _check_shape(given, kind, name)
    cast = column.cast(kind)
    same = _same_there(column, cast, given, kind)
    if same is None:
        return cast
    words = f"column {shown(target)} is {kind.simpleString()}, and would not hold this value as it is: "
    failure = f.raise_error(f.concat(f.lit(words), column.cast("string"))).cast(kind)
    return f.when(column.isNull() | same, cast).otherwise(failure)


def _same_there(column: Column, cast: Column, given: DataType, kind: DataType) -> Column | None:
    """Whether a value survives the cast; None where every cast either fails or keeps it."""
    from pyspark.sql.types import (
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        NumericType,
        StringType,
    )

    number = isinstance(given, NumericType)
    if isinstance(kind, DecimalType) and (number or isinstance(given, StringType)):
        wide = DecimalType(_MOST_DIGITS, _MOST_DIGITS - (kind.precision - kind.scale))
        return column.cast(wide) == cast.cast(wide)
    if isinstance(kind, DateType) and not isinstance(given, DateType):
        return column.cast("timestamp_ntz") == cast.cast("timestamp_ntz")
    if isinstance(given, DoubleType) and isinstance(kind, FloatType):
        return None  # both are approximate: the nearest float is meant
    if number and isinstance(kind, NumericType | BooleanType):
        return cast.cast(given) == column
    return None


def check_deterministic(frame: DataFrame) -> None:
    """Refuses what Spark cannot make sense of, before anything is done.

    An expression such as rand() would choose other rows when they are counted than when they are written.
    """
    with translated():
        if not frame._jdf.queryExecution().analyzed().deterministic():
            raise Unsupported(
                "an expression gives another answer each time it is asked", hint="leave out rand(), uuid()…"
            )
