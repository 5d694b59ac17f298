"""GROUP BY: keys, aggregate calls, and grouping sets as one more key over rows repeated for each set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sqlglot import exp

from neve.sql.delta.binding.expressions import Expressions
from neve.sql.delta.binding.functions import exact, is_aggregate, sorts_collection
from neve.sql.delta.binding.types import INT, type_of
from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate, Call
from neve.sql.delta.rules.joins import Join, JoinKind
from neve.sql.delta.rules.rows import Project
from neve.sql.delta.rules.sources import Constant

Replacements = dict[exp.Expr, exp.Expr]


def has_aggregates(node: exp.Expr) -> bool:
    """Whether an expression holds an aggregate call that is not a window's own."""
    return next(aggregates_in(node), None) is not None


def aggregates_in(node: exp.Expr, *, windowed: bool = False) -> Iterator[exp.Expr]:
    """The aggregate calls of an expression, outermost; a function with OVER is none, what it is given may hold some."""
    if isinstance(node, exp.Query):
        return
    if not windowed and (sorts_collection(node) or is_aggregate(node)):
        yield node
        return
    inside = isinstance(node, exp.Window) or (
        windowed and isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls)
    )
    for key, value in node.args.items():
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr):
                yield from aggregates_in(child, windowed=inside and key == "this")


def rewrite(node: exp.Expr, replacements: Replacements) -> exp.Expr:
    """The expression with every part that has a replacement replaced, largest parts first."""
    if node in replacements:
        return replacements[node].copy()
    copied = node.copy()
    _rewrite_inside(copied, replacements)
    return copied


def _rewrite_inside(node: exp.Expr, replacements: Replacements) -> None:
    for child in list(node.iter_expressions()):
        found = replacements.get(child)
        if found is not None:
            child.replace(found.copy())
        else:
            _rewrite_inside(child, replacements)


class Grouping:
    """Builds the aggregate under a SELECT out of its bound keys and expressions."""

    def __init__(self, operator: Operator, expressions: Expressions) -> None:
        self.operator = operator
        self.expressions = expressions
        self.context = expressions.binder.context
        self.replacements: Replacements = {}

    def group(self, keys: list[exp.Expr], sets: list[list[exp.Expr]] | None, uses: list[exp.Expr]) -> Operator:
        """The aggregate; afterwards `replacements` tells what stands for keys and calls."""
        calls = list(dict.fromkeys(call for use in uses for call in aggregates_in(use)))
        wanted = {name for e in (*keys, *calls) for name in names_in(e)}
        self.operator = self.expressions.attach(self.operator, wanted)
        columns = self._as_columns(keys)
        if sets is not None:
            columns = self._expanded(keys, columns, sets, uses)
        made = tuple(self._call(call) for call in calls)
        return Aggregate(self.operator, columns, made)

    def _as_columns(self, keys: list[exp.Expr]) -> tuple[Column, ...]:
        found: dict[exp.Expr, Column] = {}
        added: list[tuple[Column, exp.Expr]] = []
        by_name = {c.name: c for c in self.operator.columns}
        for key in keys:
            if key in found:
                continue
            if isinstance(key, exp.Column) and key.name in by_name:
                found[key] = by_name[key.name]
            else:
                found[key] = self.expressions.column(key.name or "key", key)
                added.append((found[key], key))
                self.replacements[key] = found[key].ref
        self.operator = extended(self.operator, added)
        return tuple(found.values())

    def _call(self, call: exp.Expr) -> Call:
        known = self.context.columns
        made = self.context.new(_wish(call), kind=type_of(call, known), exact=exact(call, known))
        self.replacements[call] = made.ref
        return made, call

    def _expanded(
        self, keys: list[exp.Expr], columns: tuple[Column, ...], sets: list[list[exp.Expr]], uses: list[exp.Expr]
    ) -> tuple[Column, ...]:
        """Every row once per set, without the keys that are not in the set; one more key tells the sets apart."""
        number = self.context.new("grouping_set", kind=INT, nullable=False)
        rows = tuple((exp.Literal.number(i),) for i, _ in enumerate(sets))
        repeated = Join(JoinKind.INNER, self.operator, Constant((number,), rows), exp.true())
        unique = list(dict.fromkeys(keys))
        gone: list[tuple[Column, exp.Expr]] = []
        for key, column in zip(unique, columns, strict=True):
            kept = [i for i, chosen in enumerate(sets) if key in chosen]
            value = exp.case().when(_one_of(number, kept), column.ref)
            gone.append((self.context.new(column.name, kind=column.type, exact=column.exact), value))
            self.replacements[key] = gone[-1][0].ref
        self.operator = extended(repeated, gone)
        for use in uses:
            self._markers(use, unique, sets, number)
        return (*(c for c, _ in gone), number)

    def _markers(self, use: exp.Expr, keys: list[exp.Expr], sets: list[list[exp.Expr]], number: Column) -> None:
        """GROUPING(key) and GROUPING_ID(): which keys a row's set leaves out."""
        for node in use.find_all(exp.Grouping, exp.GroupingId):
            of = node.expressions or ([node.this] if isinstance(node.this, exp.Expr) else keys)
            codes = [sum((key not in chosen) << bit for bit, key in enumerate(reversed(of))) for chosen in sets]
            value = exp.case()
            for index, code in enumerate(codes):
                same = exp.EQ(this=number.ref, expression=exp.Literal.number(index))
                value = value.when(same, exp.Literal.number(code))
            kind = "bigint" if isinstance(node, exp.GroupingId) else "tinyint"
            self.replacements[node] = exp.cast(value, kind, dialect="spark")


def grouping_sets(group: exp.Group, bind: Expressions) -> list[list[exp.Expr]] | None:
    """The sets of keys that GROUP BY names, bound; None when there is just the one."""
    parts: list[list[list[exp.Expr]]] = []
    plain = [e for e in group.expressions if not isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets)]
    special = [e for e in group.expressions if isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets)]
    for key in ("rollup", "cube", "grouping_sets"):
        for item in group.args.get(key) or []:
            if isinstance(item, exp.GroupingSets) or not item.expressions:
                return _sets_of(item if item.expressions else type(item)(expressions=plain), bind)
            special.append(item)
    if not special:
        return None
    parts = [[[bind.bind(key)]] for key in plain] + [_sets_of(item, bind) for item in special]
    return [[key for chosen in combination for key in chosen] for combination in itertools.product(*parts)]


def _sets_of(item: exp.Expr, bind: Expressions) -> list[list[exp.Expr]]:
    units = [_unit(unit, bind) for unit in item.expressions]
    if isinstance(item, exp.Rollup):
        return [[k for unit in units[:n] for k in unit] for n in range(len(units), -1, -1)]
    if isinstance(item, exp.Cube):
        chosen = itertools.product((True, False), repeat=len(units))
        return [[k for unit, kept in zip(units, keep, strict=True) if kept for k in unit] for keep in chosen]
    found: list[list[exp.Expr]] = []
    for unit, bound in zip(item.expressions, units, strict=True):
        found += _sets_of(unit, bind) if isinstance(unit, exp.Rollup | exp.Cube | exp.GroupingSets) else [bound]
    return found


def _unit(node: exp.Expr, bind: Expressions) -> list[exp.Expr]:
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        return []
    inner = node.unnest()
    return [bind.bind(e) for e in inner.expressions] if isinstance(inner, exp.Tuple) else [bind.bind(inner)]


def extended(operator: Operator, added: list[tuple[Column, exp.Expr]]) -> Operator:
    """The operator with more columns."""
    if not added:
        return operator
    return Project(operator, (*((c, c.ref) for c in operator.columns), *added))


def _one_of(column: Column, numbers: list[int]) -> exp.Expr:
    if not numbers:
        return exp.false()
    return exp.In(this=column.ref, expressions=[exp.Literal.number(n) for n in numbers])


def _wish(call: exp.Expr) -> str:
    inner = call.this if isinstance(call, exp.Filter | exp.IgnoreNulls) else call
    argument = inner.find(exp.Column)
    return f"{inner.key}_{argument.name}" if argument is not None else inner.key
