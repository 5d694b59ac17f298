"""Holding the source snapshots that dynamic tables go on from, so that no expiry takes them away.

One commit of metadata per source and round, whatever the number of tables, and none where nothing moved. A tag that
cannot be put now does no harm yet: the next round puts it, and `list` warns before its snapshot may expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from neve.errors import NeveError, NotFound, StorageError
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier
from neve.plan.holds import held_by, hold_name, left_over_holds, missing_holds
from neve.services.context import Context
from neve.services.dynamic.deciding import frontier_of
from neve.services.dynamic.definitions import definition_of
from neve.services.look import all_facts


def hold_sources(
    context: Context, tables: Iterable[TableFacts], looked_at: Mapping[TableName, TableFacts] | None = None
) -> None:
    """Puts the tags of these dynamic tables where their frontiers are. Sources that were looked at are not again."""
    consumed, known = _consumed(tables), looked_at or {}
    for name in sorted({source for frontier in consumed.values() for source in held_by(frontier)}, key=str):
        with suppress(NeveError):
            source = known[name] if name in known else context.catalog.facts(name)
            if due := missing_holds(source, consumed):
                context.catalog.set_tags(name, put=due)


def release_sources(context: Context, facts: TableFacts) -> None:
    """Takes the tags of a dynamic table that goes off its sources; `doctor` finds what is left."""
    tag = hold_name(facts.uuid)
    for frontier in _consumed([facts]).values():
        for name in held_by(frontier):
            with suppress(NeveError):
                if any(reference.name == tag for reference in context.catalog.facts(name).references):
                    context.catalog.set_tags(name, remove=[tag])


def left_over(context: Context) -> dict[TableName, list[str]]:
    """Tags of ours that no dynamic table needs, by the table they are on.

    Sources are looked at first and dynamic tables after: a tag is put after its table is made, so that none is taken
    for left over whose table has just come.
    """
    sources = all_facts(context)
    consumed = _consumed(all_facts(context))
    found = {facts.name: left_over_holds(facts, consumed) for facts in sources}
    return {name: tags for name, tags in found.items() if tags}


def remove_left_over(context: Context) -> list[str]:
    """Takes them off; what was done."""
    done = []
    for name, tags in left_over(context).items():
        with suppress(NotFound, StorageError):
            context.catalog.set_tags(name, remove=tags)
            done.append(f"{len(tags)} tags of dynamic tables that are gone, from {name}")
    return done


def _consumed(tables: Iterable[TableFacts]) -> dict[str, Frontier]:
    found = {facts.uuid: frontier_of(facts) for facts in tables if definition_of(facts) is not None}
    return {uuid: frontier for uuid, frontier in found.items() if frontier is not None}
