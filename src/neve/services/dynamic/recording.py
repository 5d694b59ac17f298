"""What a round leaves behind: rows of history, how far each table has come, and tags on what it goes on from."""

from __future__ import annotations

from neve.errors import NotFound
from neve.model.facts import TableFacts
from neve.model.history import RefreshRecord
from neve.model.names import TableName
from neve.services.context import Context
from neve.services.dynamic.history import catch_up, remember, told
from neve.services.dynamic.holds import hold_sources
from neve.services.dynamic.laps import Lap


def record(lap: Lap, name: TableName) -> None:
    """Writes what became of a table as soon as it is known; what found nothing to do waits for `conclude`."""
    receipt = lap.receipts[name]
    if not lap.request.dry_run and receipt.refresh != "NO_DATA":
        now: TableFacts | None = None
        try:
            now = _now(lap, name) if receipt.state == "SUCCEEDED" else None
        finally:
            lap.context.store.refreshes.add([_row(lap, name, now)])
        if now is not None:
            remember(lap.context, [now])
    if lap.request.told is not None:
        lap.request.told(receipt)


def conclude(lap: Lap) -> None:
    """At the end of a round: tables that found nothing to do and what was altered, in one transaction, and the tags."""
    if lap.request.dry_run:
        return
    idle = [name for name, receipt in lap.receipts.items() if receipt.refresh == "NO_DATA"]
    done = [name for name, receipt in lap.receipts.items() if receipt.state == "SUCCEEDED"]
    now = {name: facts for name in done if (facts := _now(lap, name)) is not None}
    store = lap.context.store
    with store.transaction():
        store.refreshes.add([_row(lap, name, now.get(name)) for name in idle])
        remember(lap.context, [now.get(name, lap.tables[name]) for name in lap.receipts])
        store.dynamic.touch({lap.tables[name].uuid: lap.plan.visits[name].at for name in idle})
    written_to = {name for name in done if name not in lap.spared}
    as_they_were = {name: facts for name, facts in lap.tables.items() if name not in written_to}
    hold_sources(lap.context, now.values(), as_they_were)


def record_apart(context: Context, name: TableName) -> None:
    """The same for a table that was filled apart from a round: all of it is in its own commits."""
    facts = context.catalog.facts(name)
    remember(context, [facts])
    catch_up(context, facts)
    hold_sources(context, [facts])


def _now(lap: Lap, name: TableName) -> TableFacts | None:
    """A table as it is now, None when it was dropped; one that was spared its refresh is as it was."""
    if name in lap.spared:
        return lap.tables[name]
    try:
        return lap.context.catalog.facts(name)
    except NotFound:
        return None


def _row(lap: Lap, name: TableName, after: TableFacts | None) -> RefreshRecord:
    """`after` is the table as the refresh left it, where somebody looked."""
    receipt, facts = lap.receipts[name], lap.tables[name]
    return told(
        facts,
        lap.definitions[name],
        receipt,
        lap.pins(name) if receipt.state == "SUCCEEDED" else None,
        before=lap.context.store.dynamic.get(facts.uuid),
        after=after,
        turn=lap.turns.get(name),
        now=lap.context.clock(),
    )
