"""explode and its kin: rows out of one row. Linear, so the same step over the changes gives the changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import pick, select


@dataclass(frozen=True, slots=True, eq=False)
class Generate(Operator):
    """Each row with every row that a generator makes of it; `outer`: with NULLs where it makes none."""

    rule = "generator"
    child: Operator
    call: exp.Expr
    outer: bool
    made: tuple[Column, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.made)

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.child.expands

    @property
    def title(self) -> str:
        return f"generate {self.call.sql('spark')}"

    @property
    def why(self) -> str:
        return "each row stands for itself, whatever it makes"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        below = None if keys is None else keys.within(self.child.names)
        exact = keys is None or (below is not None and len(below.pairs) == len(keys.pairs))
        made = self._select(script.relation(self.child, version, below))
        return made if exact or keys is None else script.filtered(made, self.columns, keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        query = script.delta(self.child)
        return None if query is None else self._select(script.name(query, "generate_delta"), weight=True)

    def pruned(self, live: set[str]) -> Operator:
        live |= names_in(self.call)
        return replace(self, child=self.child.pruned(live))

    def _select(self, relation: str, *, weight: bool = False) -> exp.Select:
        names = [exp.to_identifier(c.name, quoted=True) for c in self.made]
        alias = exp.TableAlias(this=exp.to_identifier("made"), columns=names)
        lateral = exp.Lateral(this=self.call.copy(), view=True, outer=self.outer, alias=alias)
        built = select(pick(self.columns, weight=weight), relation)
        built.set("laterals", [lateral])
        return built
