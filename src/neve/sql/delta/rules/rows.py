"""Row by row: projection, filter. Linear, so the same step over the changes gives the changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.clock import CLOCK, at_moment, is_timed
from neve.sql.delta.columns import Column, conjuncts, names_in, wrapped
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import pick, select, union_all, weighed


@dataclass(frozen=True, slots=True, eq=False)
class Project(Operator):
    """Expressions over each row."""

    rule = "projection"
    child: Operator
    outputs: tuple[tuple[Column, exp.Expr], ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c, _ in self.outputs)

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.child.expands

    @property
    def light(self) -> bool:
        return self.child.light

    @property
    def title(self) -> str:
        return f"project {', '.join(self.names)}"

    @property
    def why(self) -> str:
        return "each row stands for itself: Δ(project R) = project ΔR"

    @property
    def values(self) -> dict[str, exp.Expr]:
        return {c.name: e for c, e in self.outputs}

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        below = None if keys is None else keys.through(self.values)
        return script.projected(script.rows(self.child, version, below), self._items())

    def delta(self, script: Script) -> exp.Query | None:
        query = script.delta(self.child)
        return None if query is None else script.projected(query, self._items(), weight=True)

    def pruned(self, live: set[str]) -> Operator:
        kept = tuple((c, e) for c, e in self.outputs if c.name in live)
        for _, expression in kept:
            live |= names_in(expression)
        return replace(self, outputs=kept, child=self.child.pruned(live))

    def _items(self) -> list[tuple[str, exp.Expr]]:
        return [(c.name, e) for c, e in self.outputs]


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Operator):
    """The rows for which a condition is true."""

    rule = "filter"
    child: Operator
    condition: exp.Expr

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.child,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    @property
    def expands(self) -> bool:  # type: ignore[override]
        return self.child.expands

    @property
    def light(self) -> bool:
        return self.child.light

    @property
    def title(self) -> str:
        return f"filter {' AND '.join(c.sql('spark') for c in conjuncts(self.condition))}"

    @property
    def why(self) -> str:
        if self.timed:
            return "changed rows pass by the new moment; of the others those whose passing time has turned"
        return "each row passes or not by itself: Δ(filter R) = filter ΔR"

    @property
    def timed(self) -> bool:
        return is_timed(self.condition)

    @property
    def sources(self) -> frozenset[str]:
        return self.child.sources | ({CLOCK} if self.timed else frozenset())

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        return script.filtered(script.rows(self.child, version, keys), self.columns, self._at(script, version))

    def delta(self, script: Script) -> exp.Query | None:
        query = script.delta(self.child)
        now = self._at(script, Version.NEW)
        terms = [] if query is None else [script.filtered(query, self.columns, now, weight=True)]
        if self.timed and CLOCK in script.changed:
            terms += self._passing(script)
        return union_all(terms) if terms else None

    def _at(self, script: Script, version: Version) -> exp.Expr:
        return at_moment(self.condition, script.moment(version))

    def _passing(self, script: Script) -> list[exp.Query]:
        """Rows that stayed while time went on, and pass now but did not, or did and do not."""
        before, after = self._at(script, Version.OLD), self._at(script, Version.NEW)
        rows = script.relation(self.child, Version.OLD)
        terms: list[exp.Query] = []
        for holds, held, weight in ((after, before, 1), (before, after, -1)):
            flipped = exp.and_(wrapped(holds), exp.not_(exp.func("coalesce", held.copy(), exp.false())))
            terms.append(weighed(select(pick(self.columns), rows, flipped), weight))
        return terms

    def pruned(self, live: set[str]) -> Operator:
        live |= names_in(self.condition)
        return replace(self, child=self.child.pruned(live))
