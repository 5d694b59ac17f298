"""How the stored table is changed: by key, by the scope that a change touches, or row by row.

The result's own columns may not tell which rows a change replaces, so a table may hold more than its query names: keys
that are not selected, and the parts of aggregates that add up. Those columns begin with `_neve_` and are hidden from
readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from neve.model.types import holds_map
from neve.sql.delta.binding.context import Context
from neve.sql.delta.columns import HIDDEN, Column, conjuncts
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate
from neve.sql.delta.rules.distinct import Distinct
from neve.sql.delta.rules.limits import Limit
from neve.sql.delta.rules.rows import Filter, Project
from neve.sql.delta.rules.sets import Compare
from neve.sql.delta.rules.state import FloatSums, State, state_of
from neve.sql.delta.rules.windows import Window

Scoped = Aggregate | Distinct | Compare | Window | Limit
Fields = tuple[tuple[str, Column], ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """How to apply changes. `keyed`: at most one stored row per key, so delete by key and insert, or MERGE. `scoped`:
    every stored row with a touched key is in the changes. `bag`: rows are found by all their columns. Keys are columns
    of the stored table, compared with NULL as a value; no keys means the whole table."""

    kind: Literal["keyed", "scoped", "bag"]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What is stored, and by which road its changes are found.

    `merge` adds changes to stored parts; `scope` computes touched keys anew; `exact` does so for the columns that are
    the same in every evaluation; `rows` is the plain sum of changes.
    """

    road: Literal["merge", "scope", "exact", "rows"]
    root: Operator
    fields: Fields
    apply: Apply
    scoped: Scoped | None = None
    state: State | None = None
    chain: tuple[Project | Filter, ...] = ()


def shape_of(root: Operator, fields: Fields, context: Context, float_sums: FloatSums) -> Shape:
    """The cheapest road that is right for this query."""
    chain, top = _unwrapped(root)
    if isinstance(top, Aggregate | Distinct) and not any(isinstance(step, Filter) for step in chain):
        grouped = top if isinstance(top, Aggregate) else _as_groups(top)
        state = state_of(grouped, context, float_sums) if all(c.exact for c in grouped.keys) else None
        if state is not None:
            return _merging(chain, state, fields)
    if isinstance(top, Aggregate | Distinct | Compare | Limit) or (isinstance(top, Window) and top.partition):
        keys = _scope_columns(top)
        if all(c.exact for c in keys):
            return _scoping(chain, top, keys, fields)
    exact = tuple((name, c) for name, c in fields if _sure(c))
    if len(exact) == len(fields):
        return Shape("rows", root, fields, Apply("bag"))
    return Shape("exact", root, fields, Apply("scoped", tuple(name for name, _ in exact)))


def _sure(column: Column) -> bool:
    return column.exact and not holds_map(column.type)


def _unwrapped(root: Operator) -> tuple[tuple[Project | Filter, ...], Operator]:
    chain: list[Project | Filter] = []
    while isinstance(root, Project) or (isinstance(root, Filter) and not root.timed):
        chain.append(root)
        root = root.child
    return tuple(chain), root


def _as_groups(top: Distinct) -> Aggregate:
    """DISTINCT is grouping by every column."""
    return Aggregate(top.child, top.columns, ())


def _scope_columns(top: Scoped) -> tuple[Column, ...]:
    match top:
        case Aggregate():
            return top.keys
        case Window():
            return top.partition
        case Limit():
            return ()
    return top.columns


def _merging(chain: tuple[Project | Filter, ...], state: State, fields: Fields) -> Shape:
    finals = Project(state.aggregate, (*((c, c.ref) for c in state.aggregate.columns), *state.finals))
    steps = (*chain, finals)
    kept = state.aggregate.columns
    root, named = _with_hidden(steps, state.aggregate, kept, fields)
    keys = tuple(_name_of(c, named, root) for c in state.aggregate.keys)
    rebuilt, _ = _unwrapped(root)
    return Shape("merge", root, named, Apply("keyed", keys), state=state, chain=rebuilt)


def _scoping(chain: tuple[Project | Filter, ...], top: Scoped, keys: tuple[Column, ...], fields: Fields) -> Shape:
    root, named = _with_hidden(chain, top, keys, fields)
    unique = not isinstance(top, Window | Limit) and not (isinstance(top, Compare) and top.every)
    one = isinstance(top, Window) and _first_only(chain, top)
    names = tuple(_name_of(c, named, root) for c in keys)
    return Shape("scope", root, named, Apply("keyed" if unique or one else "scoped", names), scoped=top)


def _first_only(chain: Iterable[Project | Filter], top: Window) -> bool:
    """Whether a filter keeps one row per partition: ROW_NUMBER() = 1."""
    numbers = {c.name for c, call in top.calls if isinstance(call.this, exp.RowNumber)}
    for step in chain:
        for part in conjuncts(step.condition) if isinstance(step, Filter) else []:
            if isinstance(part, exp.EQ) and part.left.name in numbers and part.right.sql() == "1":
                return True
    return False


def _with_hidden(
    chain: tuple[Project | Filter, ...], top: Operator, columns: tuple[Column, ...], fields: Fields
) -> tuple[Operator, Fields]:
    """The query with these columns of its core in the result, under hidden names where they are not there yet."""
    root = top
    for step in reversed(chain):
        if isinstance(step, Filter):
            root = replace(step, child=root)
            continue
        missing = [c for c in columns if c.name not in {own.name for own in step.columns}]
        root = replace(step, child=root, outputs=(*step.outputs, *((c, c.ref) for c in missing)))
    shown = {_origin(root, c).name for _, c in fields}
    hidden = [c for c in columns if c.name not in shown]
    return root, (*fields, *((f"{HIDDEN}{c.name}", c) for c in hidden))


def _name_of(column: Column, fields: Fields, root: Operator) -> str:
    return next(name for name, c in fields if _origin(root, c).name == column.name)


def _origin(root: Operator, column: Column) -> Column:
    """The column of the core that a column of the result stands for, as long as it is only handed on."""
    while isinstance(root, Project | Filter):
        if isinstance(root, Project):
            value = next(value for own, value in root.outputs if own.name == column.name)
            if not isinstance(value, exp.Column):
                return column
            column = next(c for c in root.child.columns if c.name == value.name)
        root = root.child
    return column
