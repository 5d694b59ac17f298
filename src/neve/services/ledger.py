"""`ingestion_log`, from what the commit itself recorded: written after an ingest, or for one whose process died."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date

from neve.model.facts import Snapshot, TableFacts
from neve.model.ingest import SUMMARY, Held, IngestPlan
from neve.model.names import TableName
from neve.model.periods import parse_period
from neve.model.runs import CompactionRecord, IngestionRecord
from neve.plan.ingest import held_in_snapshots
from neve.services.context import Context
from neve.services.look import RUN_ID


def branch_of(run_id: str) -> str:
    """The branch that a run stages its rows on."""
    return f"neve_{run_id.lower()}"


def held_dates(context: Context, facts: TableFacts) -> dict[date, Held]:
    """What the table holds: the snapshots know best; the log speaks for snapshots that have expired.

    Rows that were rolled back or emptied are no longer held, though the log still names them: the log counts only
    while the snapshot of its run is current, an ancestor, or expired.
    """
    found = {item.date: item for item in held_in_snapshots(facts)}
    undone = _undone(facts)
    for row in context.store.ingestions.for_table(facts.name.short):
        if row.status == "success" and row.run_id not in undone:
            found.setdefault(row.date, Held(date=row.date, content_hash=row.content_hash, run_id=row.run_id))
    return found


def log_undone(context: Context, facts: TableFacts) -> None:
    """Marks what was rolled back, before its snapshot goes: afterwards nothing but the log could tell."""
    undone = _undone(facts)
    for row in context.store.ingestions.for_table(facts.name.short):
        if row.status == "success" and row.run_id in undone:
            context.store.ingestions.put(row.model_copy(update={"status": "rolled_back"}))


def _undone(facts: TableFacts) -> set[str | None]:
    """Runs whose snapshots do not lead to the current one. Where expiry broke the way, older ones are unknown."""
    way = list(facts.ancestors())
    since = way[-1].sequence_number if way and way[-1].parent_id is not None else None
    beside = {item.summary.get(RUN_ID) for item in facts.snapshots if since is None or item.sequence_number > since}
    return beside - {snapshot.summary.get(RUN_ID) for snapshot in way}


def log_ingest(
    context: Context,
    table: TableName,
    plan: IngestPlan,
    *,
    run_id: str,
    rows_by_date: Mapping[date, int],
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
                    rows_rejected=None,
                )
            )


def settle_ingest(context: Context, table: TableName, run_id: str) -> bool:
    """Clears up after an ingest whose process died; whether it had been published, and so is logged now."""
    snapshot = settle_staged(context, table, run_id)
    if snapshot is None or SUMMARY not in snapshot.summary:
        return False
    _log_snapshot(context, table, snapshot, run_id)
    return True


def settle_staged(context: Context, table: TableName, run_id: str) -> Snapshot | None:
    """Removes the branch that a dead run left; the snapshot that it had published, if it had."""
    facts = context.catalog.facts(table)
    branch = branch_of(run_id)
    if any(reference.name == branch for reference in facts.references):
        context.catalog.remove_branch(table, branch)
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


def _log_snapshot(context: Context, table: TableName, snapshot: Snapshot, run_id: str) -> None:
    """The rows that the dead process did not come to write. The count per date is known when there is one date."""
    hashes: dict[str, str] = json.loads(snapshot.summary[SUMMARY])
    added = int(snapshot.summary.get("added-records", 0))
    with context.store.transaction():
        for day, content_hash in hashes.items():
            context.store.ingestions.put(
                IngestionRecord(
                    table_name=table.short,
                    date=date.fromisoformat(day),
                    source_file="unknown: the process died before it wrote this log",
                    destination_file=str(table),
                    rows_ingested=added if len(hashes) == 1 else None,
                    status="success",
                    error_message=None,
                    ingested_at=snapshot.at,
                    content_hash=content_hash,
                    run_id=run_id,
                    rows_rejected=None,
                )
            )
