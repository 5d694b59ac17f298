"""Whether dynamic tables are what their queries say, by computing those anew at the frontier."""

from __future__ import annotations

from collections.abc import Sequence

from neve.engine.refresh import compare, count, examples, held, provide
from neve.errors import InvalidInput
from neve.model.commands import neve
from neve.model.names import TableName
from neve.model.refresh import Difference, DifferingRow
from neve.plan.graph import choose, waves
from neve.services.context import Context
from neve.services.dynamic.carrying import STORED, provide_all, unfrozen
from neve.services.dynamic.deciding import Pins, decide, frontier_of
from neve.services.dynamic.definitions import Definition, all_definitions
from neve.services.look import live_rows
from neve.sql.delta import Version, full

SHOWN = 5
"""Differing rows of each kind that are shown; they come to the driver, so there are few."""


def verify_tables(context: Context, selectors: Sequence[str] = (), *, shown: int = SHOWN) -> list[Difference]:
    """How each table differs from its query over the snapshots that its frontier names; frozen rows are left out.

    Raises:
        InvalidInput: a table was never refreshed; nothing is compared then.
    """
    definitions = all_definitions(context)
    graph = {name: definition.sources for name, definition in definitions.items()}
    chosen = choose(graph, selectors)
    order = [name for wave in waves(graph) for name in wave if name in chosen]
    for name in order:
        if frontier_of(context.catalog.facts(name)) is None:
            raise InvalidInput(f"{name} was never refreshed", hint=neve("dynamic", "refresh", name.short))
    return [_verify(context, definitions[name], shown=shown) for name in order]


def _verify(context: Context, definition: Definition, *, shown: int) -> Difference:
    from neve.engine.session import fresh_session

    name = definition.name
    facts = context.catalog.facts(name)
    frontier = frontier_of(facts)
    if frontier is None:
        raise InvalidInput(f"{name} was written to by somebody else meanwhile", hint="refresh it first")
    sources = {source: frontier.sources[str(source)] for source in definition.sources}
    base = {TableName.parse(source): pin for source, pin in frontier.base.items()}
    refresh = decide(context, definition, Pins(at=frontier.at, sources=sources, base=base))
    spark = fresh_session(context.session.spark)
    query = full(refresh.analysis, Version.NEW, moment=frontier.at)
    provide_all(spark, query, refresh)
    provide(spark, STORED, name, refresh.base, query.columns)
    with held(unfrozen(compare(spark, query.sql, STORED, query.columns), definition)) as changes:
        found = count(changes)
        missing = examples(spark, query.columns, come=True, most=shown) if found.inserted else []
        surplus = examples(spark, query.columns, come=False, most=shown) if found.deleted else []
        return Difference(
            table=str(name),
            rows=live_rows(facts),
            missing=found.inserted,
            surplus=found.deleted,
            missing_rows=[DifferingRow(count=times, row=row) for row, times in missing],
            surplus_rows=[DifferingRow(count=times, row=row) for row, times in surplus],
        )
