"""Does a row have a partner? Semi- and anti-joins (EXISTS, IN and their negations), and the answer as a column."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import Column, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import Item, exists, items, number, pick, select, union_all, weighed_items
from neve.sql.delta.touch import equalities, flipped, flips, matched, transferred


def _far_keys(keys: Keys | None, condition: exp.Expr, left: Operator, right: Operator) -> Keys | None:
    """What the keys of the left rows imply for the rows that they look for."""
    return None if keys is None or right.light else transferred(keys, equalities(condition, left, right))


@dataclass(frozen=True, slots=True, eq=False)
class Semi(Operator):
    """The left rows that have a partner on the right; `anti`: those that have none."""

    left: Operator
    right: Operator
    condition: exp.Expr
    anti: bool = False

    @property
    def rule(self) -> str:  # type: ignore[override]
        return "anti-join flips" if self.anti else "semi-join flips"

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns

    @property
    def title(self) -> str:
        return f"{'anti' if self.anti else 'semi'}-join on {self.condition.sql('spark')}"

    @property
    def why(self) -> str:
        return "changed left rows are looked up; of the others only those whose having a partner flipped"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        left = script.rows(self.left, version, keys)
        right = script.relation(self.right, version, _far_keys(keys, self.condition, self.left, self.right))
        has = exists(right, self.condition)
        relation = script.name(left, "kept")
        return select(pick(self.columns), relation, exp.not_(has) if self.anti else has)

    def delta(self, script: Script) -> exp.Query | None:
        terms = flips(script, self.left, self.right, self.condition, anti=self.anti)
        return union_all(terms) if terms else None

    def pruned(self, live: set[str]) -> Operator:
        live |= names_in(self.condition)
        return replace(self, left=self.left.pruned(live), right=self.right.pruned(live))


@dataclass(frozen=True, slots=True, eq=False)
class Mark(Operator):
    """Every left row, with a column that says whether it has a partner on the right."""

    rule = "semi-join flips"
    left: Operator
    right: Operator
    condition: exp.Expr
    mark: Column

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, self.mark)

    @property
    def title(self) -> str:
        return f"has a partner on {self.condition.sql('spark')}"

    @property
    def why(self) -> str:
        return "changed left rows are looked up; of the others only those whose having a partner flipped"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        below = None if keys is None else keys.within(self.left.names)
        exact = keys is None or (below is not None and len(below.pairs) == len(keys.pairs))
        right = script.relation(self.right, version, _far_keys(below, self.condition, self.left, self.right))
        marked = self._marked(script.relation(self.left, version, below), exists(right, self.condition))
        return marked if exact or keys is None else script.filtered(marked, self.columns, keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        terms: list[exp.Query] = []
        changed, met = script.changes(self.left), script.changes(self.right)
        if changed is not None:
            equal = equalities(self.condition, self.left, self.right)
            right = matched(script, self.right, Version.NEW, equal, changed)
            terms.append(self._marked(changed, exists(right, self.condition), weight=True))
        if met is not None:
            rows, had = flipped(script, self.left, self.right, self.condition, met)
            terms += [self._said(rows, had, weight=-1), self._said(rows, exp.not_(had), weight=1)]
        return union_all(terms) if terms else None

    def pruned(self, live: set[str]) -> Operator:
        live |= names_in(self.condition)
        return replace(self, left=self.left.pruned(live), right=self.right.pruned(live))

    def _marked(self, relation: str, has: exp.Expr, *, weight: bool = False) -> exp.Query:
        """Rows with a partner, and rows without. Not EXISTS as a column: Spark 4.1 fails on that over a UNION."""
        sides = [
            select(items([*self._kept(), (self.mark.name, exp.Boolean(this=found))], weight=weight), relation, test)
            for found, test in ((True, has), (False, exp.not_(has)))
        ]
        return union_all(sides)

    def _kept(self) -> list[Item]:
        return [(c.name, c.ref) for c in self.left.columns]

    def _said(self, relation: str, mark: exp.Expr, *, weight: int) -> exp.Select:
        return select(weighed_items([*self._kept(), (self.mark.name, mark)], number(weight)), relation)
