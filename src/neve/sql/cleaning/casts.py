"""Casts that lose nothing: text that does not say exactly a value of the type gives NULL, never something near it.

Each takes text. Spark's own TRY_CAST is not enough: it rounds decimals, reads `2024-01-01 rubbish` as a date, `12:30`
as today, `12d` and `0x1p3` as numbers and `1e400` as infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from neve.errors import InvalidSchema
from neve.model.types import Primitive, Type
from neve.sql.cleaning.words import Sql, call, cast, matches, number, text, try_cast, when
from neve.sql.columns import parse_type

FLOATING = ("float", "double")
_WHOLE = ("int", "long")
_TIMES = ("timestamp", "timestamptz")
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MIDNIGHT = r"[ T]00:00(:00(\.0+)?)?Z?"
_CLOCK = r"[ T][0-9]{2}:[0-9]{2}"
_SECONDS = r":[0-9]{2}(\.[0-9]{1,6}0*)?"
_ZONE = r"( ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?"  # only after seconds: Spark reads it nowhere else
_FLOAT = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_INFINITY = r"(?i)^\s*[+-]?inf(inity)?\s*$"
_POWER = r"^\s*[+-]?[0-9]+(?:\.([0-9]*?)0*)?[eE]([+-]?[0-9]+)\s*$"  # 1: the fraction without end zeros
_SIMPLE = ("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary")

# Words of DuckDB that stand for another type in Spark, or for none.
_DUCKDB = {
    "BPCHAR": "string",
    "HUGEINT": "decimal(38,0)",
    "INT8": "bigint",
    "JSON": "string",
    "LOGICAL": "boolean",
    "SIGNED": "int",
    "UBIGINT": "decimal(20,0)",
    "UHUGEINT": "decimal(38,0)",
    "UINTEGER": "bigint",
    "USMALLINT": "int",
    "UTINYINT": "int",
    "UUID": "string",
}


def read_type(word: str, *, where: str) -> Primitive:
    """The simple type that a word of DuckDB, ANSI or Spark names."""
    try:
        kind = parse_type(_DUCKDB.get(word.strip().upper(), word))
    except InvalidSchema as exc:
        raise InvalidSchema(f"{where}: {exc.message}", hint=exc.hint) from exc
    if not isinstance(kind, Primitive) or not (kind.name in _SIMPLE or is_decimal(kind)):
        raise InvalidSchema(
            f"{where}: rows are not cleaned into {kind}",
            hint="leave the type out to keep the column as the source has it",
        )
    return kind


def is_decimal(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name.startswith("decimal")


def is_number(kind: Type) -> bool:
    return isinstance(kind, Primitive) and (kind.name in (*_WHOLE, *FLOATING) or is_decimal(kind))


def is_text(kind: Type) -> bool:
    return kind == Primitive("string")


def digits(kind: Primitive) -> tuple[int, int]:
    """Precision and scale of a decimal."""
    precision, scale = kind.name.removeprefix("decimal(").rstrip(")").split(",")
    return int(precision), int(scale)


@dataclass(frozen=True, slots=True)
class SafeCast:
    """A value that may read an attempt at it, where one is stored before: Spark would compute it for each mention."""

    value: Sql
    attempt: Sql | None = None


def safe_cast(
    given: Sql, attempt: Sql, kind: Primitive, *, date_format: str | None, timestamp_format: str | None
) -> SafeCast:
    """Text as a value of the type, or NULL. Spaces around it do not count; around a whole number, nor do controls.

    `attempt` is the name of what this asks to be stored before.
    """
    if kind.name in FLOATING:
        return SafeCast(_floating(given, attempt, kind), try_cast(given, kind))
    if kind.name == "date":
        if date_format is not None:
            return SafeCast(call("TRY_TO_DATE", call("TRIM", given), text(date_format)))
        return SafeCast(_date(given, attempt, kind), try_cast(given, kind))
    if kind.name in _WHOLE:
        return SafeCast(_whole(given, kind))
    if is_decimal(kind):
        return SafeCast(when(_says_exactly(given, digits(kind)[1]), try_cast(given, kind)))
    if kind.name in _TIMES:
        return SafeCast(_timestamp(given, kind, timestamp_format))
    return SafeCast(try_cast(given, kind))


def _whole(value: Sql, kind: Primitive) -> Sql:
    """`12`, and also `12.0` or `1.2E1`, as spreadsheets and data frames write whole numbers."""
    exact = when(_says_exactly(value, 0), try_cast(value, "decimal(38,0)"))
    return call("COALESCE", try_cast(value, kind), try_cast(exact, kind))


def _floating(value: Sql, read: Sql, kind: Primitive) -> Sql:
    """A number too large for the type is no number, unless the text says infinity; nor is Java's `12d` or `0x1p3`.

    Nearly every number ends in a digit (`.` to `9`), which is much cheaper to see than the whole form.
    """
    hexadecimal = exp.or_(*(call("CONTAINS", value, text(letter)) for letter in "xX"))
    plain = exp.and_(_byte_within(value, -1, b".", b"9"), exp.not_(exp.paren(hexadecimal)))
    ends_well = exp.or_(plain, matches(value, _FLOAT))
    finite = exp.LT(this=call("ABS", read.copy()), expression=cast(text("Infinity"), kind))
    return when(exp.or_(exp.and_(ends_well, finite), matches(value, _INFINITY)), read.copy())


def _date(value: Sql, read: Sql, kind: Primitive) -> Sql:
    """Nearly every date is its ten characters, which is much cheaper to see than the whole form.

    Spark reads nothing else of that length with these two dashes and a digit at the end, but the year 0.
    """
    plain = exp.and_(
        exp.EQ(this=call("OCTET_LENGTH", value), expression=number(10)),
        _byte_within(value, 5, b"-", b"-"),
        _byte_within(value, 8, b"-", b"-"),
        _byte_within(value, 10, b"0", b"9"),
        exp.GTE(this=read.copy(), expression=cast(text("0001-01-01"), kind)),
    )
    return when(exp.or_(plain, matches(value, rf"^\s*{_DAY}({_MIDNIGHT})?\s*$")), read.copy())


def _byte_within(value: Sql, place: int, low: bytes, high: bytes) -> Sql:
    """Of bytes: Spark walks through all letters of a text to find one of them."""
    byte = call("SUBSTRING", cast(value, "binary"), number(place), number(1))
    return exp.Between(this=byte, low=exp.HexString(this=low.hex()), high=exp.HexString(this=high.hex()))


def _timestamp(value: Sql, kind: Primitive, timestamp_format: str | None) -> Sql:
    if timestamp_format is not None:
        read = call("TRY_TO_TIMESTAMP", call("TRIM", value), text(timestamp_format))
        return read if kind.name == "timestamptz" else cast(read, kind)
    zone = _ZONE if kind.name == "timestamptz" else ""
    return when(matches(value, rf"^\s*{_DAY}({_CLOCK}({_SECONDS}{zone})?)?\s*$"), try_cast(value, kind))


def _says_exactly(value: Sql, scale: int) -> Sql:
    """Whether a number has no digit but zeros beyond `scale` places; a bounded decimal could not tell."""
    places = f"[0-9]{{0,{scale}}}" if scale else ""
    plain = matches(value, rf"^\s*[+-]?([0-9]*(\.{places}0*)?|0*\.?0*[eE][+-]?[0-9]+)\s*$")
    fraction, power = (call("REGEXP_EXTRACT", value, text(_POWER), number(group)) for group in (1, 2))
    needed = exp.Sub(this=call("LENGTH", fraction), expression=try_cast(power, "int"))
    return exp.or_(plain, exp.LTE(this=needed, expression=number(scale)))
