"""Refreshing dynamic tables in the order of their graph, and checking that they are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from neve.engine.refresh import compare, kept, provide
from neve.errors import InvalidInput, NeveError
from neve.model.delta import Step
from neve.model.names import TableName
from neve.model.refresh import Difference, DynamicRow, RefreshReceipt
from neve.model.results import Reason
from neve.plan.graph import choose, waves
from neve.services.context import Context
from neve.services.dynamic.definitions import (
    Definition,
    all_definitions,
    describe_lag,
    find_definition,
    understand_again,
)
from neve.services.dynamic.refresh import STORED, Pins, decide, frontier_of, pin, provide_all, refresh_table, unfrozen
from neve.services.look import live_rows
from neve.sql.delta import Version, explain, full


def refresh_tables(context: Context, selectors: Sequence[str] = ()) -> list[RefreshReceipt]:
    """One round: every base table is looked at once, and each table reads those before it as they are after them.

    A suspended table is left out unless it is named itself.
    """
    definitions = all_definitions(context)
    graph = {name: definition.sources for name, definition in definitions.items()}
    named = {TableName.parse(selector.strip("+")) for selector in selectors}
    suspended = {name for name, definition in definitions.items() if definition.suspended is not None}
    chosen = choose(graph, selectors) - (suspended - named)
    base = {source for name in graph for source in graph[name] if source not in graph}
    pins = pin(context, base)
    receipts = []
    for name in (name for wave in waves(graph) for name in wave if name in chosen):
        parents = {source for source in graph[name] if source in graph}
        receipts.append(refresh_table(context, definitions[name], pins.joined_by(pin(context, parents))))
    return receipts


def list_dynamic(context: Context) -> list[DynamicRow]:
    return [
        _row(context, definition) for _, definition in sorted(all_definitions(context).items(), key=lambda i: str(i[0]))
    ]


def explain_dynamic(context: Context, name: TableName) -> Step:
    definition = find_definition(context, name)
    return explain(understand_again(context, definition))


def verify_dynamic(context: Context, name: TableName) -> Difference:
    """Computes the query anew at the frontier and compares; frozen rows are left out."""
    from neve.engine.session import fresh_session

    definition = find_definition(context, name)
    facts = context.catalog.facts(name)
    frontier = frontier_of(facts)
    if frontier is None:
        raise InvalidInput(f"{name} was never refreshed", hint=f"neve dynamic refresh {name.short}")
    sources = {source: frontier.sources[str(source)] for source in definition.sources}
    refresh = decide(context, definition, Pins(at=frontier.at, sources=sources))
    spark = fresh_session(context.session.spark)
    query = full(refresh.analysis, Version.NEW, moment=frontier.at)
    provide_all(spark, query, refresh)
    provide(spark, STORED, name, refresh.base, query.columns)
    with kept(unfrozen(compare(spark, query.sql, STORED, query.columns), definition)) as found:
        return Difference(table=str(name), rows=live_rows(facts), missing=found.inserted, surplus=found.deleted)


def _row(context: Context, definition: Definition) -> DynamicRow:
    facts = context.catalog.facts(definition.name)
    reasons = _reasons(context, definition)
    return DynamicRow(
        table=str(definition.name),
        target_lag=describe_lag(definition.options.target_lag),
        refresh_mode=definition.options.refresh_mode,
        follows_changes=not reasons,
        reason=reasons[0] if reasons else None,
        rows=live_rows(facts),
        bytes=facts.current.total("files-size") if facts.current else 0,
        refreshed=frontier_of(facts) is not None,
    )


def _reasons(context: Context, definition: Definition) -> list[Reason]:
    try:
        found: Iterable[Reason] = understand_again(context, definition).reasons
    except NeveError as exc:
        found = [Reason(code=exc.code, detail=exc.message)]
    return list(found)
