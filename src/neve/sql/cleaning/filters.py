"""Filters of the file as conditions over cleaned values."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from neve.errors import InvalidSchema
from neve.model.dataset import Filter
from neve.model.dataset import Scalar as Value
from neve.model.types import Primitive, Type
from neve.sql.cleaning.casts import is_number, is_text
from neve.sql.cleaning.literals import comparable, read_day, read_moment, read_number
from neve.sql.cleaning.words import Sql, call, cast, text

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    ">": exp.GT,
    "<": exp.LT,
    ">=": exp.GTE,
    "<=": exp.LTE,
}
_UNORDERED = ("=", "!=", "in", "not_in")
_STRAY_ESCAPE = re.compile(r"(?:[^\\]|\\[\\%_])*\\(?:[^\\%_]|\Z)", re.DOTALL)


def condition(entry: Filter, value: Sql, kind: Type, *, where: str) -> Sql:
    """What a value must satisfy; NULL for a NULL, save with is_null and is_not_null."""
    match entry.operator:
        case "is_null":
            return value.is_(exp.null())
        case "is_not_null":
            return exp.not_(value.is_(exp.null()))
        case "not_empty":
            return exp.NEQ(this=call("TRIM", value if is_text(kind) else cast(value, "string")), expression=text(""))
        case "like" | "not_like":
            matched = exp.Like(this=value, expression=text(_pattern(entry.value, kind, where)))
            return matched if entry.operator == "like" else exp.not_(matched)
    if kind == Primitive("boolean") and entry.operator not in _UNORDERED:
        raise InvalidSchema(f"{where}: {entry.operator} makes no sense for true and false")
    values = entry.value if isinstance(entry.value, tuple) else (entry.value,)
    literals = [comparable(one, kind, where=where) for one in values if one is not None]
    match entry.operator:
        case "in" | "not_in":
            listed = exp.In(this=value, expressions=literals)
            return listed if entry.operator == "in" else exp.not_(listed)
        case "between":
            _check_order(values, kind, where)
            return exp.Between(this=value, low=literals[0], high=literals[1])
        case operator:
            return _COMPARISONS[operator](this=value, expression=literals[0])


def _pattern(value: object, kind: Type, where: str) -> str:
    if not is_text(kind):
        raise InvalidSchema(f"{where}: like compares text, and the column is {kind}")
    pattern = str(value)
    if _STRAY_ESCAPE.match(pattern):
        raise InvalidSchema(f"{where}: a backslash in {pattern!r} stands before something else than %, _ or \\")
    return pattern


def _check_order(values: tuple[Value | None, ...], kind: Type, where: str) -> None:
    low, high = (_ordered(value, kind, where) for value in values if value is not None)
    if low > high:  # type: ignore[operator]  # both are of the column's type
        raise InvalidSchema(f"{where}: nothing lies between {values[0]} and {values[1]}; write the lower one first")


def _ordered(value: Value, kind: Type, where: str) -> Decimal | date | datetime | str:
    if is_number(kind):
        return read_number(value, where=where)
    if kind == Primitive("date"):
        return read_day(value, where=where)
    if is_text(kind):
        return str(value)
    moment = read_moment(value, zoned=kind == Primitive("timestamptz"), where=where)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
