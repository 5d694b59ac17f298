"""The kinds of scheduled work, each a function that does one job and tells of each table as soon as it is done.

To add a kind: one line in `JOBS`, and rows of that action from `services.status.table_jobs` or `directory_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from neve.errors import CommitConflict, Conflict, LeaseHeld, NotFound, SparkUnavailable, StalePlan, StoreError
from neve.model.names import TableName
from neve.model.periods import date_ranges
from neve.model.refresh import RefreshReceipt
from neve.model.results import Reason, Receipt
from neve.model.retention import OrphanReceipt
from neve.model.units import counted, format_bytes
from neve.model.work import OutcomeState
from neve.plan.agenda import REFRESH, Job
from neve.plan.schedule import removes_orphans
from neve.plan.tidying import columns_to_recount
from neve.services.compaction import compact_period
from neve.services.compaction_requests import ask
from neve.services.context import Context
from neve.services.dynamic.laps import RoundRequest
from neve.services.dynamic.rounds import run_round
from neve.services.expiry import ask as ask_to_expire
from neve.services.expiry import expire_snapshots
from neve.services.orphans import ask as ask_for_orphans
from neve.services.orphans import table_orphans
from neve.services.ranges.splitting import split_table
from neve.services.rewrites.compaction import compact_table
from neve.services.rewrites.looking import RewriteRequest
from neve.services.status import orphan_job
from neve.services.tidying import table_statistics, tidy_deletes, tidy_manifests
from neve.services.worker.landing import KIND as LANDING
from neve.services.worker.landing import Landing

QUIET = timedelta(minutes=1)
"""A partition whose rows were changed in this time is not rewritten by a job that takes long."""

CONFLICTS = frozenset(error.code for error in (Conflict, CommitConflict, LeaseHeld, StalePlan))
"""Somebody else was first: nothing was changed, and nobody is to blame."""
NOT_ITS_OWN = frozenset(error.code for error in (SparkUnavailable, StoreError))
"""The worker could not work; the table has nothing to do with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one table. A failure that is not `own`, such as one of a table above, does not count.

    `settled` is a snapshot of the table of which nothing more can be made, whatever it looks like.
    """

    table: TableName
    state: OutcomeState
    what: str | None = None
    reason: Reason | None = None
    run_id: str | None = None
    refresh: RefreshReceipt | None = None
    own: bool = True
    settled: int | None = None


Tell = Callable[[Done], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a job works with: the open lake, and what the worker remembers of landing folders."""

    context: Context
    landing: Landing
    tell: Tell


def refresh(hands: Hands, job: Job) -> None:
    """One round of the job's tables; what stands in the way of one keeps only those below it."""

    def told(receipt: RefreshReceipt) -> None:
        hands.tell(_of_refresh(receipt))

    names = [member.table for member in job.members]
    request = RoundRequest(
        selectors=[name.short for name in names],
        trigger="SCHEDULED",
        parallel=1,
        within=frozenset(names),
        told=told,
    )
    try:
        run_round(hands.context, request)
    except NotFound as exc:
        raise StalePlan(f"{exc.message}: it is gone since this was planned") from exc


def compact(hands: Hands, job: Job) -> None:
    """A table's small files, so many as the settings say at once; what is changed just now waits, but not for ever."""
    at_once = hands.context.loaded.settings.compaction.max_files_per_compaction
    quiet = QUIET if hands.context.clock() < job.deadline else None
    request = RewriteRequest(table=job.table, max_files=max(at_once, 2), quiet=quiet)
    receipt = compact_table(hands.context, request)
    what = f"{receipt.files_compacted:,} → {receipt.files_written:,} files"
    hands.tell(_of_receipt(job.table, receipt, what=what if receipt.compacted else "nothing was ready"))


def split(hands: Hands, job: Job) -> None:
    """Key ranges that have grown too large, as `neve table split` does it."""
    receipt = split_table(hands.context, job.table)
    divided = sum(row.parts is not None for row in receipt.ranges)
    done = _of_receipt(job.table, receipt, what=f"{divided:,} ranges divided")
    hands.tell(done if divided else replace(done, settled=receipt.snapshot_before))


def expire(hands: Hands, job: Job) -> None:
    """Snapshots that nobody needs, by the table's own policy."""
    receipt = expire_snapshots(hands.context, ask_to_expire(job.table))
    hands.tell(_of_receipt(job.table, receipt, what=f"{len(receipt.expired):,} snapshots expired"))


def manifests(hands: Hands, job: Job) -> None:
    receipt = tidy_manifests(hands.context, job.table)
    hands.tell(_of_receipt(job.table, receipt, what="manifests rewritten"))


def rewrite_deletes(hands: Hands, job: Job) -> None:
    """Few files of deletes, or vectors, in the place of many; those that no data file is left for go."""
    receipt = tidy_deletes(hands.context, job.table)
    before = receipt.position_files_before, receipt.vectors_before
    after = receipt.position_files_after, receipt.vectors_after
    done = _of_receipt(job.table, receipt, what=f"{sum(before):,} → {sum(after):,} files of deletes")
    hands.tell(done if after != before else replace(done, settled=receipt.snapshot_after))


def stats(hands: Hands, job: Job) -> None:
    """The distinct values of the columns that were counted before; of all where none were."""
    context = hands.context
    facts = context.catalog.facts(job.table)
    columns = columns_to_recount(facts, context.catalog.statistics(facts))
    receipt = table_statistics(context, job.table, columns=columns or None)
    done = _of_receipt(job.table, receipt, what=f"{counted(len(receipt.columns), 'column')} counted")
    fresh = all(item.snapshot == receipt.snapshot_after for item in receipt.columns)
    hands.tell(done if fresh else replace(done, settled=receipt.snapshot_after))


def orphans(hands: Hands, job: Job) -> None:
    """Files that nothing names, listed or removed as the settings say.

    A look changes no metadata, so that another worker may have planned it before this one had its turn.
    """
    context = hands.context
    facts = context.catalog.facts(job.table)
    planned = orphan_job(context, facts)
    if planned is None or not planned.due:
        raise StalePlan(f"{job.table} was looked through meanwhile")
    loaded = context.loaded
    delete = removes_orphans(facts, loaded.settings.retention, warehouse=loaded.warehouse_location)
    receipt = table_orphans(context, job.table, ask_for_orphans(context, delete=delete))
    hands.tell(_of_receipt(job.table, receipt, what=_found(receipt)))


def _found(receipt: OrphanReceipt) -> str:
    if not receipt.files:
        return "nothing found"
    if receipt.removed or receipt.files_left:
        return f"{receipt.removed:,} of {counted(receipt.files, 'file')} removed"
    return f"{counted(receipt.files, 'file')} found ({format_bytes(receipt.bytes)})"


def compact_days(hands: Hands, job: Job) -> None:
    """One period of one table, as `neve compact TABLE --period` does it."""
    receipt = compact_period(hands.context, ask(job.table, None, period=job.what))
    hands.tell(_of_receipt(job.table, receipt, what=f"{receipt.files_before:,} → {receipt.files_after:,} files"))


def load(hands: Hands, job: Job) -> None:
    """What waits in the table's landing folder, or was submitted; dates that fail do not keep the others."""
    outcomes = list(hands.landing.load(hands.context, job.table))
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    loaded = [outcome for outcome in outcomes if outcome.state == "loaded"]
    days = [day for outcome in loaded for day in outcome.dates]
    runs = [outcome.receipt.run_id for outcome in loaded if outcome.receipt is not None]
    done = Done(
        table=job.table,
        state="succeeded",
        what=f"loaded {date_ranges(sorted(days))}" if days else "nothing was ready",
        run_id=next(filter(None, reversed(runs)), None),
    )
    # Dates that failed stay submitted, and the landing folder's memory says when each is tried again.
    hands.tell(replace(done, state="failed", reason=failed[0].reason, own=False) if failed else done)


JOBS: Mapping[str, Callable[[Hands, Job], None]] = {
    REFRESH: refresh,
    "compact": compact,
    "compact_period": compact_days,
    "split": split,
    "expire": expire,
    "manifests": manifests,
    "rewrite_deletes": rewrite_deletes,
    "stats": stats,
    "orphans": orphans,
    LANDING: load,
}


def _of_receipt(table: TableName, receipt: Receipt, *, what: str) -> Done:
    return Done(table=table, state="succeeded", what=what, reason=receipt.reason, run_id=receipt.run_id)


def _of_refresh(receipt: RefreshReceipt) -> Done:
    state: OutcomeState = "succeeded"
    if receipt.state == "CANCELLED":
        state = "cancelled"
    elif receipt.state in ("FAILED", "UPSTREAM_FAILED"):
        state = "conflict" if receipt.error_code in CONFLICTS else "failed"
    return Done(
        table=TableName.parse(receipt.table),
        state=state,
        what=receipt.refresh or receipt.state,
        reason=receipt.reason,
        run_id=receipt.run_id,
        refresh=receipt,
        own=receipt.state != "UPSTREAM_FAILED" and receipt.error_code not in NOT_ITS_OWN,
    )
