"""Values that two evaluations may disagree on must not decide which rows there are.

A sum of floats may differ in its last digit, `collect_list` in its order. In a column of the result that is harmless:
rows are found by the other columns. In a join condition or a key below another operator it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from neve.model.types import holds_map
from neve.sql.delta.binding.context import Context
from neve.sql.delta.clock import is_timed
from neve.sql.delta.columns import Column
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate
from neve.sql.delta.rules.distinct import Distinct
from neve.sql.delta.rules.joins import Join
from neve.sql.delta.rules.limits import Limit
from neve.sql.delta.rules.matches import Mark, Semi
from neve.sql.delta.rules.rows import Filter
from neve.sql.delta.rules.sets import Compare
from neve.sql.delta.rules.windows import Window
from neve.sql.delta.shape import Shape

_DETAIL = (
    "{what} uses {name}, whose value may differ between two evaluations (a float sum, or an order that is not fixed)"
)


def check_certainty(shape: Shape, context: Context) -> None:
    """Notes every place where an uncertain value decides."""
    above = _exempt(shape)
    _check_clock(shape, context)
    for operator in shape.root.walk():
        for what, expression in _decisions(operator):
            if id(operator) not in above:
                _check(what, expression, context)
        for column in _compared(operator):
            if holds_map(column.type):
                context.refuse(
                    "map_key", f"{column.name} is a map or holds one, and maps cannot be compared or grouped", None
                )
    if shape.road == "exact" and not shape.apply.keys:
        context.refuse("uncertain_value", "no column of the result is the same in every evaluation", None)


def _check_clock(shape: Shape, context: Context) -> None:
    """The present moment is followed in a filter alone."""
    for operator in shape.root.walk():
        for _, expression in () if isinstance(operator, Filter) else _decisions(operator):
            if is_timed(expression):
                context.refuse("time_function", "the present moment in a join condition has no rule", expression)


def _exempt(shape: Shape) -> set[int]:
    """Filters above the scope that is replaced as a whole: what they decide, they decide anew for all of it."""
    if shape.road not in ("merge", "scope"):
        return set()
    found: set[int] = set()
    operator = shape.root
    while operator.inputs and operator is not shape.scoped:
        found.add(id(operator))
        operator = operator.inputs[0]
    return found | ({id(operator)} if isinstance(operator, Limit) else set())


def _decisions(operator: Operator) -> Iterator[tuple[str, exp.Expr]]:
    match operator:
        case Filter():
            yield "a filter", operator.condition
        case Join() | Semi() | Mark():
            yield "a join", operator.condition
        case Limit():
            yield from (("ORDER BY … LIMIT", item) for item in operator.order)
        case Window():
            for _, call in operator.calls:
                yield from (("PARTITION BY", part) for part in call.args.get("partition_by") or [])
                yield from (("ORDER BY of a window", part) for part in [call.args.get("order")] if part is not None)
    yield from (("a key", column.ref) for column in _compared(operator))


def _compared(operator: Operator) -> Iterable[Column]:
    match operator:
        case Aggregate():
            return operator.keys
        case Distinct() | Compare():
            return operator.columns
    return ()


def _check(what: str, expression: exp.Expr, context: Context) -> None:
    for found in expression.find_all(exp.Column):
        known = context.columns.get(found.name)
        if known is not None and not known.exact:
            context.refuse("uncertain_value", _DETAIL.format(what=what, name=found.name), expression)
