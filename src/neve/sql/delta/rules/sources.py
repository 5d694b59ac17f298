"""Leaves: tables, whose changes are given, and constant rows, which never change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from neve.sql.delta.columns import WEIGHT, Column, column
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Kind, Script
from neve.sql.delta.selects import items, named, pick, select


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Operator):
    """A table; each column with its name in the table."""

    rule = "source"
    source: str
    fields: tuple[tuple[Column, str], ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c, _ in self.fields)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset({self.source})

    @property
    def light(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"table {self.source}"

    @property
    def why(self) -> str:
        return "its net changes between two snapshots are given"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:
        plain = self._select(script, "new" if version is Version.NEW else "old")
        return script.filtered(plain, self.columns, None if keys is None else keys.condition)

    def delta(self, script: Script) -> exp.Query | None:
        return self._select(script, "delta")

    def pruned(self, live: set[str]) -> Operator:
        return replace(self, fields=tuple((c, name) for c, name in self.fields if c.name in live))

    def _select(self, script: Script, kind: Kind) -> exp.Select:
        relation = script.read(self.source, kind, [name for _, name in self.fields])
        picked = items([(c.name, column(name, relation)) for c, name in self.fields])
        if kind != "delta":
            return select(picked, relation)
        weight = column(WEIGHT, relation)
        return select([*(picked if self.fields else []), named(WEIGHT, weight)], relation)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Operator):
    """VALUES, or the one row of a SELECT without FROM."""

    rule = "constant"
    fields: tuple[Column, ...]
    tuples: tuple[tuple[exp.Expr, ...], ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.fields

    @property
    def light(self) -> bool:
        return True

    @property
    def title(self) -> str:
        return f"{len(self.tuples)} constant row{'s'[: len(self.tuples) != 1]}"

    @property
    def why(self) -> str:
        return "it never changes"

    def rows(self, script: Script, version: Version, keys: Keys | None) -> exp.Query:  # noqa: ARG002
        if not self.fields:
            return exp.select("1 AS _one")
        values = exp.values([tuple(v.copy() for v in row) for row in self.tuples], alias="v", columns=self.names)
        for identifier in values.args["alias"].columns:
            identifier.set("quoted", True)
        plain = exp.Select(expressions=pick(self.fields), from_=exp.From(this=values))
        if keys is None:
            return plain
        return select(pick(self.fields), script.name(plain, "constants"), keys.condition)

    def delta(self, script: Script) -> exp.Query | None:  # noqa: ARG002
        return None

    def pruned(self, live: set[str]) -> Operator:  # noqa: ARG002
        return self
