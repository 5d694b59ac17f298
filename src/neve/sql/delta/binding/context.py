"""What one analysis knows and collects: sources, the names it hands out, the reasons against following changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from neve.errors import InvalidQuery
from neve.model.delta import QueryReason
from neve.model.names import TableName
from neve.model.types import Field, Type
from neve.sql.delta.columns import Column, Names

Schema = tuple[Field, ...]


class NoRule(Exception):
    """The query holds something that cannot be turned into operators; its reason is noted already."""


@dataclass(slots=True)
class Context:
    """Everything that binding shares; `text` is what positions count in, `view` the view that is being read."""

    text: str
    schemas: Mapping[TableName, Schema]
    views: Mapping[TableName, str]
    names: Names = field(default_factory=Names)
    reasons: list[QueryReason] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)
    view: str | None = None
    deterministic: frozenset[str] = frozenset()

    def new(self, *wishes: str, kind: Type | None = None, nullable: bool = True, exact: bool = True) -> Column:
        """A column with a name of its own."""
        made = Column(self.names.fresh(*wishes), kind, nullable, exact)
        self.columns[made.name] = made
        return made

    def refuse(self, code: str, detail: str, node: exp.Expr | None) -> None:
        """Notes why the query cannot follow changes; once for each place."""
        line, column = self.place(node)
        said = detail if self.view is None else f"in view {self.view}: {detail}"
        reason = QueryReason(code=code, detail=said, line=line, column=column)
        if reason not in self.reasons:
            self.reasons.append(reason)

    def no_rule(self, code: str, detail: str, node: exp.Expr | None) -> NoRule:
        """Notes the reason; to be raised where nothing can be built at all."""
        self.refuse(code, detail, node)
        return NoRule(detail)

    def invalid(self, message: str, node: exp.Expr | None, *, hint: str | None = None) -> InvalidQuery:
        """An error in the text, with its place."""
        return InvalidQuery(f"{message}{self.where(node)}", hint=hint)

    def where(self, node: exp.Expr | None) -> str:
        """The place of a node, as errors end with it."""
        line, column = self.place(node)
        at = "" if line is None else f" (line {line}, column {column})"
        return at if self.view is None else f" in view {self.view}"

    def place(self, node: exp.Expr | None) -> tuple[int | None, int | None]:
        """Line and column of a node, from 1: of its first word that the parser has marked."""
        if node is None or self.view is not None:
            return None, None
        starts = [int(n.meta["start"]) for n in node.walk() if n.meta.get("start") is not None]
        if not starts:
            return None, None
        before = self.text[: min(starts)]
        return before.count("\n") + 1, len(before) - before.rfind("\n")
