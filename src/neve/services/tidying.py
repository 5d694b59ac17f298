"""Manifests, deletes and statistics: planned from metadata alone, made by Iceberg's actions, recorded as runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from pydantic import JsonValue

from neve.errors import CommitConflict
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.retention import ColumnStatistics, DeletesReceipt, ManifestReceipt, StatisticsReceipt
from neve.plan.health import command_for
from neve.plan.tidying import (
    DeletePlan,
    ManifestPlan,
    choose_statistics_columns,
    manifest_target,
    plan_deletes,
    plan_manifests,
    refuse_equality_alone,
)
from neve.services.context import Context
from neve.services.deletion import refuse_half_deleted
from neve.services.look import RUN_ID
from neve.services.runs import Progress, recorded

ATTEMPTS = 5


def tidy_manifests(context: Context, name: TableName, *, dry_run: bool = False) -> ManifestReceipt:
    """Makes few manifests of many, in the order of partitions; rows and files stay as they are."""
    began = time.monotonic()
    facts = _found(context, name)
    plan = _manifest_plan(context, facts)
    if plan.nothing or dry_run:
        return _manifest_receipt(facts, plan, plan, began=began, dry_run=dry_run)
    from neve.engine.session import fresh_session
    from neve.engine.tidying import rewrite_manifests

    what: dict[str, JsonValue] = {"manifests": plan.before}
    with recorded(context, "manifests", name, plan=what, snapshot_before=facts.current_snapshot_id) as run:
        spark, summary = fresh_session(context.session.spark), {RUN_ID: run.run_id}
        for spec in plan.specs:
            _insist(context, partial(rewrite_manifests, spark, name, spec_id=spec, summary=summary))
        after = context.catalog.facts(name)
        _close(run, name, facts, after)
        receipt = _manifest_receipt(facts, plan, _manifest_plan(context, after), began=began, run=run)
        run.details = receipt.model_dump(mode="json", include={"manifests_before", "manifests_after"})
    return receipt


def tidy_deletes(context: Context, name: TableName, *, dry_run: bool = False) -> DeletesReceipt:
    """Makes few files of position deletes, or vectors, and takes away those that no data file is left for.

    Raises:
        Refused: there is nothing but equality deletes, which compaction folds in.
    """
    began = time.monotonic()
    facts = _found(context, name)
    plan = _delete_plan(context, facts)
    refuse_equality_alone(facts, plan, instead=f"compact it: {command_for('compact', name)}")
    if plan.nothing or dry_run:
        return _deletes_receipt(facts, plan, plan, began=began, dry_run=dry_run)
    from neve.engine.session import fresh_session
    from neve.engine.tidying import remove_dangling_deletes, rewrite_position_deletes

    what: dict[str, JsonValue] = {"rewrite": plan.rewrite, "dangling": plan.dangling}
    with recorded(context, "rewrite_deletes", name, plan=what, snapshot_before=facts.current_snapshot_id) as run:
        spark, summary = fresh_session(context.session.spark), {RUN_ID: run.run_id}
        if plan.rewrite:
            rewrite = partial(rewrite_position_deletes, spark, name, everything=plan.to_vectors, summary=summary)
            _insist(context, rewrite)
        if plan.dangling:
            _insist(context, partial(remove_dangling_deletes, spark, name))
        after = context.catalog.facts(name)
        _close(run, name, facts, after)
        receipt = _deletes_receipt(facts, plan, _delete_plan(context, after), began=began, run=run)
        counts = {"position_files_before", "position_files_after", "vectors_after", "dangling"}
        run.details = receipt.model_dump(mode="json", include=counts)
    return receipt


def table_statistics(
    context: Context, name: TableName, *, columns: Sequence[str] | None = None, dry_run: bool = False
) -> StatisticsReceipt:
    """Counts the distinct values of columns, by sketches that Spark's optimiser reads; all plain ones unless named.

    What was counted for the current snapshot already is not counted again.
    """
    began = time.monotonic()
    facts = _found(context, name)
    known = context.catalog.statistics(facts)
    current = facts.current_snapshot_id
    fresh = [item for item in known if item.snapshot == current]
    chosen = choose_statistics_columns(facts, columns, fresh)
    missing = [column for column in chosen if column not in {item.column for item in fresh}]
    if current is None or not missing or dry_run:
        why = None if current is not None and missing else _counted(facts)
        return _statistics_receipt(facts, known, chosen, began=began, dry_run=dry_run, reason=why)
    from neve.engine.session import fresh_session
    from neve.engine.tidying import compute_statistics

    with recorded(context, "stats", name, plan={"columns": list(chosen)}, snapshot_before=current) as run:
        spark = fresh_session(context.session.spark)
        _insist(context, partial(compute_statistics, spark, name, chosen, snapshot=current))
        after = context.catalog.facts(name)
        run.snapshot_after = current
        receipt = _statistics_receipt(facts, context.catalog.statistics(after), chosen, began=began, run=run)
        run.details = {"columns": len(chosen)}
    return receipt


def _found(context: Context, name: TableName) -> TableFacts:
    facts = context.catalog.facts(name)
    refuse_half_deleted(facts)
    return facts


def _manifest_plan(context: Context, facts: TableFacts) -> ManifestPlan:
    return plan_manifests(context.catalog.manifest_sizes(facts), manifest_target(facts))


def _delete_plan(context: Context, facts: TableFacts) -> DeletePlan:
    return plan_deletes(facts, context.catalog.live_files(facts))


def _insist(context: Context, work: Callable[[], None]) -> None:
    """Does what a writer may come between, a few times."""
    for attempt in range(2, ATTEMPTS + 1):
        try:
            return work()
        except CommitConflict:
            context.tell(f"the table was written to meanwhile; once more ({attempt} of {ATTEMPTS})")
    return work()


def _close(run: Progress, name: TableName, before: TableFacts, after: TableFacts) -> None:
    run.snapshot_after = after.current_snapshot_id
    if before.current_snapshot_id is not None and before.current_snapshot_id != after.current_snapshot_id:
        run.undo = _undo(run, name, before, after)


def _undo(run: Progress, name: TableName, before: TableFacts, after: TableFacts) -> str | None:
    """The way back, unless a writer came between: rolling back would take its rows too."""
    ours = {before.current_snapshot_id}
    for snapshot in after.ancestors():
        if snapshot.id in ours:
            return neve("table", "rollback", name.short, "--to", str(before.current_snapshot_id))
        if snapshot.operation != "replace" and snapshot.summary.get(RUN_ID) != run.run_id:
            return None
    return None


def _manifest_receipt(
    facts: TableFacts,
    plan: ManifestPlan,
    after: ManifestPlan,
    *,
    began: float,
    dry_run: bool = False,
    run: Progress | None = None,
) -> ManifestReceipt:
    return ManifestReceipt(
        run_id=run.run_id if run else None,
        action="manifests",
        table=str(facts.name),
        reason=_nothing(f"{plan.before:,} manifests are as few as their bytes need") if plan.nothing else None,
        snapshot_before=facts.current_snapshot_id,
        snapshot_after=run.snapshot_after if run else facts.current_snapshot_id,
        duration_ms=_since(began),
        dry_run=dry_run and not plan.nothing,
        undo=run.undo if run else None,
        manifests_before=plan.before,
        manifests_after=after.before if run else plan.after,
        bytes_before=plan.bytes,
        bytes_after=after.bytes,
    )


def _deletes_receipt(
    facts: TableFacts,
    plan: DeletePlan,
    after: DeletePlan,
    *,
    began: float,
    dry_run: bool = False,
    run: Progress | None = None,
) -> DeletesReceipt:
    return DeletesReceipt(
        run_id=run.run_id if run else None,
        action="rewrite_deletes",
        table=str(facts.name),
        reason=_nothing(_why_no_deletes(plan)) if plan.nothing else None,
        snapshot_before=facts.current_snapshot_id,
        snapshot_after=run.snapshot_after if run else facts.current_snapshot_id,
        duration_ms=_since(began),
        dry_run=dry_run and not plan.nothing,
        undo=run.undo if run else None,
        position_files_before=plan.position_files,
        position_files_after=after.position_files,
        vectors_before=plan.vectors,
        vectors_after=after.vectors,
        dangling=plan.dangling,
        equality_files=after.equality_files,
    )


def _statistics_receipt(
    facts: TableFacts,
    known: Sequence[ColumnStatistics],
    chosen: Sequence[str],
    *,
    began: float,
    dry_run: bool = False,
    run: Progress | None = None,
    reason: Reason | None = None,
) -> StatisticsReceipt:
    current = facts.current_snapshot_id
    return StatisticsReceipt(
        run_id=run.run_id if run else None,
        action="stats",
        table=str(facts.name),
        reason=reason,
        details={"count": list(chosen)} if dry_run and reason is None else {},
        snapshot_before=current,
        snapshot_after=current,
        duration_ms=_since(began),
        dry_run=dry_run and reason is None,
        columns=[item for item in known if item.column in chosen],
    )


def _counted(facts: TableFacts) -> Reason:
    if facts.current is None:
        return _nothing(f"{facts.name} has no rows yet")
    return _nothing(f"they were counted for snapshot {facts.current_snapshot_id}, the current one")


def _why_no_deletes(plan: DeletePlan) -> str:
    if plan.vectors or plan.position_files:
        return f"{plan.position_files:,} files of position deletes and {plan.vectors:,} vectors are as few as can be"
    return "there are no deletes"


def _nothing(detail: str) -> Reason:
    return Reason(code="nothing_to_do", detail=detail)


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
