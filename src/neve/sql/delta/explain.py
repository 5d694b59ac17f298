"""How a query follows changes, as a tree of steps that a surface can draw."""

from __future__ import annotations

from neve.model.delta import Step
from neve.sql.delta.analysis import Analysis
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.state import State
from neve.sql.delta.shape import Shape

_ROADS = {
    "merge": ("add to stored rows", "changes are added to what the table keeps of each key"),
    "scope": ("replace touched keys", "stored rows of touched keys go, and come as the query has them now"),
    "exact": ("replace touched rows", "stored rows are found by the columns that never differ between two evaluations"),
    "rows": ("add and remove rows", "the net changes of the query are the changes of the table"),
}


def explain(analysis: Analysis) -> Step:
    """The derivation: the table on top, then operator under operator, each with its rule and why it is right.

    For a query that cannot follow changes the top says so, with every reason; what could be understood hangs below.
    """
    state = None if analysis.shape is None else analysis.shape.state
    below = () if analysis.operator is None else (_step(_root(analysis), state),)
    if not analysis.incremental or analysis.shape is None:
        said = "; ".join(map(str, analysis.reasons))
        return Step(operator="table", rule="full", detail=said, inputs=below)
    rule, why = _ROADS[analysis.shape.road]
    return Step(operator=_table(analysis.shape), rule=rule, detail=why, inputs=below)


def _root(analysis: Analysis) -> Operator:
    if analysis.operator is None:
        raise AssertionError("asked only with an operator")
    return analysis.operator if analysis.shape is None else analysis.shape.root


def _table(shape: Shape) -> str:
    hidden = [name for name, _ in shape.fields if name.startswith("_neve_")]
    keys = f" by {', '.join(shape.apply.keys)}" if shape.apply.keys else ""
    kept = f", also keeps {', '.join(hidden)}" if hidden else ""
    return f"table ({shape.apply.kind}{keys}{kept})"


def _step(operator: Operator, state: State | None) -> Step:
    rule, why = operator.rule, operator.why
    if state is not None and operator is state.aggregate:
        extrema = any(part.kind in ("min", "max") for part in state.parts)
        rule = "sums and extrema" if extrema else "sums"
        why = "counts and sums add up" + ("; a group that lost its extremum is computed anew" if extrema else "")
    below = tuple(_step(item, state) for item in operator.inputs)
    return Step(operator=operator.title, rule=rule, detail=why, inputs=below)
