"""What is due on a table's files and past: pure, from facts and settings. Offline tables are left alone, and say so.

Each rule is that of the command which does the work, so that nothing is due which would do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from neve.config import CompactionSettings
from neve.model.facts import FileFact, TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.units import format_count
from neve.plan.measures import Reach, by_partition, small_file_bytes
from neve.plan.rewrites import MANY_DELETED
from neve.plan.tidying import ManifestPlan

MANY_SNAPSHOTS = 20
"""So many that nobody needs are worth a commit; fewer wait for the next ones."""

MANY_MANIFESTS = 100
"""More than a table needs by so many: what health begins to count."""


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
