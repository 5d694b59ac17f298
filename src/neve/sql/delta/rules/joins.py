"""Joins of two inputs. More inputs are joins of joins, and the terms telescope by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from sqlglot import exp

from neve.sql.delta.columns import WEIGHT, Column, column, conjuncts, names_in, relation
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import pick, select, union_all, weighed_items
from neve.sql.delta.touch import equalities, flips, matched, transferred


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


_RULES = {
    JoinKind.INNER: ("join terms", "Δ(A⋈B) = ΔA⋈B_old + A_new⋈ΔB"),
    JoinKind.LEFT: ("outer join terms", "Δ(A⟕B) = Δ(A⋈B) + rows of A that lost or found their match, padded"),
    JoinKind.RIGHT: ("outer join terms", "Δ(A⟖B) = Δ(A⋈B) + rows of B that lost or found their match, padded"),
    JoinKind.FULL: ("outer join terms", "Δ(A⋈B) + rows of either side that lost or found their match, padded"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Join(Operator):
    """An inner, left, right or full join on any condition; a cross join has TRUE."""

    kind: JoinKind
    left: Operator
    right: Operator
    condition: exp.Expr

    @property
    def rule(self) -> str:  # type: ignore[override]
        return _RULES[self.kind][0]

    @property
    def why(self) -> str:
        return _RULES[self.kind][1]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left_columns, *self.right_columns)

    @property
    def left_columns(self) -> tuple[Column, ...]:
        padded = self.kind in (JoinKind.RIGHT, JoinKind.FULL)
        return tuple(replace(c, nullable=True) for c in self.left.columns) if padded else self.left.columns

    @property
    def right_columns(self) -> tuple[Column, ...]:
        padded = self.kind in (JoinKind.LEFT, JoinKind.FULL)
        return tuple(replace(c, nullable=True) for c in self.right.columns) if padded else self.right.columns

    @property
    def title(self) -> str:
        on = "" if isinstance(self.condition, exp.Boolean) else f" on {self.condition.sql('spark')}"
        return f"{'cross' if not on and self.kind is JoinKind.INNER else self.kind} join{on}"

    def pruned(self, live: set[str]) -> Operator:
        live |= names_in(self.condition)
        return replace(self, left=self.left.pruned(live), right=self.right.pruned(live))

    # ------------------------------------------------------------------------------------------------------- rows

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        left_keys, right_keys, exact = self._split(keys)
        left = script.relation(self.left, version, left_keys)
        right = script.relation(self.right, version, right_keys)
        joined = self._select(left, right, self.kind)
        if keys is None or exact:
            return joined
        return select(pick(self.columns), script.name(joined, "joined"), keys.condition)

    def _split(self, keys: Keys | None) -> tuple[Keys | None, Keys | None, bool]:
        """The keys for either side, and whether they name exactly the wanted rows of the join."""
        if keys is None or self.kind is JoinKind.FULL:
            return None, None, keys is None
        left, right = keys.within(self.left.names), keys.within(self.right.names)
        if self.kind is JoinKind.LEFT:
            right = None
        if self.kind is JoinKind.RIGHT:
            left = None
        whole = left if left is not None and len(left.pairs) == len(keys.pairs) else right
        exact = whole is not None and len(whole.pairs) == len(keys.pairs)
        to_right = None if left is None else transferred(left, equalities(self.condition, self.left, self.right))
        to_left = None if right is None else transferred(right, equalities(self.condition, self.right, self.left))
        return _both(left, to_left), _both(right, to_right), exact

    # ---------------------------------------------------------------------------------------------------- changes

    def delta(self, script: Script) -> exp.Query | None:
        terms = self._matches(script)
        if self.kind in (JoinKind.LEFT, JoinKind.FULL):
            terms += self._padded(script, self.left, self.right)
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            terms += self._padded(script, self.right, self.left)
        return union_all(terms) if terms else None

    def _matches(self, script: Script) -> list[exp.Query]:
        """ΔA⋈B_old + A_new⋈ΔB. With B_new in the first term, rows new on both sides would count twice."""
        left, right = script.changes(self.left), script.changes(self.right)
        terms: list[exp.Query] = []
        if left is not None:
            old = matched(script, self.right, Version.OLD, equalities(self.condition, self.left, self.right), left)
            terms.append(self._select(left, old, JoinKind.INNER, weight=True))
        if right is not None:
            new = matched(script, self.left, Version.NEW, equalities(self.condition, self.right, self.left), right)
            terms.append(self._select(new, right, JoinKind.INNER, weight=True))
        return terms

    def _padded(self, script: Script, kept: Operator, other: Operator) -> list[exp.Query]:
        """Changes of the rows without a match: new or gone without one, or their match came or went."""
        pairs = [(c.name, c.ref if c in kept.columns else exp.null()) for c in self.columns]
        found = flips(script, kept, other, self.condition, anti=True)
        return [select(weighed_items(pairs, column(WEIGHT)), script.name(query, "unmatched")) for query in found]

    def _select(self, left: str, right: str, kind: JoinKind, *, weight: bool = False) -> exp.Select:
        built = select(pick(self.columns, weight=weight), left)
        if kind is JoinKind.INNER and not conjuncts(self.condition):
            return built.join(relation(right), join_type="cross", copy=False)
        return built.join(relation(right), on=self.condition.copy(), join_type=kind.value, copy=False)


def _both(own: Keys | None, given: Keys | None) -> Keys | None:
    """Keys of the side itself; else those that the other side's keys imply through the condition."""
    return own if own is not None else given
