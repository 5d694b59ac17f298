"""What is due: pure, from facts and settings. Offline tables are left alone, and say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neve.config import CompactionSettings
from neve.model.facts import FileFact, TableFacts
from neve.model.names import TableName
from neve.model.results import Reason

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work on one table; not due when `skipped` says why."""

    table: TableName
    action: str
    reason: Reason
    due: bool


def plan_maintenance(facts: TableFacts, files: Sequence[FileFact], settings: CompactionSettings) -> Job:
    """Whether a table's small files should be compacted now."""

    def job(code: str, detail: str, *, due: bool = False) -> Job:
        return Job(table=facts.name, action="compact", reason=Reason(code=code, detail=detail), due=due)

    if not facts.online:
        return job("offline", "the table is offline: scheduled jobs leave it alone")
    if not settings.enabled:
        return job("disabled", "compaction.enabled is false")
    small = sum(file.content == "data" and file.bytes < settings.small_file_threshold_mb * _MIB for file in files)
    needed = settings.min_files_to_compact
    if small < needed:
        return job("few_small_files", f"{small} small files; {needed} make it worth while")
    return job("small_files", f"{small} small files, {needed} or more", due=True)
