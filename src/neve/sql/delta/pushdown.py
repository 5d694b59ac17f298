"""Conditions where they belong: as far down as they hold, and between the tables that they join.

Spark would move them too, but only in the text as a whole; keys can be handed to the other side of a join only where
the join itself knows what is equal. Comma joins are put in an order in which each table has something to be joined by.
"""

from __future__ import annotations

from dataclasses import fields, replace

from sqlglot import exp

from neve.sql.delta.columns import conjunction, conjuncts, names_in
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate
from neve.sql.delta.rules.joins import Join, JoinKind
from neve.sql.delta.rules.matches import Mark, Semi
from neve.sql.delta.rules.rows import Filter, Project

Conditions = list[exp.Expr]


def pushed(operator: Operator) -> Operator:
    """The same query with its conditions in their places."""
    return _placed(operator, [])


def _placed(operator: Operator, above: Conditions) -> Operator:
    """The operator with conditions from above in or below it."""
    match operator:
        case Filter():
            return _placed(operator.child, [*conjuncts(operator.condition), *above])
        case Join() if operator.kind is JoinKind.INNER:
            return _inner(operator, above)
        case Join() if operator.kind is JoinKind.LEFT:
            mine, rest = _split(above, operator.left)
            joined = replace(operator, left=_placed(operator.left, mine), right=pushed(operator.right))
            return _filtered(joined, rest)
        case Semi() | Mark():
            mine, rest = _split(above, operator.left)
            matched = replace(operator, left=_placed(operator.left, mine), right=pushed(operator.right))
            return _filtered(matched, rest)
        case Project():
            mine, rest = _split(above, operator.child)
            return _filtered(replace(operator, child=_placed(operator.child, mine)), rest)
        case Aggregate():
            keys = {c.name for c in operator.keys}
            mine = [c for c in above if names_in(c) and names_in(c) <= keys]
            below = replace(operator, child=_placed(operator.child, mine))
            return _filtered(below, [c for c in above if c not in mine])
    return _filtered(_below(operator), above)


def _below(operator: Operator) -> Operator:
    """The operator over inputs whose own conditions are in their places."""
    changed: dict[str, object] = {}
    for item in fields(operator):  # type: ignore[arg-type]
        value = getattr(operator, item.name)
        if isinstance(value, Operator):
            changed[item.name] = pushed(value)
        elif isinstance(value, tuple) and value and all(isinstance(v, Operator) for v in value):
            changed[item.name] = tuple(map(pushed, value))
    return replace(operator, **changed) if changed else operator  # type: ignore[type-var]


def _split(conditions: Conditions, operator: Operator) -> tuple[Conditions, Conditions]:
    """What speaks of an operator's columns alone, and the rest."""
    names = set(operator.names)
    mine = [c for c in conditions if names_in(c) and names_in(c) <= names]
    return mine, [c for c in conditions if c not in mine]


def _filtered(operator: Operator, conditions: Conditions) -> Operator:
    return Filter(operator, conjunction(conditions)) if conditions else operator


def _inner(join: Join, above: Conditions) -> Operator:
    """Inner joins side by side, as one set of inputs and conditions, joined anew from the left."""
    inputs, conditions = _flat(join)
    waiting = [*conditions, *above]
    rest: list[Operator] = []
    for item in inputs:
        mine, waiting = _split(waiting, item)
        rest.append(_placed(item, mine))
    built, *rest = rest
    while rest:
        following = next((item for item in rest if _linked(built, item, waiting)), rest[0])
        rest.remove(following)
        known = {*built.names, *following.names}
        here = [c for c in waiting if names_in(c) and names_in(c) <= known]
        waiting = [c for c in waiting if c not in here]
        built = Join(JoinKind.INNER, built, following, conjunction(here))
    return _filtered(built, waiting)


def _flat(operator: Operator) -> tuple[list[Operator], Conditions]:
    if isinstance(operator, Join) and operator.kind is JoinKind.INNER:
        left, right = _flat(operator.left), _flat(operator.right)
        own = [c for c in conjuncts(operator.condition) if not isinstance(c, exp.Boolean) or not c.this]
        return [*left[0], *right[0]], [*left[1], *right[1], *own]
    if isinstance(operator, Filter) and isinstance(operator.child, Join | Filter):
        inputs, conditions = _flat(operator.child)
        return inputs, [*conditions, *conjuncts(operator.condition)]
    return [operator], []


def _linked(built: Operator, item: Operator, conditions: Conditions) -> bool:
    """Whether some equality joins an input to what is joined already."""
    mine, theirs = set(built.names), set(item.names)
    return any(
        isinstance(c, exp.EQ | exp.NullSafeEQ)
        and not names_in(c).isdisjoint(mine)
        and not names_in(c).isdisjoint(theirs)
        and names_in(c) <= mine | theirs
        for c in conditions
    )
