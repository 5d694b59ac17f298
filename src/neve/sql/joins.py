"""Tables joined, as document 003 says it: one relation whose rows are those of the first, with a struct for each other.

So what is asked of a joined row is asked as of any other: `orders.amount` is a field of a struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from neve.errors import ColumnNotFound, InvalidInput, nearest
from neve.model.ingest import is_hidden
from neve.model.queries import Join, JoinOn
from neve.model.types import Field, Struct
from neve.sql.cleaning import words
from neve.sql.records import COMPARED, DELETED_AT

_BASE, _ROWS = "_neve_base", "_neve_joined"


@dataclass(frozen=True, slots=True)
class Side:
    """A table by its quoted name, and its columns."""

    table: str
    columns: tuple[Field, ...]

    @property
    def shown(self) -> tuple[Field, ...]:
        return tuple(column for column in self.columns if not is_hidden(column.name))


def joined_columns(base: Side, joins: Sequence[tuple[Join, Side]]) -> tuple[Field, ...]:
    """The columns of the relation."""
    taken = {column.name.casefold() for column in base.columns}
    for join, _ in joins:
        if join.name.casefold() in taken:
            raise InvalidInput(f"join: something is called {join.name} already", hint="give it another alias")
        taken.add(join.name.casefold())
    return (*base.columns, *(Field(join.name, Struct(side.shown)) for join, side in joins))


def joined(base: Side, joins: Sequence[tuple[Join, Side]], *, include_deleted: bool) -> exp.Expr:
    """The relation itself. Rows that are deleted softly are left out before they could match."""
    own = [(column.name, _column(_BASE, column.name)) for column in base.columns]
    others = [
        (join.name, words.call("NAMED_STRUCT", *_fields(f"_neve_side_{place}", side)))
        for place, (join, side) in enumerate(joins)
    ]
    found = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in (*own, *others)))
    found = found.from_(_rows(base, include_deleted=include_deleted).subquery(_BASE))
    known = {"": (_BASE, base)}
    for place, (join, side) in enumerate(joins):
        alias = f"_neve_side_{place}"
        rows = _rows(side, include_deleted=include_deleted).subquery(alias)
        terms = [_term(on, known, alias, side, f"join[{place}].on[{i}]") for i, on in enumerate(join.on)]
        on = reduce(lambda left, right: exp.And(this=left, expression=right), terms) if terms else None
        found = found.join(rows, on=on, join_type=join.type)
        known[join.name] = (alias, side)
    return found.subquery(_ROWS)


def _rows(side: Side, *, include_deleted: bool) -> exp.Select:
    found = exp.select("*").from_(exp.to_table(side.table, dialect="spark"))
    if include_deleted or all(column.name != DELETED_AT for column in side.columns):
        return found
    return found.where(exp.Is(this=words.name(DELETED_AT), expression=exp.Null()))


def _fields(alias: str, side: Side) -> list[exp.Expr]:
    return [part for column in side.shown for part in (words.text(column.name), _column(alias, column.name))]


def _column(alias: str, name: str) -> exp.Expr:
    words.name(name)  # refuses what Spark would replace
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def _term(on: JoinOn, known: dict[str, tuple[str, Side]], alias: str, side: Side, where: str) -> exp.Expr:
    """`left_field` is one of the first table, or of a table that was joined before: `orders.id`."""
    before, _, rest = on.left_field.partition(".")
    source, own = known.get(before, known[""]) if rest else known[""]
    left = rest if own is not known[""][1] else on.left_field
    _check(left, own, f"{where}.left_field")
    _check(on.right_field, side, f"{where}.right_field")
    return COMPARED[on.operator](this=_column(source, left), expression=_column(alias, on.right_field))


def _check(name: str, side: Side, where: str) -> None:
    known = [column.name for column in side.shown]
    if name not in known:
        raise ColumnNotFound(f"{where}: there is no field {name}", hint=nearest(name, known))
