"""Values of the file as SQL, checked against the type of the column they go with before any row is read."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from neve.errors import InvalidInput, InvalidSchema
from neve.model.dataset import Scalar
from neve.model.types import Primitive, Type
from neve.sql.cleaning import words
from neve.sql.cleaning.casts import FLOATING, digits, is_decimal, is_number, is_text
from neve.sql.cleaning.words import Sql

_RANGES = {"int": 2**31, "long": 2**63}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_MAX_DIGITS = 38


def default_literal(value: Scalar, kind: Type, *, where: str) -> Sql:
    """The value as one of exactly this type."""
    if is_text(kind):
        return words.text(str(value).lower() if isinstance(value, bool) else str(value))
    literal = comparable(value, kind, where=where)
    if is_number(kind):
        _check_fits(read_number(value, where=where), kind, where)
    already = exp.Boolean | exp.Cast
    return literal if isinstance(literal, already) else words.cast(literal, kind)


def comparable(value: Scalar, kind: Type, *, where: str) -> Sql:
    """The value as something that a column of this type can be compared with."""
    if is_text(kind):
        if not isinstance(value, str):
            raise InvalidSchema(
                f"{where}: the column is text, and {_shown(value)} is not",
                hint="give the column a type, or put the value in quotes",
            )
        return words.text(value)
    if is_number(kind):
        return _number(read_number(value, where=where), kind, where)
    match kind:
        case Primitive("boolean"):
            return _boolean(value, where)
        case Primitive("date"):
            return words.cast(words.text(read_day(value, where=where).isoformat()), kind)
        case Primitive("timestamp" | "timestamptz"):
            moment = read_moment(value, zoned=kind.name == "timestamptz", where=where)
            return words.cast(words.text(moment.isoformat(" ")), kind)
        case _:
            raise InvalidSchema(f"{where}: a column of type {kind} cannot be compared with a value")


def read_number(value: Scalar, *, where: str) -> Decimal:
    if not isinstance(value, bool):
        try:
            read = Decimal(str(value).strip())
        except InvalidOperation:
            read = Decimal("nan")
        if read.is_finite():
            return read
    raise InvalidInput(f"{where}: {_shown(value)} is not a number")


def read_day(value: Scalar, *, where: str) -> date:
    try:
        if isinstance(value, str) and _DAY.match(value.strip()):
            return date.fromisoformat(value.strip())
    except ValueError:
        pass
    raise InvalidInput(f"{where}: {_shown(value)} is not a date", hint="write it as 2024-01-31")


def read_moment(value: Scalar, *, zoned: bool, where: str) -> datetime:
    try:
        if isinstance(value, str) and _DAY.match(value.strip()[:10]):
            moment = datetime.fromisoformat(value.strip())
            if zoned or moment.tzinfo is None:
                return moment
    except ValueError:
        pass
    zone = "" if zoned else " without a time zone"
    raise InvalidInput(f"{where}: {_shown(value)} is not a time{zone}", hint="write it as 2024-01-31 12:00:00")


def _boolean(value: Scalar, where: str) -> Sql:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return exp.Boolean(this=value.strip().lower() == "true")
    raise InvalidInput(f"{where}: {_shown(value)} is not true or false")


def _number(value: Decimal, kind: Type, where: str) -> Sql:
    plain = format(value.normalize() if value else Decimal(0), "f")
    if len(plain.lstrip("-0.").replace(".", "")) <= _MAX_DIGITS and len(plain) <= _MAX_DIGITS:
        return words.number(plain)
    if isinstance(kind, Primitive) and kind.name in FLOATING:
        return words.cast(words.text(str(value)), kind)
    raise InvalidInput(f"{where}: {value} has more digits than a column of type {kind} can be compared with")


def _check_fits(value: Decimal, kind: Type, where: str) -> None:
    assert isinstance(kind, Primitive)  # noqa: S101 - a number
    if kind.name in _RANGES:
        limit = _RANGES[kind.name]
        fits = value == value.to_integral_value() and -limit <= value < limit
    elif is_decimal(kind):
        precision, scale = digits(kind)
        scaled = value.scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < Decimal(10) ** precision
    else:
        fits = True
    if not fits:
        raise InvalidInput(f"{where}: {value} does not fit a column of type {kind}")


def _shown(value: Scalar) -> str:
    return repr(value) if isinstance(value, str) else str(value).lower()
