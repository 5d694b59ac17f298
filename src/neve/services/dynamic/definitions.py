"""What dynamic tables are: kept in the properties of the tables themselves, so nothing else can disagree with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import lru_cache
from threading import get_ident
from typing import Any

from neve.errors import Refused
from neve.model.dynamic import DynamicOptions, Lag, placed
from neve.model.facts import TableFacts
from neve.model.ingest import is_hidden
from neve.model.layout import parse_sort_field, parse_transform
from neve.model.names import TableName
from neve.plan.tables import DEFINITION, SOURCES, is_suspended
from neve.services.context import Context
from neve.services.look import all_facts
from neve.sql.delta import KNOWN_TEXTS, Analysis, Schema, analyse

FRONTIER = "neve.dynamic.frontier"
REFRESH = "neve.dynamic.refresh"
SUSPENDED_BY = "neve.dynamic.suspended-by"
"""Who suspended a table: the user, or a table that it needs. Without it, Névé did after failures."""
SUSPENDED_WHY = "neve.dynamic.suspended-why"
"""The failure that suspended a table."""
BY_USER, BY_FAILURES = "user", "failures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A dynamic table as it was declared. The query began at this line and column of its statement.

    `columns` are those that its sources had then: the query means these, whatever columns come later. Else `*` would
    stand for more than the table has, and a name that is clear today could be that of two columns tomorrow. Of a source
    that is not among them, every column counts. `suspended` says who suspended it; None for a table that is active.
    """

    name: TableName
    query: str
    options: DynamicOptions
    sources: tuple[TableName, ...]
    columns: Mapping[TableName, frozenset[str]]
    line: int = 1
    column: int = 1
    suspended: str | None = None

    @property
    def fingerprint(self) -> str:
        """What the rows depend on beside the sources: another one means that they are computed anew."""
        parts: dict[str, object] = {"query": self.query, "float_sums": self.options.float_sums}
        parts["columns"] = self._told_columns()
        if self.options.immutable_where is not None:
            parts["immutable_where"] = self.options.immutable_where
        told = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def placed(self) -> str:
        """The query with its lines and columns counted as the statement's own."""
        return placed(self.query, self.line, self.column)

    def properties(self) -> dict[str, str]:
        """The table's properties that say all this."""
        options: dict[str, Any] = asdict(self.options)
        lag = self.options.target_lag
        options["target_lag"] = lag if isinstance(lag, str) else lag.total_seconds()
        options["partition_by"] = [str(item) for item in self.options.partition_by]
        options["cluster_by"] = [str(item) for item in self.options.cluster_by]
        return {
            DEFINITION: json.dumps(
                {
                    "query": self.query,
                    "line": self.line,
                    "column": self.column,
                    "options": options,
                    "columns": self._told_columns(),
                }
            ),
            SOURCES: json.dumps([str(source) for source in self.sources]),
        }

    def _told_columns(self) -> dict[str, list[str]]:
        return {str(name): sorted(columns) for name, columns in self.columns.items()}


def definition_of(facts: TableFacts) -> Definition | None:
    """The definition of a dynamic table; None for any other."""
    text = facts.properties.get(DEFINITION)
    if text is None:
        return None
    told = json.loads(text)
    options = dict(told["options"])
    lag = options["target_lag"]
    options["target_lag"] = lag if isinstance(lag, str) else timedelta(seconds=lag)
    options["partition_by"] = tuple(map(parse_transform, options["partition_by"]))
    options["cluster_by"] = tuple(map(parse_sort_field, options["cluster_by"]))
    sources = json.loads(facts.properties.get(SOURCES, "[]"))
    return Definition(
        name=facts.name,
        query=told["query"],
        options=DynamicOptions(**options),
        sources=tuple(map(TableName.parse, sources)),
        columns={TableName.parse(name): frozenset(columns) for name, columns in told.get("columns", {}).items()},
        line=told.get("line", 1),
        column=told.get("column", 1),
        suspended=facts.properties.get(SUSPENDED_BY, BY_FAILURES) if is_suspended(facts) else None,
    )


def find_definition(context: Context, name: TableName) -> Definition:
    """Raises Refused for a table that is none of these, TableNotFound for no table at all."""
    found = definition_of(context.catalog.facts(name))
    if found is None:
        raise Refused(f"{name} is not a dynamic table", hint="neve dynamic list shows those there are")
    return found


def all_definitions(context: Context) -> dict[TableName, Definition]:
    return definitions_in(all_facts(context))


def definitions_in(tables: Iterable[TableFacts]) -> dict[TableName, Definition]:
    found = (definition_of(facts) for facts in tables)
    return {definition.name: definition for definition in found if definition is not None}


def understand(
    context: Context, query: str, options: DynamicOptions, *, beside: Mapping[TableName, Schema]
) -> Analysis:
    """The query over the lake's tables, and others beside them."""
    return _analysed(query, {facts.name: facts.columns for facts in all_facts(context)} | dict(beside), options)


def understand_again(
    context: Context, definition: Definition, *, instead: Mapping[TableName, Schema] | None = None
) -> Analysis:
    """The query of a declared table, over the columns that it was declared for: no other table is looked at.

    Places are those of the statement that declared it. `instead` are columns that sources would have.
    """
    given, schemas = instead or {}, {}
    for name in definition.sources:
        there = given[name] if name in given else context.catalog.facts(name).columns
        meant = definition.columns.get(name)
        schemas[name] = there if meant is None else tuple(column for column in there if column.name in meant)
    return _analysed(definition.placed, schemas, definition.options)


def source_columns(context: Context, sources: Iterable[TableName]) -> dict[TableName, frozenset[str]]:
    """The columns that tables have now."""
    return {name: frozenset(column.name for column in context.catalog.facts(name).columns) for name in sources}


def _analysed(query: str, schemas: Mapping[TableName, Schema], options: DynamicOptions) -> Analysis:
    visible = {str(name): tuple(c for c in columns if not is_hidden(c.name)) for name, columns in schemas.items()}
    return _analysed_once(query, tuple(visible.items()), options.float_sums == "FAST", get_ident())


@lru_cache(maxsize=KNOWN_TEXTS)
def _analysed_once(query: str, schemas: tuple[tuple[str, Schema], ...], fast_sums: bool, thread: int) -> Analysis:  # noqa: ARG001
    """A worker comes back to each of its tables. A tree may be touched while another is written from it, so each thread
    has its own."""
    return analyse(query, dict(schemas), float_sums="fast" if fast_sums else "exact")


def describe_lag(lag: Lag) -> str:
    from neve.model.units import format_duration

    return lag if isinstance(lag, str) else format_duration(lag)
