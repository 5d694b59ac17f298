"""How a table is and what is due: metadata and logs alone, never Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from neve.model.compaction import Due, NotDue
from neve.model.facts import FileFact, Layout, TableFacts
from neve.model.ingest import INGEST_DATE, rejected_name
from neve.model.merging import merging_of
from neve.model.names import TableName
from neve.model.periods import missing_dates
from neve.model.results import CompactionBlock, DuePeriod, IngestionBlock, JobRow, TableStatus
from neve.model.runs import IngestionRecord
from neve.plan.period_files import PeriodFiles, due_period_files
from neve.plan.range_upkeep import PATIENCE, aged_files, plan_range_jobs
from neve.plan.ranges import RangeReport, keys_of, place_files
from neve.plan.schedule import (
    MANY_SNAPSHOTS,
    Job,
    plan_compaction,
    plan_deletes_job,
    plan_expiry_job,
    plan_manifest_job,
    plan_orphan_job,
    plan_statistics_job,
)
from neve.plan.tidying import manifest_target, plan_manifests
from neve.services.context import Context
from neve.services.descriptions import describe, period_spec
from neve.services.directory_tables.compaction import due
from neve.services.directory_tables.look import status
from neve.services.directory_tables.tables import Contents, DirectoryTable, contents, find
from neve.services.expiry import expirable
from neve.services.ledger import held_dates, held_records, logged
from neve.services.look import live_rows
from neve.services.rewrites.files import target_bytes

_MIB = 1024 * 1024
_IDLE = frozenset({"already_compacted", "no_files", "beyond_lookback", "disabled"})


def table_status(context: Context, name: TableName, file: Path | None) -> TableStatus:
    """`file` is the table's file where the caller named one."""
    table = find(context, name, file)
    return _iceberg_status(context, name, file) if table is None else _directory_status(context, table)


def _directory_status(context: Context, table: DirectoryTable) -> TableStatus:
    found = contents(context, table)
    return status(
        context,
        table,
        found,
        ingestion=ingestion_block(context, table.name, logged(context, table.name)),
        compaction=compaction_block(context, table.name, due=due_rows(due(context, table, found))),
    )


def _iceberg_status(context: Context, name: TableName, file: Path | None) -> TableStatus:
    facts = context.catalog.facts(name)
    files = context.catalog.live_files(facts)
    data = [item for item in files if item.content == "data"]
    threshold = context.loaded.settings.compaction.small_file_threshold_mb * _MIB
    return TableStatus(
        table=str(name),
        online=facts.online,
        rows=live_rows(facts),
        files=len(data),
        small_files=sum(item.bytes < threshold for item in data),
        delete_files=len(files) - len(data),
        bytes=sum(item.bytes for item in files),
        snapshots=len(facts.snapshots),
        updated_at=facts.updated_at,
        ingestion=ingestion_block(context, name, held_records(context, facts)),
        compaction=compaction_block(context, name, due=_due(context, facts, files, file)),
    )


def table_jobs(context: Context, facts: TableFacts, layout: Layout) -> list[JobRow]:
    """The scheduled work of one table, due or not."""
    settings = context.loaded.settings
    compaction = plan_compaction(facts, layout.files, settings.compaction, target_bytes(context, facts))
    old = expirable(context, facts) if len(facts.snapshots) > MANY_SNAPSHOTS else ()
    expiry = plan_expiry_job(facts, len(old))
    going = {snapshot.id for snapshot in old} if expiry is not None else set()
    jobs = [
        *_file_jobs(context, facts, compaction),
        plan_deletes_job(facts, layout.files, compaction),
        plan_statistics_job(facts, layout.statistics, settings.statistics, going=going, now=context.clock()),
        expiry,
        plan_manifest_job(facts, plan_manifests(layout.manifest_sizes, manifest_target(facts))),
        orphan_job(context, facts),
    ]
    return [
        *(
            JobRow(table=str(job.table), action=job.action, due=job.due, reason=job.reason)
            for job in jobs
            if job is not None
        ),
        *(
            _period_row(facts.name, item)
            for item in _due(context, facts, layout.files, None)
            if facts.online and item.reason.code != "manual"
        ),
    ]


def orphan_job(context: Context, facts: TableFacts) -> Job | None:
    """The look through a table's folder, if its time has come."""
    loaded = context.loaded
    scan = context.store.scans.get(facts.uuid)
    return plan_orphan_job(
        facts, scan, loaded.settings.retention, warehouse=loaded.warehouse_location, now=context.clock()
    )


def _file_jobs(context: Context, facts: TableFacts, compaction: Job) -> list[Job]:
    """A key-range table has more to do, and says more of its files than others."""
    keys = keys_of(facts)
    if keys is None:
        return [compaction]
    files = context.catalog.table_files(facts.name)
    aged = aged_files(files, keys.merging, context.clock() - PATIENCE)
    return plan_range_jobs(facts, RangeReport(keys, place_files(files, keys)), compaction, aged=aged)


def directory_jobs(context: Context, table: DirectoryTable, found: Contents) -> list[JobRow]:
    """The scheduled work of one directory table, due or not."""
    return [
        _period_row(table.name, item) for item in due_rows(due(context, table, found)) if item.reason.code != "manual"
    ]


def _period_row(name: TableName, item: DuePeriod) -> JobRow:
    action = f"compact {item.period}"
    return JobRow(table=str(name), action=action, due=item.due, reason=item.reason, due_at=item.due_at)


def ingestion_block(context: Context, name: TableName, rows: Sequence[IngestionRecord]) -> IngestionBlock:
    """`rows` are the log of what the table holds."""
    dates = sorted(row.date for row in rows)
    return IngestionBlock(
        total_ingestions=len(rows),
        first_date=dates[0].isoformat() if dates else None,
        last_date=dates[-1].isoformat() if dates else None,
        total_rows=sum(row.rows_ingested or 0 for row in rows),
        missing_dates=missing_dates(dates),
        rows_rejected=_rejected(context, name),
    )


def compaction_block(context: Context, name: TableName, *, due: Sequence[DuePeriod]) -> CompactionBlock:
    rows = context.store.compactions.for_table(name.short)
    return CompactionBlock(
        total_compactions=len(rows),
        first_date=min((row.period_start.isoformat() for row in rows), default=None),
        last_date=max((row.period_end.isoformat() for row in rows), default=None),
        next=list(due),
    )


def due_rows(judged: Sequence[Due | PeriodFiles | NotDue]) -> list[DuePeriod]:
    """Periods with work, now or later; those that have none are left out."""
    return [
        DuePeriod(
            period=str(item.period),
            due=not isinstance(item, NotDue),
            due_at=item.due_at if isinstance(item, NotDue) else None,
            reason=item.reason,
        )
        for item in judged
        if not (isinstance(item, NotDue) and item.reason.code in _IDLE)
    ]


def _due(context: Context, facts: TableFacts, files: Sequence[FileFact], file: Path | None) -> list[DuePeriod]:
    described = describe(context, facts.name, file)
    dated = any(column.name == INGEST_DATE for column in facts.columns)
    if described is None or not dated or merging_of(facts.properties) is not None:
        return []
    arrived: dict[date, datetime] = {
        row.date: row.ingested_at for row in context.store.ingestions.for_table(facts.name.short)
    }
    compacted = {row.period: row.compacted_at for row in context.store.compactions.for_table(facts.name.short)}
    judged = due_period_files(
        period_spec(described),
        {day: arrived.get(day) for day in held_dates(context, facts)},
        files,
        compacted,
        target_bytes=target_bytes(context, facts),
        now=context.clock(),
    )
    return due_rows(judged)


def _rejected(context: Context, name: TableName) -> int:
    rejected = rejected_name(name)
    if not context.catalog.exists(rejected):
        return 0
    return live_rows(context.catalog.facts(rejected)) or 0
