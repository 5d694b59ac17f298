"""What document 003 asks of rows, as SQL text: names are looked up, values are typed, nothing is pasted together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from sqlglot import exp

from neve.errors import ColumnNotFound, InvalidInput, nearest
from neve.model.ingest import is_hidden
from neve.model.operations import MOST_ROWS, Query
from neve.model.queries import Aggregation, Filter, Projection, Sort
from neve.model.types import Field, Primitive, Struct, Type
from neve.sql.cleaning import words
from neve.sql.columns import parse_type
from neve.sql.literals import literal, plain

Typed = Callable[[Type, Any, str], Any]
"""How a JSON value becomes a value of a type: `plan.records.typed`."""

DELETED_AT = "_neve_deleted_at"
"""When a row was deleted softly; NULL for rows that are there."""

COMPARED: dict[str, type[exp.Binary]] = {
    "eq": exp.EQ,
    "ne": exp.NEQ,
    "gt": exp.GT,
    "gte": exp.GTE,
    "lt": exp.LT,
    "lte": exp.LTE,
}
_FUNCTIONS = {"sum": "SUM", "avg": "AVG", "min": "MIN", "max": "MAX", "median": "MEDIAN", "count": "COUNT"}
_ROWS = "_neve_rows"


class RowSql:
    """The rows of one table as its columns allow to speak of them."""

    def __init__(self, columns: Sequence[Field], typed: Typed) -> None:
        self._columns = tuple(columns)
        self._typed = typed

    @property
    def keeps_deleted(self) -> bool:
        """Whether the table can hold rows that are deleted softly."""
        return any(column.name == DELETED_AT for column in self._columns)

    def condition(self, filters: Sequence[Filter], *, include_deleted: bool = False) -> str:
        """The rows for which all filters hold, as the text of one condition."""
        return self._condition(filters, include_deleted=include_deleted).sql("spark")

    def _condition(self, filters: Sequence[Filter], *, include_deleted: bool) -> exp.Expr:
        terms = [self._term(each, *self._find(each.field), f"filters[{i}].value") for i, each in enumerate(filters)]
        if self.keeps_deleted and not include_deleted:
            terms.append(exp.Is(this=words.name(DELETED_AT), expression=exp.Null()))
        return _all(terms)

    def value(self, name: str, value: Any) -> str:
        """A new value for a column, as the text of an expression."""
        kind = self._find(name)[1]
        return literal(self._typed(kind, value, f"updates.{name}"), kind).sql("spark")

    @staticmethod
    def moment(text: str) -> str:
        """A time, as the text of an expression."""
        return literal(text, Primitive("timestamptz")).sql("spark")

    def select(self, table: str | exp.Expr, query: Query, *, most: int | None = MOST_ROWS + 1) -> str:
        """The query as one statement; of rows that it does not limit, `most`: one more than are answered."""
        grouped = bool(query.aggregations or query.group_by)
        outputs = self._groups(query) if grouped else self._outputs(query)
        _check_answered([name for name, _ in outputs])
        found = exp.select(*(exp.alias_(value, name, quoted=True) for name, value in outputs))
        found = found.from_(exp.to_table(table, dialect="spark") if isinstance(table, str) else table)
        condition = self._condition(query.filters, include_deleted=query.include_deleted)
        found = found.where(condition)
        if query.group_by:
            found = found.group_by(*(self._find(name)[0] for name in query.group_by))
        if query.distinct:
            found = found.distinct()
        names = [name for name, _ in outputs]
        if query.having:
            found = exp.select("*").from_(found.subquery(_ROWS)).where(self._having(query, names))
        for sort in query.sort:
            found = found.order_by(self._sort(sort, names, answered=grouped or query.distinct))
        limit = query.limit or most
        found = found if limit is None else found.limit(limit)
        return (found.offset(query.offset) if query.offset else found).sql("spark")

    def _outputs(self, query: Query) -> list[tuple[str, exp.Expr]]:
        if not query.projection:
            shown = [column.name for column in self._columns if not is_hidden(column.name)]
            return [(name, words.name(name)) for name in shown]
        asked = [Projection(field=each) if isinstance(each, str) else each for each in query.projection]
        return [(each.name, self._projected(each)) for each in asked]

    def _groups(self, query: Query) -> list[tuple[str, exp.Expr]]:
        keys = [(name, self._find(name)[0]) for name in query.group_by]
        return [*keys, *((each.name, self._aggregated(each)) for each in query.aggregations)]

    def _projected(self, asked: Projection) -> exp.Expr:
        found, _ = self._find(asked.field)
        for wanted, function in ((asked.trim, "TRIM"), (asked.lower, "LOWER"), (asked.upper, "UPPER")):
            found = words.call(function, found) if wanted else found
        if asked.substring is not None:
            bounds = [asked.substring.start, asked.substring.length]
            found = words.call("SUBSTRING", found, *(plain(bound) for bound in bounds if bound is not None))
        if asked.date_trunc is not None:
            found = words.call("DATE_TRUNC", plain(asked.date_trunc), found)
        if asked.date_format is not None:
            found = words.call("DATE_FORMAT", found, plain(asked.date_format))
        if asked.extract is not None:
            found = words.call("DATE_PART", plain(asked.extract), found)
        if asked.cast is not None:
            found = exp.Cast(this=found, to=exp.DataType.build(str(parse_type(asked.cast)), dialect="spark"))
        return found

    def _aggregated(self, asked: Aggregation) -> exp.Expr:
        if asked.field is None or asked.counts_rows:
            return exp.Count(this=exp.Star())
        field, _ = self._find(asked.field)
        if asked.function == "percentile":
            return words.call("PERCENTILE", field, exp.Literal.number(repr(asked.percentile_value)))
        return words.call(_FUNCTIONS[asked.function], exp.Distinct(expressions=[field]) if asked.distinct else field)

    def _having(self, query: Query, names: Sequence[str]) -> exp.Expr:
        terms = []
        for index, each in enumerate(query.having):
            if each.field not in names:
                raise ColumnNotFound(
                    f"having[{index}].field: {each.field} is not answered", hint=nearest(each.field, names)
                )
            kind = self._find(each.field)[1] if each.field in query.group_by else None
            terms.append(self._term(each, words.name(each.field), kind, f"having[{index}].value"))
        return _all(terms)

    def _sort(self, sort: Sort, names: Sequence[str], *, answered: bool) -> exp.Expr:
        """By a name of the answer, else by a column of the table."""
        if answered and sort.field not in names:
            raise ColumnNotFound(f"sort: {sort.field} is not answered", hint=nearest(sort.field, names))
        field = words.name(sort.field) if sort.field in names else self._find(sort.field)[0]
        first = sort.nulls_first if sort.nulls_first is not None else sort.order == "asc"
        return exp.Ordered(this=field, desc=sort.order == "desc", nulls_first=first)

    def _term(self, asked: Filter, field: exp.Expr, kind: Type | None, where: str) -> exp.Expr:
        if asked.value is None:
            nothing = exp.Is(this=field, expression=exp.Null())
            return nothing if asked.operator == "eq" else exp.Not(this=nothing)
        if asked.operator == "like":
            return exp.Like(this=field, expression=words.text(asked.value))
        if asked.operator == "in":
            return exp.In(this=field, expressions=[self._value(item, kind, where) for item in asked.value])
        compared: exp.Expr = COMPARED[asked.operator](this=field, expression=self._value(asked.value, kind, where))
        return compared

    def _value(self, value: Any, kind: Type | None, where: str) -> exp.Expr:
        """As the field's type. A number is compared as it is where the field could not hold it, and so is what an
        aggregation made."""
        number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if kind is not None and not (number and _is_exact(kind)):
            return literal(self._typed(kind, value, where), kind)
        if number:
            exact = exp.Literal.number(format(Decimal(abs(value)), "f"))
            return exact if value >= 0 else exp.Neg(this=exact)
        if isinstance(value, dict | list):
            raise InvalidInput(f"{where}: one value is compared with")
        return plain(value)

    def _find(self, path: str) -> tuple[exp.Expr, Type]:
        """A column, or a field of a struct behind dots, spelled as the table spells it."""
        fields, parts, rest = self._columns, [], path
        while True:
            known = {field.name: field for field in fields if not field.name.startswith("_neve")}
            name = rest if rest in known else rest.partition(".")[0]
            if name not in known:
                raise ColumnNotFound(f"there is no field {path}", hint=nearest(rest, known) or _names(known))
            parts.append(name)
            kind, rest = known[name].type, rest[len(name) + 1 :]
            if not rest:
                return words.name(*parts), kind
            if not isinstance(kind, Struct):
                raise ColumnNotFound(f"there is no field {path}: {'.'.join(parts)} is a {kind}")
            fields = kind.fields


def _all(terms: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda left, right: exp.And(this=left, expression=right), terms) if terms else exp.true()


def _is_exact(kind: Type) -> bool:
    return isinstance(kind, Primitive) and kind.name.startswith(("int", "long", "decimal"))


def _names(known: Iterable[str]) -> str:
    return f"there are {', '.join(known)}"


def _check_answered(names: Sequence[str]) -> None:
    """Names of the answer, which callers may choose: each once, and none that Spark would replace."""
    seen: set[str] = set()
    for name in names:
        words.name(name)
        if name.casefold() in seen:
            raise InvalidInput(f"two fields of the answer are called {name}", hint="give one of them an alias")
        seen.add(name.casefold())
