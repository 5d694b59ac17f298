"""What is due on a table's files and past: pure, from facts and settings. Offline tables are left alone, and say so.

Each rule is that of the command which does the work, so that nothing is due which would do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from neve.config import CompactionSettings, RetentionSettings, StatisticsSettings
from neve.model.facts import FileFact, TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.retention import ColumnStatistics
from neve.model.runs import OrphanScan
from neve.model.units import counted, format_count, format_duration
from neve.plan.expiry import owns_files
from neve.plan.health import DELETE_FILES, SOME_DELETE_FILES
from neve.plan.measures import Reach, by_partition, small_file_bytes
from neve.plan.rewrites import MANY_DELETED
from neve.plan.tables import DELETING, owns_location
from neve.plan.tidying import (
    DeletePlan,
    ManifestPlan,
    columns_to_recount,
    countable_columns,
    plan_deletes,
    rows_touched_since,
)

MANY_SNAPSHOTS = 20
"""So many that nobody needs are worth a commit; fewer wait for the next ones."""

MANY_MANIFESTS = 100
"""More than a table needs by so many: what health begins to count."""

COUNTED_LATELY = timedelta(hours=1)
"""Distinct values of a snapshot so young are not counted again: a table may be written anew every minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work on one table."""

    table: TableName
    action: str
    reason: Reason
    due: bool


def plan_compaction(
    facts: TableFacts, files: Sequence[FileFact], settings: CompactionSettings, target_bytes: int
) -> Job:
    """Whether a table's small files, or those with many deleted rows, should be compacted now."""

    def job(code: str, detail: str, *, due: bool = False) -> Job:
        return Job(table=facts.name, action="compact", reason=Reason(code=code, detail=detail), due=due)

    if not facts.online:
        return job("offline", "the table is offline: scheduled jobs leave it alone")
    if not settings.enabled:
        return job("disabled", "compaction.enabled is false")
    below, needed = small_file_bytes(settings.small_file_threshold_mb, target_bytes), settings.min_files_to_compact
    sizes = [
        [file.bytes for file in members if file.content == "data" and file.bytes < below]
        for members in by_partition(files).values()
    ]
    small = [len(found) for found in sizes]
    if crowded := sum(
        len(found) for found in sizes if len(found) > 1 and (len(found) >= needed or sum(found) >= target_bytes)
    ):
        return job("small_files", f"{format_count(crowded)} small files, {needed} or more", due=True)
    if holed := _holed(files):
        return job("deleted_rows", f"{format_count(holed)} files with many deleted rows", due=True)
    where = " in a partition" if len(small) > 1 else ""
    most = format_count(max(small, default=0))
    return job("few_small_files", f"{most} small files{where}; {needed} make it worth while")


def _holed(files: Sequence[FileFact]) -> int:
    """Data files with so many deleted rows that compaction takes them for that alone."""
    gone: Counter[str] = Counter()
    for file in files:
        if file.deletes_from is not None:
            gone[file.deletes_from] += file.rows
    found = 0
    for members in by_partition(files).values():
        reach = Reach.of(members)
        found += sum(
            file.content == "data"
            and (reach.covers(file) or (gone[file.path] and gone[file.path] >= MANY_DELETED * file.rows))
            for file in members
        )
    return found


def plan_expiry_job(facts: TableFacts, expirable: int) -> Job | None:
    """None where there is nothing to tell."""
    if not facts.online or expirable < MANY_SNAPSHOTS:
        return None
    detail = f"{format_count(expirable)} snapshots that nobody needs any more"
    return Job(table=facts.name, action="expire", reason=Reason(code="old_snapshots", detail=detail), due=True)


def plan_manifest_job(facts: TableFacts, plan: ManifestPlan) -> Job | None:
    """None where there is nothing to tell."""
    if not facts.online or plan.before - plan.after <= MANY_MANIFESTS:
        return None
    detail = f"{format_count(plan.before)} manifests where {format_count(plan.after)} would do"
    return Job(table=facts.name, action="manifests", reason=Reason(code="many_manifests", detail=detail), due=True)


def plan_deletes_job(facts: TableFacts, files: Sequence[FileFact], compaction: Job) -> Job | None:
    """None where there is nothing to tell. Where compaction is due and folds deletes in, it goes first."""
    delete_files = sum(file.content != "data" for file in files)
    if not _is_looked_after(facts) or delete_files < SOME_DELETE_FILES:
        return None
    plan = plan_deletes(facts, files)
    many = plan.rewrite + plan.dangling
    if many < SOME_DELETE_FILES or many <= DELETE_FILES.start * (len(files) - delete_files):
        return None
    if compaction.due and _holed(files):
        return None
    reason = Reason(code="many_deletes", detail=_told_of_deletes(plan))
    return Job(table=facts.name, action="rewrite_deletes", reason=reason, due=True)


def _told_of_deletes(plan: DeletePlan) -> str:
    become = "vectors" if plan.to_vectors else "fewer"
    rewrite = f"{counted(plan.rewrite, 'file')} of position deletes could be {become}" if plan.rewrite else ""
    dangling = f"{counted(plan.dangling, 'delete')} with no data file left" if plan.dangling else ""
    return ", ".join(filter(None, (rewrite, dangling)))


def plan_orphan_job(
    facts: TableFacts, scan: OrphanScan | None, settings: RetentionSettings, *, warehouse: str, now: datetime
) -> Job | None:
    """Whether a table's folder should be looked through, by when it was last; None where there is nothing to tell.

    A table whose files may not be its own is left alone, and says so when its time has come.
    """
    if not _is_looked_after(facts) or not _is_scan_due(facts, scan, settings, now):
        return None
    if not owns_files(facts):
        reason = Reason(code="foreign_files", detail="gc.enabled is false, so its files may not be its own")
        return Job(table=facts.name, action="orphans", reason=reason, due=False)
    last = "never looked through" if scan is None else f"last looked through {_ago(now - scan.scanned_at)} ago"
    what = "are listed"
    if settings.orphan_delete:
        what = "are removed" if removes_orphans(facts, settings, warehouse=warehouse) else _NOT_OURS
    detail = f"its folder was {last}; files that nothing names {what}"
    reason = Reason(code="unscanned" if scan is None else "scanned_long_ago", detail=detail)
    return Job(table=facts.name, action="orphans", reason=reason, due=True)


_NOT_OURS = "are only listed, as this lake did not make it"


def removes_orphans(facts: TableFacts, settings: RetentionSettings, *, warehouse: str) -> bool:
    """Whether the worker removes what it finds: where that is wanted, and nobody else's files can lie there."""
    return settings.orphan_delete and owns_location(facts.location, warehouse)


def _is_scan_due(facts: TableFacts, scan: OrphanScan | None, settings: RetentionSettings, now: datetime) -> bool:
    """A table that was never looked through is when it is so old that files in it can be old enough."""
    every = settings.orphan_scan_every
    if not every:
        return False
    if scan is not None:
        return now - scan.scanned_at >= every
    began = _began(facts)
    return began is None or now - began >= max(every, settings.orphan_age)


def _began(facts: TableFacts) -> datetime | None:
    """When the table was first written to; None where its first snapshots are gone, which is long ago."""
    known = {None, *(snapshot.id for snapshot in facts.snapshots)}
    if any(snapshot.parent_id not in known for snapshot in facts.snapshots):
        return None
    return min((snapshot.at for snapshot in facts.snapshots), default=facts.updated_at)


def _ago(length: timedelta) -> str:
    """In whole days, or hours, or what is left.

    >>> _ago(timedelta(days=8, hours=3)), _ago(timedelta(hours=3, minutes=9)), _ago(timedelta(minutes=9, seconds=2.5))
    ('8d', '3h', '9m2s')
    """
    for unit in (timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)):
        if length >= unit:
            return format_duration(length // unit * unit)
    return format_duration(timedelta(0))


def plan_statistics_job(
    facts: TableFacts,
    known: Sequence[ColumnStatistics],
    settings: StatisticsSettings,
    *,
    going: Collection[int] = (),
    now: datetime,
) -> Job | None:
    """Whether distinct values should be counted, or counted again; None where there is nothing to tell.

    Those of the snapshots in `going`, which expire next, would go with them.
    """
    current = facts.current
    rows = 0 if current is None else current.total("records") if current.rows is None else current.rows
    if not _is_looked_after(facts) or settings.tables == "none" or not rows:
        return None
    reason = _why_count(facts, known, settings, rows=rows, going=going, now=now)
    return None if reason is None else Job(table=facts.name, action="stats", reason=reason, due=True)


def _why_count(
    facts: TableFacts,
    known: Sequence[ColumnStatistics],
    settings: StatisticsSettings,
    *,
    rows: int,
    going: Collection[int],
    now: datetime,
) -> Reason | None:
    names = set(columns_to_recount(facts, known))
    found = [item for item in known if item.column in names]
    if not found:
        wanted = settings.tables == "all" and countable_columns(facts)
        return Reason(code="uncounted", detail="its distinct values were never counted") if wanted else None
    snapshots = {item.snapshot for item in found}
    lately = any(item.at is not None and now - item.at < COUNTED_LATELY for item in found)
    if not settings.stale_after or lately or snapshots == {facts.current_snapshot_id}:
        return None
    of = f"the distinct values of {counted(len(found), 'column')}"
    touched = rows_touched_since(facts, snapshots)
    if touched is None:
        return Reason(code="stale_statistics", detail=f"{of} are of a snapshot that its history lacks")
    if touched > settings.stale_after * rows:
        detail = f"{counted(touched, 'row')} written or deleted since {of} were counted, beside {format_count(rows)}"
        return Reason(code="stale_statistics", detail=detail)
    if not snapshots.isdisjoint(going):
        return Reason(code="expiring_statistics", detail=f"{of} would go with a snapshot that nobody needs any more")
    return None


def _is_looked_after(facts: TableFacts) -> bool:
    """Not offline, and not being deleted."""
    return facts.online and DELETING not in facts.properties
