"""Columns and names inside a query: every column has one name that no other column of the query has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from neve.model.types import Type

WEIGHT = "_w"
HIDDEN = "_neve_"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as operators know it.

    `exact` is False when two evaluations over the same rows may differ, as sums of floats do in the last digit and
    `collect_list` in its order: such a column must not decide which row is meant.
    """

    name: str
    type: Type | None = field(default=None, compare=False)
    nullable: bool = field(default=True, compare=False)
    exact: bool = field(default=True, compare=False)

    @property
    def ref(self) -> exp.Column:
        return column(self.name)


class Names:
    """Hands out names, each once, as close as can be to what was wished for; case does not tell names apart."""

    def __init__(self, taken: Iterable[str] = (WEIGHT,)) -> None:
        self._taken = {name.lower() for name in taken}

    def fresh(self, *wishes: str) -> str:
        """The first wish that is free, or the last one with a number.

        >>> names = Names()
        >>> names.fresh("id"), names.fresh("id", "o_id"), names.fresh("ID")
        ('id', 'o_id', 'ID_2')
        """
        for wish in wishes:
            if wish.lower() not in self._taken:
                return self._take(wish)
        number = 2
        while f"{wishes[-1]}_{number}".lower() in self._taken:
            number += 1
        return self._take(f"{wishes[-1]}_{number}")

    def _take(self, name: str) -> str:
        self._taken.add(name.lower())
        return name

    def copy(self) -> Names:
        """The same names taken: what one derivation adds, the next does not see."""
        return Names(self._taken)


def column(name: str, table: str | None = None) -> exp.Column:
    """A reference, quoted, so that any name will do."""
    qualifier = {"table": exp.Identifier(this=table, quoted=True)} if table else {}
    return exp.Column(this=exp.Identifier(this=name, quoted=True), **qualifier)


def relation(name: str) -> exp.Table:
    """A reference to a relation that the text itself names."""
    return exp.Table(this=exp.Identifier(this=name, quoted=False))


def names_in(expression: exp.Expr) -> set[str]:
    """The columns that an expression speaks of."""
    return {found.name for found in expression.find_all(exp.Column)}


def substitute(expression: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with columns replaced by what they stand for; the rest is a copy of its own."""
    if isinstance(expression, exp.Column):
        return values[expression.name].copy() if expression.name in values else expression.copy()
    copied = expression.copy()
    for found in list(copied.find_all(exp.Column)):
        if found.name in values:
            found.replace(wrapped(values[found.name]))
    return copied


def wrapped(value: exp.Expr) -> exp.Expr:
    """A copy that may stand beside any operator: in brackets where it is more than a name or a call."""
    copied = value.copy()
    loose = isinstance(copied, exp.Binary | exp.Unary | exp.Between | exp.In)
    return exp.Paren(this=copied) if loose and not isinstance(copied, exp.Dot | exp.Paren) else copied


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that all must hold."""
    if condition is None:
        return []
    inner = condition.unnest()
    return [*conjuncts(inner.left), *conjuncts(inner.right)] if isinstance(inner, exp.And) else [inner]


def conjunction(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """One condition out of many; TRUE out of none."""
    parts = [exp.paren(c) if isinstance(c, exp.Or) else c for c in conditions]
    return exp.and_(*parts) if parts else exp.true()
