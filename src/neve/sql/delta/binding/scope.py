"""Which column a name means: relations of a FROM clause, aliases of the select list, the query around a subquery."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from neve.errors import ColumnNotFound, nearest
from neve.sql.delta.binding.context import Context
from neve.sql.delta.columns import Column, wrapped


@dataclass(frozen=True, slots=True)
class Relation:
    """Something in FROM: the parts of its name, and its columns under the names that the query knows."""

    parts: tuple[str, ...]
    fields: tuple[tuple[str, Column], ...]

    def answers(self, qualifier: tuple[str, ...]) -> bool:
        """Whether a qualifier means this relation: the name, or its end."""
        return bool(self.parts) and tuple(p.lower() for p in self.parts[-len(qualifier) :]) == qualifier

    def named(self, name: str) -> list[Column]:
        return [column for own, column in self.fields if own.lower() == name]


@dataclass(slots=True)
class Scope:
    """The names that an expression may use."""

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    outer: Scope | None = None
    reached: set[str] = field(default_factory=set)

    def resolve(self, node: exp.Column, context: Context) -> exp.Expr:
        """What a column's name stands for; names of the query around are noted in `reached`.

        Raises:
            ColumnNotFound: no such column, with the nearest names.
        """
        parts = tuple(part.name.lower() for part in node.parts)
        found = self._find(parts, node, context)
        if found is None and self.outer is not None:
            found = self.outer._find(parts, node, context)
            if found is not None:
                self.reached |= {c.name for c in found.find_all(exp.Column)}
        if found is None and self.outer is not None and self.outer.outer is not None:
            deeper = self.outer.outer._find(parts, node, context)
            if deeper is not None:
                raise context.no_rule("correlated_subquery", f"{node.sql('spark')} is of two queries further out", node)
        if found is None and len(parts) == 1 and parts[0] in self.aliases:
            return wrapped(self.aliases[parts[0]])
        if found is None:
            raise self._missing(node, context)
        return found

    def _find(self, parts: tuple[str, ...], node: exp.Column, context: Context) -> exp.Expr | None:
        for split in range(len(parts) - 1, -1, -1):
            qualifier, name, fields = parts[:split], parts[split], node.parts[split + 1 :]
            column = self._one(qualifier, name, node, context)
            if column is not None:
                return _marked(_with_fields(column, [part.name for part in fields]), node)
        return None

    def _one(self, qualifier: tuple[str, ...], name: str, node: exp.Column, context: Context) -> exp.Expr | None:
        if not qualifier and name in self.merged:
            return self.merged[name].copy()
        among = [r for r in self.relations if not qualifier or r.answers(qualifier)]
        found = [column for relation in among for column in relation.named(name)]
        if len(found) > 1:
            raise context.invalid(
                f"{node.sql('spark')} is ambiguous", node, hint="say which table it is of: table.column"
            )
        return found[0].ref if found else None

    def _missing(self, node: exp.Column, context: Context) -> ColumnNotFound:
        known = [own for relation in self.relations for own, _ in relation.fields] + list(self.aliases)
        hint = nearest(node.name, known) or (f"columns here: {', '.join(known[:12])}" if known else None)
        return ColumnNotFound(f"no column {node.sql('spark')}{context.where(node)}", hint=hint)

    def star(self, qualifier: str | None) -> list[tuple[str, exp.Expr]] | None:
        """What `*` or `table.*` stands for; None when no relation has that name."""
        if qualifier is not None:
            found = [r for r in self.relations if r.answers((qualifier.lower(),))]
            return [(name, c.ref) for relation in found for name, c in relation.fields] if found else None
        shared = [(name, value.copy()) for name, value in self.merged.items()]
        rest = [(n, c.ref) for r in self.relations for n, c in r.fields if c.name not in self.hidden]
        return [*shared, *rest]


def _with_fields(value: exp.Expr, fields: list[str]) -> exp.Expr:
    for name in fields:
        value = exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
    return value


def _marked(value: exp.Expr, node: exp.Column) -> exp.Expr:
    """The value with the place of the word that named it."""
    start = node.parts[0].meta.get("start")
    if start is not None:
        for found in value.find_all(exp.Column):
            found.meta["start"] = start
    return value
