"""Subqueries as joins. EXISTS and IN look for a partner; a scalar subquery brings its one row, or NULLs."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.queries import Binder, Bound
from neve.sql.delta.binding.scope import Scope
from neve.sql.delta.binding.types import BOOLEAN
from neve.sql.delta.columns import Column, conjunction, wrapped
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate
from neve.sql.delta.rules.rows import Project

_MORE_THAN_ONE = "a subquery used as a value gave more than one row"


def partner(
    binder: Binder, node: exp.Expr, scope: Scope, value: exp.Expr | None, *, unknown: bool
) -> tuple[Operator, exp.Expr]:
    """The rows that EXISTS or IN looks for, and what makes one of them a partner."""
    query = _plain(node)
    if value is None and isinstance(query, exp.Select) and query.args.get("limit") is not None:
        query = query.copy()
        query.set("limit", None)  # one row is as good as many
        query.set("order", None)
    bound = binder.query(query, scope)
    if bound.single and bound.correlated:
        raise binder.context.no_rule("correlated_subquery", "EXISTS over a correlated aggregate without GROUP BY", node)
    if value is None:
        return bound.operator, conjunction(bound.correlated)
    return bound.operator, conjunction([_equal(binder, node, value, bound, unknown=unknown), *bound.correlated])


def _equal(binder: Binder, node: exp.Expr, value: exp.Expr, bound: Bound, *, unknown: bool) -> exp.Expr:
    values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
    if len(values) != len(bound.fields):
        raise binder.context.invalid(f"IN compares {len(values)} with {len(bound.fields)} columns", node)
    pairs = [exp.EQ(this=wrapped(v), expression=c.ref) for v, (_, c) in zip(values, bound.fields, strict=True)]
    if not unknown:
        return conjunction(pairs)
    return exp.Is(this=exp.paren(conjunction(pairs)), expression=exp.null())


def not_in(binder: Binder, node: exp.Expr, value: exp.Expr, scope: Scope) -> list[tuple[Operator, exp.Expr]]:
    """The partners that a row of NOT IN must not have.

    Not one anti-join: a NULL on either side keeps the row out, unless the subquery is empty. So a row passes when none
    is equal, none is NULL, and, if the value itself is NULL, there is none at all. Each is an anti-join of its own,
    and only the first must look at every key.
    """
    values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
    if len(values) != 1:
        right, equal = partner(binder, node, scope, value, unknown=False)
        right_too, unsure = partner(binder, node, scope, value, unknown=True)
        return [(right, equal), (right_too, unsure)]
    found: list[tuple[Operator, exp.Expr]] = []
    for part in ("equal", "null row", "null value"):
        bound = binder.query(_plain(node), scope)
        (_, column), *more = bound.fields
        if more:
            raise binder.context.invalid(f"IN compares 1 with {len(bound.fields)} columns", node)
        conditions = {
            "equal": exp.EQ(this=wrapped(values[0]), expression=column.ref),
            "null row": exp.Is(this=column.ref, expression=exp.null()),
            "null value": exp.Is(this=wrapped(values[0]), expression=exp.null()),
        }
        if part == "null row" and not column.nullable:
            continue
        if part == "null value" and _required(binder, values[0]):
            continue
        found.append((bound.operator, conjunction([conditions[part], *bound.correlated])))
    return found


def _required(binder: Binder, value: exp.Expr) -> bool:
    return isinstance(value, exp.Column) and not binder.context.columns[value.name].nullable


def scalar(binder: Binder, node: exp.Expr, scope: Scope) -> tuple[Operator, list[exp.Expr], exp.Expr]:
    """What to join for a scalar subquery, on which conditions, and its value after that."""
    bound = binder.query(_plain(node), scope)
    if len(bound.fields) != 1:
        raise binder.context.invalid(f"a subquery used as a value has {len(bound.fields)} columns", node)
    (_, value) = bound.fields[0]
    if not bound.correlated:
        right = bound.operator if bound.single else _at_most_one(binder, bound.operator, (), value)
        return right, [], value.ref if bound.single else right.columns[-1].ref
    keys = _inner_keys(binder, node, bound)
    if not bound.single:
        right = _at_most_one(binder, bound.operator, keys, value)
        return right, list(bound.correlated), right.columns[-1].ref
    if bound.empty is None:
        return bound.operator, list(bound.correlated), value.ref
    there = binder.context.new("there", kind=BOOLEAN)
    right = Project(bound.operator, (*((c, c.ref) for c in bound.operator.columns), (there, exp.true())))
    after = exp.case().when(exp.Is(this=there.ref, expression=exp.null()), bound.empty).else_(value.ref)
    return right, list(bound.correlated), after


def _at_most_one(binder: Binder, operator: Operator, keys: tuple[Column, ...], value: Column) -> Operator:
    """One row per key; the query fails, as it would by itself, where there are more."""
    one = binder.context.new(value.name, kind=value.type, exact=value.exact)
    many = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    failure = exp.func("raise_error", exp.Literal.string(_MORE_THAN_ONE), dialect="spark")
    call = exp.case().when(many, failure).else_(exp.First(this=value.ref))
    return Aggregate(operator, keys, ((one, call),))


def _inner_keys(binder: Binder, node: exp.Expr, bound: Bound) -> tuple[Column, ...]:
    """The subquery's own sides of its correlated conditions, which must be equalities."""
    by_name = {c.name: c for c in bound.operator.columns}
    found: dict[str, Column] = {}
    for condition in bound.correlated:
        sides = [condition.left, condition.right] if isinstance(condition, exp.EQ | exp.NullSafeEQ) else []
        inner = [s for s in sides if isinstance(s, exp.Column) and s.name in by_name]
        if len(inner) != 1:
            raise binder.context.no_rule("correlated_subquery", "a value correlated by other than equality", node)
        found[inner[0].name] = by_name[inner[0].name]
    return tuple(found.values())


def _plain(node: exp.Expr) -> exp.Expr:
    inner = node
    while isinstance(inner, exp.Subquery) and not any(inner.args.get(k) for k in ("limit", "order", "with_")):
        inner = inner.this
    return inner
