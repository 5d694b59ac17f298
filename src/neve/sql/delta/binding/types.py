"""Types of expressions, as far as they are certain: None where they are not, and rules then take the careful road."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sqlglot import exp

from neve.errors import InvalidSchema
from neve.model.types import ListOf, Primitive, Struct, Type
from neve.sql.columns import parse_type
from neve.sql.delta.columns import Column

INT, LONG, DOUBLE, STRING = Primitive("int"), Primitive("long"), Primitive("double"), Primitive("string")
BOOLEAN, DATE = Primitive("boolean"), Primitive("date")
_WHOLE = {"int": 10, "long": 20}
_MOST = 38
KEPT_SCALE = 6
"""Digits after the point that Spark keeps whatever happens before it."""
_STRINGS = (exp.Upper, exp.Lower, exp.Concat, exp.Substring, exp.Trim, exp.Replace, exp.ConcatWs, exp.DPipe)
_NUMBERS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Length, exp.Extract, exp.Year, exp.Month, exp.Day)
_SAME = (exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.Lag, exp.Lead, exp.Abs)
_PASSES = (exp.Paren, exp.Filter, exp.Window, exp.IgnoreNulls, exp.RespectNulls, exp.Alias, exp.Neg, exp.Distinct)


def is_float(kind: Type | None) -> bool:
    """Whether sums of it may depend on their order; unknown types count."""
    return not (isinstance(kind, Primitive) and (kind.name in _WHOLE or decimal_of(kind) is not None))


def is_whole(kind: Type | None) -> bool:
    return isinstance(kind, Primitive) and kind.name in _WHOLE


def decimal_of(kind: Type | None) -> tuple[int, int] | None:
    """Precision and scale of a decimal.

    >>> decimal_of(Primitive("decimal(10, 2)"))
    (10, 2)
    """
    if not isinstance(kind, Primitive) or not kind.name.startswith("decimal("):
        return None
    precision, scale = kind.name[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def decimal(precision: int, scale: int) -> Primitive:
    return Primitive(f"decimal({min(precision, 38)}, {scale})")


def type_of(node: exp.Expr, columns: Mapping[str, Column]) -> Type | None:
    """The Spark type of a bound expression, or None."""
    if isinstance(node, exp.AggFunc):
        return _aggregate(node, columns)
    match node:
        case exp.Column():
            return columns[node.name].type if node.name in columns else None
        case exp.Dot():
            inner = type_of(node.this, columns)
            fields = inner.fields if isinstance(inner, Struct) else ()
            return next((f.type for f in fields if f.name.lower() == node.expression.name.lower()), None)
        case exp.Cast():
            return _cast(node)
        case exp.Literal():
            return _literal(node)
        case exp.Case():
            branches = [*(i.args["true"] for i in node.args["ifs"]), node.args.get("default")]
            return _common([b for b in branches if b is not None], columns)
        case exp.Coalesce():
            return _common([node.this, *node.expressions], columns)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _arithmetic(node, type_of(node.left, columns), type_of(node.right, columns))
        case exp.Explode():
            inner = type_of(node.this, columns)
            return inner.element if isinstance(inner, ListOf) else None
    return _plain(node, columns)


def _plain(node: exp.Expr, columns: Mapping[str, Column]) -> Type | None:
    if isinstance(node, exp.Boolean | exp.Predicate | exp.Not | exp.And | exp.Or | exp.Exists):
        return BOOLEAN
    if isinstance(node, _STRINGS):
        return STRING
    if isinstance(node, _NUMBERS):
        return INT
    return type_of(_argument(node), columns) if isinstance(node, _PASSES + _SAME) else None


def _aggregate(node: exp.Expr, columns: Mapping[str, Column]) -> Type | None:
    kind = type_of(_argument(node), columns)
    match node:
        case exp.Count() | exp.CountIf() | exp.ApproxDistinct():
            return LONG
        case exp.Sum():
            return _sum(kind)
        case exp.Avg():
            return _average(kind)
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            return None if kind is None else ListOf(kind)
        case exp.LogicalAnd() | exp.LogicalOr():
            return BOOLEAN
    return kind if isinstance(node, _SAME) else None


def _argument(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node.this, exp.Expr) else exp.null()
    return inner.expressions[0] if isinstance(inner, exp.Distinct) and inner.expressions else inner


def _cast(node: exp.Cast) -> Type | None:
    try:
        return parse_type(node.to.sql("spark"))
    except InvalidSchema:
        return None


def _literal(node: exp.Literal) -> Type | None:
    if node.is_string:
        return STRING
    if node.is_int:
        return INT if -(2**31) <= int(node.this) < 2**31 else LONG
    digits = node.this.lower()
    if "e" in digits or not digits.replace(".", "").isdigit():
        return DOUBLE if "e" in digits else None
    whole, _, fraction = digits.partition(".")
    return decimal(max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction))


def _sum(kind: Type | None) -> Type | None:
    if is_whole(kind):
        return LONG
    if (size := decimal_of(kind)) is not None:
        return decimal(size[0] + 10, size[1])
    return DOUBLE if kind in (DOUBLE, Primitive("float")) else None


def _average(kind: Type | None) -> Type | None:
    if (size := decimal_of(kind)) is not None:
        return decimal(size[0] + 4, min(size[1] + 4, 38))
    return DOUBLE if is_whole(kind) or kind in (DOUBLE, Primitive("float")) else None


def _common(branches: list[exp.Expr], columns: Mapping[str, Column]) -> Type | None:
    """The type that fits all branches, as Spark widens numbers."""
    kinds = [type_of(branch, columns) for branch in branches if not isinstance(branch, exp.Null)]
    if not kinds or any(kind is None for kind in kinds):
        return None
    return functools.reduce(_wider, kinds)


def _wider(one: Type | None, other: Type | None) -> Type | None:
    if one == other:
        return one
    if is_whole(one) and is_whole(other):
        return LONG
    numeric = all(kind == DOUBLE or is_whole(kind) or decimal_of(kind) for kind in (one, other))
    if DOUBLE in (one, other):
        return DOUBLE if numeric else None
    sizes = [_as_decimal(exp.null(), kind) for kind in (one, other)]
    if sizes[0] is None or sizes[1] is None:
        return None
    scale = max(sizes[0][1], sizes[1][1])
    precision = max(p - s for p, s in (sizes[0], sizes[1])) + scale
    return decimal(precision, scale) if precision <= _MOST else None


def _arithmetic(node: exp.Expr, left: Type | None, right: Type | None) -> Type | None:
    if DOUBLE in (left, right):
        return DOUBLE
    if is_whole(left) and is_whole(right):
        if isinstance(node, exp.Div):
            return DOUBLE
        return LONG if LONG in (left, right) else INT
    sizes = _sizes(node, left, right)
    return None if sizes is None or isinstance(node, exp.Div) else _decimal_result(node, *sizes)


def _sizes(node: exp.Expr, left: Type | None, right: Type | None) -> tuple[int, int, int, int] | None:
    one, two = _as_decimal(node.left, left), _as_decimal(node.right, right)  # type: ignore[attr-defined]
    return None if one is None or two is None else (*one, *two)


def _as_decimal(node: exp.Expr, kind: Type | None) -> tuple[int, int] | None:
    if is_whole(kind) and isinstance(node, exp.Literal):
        return len(node.this), 0
    if is_whole(kind) and isinstance(kind, Primitive):
        return _WHOLE[kind.name], 0
    return decimal_of(kind)


def _decimal_result(node: exp.Expr, p1: int, s1: int, p2: int, s2: int) -> Type:
    """Spark's own rule for + − ×: beyond 38 digits, those after the point give way, but for six of them."""
    if isinstance(node, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    if precision > _MOST:
        scale = max(_MOST - (precision - scale), min(scale, KEPT_SCALE))
    return decimal(precision, scale)
