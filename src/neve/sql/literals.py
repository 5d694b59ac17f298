"""Values as SQL: a tree for each, cast to its type, so that no text of a user is ever read as SQL."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from sqlglot import exp

from neve.model.types import ListOf, MapOf, Primitive, Struct, Type  # noqa: F401 - Primitive is for the examples
from neve.sql.cleaning.words import call, text


def literal(value: Any, kind: Type) -> exp.Expr:
    """A value of a type, as `plan.records.typed` makes it.

    >>> literal("it's", Primitive("string")).sql("spark")
    "CAST('it\\\\'s' AS STRING)"
    >>> literal([1, None], ListOf(Primitive("int"))).sql("spark")
    'CAST(ARRAY(CAST(1 AS INT), CAST(NULL AS INT)) AS ARRAY<INT>)'
    """
    return exp.Cast(this=_bare(value, kind), to=exp.DataType.build(str(kind), dialect="spark"))


def _bare(value: Any, kind: Type) -> exp.Expr:
    if value is None:
        return exp.Null()
    match kind:
        case ListOf(element, _):
            return call("ARRAY", *(literal(item, element) for item in value))
        case MapOf(key, inner, _):
            pairs = (part for word, item in value.items() for part in (literal(word, key), literal(item, inner)))
            return call("MAP", *pairs)
        case Struct(fields):
            parts = (part for f in fields for part in (text(f.name), literal(value[f.name], f.type)))
            return call("NAMED_STRUCT", *parts)
        case _:
            return plain(value)


def plain(value: Any) -> exp.Expr:
    """A value whose type says itself; whole numbers and decimals are exact."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
        case Decimal():
            return text(f"{value:f}")
        case float():
            return text(repr(value) if isfinite(value) else str(value))
        case bytes():
            return call("UNHEX", text(value.hex()))
        case datetime() | date():
            return text(value.isoformat())
        case _:
            return text(str(value))
