"""Window functions: partitions that a change touches are computed anew, as they were and as they are.

Ties: where the answer depends on which of two peers comes first, all other columns decide, so that two evaluations
agree. Rows that are equal in all columns may change places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.model.types import holds_map
from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import items, select


@dataclass(frozen=True, slots=True, eq=False)
class Window(Operator):
    """Columns computed over the rows with the same partition columns; `tied` names those whose ties must be broken."""

    rule = "affected partitions"
    expands = True
    child: Operator
    partition: tuple[Column, ...]
    calls: tuple[tuple[Column, exp.Window], ...]
    tied: frozenset[str]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(c for c, _ in self.calls))

    @property
    def title(self) -> str:
        return f"window {', '.join(e.sql('spark') for _, e in self.calls)}"

    @property
    def why(self) -> str:
        return "partitions that a change touches are computed before and after"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        below = None if keys is None else keys.within(c.name for c in self.partition)
        exact = keys is None or (below is not None and len(below.pairs) == len(keys.pairs))
        pairs = [*((c.name, c.ref) for c in self.child.columns), *((c.name, self._call(c, e)) for c, e in self.calls)]
        computed = select(items(pairs), script.relation(self.child, version, below))
        return computed if exact or keys is None else script.filtered(computed, self.columns, keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        return script.recompute(self, self.touched(script))

    def touched(self, script: Script) -> Keys | None:
        """The partitions that a change of the input touches."""
        changes = script.changes(self.child)
        return script.keys(changes, [c.ref for c in self.partition]) if changes is not None and self.partition else None

    def pruned(self, live: set[str]) -> Operator:
        kept = tuple((c, e) for c, e in self.calls if c.name in live)
        live |= {c.name for c in self.partition}
        for _, expression in kept:
            live |= names_in(expression)
        return replace(self, calls=kept, child=self.child.pruned(live))

    def _call(self, name: Column, call: exp.Window) -> exp.Expr:
        return with_ties_broken(call, self.child.columns) if name.name in self.tied else call


def with_ties_broken(call: exp.Window, columns: tuple[Column, ...]) -> exp.Window:
    """The call with every column as a further key of its order."""
    broken = call.copy()
    order = broken.args.get("order") or exp.Order(expressions=[])
    broken.set("order", exp.Order(expressions=[*order.expressions, *tie_breaks(columns)]))
    return broken


def tie_breaks(columns: tuple[Column, ...]) -> list[exp.Expr]:
    """Every column that has an order, as a key to sort by."""
    return [exp.Ordered(this=c.ref, nulls_first=True) for c in columns if not holds_map(c.type)]
