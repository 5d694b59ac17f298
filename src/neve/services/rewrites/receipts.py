"""What a compaction did, or would do, in the words of document 003 and with all that was left alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from neve.model.results import Reason
from neve.model.rewrites import Group, GroupRow, LeftRow, RewriteReceipt, TableFiles
from neve.model.units import counted, format_count
from neve.services.rewrites.looking import Look
from neve.services.runs import Progress

_NO_FILES = Reason(code="no_files", detail="No files to compact")


@dataclass(slots=True)
class Done:
    """What has been committed so far."""

    groups: list[Group] = field(default_factory=list)
    files_written: int = 0
    bytes_written: int = 0
    rows_deleted: int = 0
    commits: list[int] = field(default_factory=list)
    conflicts: int = 0
    lost: int = 0
    """Groups that lost to writers each time, and are as they were."""

    @property
    def files(self) -> int:
        """Those that others were written for."""
        return sum(len(group.files) for group in self.groups)

    @property
    def bytes_saved(self) -> int:
        return sum(group.bytes for group in self.groups) - self.bytes_written


def receipt_of(
    look: Look, after: TableFiles, done: Done, *, began: float, run: Progress | None = None
) -> RewriteReceipt:
    """`look` is the table before, `after` its files when all was done: the same where nothing was, or is to be."""
    request, groups = look.request, list(done.groups)
    written, files_after = done.files_written, len(after.data)
    if request.dry_run:
        groups = list(look.plan.groups)
        written = sum(group.outputs(look.rules.target_bytes) for group in groups)
        files_after += written - look.plan.files
    compacted, elapsed = sum(len(group.files) for group in groups), (time.monotonic() - began) * 1000
    snapshot = look.files.facts.current_snapshot_id
    return RewriteReceipt(
        run_id=run.run_id if run else None,
        action="compact",
        table=str(request.table),
        reason=_reason(look, groups),
        snapshot_before=snapshot,
        snapshot_after=(run.snapshot_after if run else None) or snapshot,
        duration_ms=round(elapsed),
        dry_run=request.dry_run and bool(groups),
        undo=run.undo if run else None,
        compacted=bool(done.groups),
        strategy=request.strategy,
        files_before=len(look.files.data),
        files_after=files_after,
        files_compacted=compacted,
        files_removed=compacted,
        files_written=written,
        bytes_before=look.files.bytes,
        bytes_after=after.bytes,
        bytes_saved=done.bytes_saved,
        rows_deleted=done.rows_deleted,
        snapshots_expired=0,
        compaction_time_ms=round(elapsed, 2),
        small_files_remaining=after.below(look.rules.small_bytes),
        commits=len(done.commits),
        conflicts=done.conflicts,
        groups_lost=done.lost,
        groups=[_group_row(group) for group in groups],
        left=[
            LeftRow(partition=item.partition, files=item.files, bytes=item.bytes, reason=item.reason)
            for item in look.plan.left
        ],
    )


def _group_row(group: Group) -> GroupRow:
    return GroupRow(
        partition=group.partition,
        files=len(group.files),
        bytes=group.bytes,
        mechanic=group.mechanic,
        reason=group.reason,
    )


def _reason(look: Look, groups: Sequence[Group]) -> Reason:
    """Why something was done, or nothing: what holds for most files."""
    if groups:
        most = max(groups, key=lambda group: len(group.files)).reason
        return most if len(groups) == 1 else Reason(code=most.code, detail=_summary(groups))
    if not look.files.data:
        return _NO_FILES
    most_left = max(look.plan.left, key=lambda item: item.files).reason
    if look.rules.strategy == "binpack" and most_left.code in ("few_small_files", "large_enough"):
        small, partitions = (
            look.files.below(look.rules.small_bytes),
            len({entry.partition for entry in look.files.data}),
        )
        where, each = (f" in {counted(partitions, 'partition')}", " in one") if partitions > 1 else ("", "")
        needed = format_count(look.rules.min_files)
        detail = f"Only {format_count(small)} small files{where} (threshold: {needed}{each})"
        return Reason(code="few_small_files", detail=detail)
    return most_left


def _summary(groups: Sequence[Group]) -> str:
    partitions = len({group.partition for group in groups})
    return f"{counted(sum(len(group.files) for group in groups), 'file')} in {counted(partitions, 'partition')}"
