"""UNION ALL adds; INTERSECT and EXCEPT, ALL or not, are redone for the rows that a change touches.

UNION is UNION ALL and DISTINCT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from neve.sql.delta.columns import WEIGHT, Column, column
from neve.sql.delta.operators import Keys, Operator, Version, rename
from neve.sql.delta.script import Script
from neve.sql.delta.selects import items, select, union_all


def _side(
    script: Script, columns: tuple[Column, ...], side: Operator, version: Version, keys: Keys | None
) -> exp.Query:
    """One input under the names of the result."""
    below = None if keys is None else keys.through(rename(zip(columns, side.columns, strict=True)))
    pairs = [(c.name, own.ref) for c, own in zip(columns, side.columns, strict=True)]
    return script.projected(script.rows(side, version, below), pairs)


@dataclass(frozen=True, slots=True, eq=False)
class UnionAll(Operator):
    """All rows of all inputs."""

    rule = "union"
    branches: tuple[Operator, ...]
    fields: tuple[Column, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.branches

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.fields

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return any(branch.expands for branch in self.branches)

    @property
    def title(self) -> str:
        return "union all"

    @property
    def why(self) -> str:
        return "the changes of the inputs together"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        return union_all([_side(script, self.fields, branch, version, keys) for branch in self.branches])

    def delta(self, script: Script) -> exp.Query | None:
        terms: list[exp.Query] = []
        for branch in self.branches:
            query = script.delta(branch)
            if query is not None:
                pairs = [(c.name, own.ref) for c, own in zip(self.fields, branch.columns, strict=True)]
                terms.append(script.projected(query, pairs, weight=True))
        return union_all(terms) if terms else None

    def pruned(self, live: set[str]) -> Operator:
        kept = [index for index, c in enumerate(self.fields) if c.name in live]
        for branch in self.branches:
            live |= {branch.columns[index].name for index in kept}
        below = [branch.pruned(live) for branch in self.branches]
        picked = tuple(
            _picked(new, [old.columns[i] for i in kept]) for old, new in zip(self.branches, below, strict=True)
        )
        return replace(self, branches=picked, fields=tuple(self.fields[index] for index in kept))


def _picked(operator: Operator, columns: list[Column]) -> Operator:
    """Just these columns in this order: what others below keep for themselves must not shift them."""
    from neve.sql.delta.rules.rows import Project

    if operator.names == [c.name for c in columns]:
        return operator
    return Project(operator, tuple((c, c.ref) for c in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Operator):
    """INTERSECT or EXCEPT of two inputs; `every`: with ALL, counting duplicates."""

    rule = "affected rows"
    expands = True
    kind: Literal["intersect", "except"]
    every: bool
    left: Operator
    right: Operator
    fields: tuple[Column, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.fields

    @property
    def title(self) -> str:
        return f"{self.kind}{' all' if self.every else ''}"

    @property
    def why(self) -> str:
        return "rows that a change of either side touches are counted before and after"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        left, right = (_side(script, self.fields, side, version, keys) for side in self.inputs)
        kind = exp.Intersect if self.kind == "intersect" else exp.Except
        sides = [select(items([(c.name, c.ref) for c in self.fields]), script.name(q, "side")) for q in (left, right)]
        return kind(this=sides[0], expression=sides[1], distinct=not self.every)

    def delta(self, script: Script) -> exp.Query | None:
        return script.recompute(self, self.touched(script))

    def touched(self, script: Script) -> Keys | None:
        """The rows that a change of either side touches."""
        terms: list[exp.Query] = []
        for side in self.inputs:
            changes = script.changes(side)
            if changes is not None:
                pairs = [(c.name, own.ref) for c, own in zip(self.fields, side.columns, strict=True)]
                terms.append(select([*items(pairs), column(WEIGHT)], changes))
        return script.keys(script.name(union_all(terms), "both"), [c.ref for c in self.fields]) if terms else None

    def pruned(self, live: set[str]) -> Operator:
        for side in self.inputs:
            live |= set(side.names)
        left, right = (_picked(side.pruned(live), list(side.columns)) for side in self.inputs)
        return replace(self, left=left, right=right)
