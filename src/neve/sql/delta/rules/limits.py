"""ORDER BY … LIMIT: the first rows before and after. All columns break ties, so that two evaluations agree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.rules.windows import tie_breaks
from neve.sql.delta.script import Script
from neve.sql.delta.selects import pick, select


@dataclass(frozen=True, slots=True, eq=False)
class Limit(Operator):
    """The first `count` rows of an order, after `offset` rows."""

    rule = "first rows"
    expands = True
    child: Operator
    order: tuple[exp.Expr, ...]
    count: exp.Expr | None
    offset: exp.Expr | None

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    @property
    def title(self) -> str:
        count = "" if self.count is None else f" limit {self.count.sql('spark')}"
        offset = "" if self.offset is None else f" offset {self.offset.sql('spark')}"
        return f"order by {', '.join(o.sql('spark') for o in self.order)}{count}{offset}"

    @property
    def why(self) -> str:
        return "the first rows are taken before and after, and compared"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        ordered = select(pick(self.columns), script.relation(self.child, version))
        ordered.set("order", exp.Order(expressions=[*(o.copy() for o in self.order), *tie_breaks(self.columns)]))
        if self.count is not None:
            ordered.set("limit", exp.Limit(expression=self.count.copy()))
        if self.offset is not None:
            ordered.set("offset", exp.Offset(expression=self.offset.copy()))
        if keys is None:
            return select(pick(self.columns), script.name(ordered, "first_rows"))
        return select(pick(self.columns), script.name(ordered, "first_rows"), keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        return script.recompute(self, None)

    def touched(self, script: Script) -> Keys | None:  # noqa: ARG002
        """Any change may touch all of it: there are no keys."""
        return None

    def pruned(self, live: set[str]) -> Operator:
        for item in self.order:
            live |= names_in(item)
        return replace(self, child=self.child.pruned(live))
