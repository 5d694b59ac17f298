"""Looking at dynamic tables: the list, their graph, their past. Metadata and the state database alone, never Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from neve.errors import NeveError
from neve.model.delta import Step
from neve.model.facts import TableFacts
from neve.model.history import DynamicRecord, RefreshRecord, SourceRecord
from neve.model.names import TableName
from neve.model.refresh import DynamicGraph, DynamicRow, Edge
from neve.model.results import Reason
from neve.model.units import format_duration
from neve.plan.freshness import Age, age, endangered, has_moved, target_lags
from neve.plan.graph import Graph, around, waves
from neve.plan.health import Lateness
from neve.plan.tables import is_suspended
from neve.services.context import Context
from neve.services.dynamic.deciding import frontier_of
from neve.services.dynamic.definitions import (
    Definition,
    definitions_in,
    describe_lag,
    find_definition,
    understand_again,
)
from neve.services.dynamic.history import as_of
from neve.services.look import all_facts, live_rows
from neve.sql.delta import explain


def list_dynamic(context: Context) -> list[DynamicRow]:
    """Every dynamic table, in the order of their names."""
    view = _View.of(context)
    return [view.row(name) for name in sorted(view.definitions, key=str)]


def lateness(context: Context, tables: Sequence[TableFacts]) -> dict[TableName, Lateness]:
    """How fresh each dynamic table is; `tables` are all that there are. Nobody looks at a query."""
    view = _View.of(context, tables)
    return {name: view.lateness(name) for name in view.definitions}


def graph_of(context: Context, name: TableName | None = None) -> DynamicGraph:
    """All dynamic tables and what they read, or those that a table needs and that need it."""
    view = _View.of(context)
    graph = view.graph if name is None else around(view.graph, find_definition(context, name).name)
    order = waves(graph)
    plain = sorted({source for sources in graph.values() for source in sources if source not in graph}, key=str)
    return DynamicGraph(
        waves=[[str(table) for table in wave] for wave in order],
        tables=[str(table) for table in plain],
        edges=[
            Edge(upstream=str(source), downstream=str(table))
            for wave in order
            for table in wave
            for source in sorted(graph[table], key=str)
        ],
    )


def explain_dynamic(context: Context, name: TableName) -> Step:
    """How a table follows changes, operator by operator."""
    return explain(understand_again(context, find_definition(context, name)))


def refresh_history(
    context: Context, name: TableName | None = None, *, failed: bool = False, limit: int = 20
) -> list[RefreshRecord]:
    """The latest refreshes, of one table or of all, newest first."""
    refreshes = context.store.refreshes
    if name is None:
        return list(refreshes.of_all(failed=failed, limit=limit))
    find_definition(context, name)
    return list(refreshes.of(context.catalog.facts(name).uuid, failed=failed, limit=limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """The lake as it was looked at once."""

    context: Context
    tables: Mapping[TableName, TableFacts]
    definitions: Mapping[TableName, Definition]
    known: Mapping[str, DynamicRecord]
    sources: Mapping[str, Mapping[str, SourceRecord]]
    latest: Mapping[str, RefreshRecord]
    targets: Mapping[TableName, timedelta | None]
    now: datetime

    @classmethod
    def of(cls, context: Context, found: Sequence[TableFacts] | None = None) -> _View:
        tables = {facts.name: facts for facts in (all_facts(context) if found is None else found)}
        definitions = definitions_in(tables.values())
        return cls(
            context=context,
            tables=tables,
            definitions=definitions,
            known=context.store.dynamic.list(),
            sources=context.store.dynamic.sources(),
            latest=context.store.refreshes.latest(),
            targets=target_lags(
                {name: definition.sources for name, definition in definitions.items()},
                {name: definition.options.target_lag for name, definition in definitions.items()},
            ),
            now=context.clock(),
        )

    @property
    def graph(self) -> Graph:
        return {name: definition.sources for name, definition in self.definitions.items()}

    def row(self, name: TableName) -> DynamicRow:
        facts, definition = self.tables[name], self.definitions[name]
        frontier, last = frontier_of(facts), self.latest.get(facts.uuid)
        reason = self._reason(definition)
        at, told = self._age(facts)
        late = self.lateness(name)
        return DynamicRow(
            table=str(name),
            scheduling_state="SUSPENDED" if is_suspended(facts) else "ACTIVE",
            freshness=late.freshness,
            target_lag=late.target_lag,
            current_lag=late.current_lag,
            data_timestamp=at,
            refresh_mode=definition.options.refresh_mode,
            follows_changes=reason is None,
            reason=reason,
            last_state=last.state if last else None,
            last_action=last.refresh_action if last else None,
            last_refresh_at=last.refresh_end_time if last else None,
            last_rows_inserted=last.rows_inserted if last else None,
            last_rows_deleted=last.rows_deleted if last else None,
            next_due=told.due_at,
            last_error=late.error,
            warning=None if frontier is None else endangered(frontier, self.tables, self.now),
            rows=live_rows(facts),
            bytes=facts.current.total("files-size") if facts.current else 0,
        )

    def lateness(self, name: TableName) -> Lateness:
        facts = self.tables[name]
        told, last = self._age(facts)[1], self.latest.get(facts.uuid)
        lag = told.lag
        return Lateness(
            freshness=told.freshness,
            target_lag=describe_lag(self.definitions[name].options.target_lag),
            current_lag=None if lag is None else format_duration(timedelta(seconds=round(lag.total_seconds()))),
            error=last.state_message if last and last.failed else None,
        )

    def _age(self, facts: TableFacts) -> tuple[datetime | None, Age]:
        """The moment that the rows are of, and what that means now."""
        frontier = frontier_of(facts)
        at = as_of(frontier, self.known.get(facts.uuid), self.sources.get(facts.uuid, {}))
        return at, age(
            target=self.targets[facts.name],
            data_timestamp=at,
            now=self.now,
            moved=None if frontier is None else has_moved(frontier, self.tables),
            suspended=is_suspended(facts),
        )

    def _reason(self, definition: Definition) -> Reason | None:
        """Why the table is computed in full; None when it follows changes."""
        schemas = {name: self.tables[name].columns for name in definition.sources if name in self.tables}
        try:
            found = understand_again(self.context, definition, instead=schemas).reasons
        except NeveError as exc:
            return Reason(code=exc.code, detail=exc.message)
        return Reason(code=found[0].code, detail=str(found[0])) if found else None
