"""Expiry: snapshots that nobody needs go in one commit of metadata, and then the files that only they had. No JVM.

A process that dies between the two leaves files that nothing names, which `neve orphans` finds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import JsonValue

from neve.catalog.reach import Reach
from neve.errors import CommitConflict, InvalidInput, Refused, StalePlan
from neve.model.facts import Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.retention import ExpireReceipt, KeptSnapshot, KindTotal, StoredFile
from neve.model.runs import Run
from neve.plan.expiry import (
    Claim,
    ExpiryPlan,
    ExpiryPolicy,
    frontier_claims,
    own_frontier_claims,
    plan_expiry,
    reader_claims,
    refuse_without_gc,
    resolve_policy,
    run_claims,
)
from neve.plan.holds import purposes
from neve.plan.tables import dependants, is_dynamic_table
from neve.services.context import Context
from neve.services.deletion import look_again, refuse_half_deleted
from neve.services.ledger import log_held
from neve.services.look import all_facts
from neve.services.readers import readers_of
from neve.services.repair import settle_dead_runs
from neve.services.runs import Progress, recorded
from neve.services.shared import others_around

_AMONG = 20
"""So many of what goes are recorded with the run: if they are gone, it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """What was asked for; what is None is for the table and the settings to say."""

    table: TableName
    older_than: timedelta | None = None
    keep_last: int | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expiry:
    """A plan with the files that go with it."""

    facts: TableFacts
    plan: ExpiryPlan
    ours: tuple[StoredFile, ...] = ()
    foreign: tuple[StoredFile, ...] = ()


def ask(
    table: TableName,
    *,
    older_than: timedelta | None = None,
    retention_hours: float | None = None,
    keep_last: int | None = None,
    dry_run: bool = False,
) -> ExpireRequest:
    if older_than is not None and retention_hours is not None:
        raise InvalidInput("an age and a number of hours say the same: give one of them")
    if retention_hours is not None:
        older_than = _hours(retention_hours)
    return ExpireRequest(table=table, older_than=older_than, keep_last=keep_last, dry_run=dry_run)


def expire_snapshots(context: Context, request: ExpireRequest) -> ExpireReceipt:
    """Takes away the snapshots that nobody needs, and the files that only they had.

    Raises:
        Refused: the table's files may not be its own.
        CommitConflict: the table is being changed all the time.
    """
    began = time.monotonic()
    settle_dead_runs(context)
    facts = context.catalog.facts(request.table)
    _refuse(context, facts)
    reach = context.catalog.reach()
    found = _plan_with_files(context, request, facts, reach)
    if request.dry_run or found.plan.nothing:
        return _receipt(request, found, began=began)
    what: dict[str, JsonValue] = {
        "snapshots": len(found.plan.gone),
        "among": [snapshot.id for snapshot in found.plan.gone[:_AMONG]],
        "references": [reference.name for reference in found.plan.references_gone[:_AMONG]],
    }
    current = facts.current_snapshot_id
    with recorded(context, "expire", request.table, plan=what, snapshot_before=current) as run:
        found = _commit(context, request, found, reach, run)
        left = _remove(context, found)
        run.snapshot_after = found.facts.current_snapshot_id
        receipt = _receipt(request, found, began=began, run=run, left=left)
        run.details = receipt.model_dump(
            mode="json", include={"snapshots_before", "snapshots_after", "files_removed", "bytes_removed"}
        )
        run.reason = receipt.reason
    return receipt


def policy_of(context: Context, facts: TableFacts, request: ExpireRequest | None = None) -> ExpiryPolicy:
    """How long the table's snapshots are kept, if no more is asked for than that."""
    settings = context.loaded.settings.retention
    default = ExpiryPolicy(
        max_age=_hours(settings.snapshot_retention_hours),
        min_snapshots=settings.min_snapshots_to_keep,
        reader_grace=settings.reader_grace,
    )
    if request is None:
        return resolve_policy(facts, default=default)
    return resolve_policy(facts, default=default, older_than=request.older_than, keep_last=request.keep_last)


def keeps_less(context: Context, request: ExpireRequest) -> bool:
    """Whether what is asked for keeps less than the table and the settings say."""
    facts = context.catalog.facts(request.table)
    return policy_of(context, facts, request).keeps_less_than(policy_of(context, facts))


def plan_of(
    context: Context,
    facts: TableFacts,
    policy: ExpiryPolicy,
    *,
    tables: Sequence[TableFacts] | None = None,
    own_run: str | None = None,
) -> ExpiryPlan:
    """What would go now. `tables` are all of the lake, where the caller has them."""
    every = all_facts(context) if tables is None else tables
    claims = [
        *_dynamic_claims(facts, every),
        *_work_claims(context, facts, every, own_run),
        *reader_claims(facts, readers_of(context, facts)),
    ]
    return plan_expiry(facts, policy, claims, now=context.clock(), purposes=purposes(facts, every))


def _hours(number: float) -> timedelta:
    try:
        return timedelta(hours=number)
    except (OverflowError, ValueError) as exc:
        raise InvalidInput(f"{number} hours are no age") from exc


def _refuse(context: Context, facts: TableFacts) -> None:
    refuse_half_deleted(facts)
    refuse_without_gc(facts, verb="expire snapshots of")
    if others := others_around(context, facts):
        raise Refused(
            f"{facts.name} shares its folder with {others[0].label}: a file that it needs no more may be the other's",
            hint="give each table a folder of its own, or finish what is being rebuilt",
        )


def _plan_with_files(
    context: Context, request: ExpireRequest, facts: TableFacts, reach: Reach, own_run: str | None = None
) -> _Expiry:
    """Decides, and finds the files that go; anew as often as the table is changed meanwhile."""
    for _ in range(context.loaded.settings.commit.retries + 1):
        plan = plan_of(context, facts, policy_of(context, facts, request), own_run=own_run)
        if plan.nothing:
            return _Expiry(facts=facts, plan=plan)
        try:
            files = context.catalog.only_through(facts, [snapshot.id for snapshot in plan.gone], reach)
        except StalePlan:
            facts = look_again(context, facts)
            continue
        inside = context.catalog.files.inside(facts.location)
        return _Expiry(
            facts=facts,
            plan=plan,
            ours=tuple(file for file in files if inside(file.path)),
            foreign=tuple(file for file in files if not inside(file.path)),
        )
    raise _never_still(facts)


def _commit(context: Context, request: ExpireRequest, found: _Expiry, reach: Reach, run: Progress) -> _Expiry:
    """One commit, by compare-and-swap on what the plan was made from: a tag that comes meanwhile is respected."""
    for _ in range(context.loaded.settings.commit.retries + 1):
        log_held(context, look_again(context, found.facts), found.plan.gone)
        if found.plan.nothing:
            return found
        gone = [snapshot.id for snapshot in found.plan.gone]
        references = [reference.name for reference in found.plan.references_gone]
        if context.catalog.remove_snapshots(found.facts, gone, references):
            return found
        context.tell("the table was changed meanwhile; once more")
        found = _plan_with_files(context, request, look_again(context, found.facts), reach, run.run_id)
    raise _never_still(found.facts)


def _remove(context: Context, found: _Expiry) -> list[str]:
    """Removes the files, but for those of a snapshot that somebody has begun to read; the paths of what is left."""
    gone = {snapshot.id for snapshot in found.plan.gone}
    paths = [file.path for file in found.ours]
    if any(gone & set(reader.snapshots) for reader in readers_of(context, found.facts)):
        return paths
    return context.catalog.files.remove_all(paths)


def _dynamic_claims(facts: TableFacts, tables: Iterable[TableFacts]) -> list[Claim]:
    from neve.services.dynamic.deciding import frontier_of
    from neve.services.dynamic.definitions import FRONTIER

    readers = {other.name: frontier_of(other) for other in tables if is_dynamic_table(other)}
    consumed = {name: frontier for name, frontier in readers.items() if frontier is not None}
    own = own_frontier_claims(facts, FRONTIER) if is_dynamic_table(facts) else ()
    return [*frontier_claims(facts, consumed), *own]


def _work_claims(
    context: Context, facts: TableFacts, tables: Sequence[TableFacts], own_run: str | None
) -> Iterable[Claim]:
    names = {facts.name.short, *(name.short for name in dependants(facts.name, tables))}
    return run_claims(facts, [run for run in _unfinished(context, names) if run.run_id != own_run])


def _unfinished(context: Context, names: Collection[str]) -> list[Run]:
    return [run for run in context.store.runs.unfinished() if run.table_name is None or run.table_name in names]


def _never_still(facts: TableFacts) -> CommitConflict:
    return CommitConflict(f"{facts.name} is being changed all the time", hint="try again, or raise commit.retries")


def _receipt(
    request: ExpireRequest,
    found: _Expiry,
    *,
    began: float,
    run: Progress | None = None,
    left: Collection[str] = (),
) -> ExpireReceipt:
    plan, kept = found.plan, set(left)
    removed = [file for file in found.ours if file.path not in kept]
    before = len(plan.gone) + len(plan.kept)
    current = found.facts.current_snapshot_id
    return ExpireReceipt(
        run_id=run.run_id if run else None,
        action="expire",
        table=str(request.table),
        reason=_why_nothing(plan) if plan.nothing else None,
        snapshot_before=current,
        snapshot_after=current,
        duration_ms=round((time.monotonic() - began) * 1000),
        dry_run=request.dry_run and not plan.nothing,
        snapshots_before=before,
        snapshots_after=len(plan.kept),
        expired=[snapshot.id for snapshot in plan.gone],
        references_expired=[reference.name for reference in plan.references_gone],
        kept=[
            KeptSnapshot(snapshot=item.snapshot.id, at=item.snapshot.at, reasons=list(item.reasons))
            for item in plan.kept
        ],
        removed=totals(removed),
        files_removed=len(removed),
        bytes_removed=sum(file.bytes for file in removed),
        files_left=sorted([*left, *(file.path for file in found.foreign)]),
    )


def totals(files: Iterable[StoredFile]) -> list[KindTotal]:
    """Files and bytes by kind."""
    every = list(files)
    counts, sizes = Counter(file.kind for file in every), Counter[str]()
    for file in every:
        sizes[file.kind] += file.bytes
    return [KindTotal(kind=kind, files=count, bytes=sizes[kind]) for kind, count in counts.items()]


def _why_nothing(plan: ExpiryPlan) -> Reason:
    if not plan.kept:
        return Reason(code="nothing_to_do", detail=f"{plan.table} has no snapshots")
    counts = Counter(item.reasons[0].detail for item in plan.kept)
    told = ", ".join(f"{count:,}: {detail}" for detail, count in counts.most_common(5))
    return Reason(code="nothing_to_do", detail=f"every snapshot is needed ({told})")


def expirable(context: Context, facts: TableFacts, tables: Sequence[TableFacts] | None = None) -> tuple[Snapshot, ...]:
    """The snapshots that `neve expire` would take; who needs them is asked only where some are old enough.

    `tables` are all of the lake, where the caller has them.
    """
    try:
        policy = policy_of(context, facts)
        refuse_without_gc(facts, verb="expire snapshots of")
    except (InvalidInput, Refused):  # which says so when it is asked
        return ()
    if not plan_expiry(facts, policy, (), now=context.clock()).gone:
        return ()
    return plan_of(context, facts, policy, tables=tables).gone
