"""What a rule must answer: an operator's rows at a version, and how they change when its inputs do.

An operator's changes are a Z-set: its columns and a weight (`_w`), rows added and rows taken away. They need not be
net: a row may come with +1 and again with −1. Whoever reads them sums, or only asks which rows are touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.sql.delta.columns import Column, column, names_in, relation, substitute, wrapped

if TYPE_CHECKING:
    from neve.sql.delta.script import Script


class Version(StrEnum):
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Keys:
    """The rows to touch: those whose expressions equal, NULL being a value, some row of a relation of distinct keys."""

    relation: str
    pairs: tuple[tuple[exp.Expr, str], ...]

    def within(self, names: Iterable[str]) -> Keys | None:
        """The part that speaks of these columns only: a weaker condition, or None when nothing is left."""
        known = set(names)
        pairs = tuple((expression, key) for expression, key in self.pairs if names_in(expression) <= known)
        return Keys(self.relation, pairs) if pairs else None

    def through(self, values: dict[str, exp.Expr]) -> Keys:
        """The same keys, spoken of in terms of the columns below."""
        return Keys(self.relation, tuple((substitute(expression, values), key) for expression, key in self.pairs))

    @property
    def condition(self) -> exp.Expr:
        """Whether a row is to be touched."""
        same = [exp.NullSafeEQ(this=column(key), expression=wrapped(e)) for e, key in self.pairs]
        one = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=relation(self.relation)))
        one.set("where", exp.Where(this=exp.and_(*same, copy=False)))
        return exp.Exists(this=one)


class Operator(ABC):
    """A node of the query, with the rule for its kind."""

    rule: str = ""
    """The rule's name, as `explain` prints it."""

    expands = False
    """Whether the changes may hold many rows that cancel, so that a reader does well to net them first."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Operator, ...]: ...

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]: ...

    @abstractmethod
    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        """All rows at a version, or exactly those that the keys name. Ask through `Script.rows`."""

    @abstractmethod
    def delta(self, script: Script) -> exp.Query | None:
        """The changes as columns and `_w`, or None when there cannot be any. Ask through `Script.delta`."""

    @abstractmethod
    def pruned(self, live: set[str]) -> Operator:
        """The operator without columns that nobody above reads; adds to `live` what it reads itself."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What stands in the query, for `explain`."""

    @property
    def why(self) -> str:
        """Why the rule is right, in one clause, for `explain`."""
        return ""

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    @property
    def sources(self) -> frozenset[str]:
        """The tables below; changes of others cannot reach this operator."""
        return frozenset().union(*(item.sources for item in self.inputs))

    @property
    def light(self) -> bool:
        """Whether its rows are read straight off a table, so that a join prunes them as well as keys would."""
        return False

    def walk(self) -> Iterator[Operator]:
        yield self
        for item in self.inputs:
            yield from item.walk()


def rename(pairs: Iterable[tuple[Column, Column]]) -> dict[str, exp.Expr]:
    """For each column above, the column below that it stands for."""
    return {above.name: below.ref for above, below in pairs}
