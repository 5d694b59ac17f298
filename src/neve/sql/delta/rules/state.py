"""Aggregates that add up: the stored row and the changes give the new row, and the source is not read again.

COUNT and SUM over whole numbers and decimals add exactly, so AVG is kept as its sum and count and divided at the end,
by the same expression in a full refresh. Sums of floats depend on their order; they are merged only where the table
asks for it (`FLOAT_SUMS = FAST`), else their groups are computed anew. MIN and MAX take what is added; a group is
computed anew only where a value that reaches the stored extremum went away. A group is gone when its count of rows is
nothing: a sum of nothing says little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from neve.model.types import Type
from neve.sql.delta.binding.context import Context
from neve.sql.delta.binding.types import DOUBLE, KEPT_SCALE, LONG, decimal, decimal_of, is_whole, type_of
from neve.sql.delta.columns import WEIGHT, Column, column
from neve.sql.delta.rules.aggregates import Aggregate

FloatSums = Literal["exact", "fast"]
_WEIGHT_DIGITS = 10
_MOST_DIGITS = 38 - _WEIGHT_DIGITS - 1  # with more, a product with the weight may lose digits after the point
_AVG_DIGITS = 15  # beyond, Spark's division would keep too few digits for the same rounding


@dataclass(frozen=True, slots=True)
class Part:
    """What is kept of an aggregate: a count, a sum with the count of what it sums, or an extremum."""

    kind: Literal["count", "sum", "min", "max"]
    column: Column
    value: exp.Expr
    counted: Column | None = None

    @property
    def call(self) -> exp.Expr:
        """The part over plain rows."""
        call = {"count": exp.Count, "sum": exp.Sum, "min": exp.Min, "max": exp.Max}[self.kind]
        return call(this=self.value.copy())

    def increment(self) -> exp.Expr:
        """What weighted rows add to a count or a sum."""
        weight: exp.Expr = column(WEIGHT)
        if self.kind == "count":
            there = exp.Is(this=exp.paren(self.value.copy()), expression=exp.null())
            plain = isinstance(self.value, exp.Star)
            return exp.Sum(this=weight if plain else exp.case().when(there, exp.Literal.number(0)).else_(weight))
        if decimal_of(self.column.type) is not None:
            weight = exp.cast(weight, f"decimal({_WEIGHT_DIGITS}, 0)", dialect="spark")
        return exp.Sum(this=exp.Mul(this=exp.paren(self.value.copy()), expression=weight))

    def extremum(self, *, added: bool) -> exp.Expr:
        """The least or greatest value among what was added, or taken away."""
        zero = exp.Literal.number(0)
        side = exp.GT(this=column(WEIGHT), expression=zero) if added else exp.LT(this=column(WEIGHT), expression=zero)
        call = exp.Min if self.kind == "min" else exp.Max
        return call(this=exp.case().when(side, self.value.copy()))


@dataclass(frozen=True, slots=True)
class State:
    """An aggregate as parts that add up, and how each of its calls follows from them."""

    aggregate: Aggregate
    rows: Column
    parts: tuple[Part, ...]
    finals: tuple[tuple[Column, exp.Expr], ...]


def state_of(aggregate: Aggregate, context: Context, float_sums: FloatSums) -> State | None:
    """The aggregate as parts, or None when one of its calls does not add up."""
    builder = _Parts(context, float_sums)
    rows = builder.part("count", exp.Star(), LONG)
    finals: list[tuple[Column, exp.Expr]] = []
    for made, call in aggregate.calls:
        final = builder.final(call)
        if final is None:
            return None
        finals.append((made, final))
    parts = tuple(builder.parts.values())
    kept = Aggregate(aggregate.child, aggregate.keys, tuple((part.column, part.call) for part in parts))
    return State(kept, rows.column, parts, tuple(finals))


class _Parts:
    def __init__(self, context: Context, float_sums: FloatSums) -> None:
        self.context = context
        self.float_sums = float_sums
        self.parts: dict[tuple[str, exp.Expr], Part] = {}

    def part(
        self,
        kind: Literal["count", "sum", "min", "max"],
        value: exp.Expr,
        made: Type | None,
        counted: Column | None = None,
    ) -> Part:
        """The part of this kind over this value; asked again, the same."""
        key = (kind, value)
        if key not in self.parts:
            of = value.find(exp.Column)
            wish = f"{kind}_of_{of.name}" if of is not None else "rows" if isinstance(value, exp.Star) else kind
            name = self.context.new(wish, kind=made)
            self.parts[key] = Part(kind, name, value, counted)
        return self.parts[key]

    def final(self, call: exp.Expr) -> exp.Expr | None:
        """A call in terms of parts, or None."""
        inner, condition = (call.this, call.expression.this) if isinstance(call, exp.Filter) else (call, None)
        if isinstance(inner.this, exp.Distinct):
            return None
        known: Mapping[str, Column] = self.context.columns
        match inner:
            case exp.Count():
                return self.part("count", _counted(inner, condition), LONG).column.ref
            case exp.CountIf():
                return self.part("count", _when(_and(inner.this, condition), exp.Literal.number(1)), LONG).column.ref
            case exp.Sum():
                return self._sum(_when(condition, inner.this), type_of(inner.this, known))
            case exp.Avg():
                return self._average(_when(condition, inner.this), type_of(inner.this, known))
            case exp.Min() | exp.Max() if not inner.expressions:
                kind: Literal["min", "max"] = "min" if isinstance(inner, exp.Min) else "max"
                return self.part(kind, _when(condition, inner.this), type_of(inner.this, known)).column.ref
        return None

    def _sum(self, value: exp.Expr, kind: Type | None) -> exp.Expr | None:
        size = decimal_of(kind)
        if is_whole(kind):
            made: Type = LONG
        elif size is not None and (size[0] <= _MOST_DIGITS or size[1] <= KEPT_SCALE):
            made = decimal(size[0] + 10, size[1])
        elif kind == DOUBLE and self.float_sums == "fast":
            made = DOUBLE
        else:
            return None
        counted = self.part("count", value, LONG).column
        return self.part("sum", value, made, counted).column.ref

    def _average(self, value: exp.Expr, kind: Type | None) -> exp.Expr | None:
        size = decimal_of(kind)
        if is_whole(kind):
            wide = exp.cast(value.copy(), "decimal(20, 0)", dialect="spark")
            total, target = self.part("sum", wide, decimal(30, 0), self.part("count", value, LONG).column), "double"
        elif size is not None and size[0] <= _AVG_DIGITS:
            total = self.part("sum", value, decimal(size[0] + 10, size[1]), self.part("count", value, LONG).column)
            target = f"decimal({size[0] + 4}, {size[1] + 4})"
        elif kind == DOUBLE and self.float_sums == "fast":
            total, target = self.part("sum", value, DOUBLE, self.part("count", value, LONG).column), "double"
        else:
            return None
        counted = self.context.columns[total.counted.name] if total.counted is not None else total.column
        dividend = total.column.ref if size is not None else exp.cast(total.column.ref, target, dialect="spark")
        ratio = exp.Div(this=dividend, expression=counted.ref, typed=False, safe=False)
        some = exp.GT(this=counted.ref, expression=exp.Literal.number(0))
        return exp.case().when(some, exp.cast(ratio, target, dialect="spark") if size is not None else ratio)


def _counted(call: exp.Count, condition: exp.Expr | None) -> exp.Expr:
    if isinstance(call.this, exp.Star) or call.this is None:
        return exp.Star() if condition is None else _when(condition, exp.Literal.number(1))
    values = [call.this, *call.expressions]
    if len(values) == 1:
        return _when(condition, values[0])
    there = [exp.not_(exp.Is(this=v.copy(), expression=exp.null())) for v in values]
    return _when(_and(exp.and_(*there), condition), exp.Literal.number(1))


def _when(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return value.copy() if condition is None else exp.case().when(condition.copy(), value.copy())


def _and(one: exp.Expr, other: exp.Expr | None) -> exp.Expr:
    return one.copy() if other is None else exp.and_(one.copy(), other.copy())
