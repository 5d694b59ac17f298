"""`ingestion_log`, from what the commit itself recorded: written after an ingest, or for one whose process died."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import cast

from neve.errors import NotFound
from neve.model.facts import Snapshot, TableFacts
from neve.model.ingest import SUMMARY, Held, IngestPlan
from neve.model.names import TableName
from neve.model.periods import parse_period
from neve.model.runs import CompactionRecord, IngestionRecord
from neve.plan.ingest import empties, held_in_snapshots, telling_snapshots
from neve.services.context import Context
from neve.services.look import RUN_ID


def branch_of(run_id: str) -> str:
    """The branch that a run stages its rows on."""
    return f"neve_{run_id.lower()}"


def held_dates(context: Context, facts: TableFacts) -> dict[date, Held]:
    """What the table holds: the snapshots know best; the log speaks for snapshots that have expired.

    Rows that were rolled back or emptied are no longer held, though the log still names them: the log counts only
    while the snapshot of its run is current, an ancestor, or expired, and not before one that emptied the table.
    """
    past = _Past.of(facts)
    kept = [row for row in context.store.ingestions.for_table(facts.name.short) if past.keeps(row)]
    by_date = {row.date: Held(date=row.date, content_hash=row.content_hash, run_id=row.run_id) for row in kept}
    return {**by_date, **past.held}


def doubtful_dates(context: Context, facts: TableFacts) -> dict[date, Held]:
    """Dates whose last load was undone, where nobody knows what they held before: those snapshots have expired.

    They may have rows, so whoever loads them replaces what is there.
    """
    past = _Past.of(facts)
    rows = context.store.ingestions.for_table(facts.name.short) if past.is_broken else ()
    return {row.date: Held(date=row.date, content_hash=None, run_id=None) for row in rows if not past.keeps(row)}


def held_records(context: Context, facts: TableFacts) -> list[IngestionRecord]:
    """The log of what the table holds now, by date; where it speaks of another load, what the snapshots know."""
    past = _Past.of(facts)
    kept = [row for row in context.store.ingestions.for_table(facts.name.short) if past.keeps(row)]
    return sorted([*kept, *_unlogged(context, facts, past, kept)], key=lambda row: row.date)


def logged(context: Context, table: TableName) -> list[IngestionRecord]:
    """The log of every load that succeeded, by date."""
    return [row for row in context.store.ingestions.for_table(table.short) if row.status == "success"]


def log_held(context: Context, facts: TableFacts, gone: Iterable[Snapshot]) -> None:
    """Brings the log up to date before snapshots go: afterwards nothing but the log can tell what they say.

    What was undone is marked, and what the table holds is written where the log speaks of another load. Undone is
    nothing whose snapshot stays: its run may be about to publish it.
    """
    past, going = _Past.of(facts), {snapshot.summary.get(RUN_ID) for snapshot in gone}
    with context.store.transaction():
        rows = context.store.ingestions.for_table(facts.name.short)
        for row in rows:
            if row.status == "success" and not past.keeps(row) and (row.run_id in going or not past.is_since(row)):
                context.store.ingestions.put(row.model_copy(update={"status": "rolled_back"}))
        for record in _unlogged(context, facts, past, [row for row in rows if past.keeps(row)]):
            context.store.ingestions.put(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What a table's snapshots say of the log."""

    held: Mapping[date, Held]
    way: frozenset[str | None]
    """Runs whose snapshots lead to the current one."""
    undone: frozenset[str | None]
    """Runs whose snapshots do not. Where expiry broke the way, older ones are unknown."""
    emptied_at: datetime | None
    is_broken: bool
    """Whether snapshots have expired that could say what the table holds."""

    @classmethod
    def of(cls, facts: TableFacts) -> _Past:
        snapshots = telling_snapshots(facts)
        emptied_at = snapshots[-1].at if snapshots and empties(snapshots[-1]) else None
        is_broken = bool(snapshots) and emptied_at is None and snapshots[-1].parent_id is not None
        since = snapshots[-1].sequence_number if is_broken else -1
        way = frozenset(snapshot.summary.get(RUN_ID) for snapshot in snapshots)
        beside = {item.summary.get(RUN_ID) for item in facts.snapshots if item.sequence_number > since}
        return cls(
            held={item.date: item for item in held_in_snapshots(facts)},
            way=way,
            undone=frozenset(beside - way),
            emptied_at=emptied_at,
            is_broken=is_broken,
        )

    def keeps(self, row: IngestionRecord) -> bool:
        """Whether the load that a row of the log speaks of is what its date holds, as far as is known."""
        held = self.held.get(row.date)
        newest = held is None or held.run_id == row.run_id or row.run_id not in self.way
        return row.status == "success" and newest and row.run_id not in self.undone and self.is_since(row)

    def is_since(self, row: IngestionRecord) -> bool:
        """Whether the table was not emptied after a load."""
        return self.emptied_at is None or row.ingested_at > self.emptied_at


def _unlogged(
    context: Context, facts: TableFacts, past: _Past, kept: Iterable[IngestionRecord]
) -> Iterator[IngestionRecord]:
    """Rows for the log of what the snapshots hold and it does not have."""
    lacking = set(past.held) - {row.date for row in kept}
    for run_id in {past.held[day].run_id for day in lacking}:
        for snapshot in facts.ancestors():
            if snapshot.summary.get(RUN_ID) == run_id and SUMMARY in snapshot.summary:
                found = _restored(context, facts.name, snapshot)
                yield from (row for row in found if row.date in lacking and past.held[row.date].run_id == run_id)
                break


def log_ingest(
    context: Context,
    table: TableName,
    plan: IngestPlan,
    *,
    run_id: str,
    rows_by_date: Mapping[date, int],
    rejected_by_date: Mapping[date, int],
    destinations: Mapping[date, str] | None = None,
) -> None:
    """All dates of an ingest in one transaction."""
    now = context.clock()
    with context.store.transaction():
        for item in plan.work:
            context.store.ingestions.put(
                IngestionRecord(
                    table_name=table.short,
                    date=item.delivery.date,
                    source_file=", ".join(file.path for file in item.delivery.files),
                    destination_file=(destinations or {}).get(item.delivery.date, str(table)),
                    rows_ingested=rows_by_date.get(item.delivery.date, 0),
                    status="success",
                    error_message=None,
                    ingested_at=now,
                    content_hash=item.delivery.content_hash,
                    run_id=run_id,
                    rows_rejected=rejected_by_date.get(item.delivery.date, 0),
                )
            )


def settle_ingest(context: Context, table: TableName, run_id: str) -> bool:
    """Clears up after an ingest whose process died; whether it had been published, and so is logged now."""
    snapshot = settle_staged(context, table, run_id)
    if snapshot is None or SUMMARY not in snapshot.summary:
        return False
    with context.store.transaction():
        for record in _restored(context, table, snapshot):
            context.store.ingestions.put(record)
    return True


def settle_staged(context: Context, table: TableName, run_id: str) -> Snapshot | None:
    """Removes the branch that a dead run left; the snapshot that it had published, if it had."""
    facts = context.catalog.facts(table)
    branch = branch_of(run_id)
    if any(reference.name == branch for reference in facts.references):
        context.catalog.remove_branch(table, branch)
        facts = context.catalog.facts(table)  # it may have been published just before
    return next((item for item in facts.ancestors() if item.summary.get(RUN_ID) == run_id), None)


def settle_compaction(context: Context, table: TableName, run_id: str, label: object) -> bool:
    """Whether a compaction whose process died had been made, and so is logged now."""
    facts = context.catalog.facts(table)
    snapshot = next((item for item in facts.ancestors() if item.summary.get(RUN_ID) == run_id), None)
    if snapshot is None or label is None:  # only periods have a log
        return snapshot is not None
    period = parse_period(str(label))
    context.store.compactions.put(
        CompactionRecord(
            table_name=table.short,
            period=str(period),
            period_start=period.first,
            period_end=period.last,
            source_files=(),
            output_file=str(table),
            rows_processed=int(snapshot.summary.get("added-records", 0)),
            compacted_at=snapshot.at,
            run_id=run_id,
        )
    )
    return True


def _restored(context: Context, table: TableName, snapshot: Snapshot) -> list[IngestionRecord]:
    """The rows of the log that an ingest did not come to write, or that another's stand in the place of."""
    run_id = snapshot.summary.get(RUN_ID)
    noted = _noted(context, run_id)
    return [
        IngestionRecord(
            table_name=table.short,
            date=date.fromisoformat(day),
            source_file="unknown: written anew from what the table says",
            destination_file=str(table),
            rows_ingested=noted.get("rows_by_date", {}).get(day),
            status="success",
            error_message=None,
            ingested_at=snapshot.at,
            content_hash=content_hash,
            run_id=run_id,
            rows_rejected=noted.get("rejected_by_date", {}).get(day),
        )
        for day, content_hash in json.loads(snapshot.summary[SUMMARY]).items()
    ]


def _noted(context: Context, run_id: str | None) -> Mapping[str, Mapping[str, int]]:
    """What a run counted before it published; nothing of one that nobody knows any more."""
    if run_id is None:
        return {}
    try:
        return cast("Mapping[str, Mapping[str, int]]", context.store.runs.get(run_id).result or {})
    except NotFound:
        return {}
