"""Compaction of a period of a directory table: one file in place of many, compared with them before they go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from neve.model.compaction import CompactedPeriod, CompactionReceipt, Due, NotDue, PeriodPlan, Sources
from neve.model.directory_tables import LedgerPeriod
from neve.plan.directory_tables import day_files
from neve.plan.periods import compacted_by, due_periods, plan_period_compaction
from neve.services.compaction_requests import CompactionRequest, log_compaction, refuse
from neve.services.context import Context
from neve.services.directory_tables.jobs import Job, at_work
from neve.services.directory_tables.tables import (
    Contents,
    DirectoryTable,
    check_columns,
    contents,
    plain_files,
    shape_of,
)
from neve.services.runs import Progress, recorded


def compact_directory(context: Context, table: DirectoryTable, request: CompactionRequest) -> CompactionReceipt:
    began = time.monotonic()
    plan = _plan(context, table, contents(context, table), request)
    refuse(plan.action, plan.reason)
    if plan.action != "compact" or request.dry_run:
        return _receipt(table, request, plan, began=began)
    what: dict[str, JsonValue] = {"period": str(request.period)}
    with recorded(context, "compact", table.name, plan=what) as run:
        with at_work(context, table, run.run_id) as job:
            plan = _plan(context, table, job.found, request)
            done = _merge(job, plan) if plan.action == "compact" else None
        if done is None:
            run.reason = plan.reason
            return _receipt(table, request, plan, began=began)
        output = f"{table.location}/{plan.output}"
        log_compaction(context, request, sources=plan.sources, output=output, rows=done.rows, run_id=run.run_id)
        receipt = _receipt(table, request, plan, began=began, run=run, done=done)
        run.details = receipt.model_dump(mode="json", include={"period", "rows", "files_before", "files_after"})
    return receipt


def due(context: Context, table: DirectoryTable, found: Contents) -> Sequence[Due | NotDue]:
    """Every period of the table, with its turn or why it has none."""
    days = day_files(table.described, found.files, found.ledger)
    return due_periods(table.described.period_spec(), days, _done(found), now=context.clock())


def compactable(context: Context, table: DirectoryTable, found: Contents) -> list[str]:
    """The periods that could be compacted by hand now: neither schedule nor lookback hold for a person."""
    spec = replace(table.described.period_spec(), lookback_months=None)
    days = day_files(table.described, found.files, found.ledger)
    judged = due_periods(spec, days, _done(found), now=context.clock(), by_hand=True)
    return [str(item.period) for item in judged if isinstance(item, Due)]


def _plan(context: Context, table: DirectoryTable, found: Contents, request: CompactionRequest) -> PeriodPlan:
    spec = table.described.period_spec()
    if request.delete_source is not None:
        spec = replace(spec, delete_source=request.delete_source)
    return plan_period_compaction(
        spec,
        day_files(table.described, found.files, found.ledger),
        _done(found),
        request.period,
        now=context.clock(),
        ignore_delay=request.ignore_delay,
    )


def _done(found: Contents) -> list[CompactedPeriod]:
    """A period whose file somebody took away is no longer compacted, unless a longer one took it in."""
    done = found.ledger.compacted()
    there = {file.path for file in found.files}
    taken_in = {source for item in done for source in item.sources if source != item.output}
    return [item for item in done if item.output in there or item.output in taken_in]


def _merge(job: Job, plan: PeriodPlan) -> CompactedPeriod:
    from neve.engine.directory_tables import merge
    from neve.engine.tracking import tracked_input

    standing = [] if plan.merge_into is None else [plan.merge_into.output]
    files = plain_files(job.context, job.table, job.found, [*standing, *plan.sources])
    shape = shape_of(job.context, job.table, job.found.ledger)
    check_columns(job.context, job.table, files, shape)
    total = sum(file.bytes for file in job.found.files if file.path in {*standing, *plan.sources})
    with tracked_input(job.context.tell, f"compacting {len(files):,} files", total):
        written, rows = merge(job.spark, files, shape, job.spool / "period")
    size = written.stat().st_size
    for path in standing:
        job.change.remove(path)
    for path in plan.sources:
        if plan.delete_source:
            job.change.remove(path)
        else:
            job.change.keep(path)
    job.hand_over(written, plan.output)
    done = compacted_by(plan, job.found.ledger.compacted(), output_rows=rows, output_bytes=size)
    entry = LedgerPeriod(
        output=done.output,
        sources=done.sources,
        dates=tuple(sorted(done.dates)),
        rows=done.rows,
        bytes=done.bytes,
        compacted_at=done.compacted_at,
        run_id=job.run_id,
    )
    job.change.write_ledger(job.found.ledger.with_periods({str(plan.period): entry}).to_bytes())
    return done


def _receipt(
    table: DirectoryTable,
    request: CompactionRequest,
    plan: PeriodPlan,
    *,
    began: float,
    run: Progress | None = None,
    done: CompactedPeriod | None = None,
) -> CompactionReceipt:
    merged = 1 if plan.merge_into is not None else 0
    sources: Sources = "deleted" if plan.delete_source else "kept"
    return CompactionReceipt(
        run_id=run.run_id if run else None,
        action="compact",
        table=str(table.name),
        reason=plan.reason,
        duration_ms=round((time.monotonic() - began) * 1000),
        dry_run=request.dry_run and plan.action == "compact",
        period=str(request.period),
        rows=done.rows if done else plan.rows + (plan.merge_into.rows if plan.merge_into else 0),
        files_before=len(plan.sources) + merged,
        files_after=1 if done else 0,
        bytes_before=plan.bytes + (plan.merge_into.bytes if plan.merge_into else 0),
        bytes_after=done.bytes if done else 0,
        output=f"{table.location}/{plan.output}",
        sources=sources,
        missing_dates=list(plan.missing),
    )
