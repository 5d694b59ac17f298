"""How tables are laid out and how late they are: metadata alone, never Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from neve.errors import NeveError
from neve.model.directories import DataFile
from neve.model.facts import FileFact, Layout, TableFacts, partition_label
from neve.model.health import StatusRow, TableHealth
from neve.model.names import TableName
from neve.model.periods import KINDS, period_of
from neve.model.results import JobRow, Reason
from neve.plan.health import HealthFacts, Lateness, Past, judge
from neve.plan.measures import MIB, small_file_bytes
from neve.plan.tables import is_dynamic_table
from neve.plan.tidying import manifest_target, plan_manifests
from neve.services.context import Context
from neve.services.directory_tables.compaction import compactable
from neve.services.directory_tables.look import file_label
from neve.services.directory_tables.tables import (
    Contents,
    DirectoryTable,
    all_directories,
    contents,
    damaged_directories,
    find,
)
from neve.services.expiry import expirable
from neve.services.look import all_facts
from neve.services.rewrites.files import target_bytes
from neve.services.status import directory_jobs, table_jobs

_PERIOD = "period"


def table_health(context: Context, name: TableName, file: Path | None = None) -> TableHealth:
    """`file` is the table's file where the caller named one."""
    now = context.clock()
    if (table := find(context, name, file)) is not None:
        return judge(_directory_facts(context, table, contents(context, table)), now=now)
    facts = context.catalog.facts(name)
    late = _lateness(context, all_facts(context)) if is_dynamic_table(facts) else {}
    return judge(_iceberg_facts(context, facts, context.catalog.layout(facts), late.get(name)), now=now)


def lake_status(context: Context, *, late: bool = False) -> list[StatusRow]:
    """Every table, or those that are late, in the order of their names."""
    readable = {facts.name: facts for facts in all_facts(context)}
    ages = _lateness(context, list(readable.values()))
    names = [name for name in context.catalog.tables() if not late or _is_late(ages.get(name))]
    every = list(readable.values())
    found = {name: _table_row(context, name, readable.get(name), ages.get(name), every) for name in names}
    if not late:
        found |= {table.name: _directory_row(context, table) for table in all_directories(context, as_made=True)}
        found |= {name: _unreadable(name, exc) for name, exc in damaged_directories(context).items()}
    return [found[name] for name in sorted(found)]


def _is_late(lateness: Lateness | None) -> bool:
    return lateness is not None and lateness.freshness == "late"


def _lateness(context: Context, tables: Sequence[TableFacts]) -> Mapping[TableName, Lateness]:
    if not any(map(is_dynamic_table, tables)):
        return {}
    from neve.services.dynamic.look import lateness

    return lateness(context, tables)


def _table_row(
    context: Context,
    name: TableName,
    facts: TableFacts | None,
    lateness: Lateness | None,
    tables: Sequence[TableFacts],
) -> StatusRow:
    now = context.clock()
    try:
        facts = context.catalog.facts(name) if facts is None else facts
        layout = context.catalog.layout(facts)
        health = judge(_iceberg_facts(context, facts, layout, lateness, tables), now=now)
        return _row(health, table_jobs(context, facts, layout), error=lateness.error if lateness else None)
    except NeveError as exc:  # its table's file, say, may be gone
        return _unreadable(name, exc)


def _directory_row(context: Context, table: DirectoryTable) -> StatusRow:
    try:
        table = find(context, table.name) or table
        found = contents(context, table)
        health = judge(_directory_facts(context, table, found), now=context.clock())
        return _row(health, directory_jobs(context, table, found))
    except NeveError as exc:
        return _unreadable(table.name, exc)


def _row(health: TableHealth, jobs: Sequence[JobRow], *, error: str | None = None) -> StatusRow:
    """`error` is that of a dynamic table's last refresh, if it failed."""
    work = [job.action for job in jobs if job.due]
    return StatusRow(
        table=health.table,
        state=health.state,
        score=health.score,
        freshness=health.freshness,
        current_lag=health.current_lag,
        target_lag=health.target_lag,
        files=health.files,
        small_files=health.small_files,
        bytes=health.bytes,
        due=["refresh", *work] if health.freshness in ("due", "late") else work,
        reason=_weightiest(health, error),
        next_command=health.action.command if health.action else None,
    )


def _weightiest(health: TableHealth, error: str | None) -> Reason | None:
    failed = "" if error is None else f"its last refresh failed: {error}"
    if health.freshness == "late":
        behind = f"{health.current_lag} behind, for a target of {health.target_lag}"
        return Reason(code="late", detail=f"{behind}; {failed}" if failed else behind)
    if failed:
        return Reason(code="refresh_failed", detail=failed)
    return health.deductions[0].reason if health.deductions else None


def _unreadable(name: TableName, exc: NeveError) -> StatusRow:
    return StatusRow(
        table=str(name),
        state="unreadable",
        score=None,
        freshness=None,
        current_lag=None,
        target_lag=None,
        files=None,
        small_files=None,
        bytes=None,
        due=[],
        reason=Reason(code=exc.code, detail=exc.message),
        next_command=None,
    )


def _iceberg_facts(
    context: Context,
    facts: TableFacts,
    layout: Layout,
    lateness: Lateness | None,
    tables: Sequence[TableFacts] | None = None,
) -> HealthFacts:
    """`tables` are all of the lake, where the caller has them."""
    settings, target = context.loaded.settings.compaction, target_bytes(context, facts)
    manifests = plan_manifests(layout.manifest_sizes, manifest_target(facts))
    return HealthFacts(
        table=facts.name,
        format="iceberg",
        files=layout.files,
        target_bytes=target,
        small_bytes=small_file_bytes(settings.small_file_threshold_mb, target),
        min_files=settings.min_files_to_compact,
        sorted_by=facts.sort_by[0].term.column if facts.sort_by else None,
        past=Past(
            snapshots=facts.snapshots,
            expirable=len(expirable(context, facts, tables)),
            manifests=manifests.before,
            manifests_needed=manifests.after,
            manifest_bytes=manifests.bytes,
            metadata_bytes=layout.metadata_bytes,
            scan=context.store.scans.get(facts.uuid),
        ),
        lateness=lateness,
    )


def _directory_facts(context: Context, table: DirectoryTable, found: Contents) -> HealthFacts:
    settings = context.loaded.settings
    target = settings.write.target_file_size_mb * MIB
    return HealthFacts(
        table=table.name,
        format=table.format,
        files=[_directory_file(table, found, file) for file in found.files],
        target_bytes=target,
        small_bytes=small_file_bytes(settings.compaction.small_file_threshold_mb, target),
        min_files=settings.compaction.min_files_to_compact,
        due_periods={partition_label({_PERIOD: period}): period for period in compactable(context, table, found)},
    )


def _directory_file(table: DirectoryTable, found: Contents, file: DataFile) -> FileFact:
    return FileFact(
        content="data",
        path=file.path,
        format=table.format,
        partition={_PERIOD: _period(table, found, file)},
        rows=0,
        bytes=file.bytes,
        sequence_number=0,
        spec_id=0,
    )


def _period(table: DirectoryTable, found: Contents, file: DataFile) -> str | None:
    """The period that a file belongs to: the shortest kind that the table's days are compacted into."""
    label = file_label(table, found, file)
    if not label or label in found.ledger.periods:
        return label or None
    kind = min(table.described.period_spec().outputs, key=KINDS.index)
    return str(period_of(date.fromisoformat(label), kind))
