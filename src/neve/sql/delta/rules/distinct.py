"""DISTINCT: a row is there when at least one like it is; only rows that a change touches are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import Column
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import pick, select


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Operator):
    """Each row once; NULLs are alike."""

    rule = "affected rows"
    expands = True
    child: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    @property
    def title(self) -> str:
        return "distinct"

    @property
    def why(self) -> str:
        return "a row that a change touches is looked for before and after"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        return select(pick(self.columns), script.relation(self.child, version, keys)).distinct(copy=False)

    def delta(self, script: Script) -> exp.Query | None:
        return script.recompute(self, self.touched(script))

    def touched(self, script: Script) -> Keys | None:
        """The rows that a change of the input touches."""
        changes = script.changes(self.child)
        return script.keys(changes, [c.ref for c in self.columns]) if changes is not None and self.columns else None

    def pruned(self, live: set[str]) -> Operator:
        live |= set(self.child.names)
        return replace(self, child=self.child.pruned(live))
