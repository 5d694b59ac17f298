"""SELECTs out of parts. A SELECT that only picks columns and filters takes the next step into itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from neve.sql.delta.columns import WEIGHT, Column, column, relation, substitute

_FUSES = {"expressions", "from_", "where"}
ONE = "_one"
Item = tuple[str, exp.Expr]


def pick(columns: Iterable[Column], *, weight: bool = False) -> list[exp.Expr]:
    """The columns by their names, and the weight; something to select when there are none."""
    selected: list[exp.Expr] = [c.ref for c in columns]
    if weight:
        selected.append(column(WEIGHT))
    return selected or [named(ONE, exp.Literal.number(1))]


def items(pairs: Iterable[Item], *, weight: bool = False) -> list[exp.Expr]:
    """Named expressions, and the weight; something to select when there are none."""
    selected = [named(name, value) for name, value in pairs]
    if weight:
        selected.append(column(WEIGHT))
    return selected or [named(ONE, exp.Literal.number(1))]


def named(name: str, value: exp.Expr) -> exp.Expr:
    """`value AS name`, or just the column when it has that name already."""
    if isinstance(value, exp.Column) and value.name == name and not value.table:
        return value.copy()
    return exp.Alias(this=value.copy(), alias=exp.Identifier(this=name, quoted=True))


def select(selected: Sequence[exp.Expr], source: str, condition: exp.Expr | None = None) -> exp.Select:
    """SELECT … FROM … [WHERE …]."""
    built = exp.Select(expressions=list(selected), from_=exp.From(this=relation(source)))
    if condition is not None:
        built.set("where", exp.Where(this=condition))
    return built


def meanings(query: exp.Query) -> dict[str, exp.Expr] | None:
    """What each column of a SELECT stands for, when a step on top may speak of that instead; else None."""
    if not isinstance(query, exp.Select) or any(v for k, v in query.args.items() if k not in _FUSES):
        return None
    found = {item.alias_or_name: item.unalias() for item in query.expressions}
    return found if all(isinstance(value, exp.Column) for value in found.values()) else None


def fused(query: exp.Select, known: dict[str, exp.Expr], selected: Sequence[exp.Expr]) -> exp.Select:
    """The SELECT with other columns, told in terms of its own."""
    built = query.copy()
    built.set("expressions", [_named_again(item, known) for item in selected])
    return built


def _named_again(item: exp.Expr, known: dict[str, exp.Expr]) -> exp.Expr:
    return named(item.alias_or_name, substitute(item.unalias(), known))


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """All rows of all queries."""
    built = queries[0].copy()
    for query in queries[1:]:
        built = exp.Union(this=built, expression=query.copy(), distinct=False)
    return built


def weighed(query: exp.Query, weight: int) -> exp.Select:
    """A SELECT with a weight of its own."""
    if not isinstance(query, exp.Select):
        raise TypeError("name the query first")
    return _with_weight(query, number(weight))


def weighed_items(pairs: Iterable[Item], weight: exp.Expr) -> list[exp.Expr]:
    """Named expressions and a weight, which is enough to select when there are none."""
    return [*(named(name, value) for name, value in pairs), named(WEIGHT, weight)]


def _with_weight(query: exp.Select, weight: exp.Expr) -> exp.Select:
    """What stood there only to select something makes room, so that every term of a sum has the same columns."""
    return query.select(named(WEIGHT, weight), append=query.expressions != [named(ONE, exp.Literal.number(1))])


def number(value: int) -> exp.Expr:
    """A whole number as it is written."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def total(value: exp.Expr) -> exp.Expr:
    return exp.Sum(this=value)


def exists(query: str, condition: exp.Expr) -> exp.Exists:
    """EXISTS (SELECT 1 FROM … WHERE …)."""
    return exp.Exists(this=select([exp.Literal.number(1)], query, condition.copy()))
