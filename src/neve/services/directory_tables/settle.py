"""Logs of a directory table, from its ledger: for a process that died between the change and its log."""

from __future__ import annotations

import shutil

from neve.model.names import TableName
from neve.model.periods import parse_period
from neve.model.runs import CompactionRecord, IngestionRecord, Run
from neve.plan.directory_tables import day_path
from neve.services.context import Context
from neve.services.directory_tables.jobs import spool_of
from neve.services.directory_tables.tables import DirectoryTable, contents, find_as_made


def settle_directory(context: Context, name: TableName, run: Run) -> bool | None:
    """Whether a dead run had changed the folder, and so is logged now; None when nothing tells."""
    table = find_as_made(context, name)
    if table is None:
        return None
    shutil.rmtree(spool_of(context, run.run_id), ignore_errors=True)
    if run.kind not in ("ingest", "compact"):
        return True
    return log_again(context, table, run.run_id)


def log_again(context: Context, table: DirectoryTable, run_id: str) -> bool:
    """Writes what the ledger has of a run into the logs; whether it has any. Opening the folder ends its change."""
    ledger = contents(context, table).ledger
    dates = {day: entry for day, entry in ledger.dates.items() if entry.run_id == run_id}
    periods = {label: entry for label, entry in ledger.periods.items() if entry.run_id == run_id}
    with context.store.transaction():
        for day, entry in dates.items():
            context.store.ingestions.put(
                IngestionRecord(
                    table_name=table.name.short,
                    date=day,
                    source_file="unknown: the process died before it wrote this log",
                    destination_file=f"{table.location}/{day_path(table.described, day)}",
                    rows_ingested=entry.rows,
                    status="success",
                    error_message=None,
                    ingested_at=entry.ingested_at,
                    content_hash=entry.content_hash,
                    run_id=run_id,
                    rows_rejected=None,
                )
            )
        for label, compacted in periods.items():
            period = parse_period(label)
            context.store.compactions.put(
                CompactionRecord(
                    table_name=table.name.short,
                    period=label,
                    period_start=period.first,
                    period_end=period.last,
                    source_files=compacted.sources,
                    output_file=f"{table.location}/{compacted.output}",
                    rows_processed=compacted.rows,
                    compacted_at=compacted.compacted_at,
                    run_id=run_id,
                )
            )
    return bool(dates or periods)
