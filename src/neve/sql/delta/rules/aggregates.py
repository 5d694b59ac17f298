"""GROUP BY: groups that a change touches are computed anew, as they were and as they are.

Right for every aggregate. Where the query's result is itself grouped so, `state` does better: it reads the old groups
off the stored table, and adds up what can be added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import ONE, items, named, select

Call = tuple[Column, exp.Expr]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Operator):
    """One row per distinct key, NULL being a key; without keys one row, also over nothing."""

    rule = "affected groups"
    expands = True
    child: Operator
    keys: tuple[Column, ...]
    calls: tuple[Call, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(c for c, _ in self.calls))

    @property
    def title(self) -> str:
        by = f" by {', '.join(c.name for c in self.keys)}" if self.keys else ""
        return f"aggregate {', '.join(e.sql('spark') for _, e in self.calls) or 'nothing'}{by}"

    @property
    def why(self) -> str:
        if not self.keys:
            return "one group: computed before and after"
        return "groups that a change touches are computed before and after"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        below = None if keys is None else keys.within(c.name for c in self.keys)
        exact = keys is None or (below is not None and len(below.pairs) == len(keys.pairs))
        grouped = self._select(script.relation(self.child, version, below))
        if exact or keys is None:
            return grouped
        return script.filtered(grouped, self.columns, keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        keys = self.touched(script)
        query = script.recompute(self, keys)
        return query if keys is None else script.bounded(query, keys.relation)

    def touched(self, script: Script) -> Keys | None:
        """The groups that a change of the input touches."""
        changes = script.changes(self.child)
        return script.keys(changes, [c.ref for c in self.keys]) if changes is not None and self.keys else None

    def pruned(self, live: set[str]) -> Operator:
        kept = tuple((c, e) for c, e in self.calls if c.name in live)
        live |= {c.name for c in self.keys}
        for _, expression in kept:
            live |= names_in(expression)
        return replace(self, calls=kept, child=self.child.pruned(live))

    def _select(self, relation: str) -> exp.Query:
        pairs = [*((c.name, c.ref) for c in self.keys), *((c.name, e) for c, e in self.calls)]
        if not pairs:
            return select([named(ONE, exp.Count(this=exp.Star()))], relation)
        return select(items(pairs), relation).group_by(*(c.ref for c in self.keys), copy=False)
