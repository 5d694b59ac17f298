"""Compaction of an Iceberg table: few large files in the place of many small ones, and every row as it was.

The cheapest mechanic that is right does the work, group by group of files (plan/rewrite_groups.py); nothing is locked
meanwhile. What a writer changed in between is planned anew, and only that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.errors import CommitConflict
from neve.model.commands import neve
from neve.model.rewrites import Group, RewriteReceipt, TableFiles
from neve.model.units import counted
from neve.plan.rewrite_groups import cut_by_bytes
from neve.plan.rewrites import SORTED, candidates
from neve.services.context import Context
from neve.services.expiry import ask, expire_snapshots
from neve.services.leases import leased
from neve.services.look import RUN_ID
from neve.services.repair import settle_dead_runs
from neve.services.rewrites.looking import ORDERED, Look, RewriteRequest, look_at
from neve.services.rewrites.receipts import Done, receipt_of
from neve.services.rewrites.work import Rewriting
from neve.services.runs import Progress, recorded

if TYPE_CHECKING:
    from neve.engine.rewrites import Order

ATTEMPTS = 5
COMMIT_BYTES = 16 << 30
"""So much is rewritten before it is committed, at most: what is done stays done when the rest fails."""

PART = "neve.part"


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
        done = _carry_out(context, look, run)
        after = context.catalog.table_files(request.table)
        run.snapshot_after = done.commits[-1] if done.commits else before
        if len(done.commits) == 1 and _parent(after, done.commits[0]) == before:
            run.undo = neve("table", "rollback", request.table.short, "--to", str(before))
        receipt = receipt_of(look, after, done, began=began, run=run)
        run.details = receipt.model_dump(mode="json", include={"files_compacted", "files_written", "conflicts"})
    return receipt


def _parent(files: TableFiles, snapshot_id: int) -> int | None:
    snapshot = files.facts.snapshot(snapshot_id)
    return None if snapshot is None else snapshot.parent_id


def _carry_out(context: Context, look: Look, run: Progress) -> Done:
    done = Done()
    for attempt in range(1, ATTEMPTS + 1):
        parts = cut_by_bytes(look.plan.groups, COMMIT_BYTES)
        lost = sum(_rewrite(context, look, groups, done, run) for groups in parts)
        if not lost:
            return done
        done.conflicts += lost
        if attempt < ATTEMPTS:
            context.tell(
                f"{counted(lost, 'group')} of files changed meanwhile; once more ({attempt + 1} of {ATTEMPTS})"
            )
            look = look_at(context, look.request)
    if not done.commits:
        raise CommitConflict(
            f"writers changed the same files of {look.request.table} {ATTEMPTS} times while they were compacted",
            hint="try again when less is written, or part by part: --partition k=v",
        )
    return done


def _rewrite(context: Context, look: Look, groups: Sequence[Group], done: Done, run: Progress) -> int:
    """Rewrites and commits some groups; how many lost to a writer. Those are as they were."""
    summary = {RUN_ID: run.run_id, PART: str(len(done.commits))}
    if look.rules.strategy in SORTED and look.rules.only is None and len(groups) == len(look.plan.groups):
        summary[ORDERED] = look.order_label
    with Rewriting(context, look.writing, look.rules, _order(look), look.shapes) as work:
        work.make(groups)
        while work.made:
            try:
                done.commits.append(work.commit(summary))
                break
            except CommitConflict:
                changed = _changed(context, look)
                if not work.drop(changed):
                    work.drop(lambda _: True)
        done.groups += [made.group for made in work.made]
        done.files_written += sum(made.files for made in work.made)
        done.rows_deleted += sum(made.group.rows - made.rows for made in work.made)
        return len(groups) - len(work.made)


def _changed(context: Context, look: Look) -> Callable[[Group], bool]:
    """Whether files of a group are gone by now, or have other deletes than they had."""
    now = {file.path: file.deletes for file in candidates(context.catalog.table_files(look.request.table))}
    return lambda group: any(now.get(file.path) != file.deletes for file in group.files)


def _order(look: Look) -> Order:
    from neve.engine.rewrites import Order

    strategy = look.rules.strategy
    if strategy not in SORTED:
        return Order()
    if strategy == "sort":
        terms = [(term.term.column, term.descending, term.nulls_first) for term in look.sort_by]
        return Order(kind="sort", terms=tuple(terms))
    return Order(kind=strategy, columns=tuple(term.term.column for term in look.sort_by))
