"""Compaction of an Iceberg table: few large files in the place of many small ones, and every row as it was.

The cheapest mechanic that is right does the work, group by group of files (plan/rewrite_groups.py); nothing is locked
meanwhile. What a writer changed in between is planned anew, and only that.
"""

from __future__ import annotations

import time
from dataclasses import replace

from pydantic import JsonValue

from neve.model.commands import neve
from neve.model.rewrites import RewriteReceipt, TableFiles
from neve.services.context import Context
from neve.services.expiry import ask, expire_snapshots
from neve.services.leases import leased
from neve.services.repair import settle_dead_runs
from neve.services.rewrites.carrying import carry_out
from neve.services.rewrites.looking import RewriteRequest, look_at
from neve.services.rewrites.receipts import Done, receipt_of
from neve.services.runs import recorded


def compact_table(context: Context, request: RewriteRequest) -> RewriteReceipt:
    """Makes few files of a table's many, and takes old snapshots away if asked. Readers and writers carry on meanwhile.

    Raises:
        CommitConflict: writers changed the same files again and again, and nothing could be committed.
        LeaseHeld: somebody else is compacting the table.
    """
    receipt = _compact(context, request)
    if not request.expire_snapshots:
        return receipt
    asked = ask(request.table, retention_hours=request.snapshot_retention_hours, dry_run=request.dry_run)
    gone = expire_snapshots(context, asked).expired
    undo = None if receipt.snapshot_before in gone else receipt.undo
    return receipt.model_copy(update={"snapshots_expired": len(gone), "undo": undo})


def _compact(context: Context, request: RewriteRequest) -> RewriteReceipt:
    began = time.monotonic()
    settle_dead_runs(context)
    look = look_at(context, request)
    if request.dry_run or not look.plan.groups:
        return receipt_of(look, look.files, Done(), began=began)
    before = look.files.facts.current_snapshot_id
    what: dict[str, JsonValue] = {"strategy": request.strategy, "files": look.plan.files}
    with (
        leased(context, f"compaction of {request.table}"),
        recorded(context, "compact", request.table, plan=what, snapshot_before=before) as run,
    ):
        done = carry_out(context, look, run, again=lambda done: look_at(context, _rest(request, done)))
        after = context.catalog.table_files(request.table)
        run.snapshot_after = done.commits[-1] if done.commits else before
        if len(done.commits) == 1 and _parent(after, done.commits[0]) == before:
            run.undo = neve("table", "rollback", request.table.short, "--to", str(before))
        receipt = receipt_of(look, after, done, began=began, run=run)
        run.details = receipt.model_dump(mode="json", include={"files_compacted", "files_written", "conflicts"})
    return receipt


def _rest(request: RewriteRequest, done: Done) -> RewriteRequest:
    """What is still asked for: of so many files, those that are not done."""
    return request if request.max_files is None else replace(request, max_files=request.max_files - done.files)


def _parent(files: TableFiles, snapshot_id: int) -> int | None:
    snapshot = files.facts.snapshot(snapshot_id)
    return None if snapshot is None else snapshot.parent_id
