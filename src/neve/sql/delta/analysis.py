"""A query, understood: its sources, its result, its operators, and what keeps it from following changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from neve.errors import InvalidQuery
from neve.model.delta import QueryReason
from neve.model.names import TableName
from neve.model.types import Type, holds_map
from neve.sql.delta.binding.context import Context, NoRule, Schema
from neve.sql.delta.binding.functions import check_functions
from neve.sql.delta.binding.queries import Binder, Bound
from neve.sql.delta.certainty import check_certainty
from neve.sql.delta.clock import CLOCK
from neve.sql.delta.columns import HIDDEN, WEIGHT, Names
from neve.sql.delta.operators import Operator
from neve.sql.delta.pushdown import pushed
from neve.sql.delta.rules.sources import Scan
from neve.sql.delta.rules.state import FloatSums
from neve.sql.delta.shape import Shape, shape_of

_INCOMPLETE = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")


@dataclass(frozen=True, slots=True)
class Source:
    """A table that the query reads, and the columns that it uses of it; none when it only counts rows."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the stored table; its type where that is certain before the query runs."""

    name: str
    type: Type | None
    hidden: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """What `analyse` found. With `reasons` the query can only be computed in full."""

    query: str
    sources: tuple[Source, ...]
    columns: tuple[OutputColumn, ...]
    reasons: tuple[QueryReason, ...]
    tree: exp.Expr
    operator: Operator | None
    shape: Shape | None
    names: Names

    @property
    def incremental(self) -> bool:
        return not self.reasons

    @property
    def timed(self) -> bool:
        """Whether time alone changes the result: it compares with the present moment in WHERE."""
        return self.operator is not None and CLOCK in self.operator.sources


def analyse(
    query: str,
    schemas: Mapping[str, Schema],
    *,
    views: Mapping[str, str] | None = None,
    deterministic: frozenset[str] = frozenset(),
    float_sums: FloatSums = "exact",
) -> Analysis:
    """A query over the given tables, understood without running it.

    `views` are queries by name, `deterministic` the user's own functions that always answer the same.

    Raises:
        InvalidQuery: the text is no query, or makes no sense; with line and column.
        TableNotFound, ColumnNotFound: it speaks of what is not there; with the nearest names.
    """
    tree = parse_query(query)
    context = Context(
        query,
        {TableName.parse(name): schema for name, schema in schemas.items()},
        {TableName.parse(name): text for name, text in (views or {}).items()},
        deterministic=frozenset(name.lower() for name in deterministic),
    )
    check_functions(tree, context)
    try:
        bound = Binder(context).query(tree)
    except NoRule:
        return _unruled(query, tree, context)
    return _analysed(query, tree, bound, context, float_sums)


def parse_query(query: str) -> exp.Expr:
    """The one query in a text.

    Raises:
        InvalidQuery: it is none, or more than one.
    """
    try:
        trees = [tree for tree in sqlglot.parse(query, read="spark") if tree is not None]
    except ParseError as exc:
        first = exc.errors[0] if exc.errors else {}
        at = f" (line {first['line']}, column {first['col']})" if first.get("line") else ""
        said = _INCOMPLETE.sub(
            lambda found: f"{found[1].upper()} is not complete", first.get("description") or str(exc)
        )
        raise InvalidQuery(f"cannot read this SQL: {said}{at}") from exc
    except SqlglotError as exc:
        raise InvalidQuery(f"cannot read this SQL: {exc}") from exc
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        found = "nothing" if not trees else " and ".join(tree.key.upper() for tree in trees[:3])
        raise InvalidQuery(f"one query is needed, not {found}", hint="it begins with SELECT, WITH, FROM or VALUES")
    for node in trees[0].find_all(exp.GroupConcat):
        if node.args.get("separator") is None:
            node.set("separator", exp.Literal.string(""))  # sqlglot would write a comma, Spark means nothing
    return trees[0]


def _analysed(query: str, tree: exp.Expr, bound: Bound, context: Context, float_sums: FloatSums) -> Analysis:
    _check_names([name for name, _ in bound.fields])
    live = {c.name for _, c in bound.fields}
    root = pushed(bound.operator).pruned(live)
    fields = tuple((name, next(c for c in root.columns if c.name == own.name)) for name, own in bound.fields)
    shape = shape_of(root, fields, context, float_sums)
    check_certainty(shape, context)
    for name, column in fields:
        if holds_map(column.type):
            context.refuse("map_column", f"column {name} is a map or holds one, and maps cannot be compared", None)
    columns = tuple(OutputColumn(name, c.type, name.startswith(HIDDEN)) for name, c in shape.fields)
    reasons = tuple(context.reasons)
    if reasons:
        columns = tuple(c for c in columns if not c.hidden)
    return Analysis(query, _sources(root), columns, reasons, tree, root, shape, context.names)


def _unruled(query: str, tree: exp.Expr, context: Context) -> Analysis:
    """What can be said of a query that is not made of operators: the tables it speaks of, with all their columns."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    found: dict[TableName, None] = {}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier | exp.Dot) and (table.db or table.name.lower() not in ctes):
            found[TableName.parse(".".join(f"`{part.name}`" for part in table.parts))] = None
    known = [name for name in found if name in context.schemas]
    sources = tuple(Source(str(name), tuple(f.name for f in context.schemas[name])) for name in sorted(known))
    return Analysis(query, sources, (), tuple(context.reasons), tree, None, None, context.names)


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidQuery(f"two columns of the result are called {name}", hint="name one of them anew: … AS name")
        if name.lower() == WEIGHT or name.lower().startswith(HIDDEN):
            raise InvalidQuery(f"column {name}: names like {WEIGHT} and {HIDDEN}… are taken", hint="… AS another_name")
        seen.add(name.lower())


def _sources(root: Operator) -> tuple[Source, ...]:
    used: dict[str, dict[str, None]] = {}
    for operator in root.walk():
        if isinstance(operator, Scan):
            used.setdefault(operator.source, {}).update({name: None for _, name in operator.fields})
    return tuple(Source(name, tuple(columns)) for name, columns in sorted(used.items()))
