"""Compaction of a period: its files become few, and every row is still there, which is checked.

The period says which files; how they become fewer is as for any other compaction (services/rewrites).
"""

from __future__ import annotations

import time

from pydantic import JsonValue

from neve.errors import CheckFailed, InvalidInput
from neve.model.commands import neve
from neve.model.compaction import CompactionReceipt
from neve.model.facts import TableFacts
from neve.model.ingest import INGEST_DATE
from neve.model.merging import merging_of
from neve.plan.period_files import PeriodFiles, plan_period_files
from neve.plan.periods import check_kind
from neve.services.compaction_requests import CompactionRequest, log_compaction, refuse
from neve.services.context import Context
from neve.services.descriptions import describe, period_spec
from neve.services.directory_tables.compaction import compact_directory
from neve.services.directory_tables.tables import find
from neve.services.leases import leased
from neve.services.ledger import held_dates
from neve.services.repair import settle_dead_runs
from neve.services.rewrites.carrying import carry_out
from neve.services.rewrites.files import target_bytes
from neve.services.rewrites.looking import Look, look_at_some
from neve.services.runs import Progress, recorded


def compact_period(context: Context, request: CompactionRequest) -> CompactionReceipt:
    """Makes few files of a period's many. Readers and writers carry on meanwhile.

    Raises:
        Refused: it is too early, or compaction is switched off for this table.
        CheckFailed: days are missing and the table's file asks for all of them; or the rows came out otherwise.
        LeaseHeld: somebody else is compacting the table.
    """
    settle_dead_runs(context)
    table = find(context, request.table, request.file)
    return _compact_iceberg(context, request) if table is None else compact_directory(context, table, request)


def _compact_iceberg(context: Context, request: CompactionRequest) -> CompactionReceipt:
    began = time.monotonic()
    plan, look = _look(context, request)
    refuse(plan.action, plan.reason)
    facts = look.files.facts
    if not look.plan.groups or request.dry_run:
        return _receipt(request, plan, facts, began=began)
    what: dict[str, JsonValue] = {"period": str(request.period)}
    with (
        leased(context, f"compaction of {request.table}"),
        recorded(context, "compact", request.table, plan=what, snapshot_before=facts.current_snapshot_id) as run,
    ):
        return _carry_out(context, request, plan, look, run, began=began)


def _look(context: Context, request: CompactionRequest) -> tuple[PeriodFiles, Look]:
    """What the period asks for, and how its files become fewer."""
    files = context.catalog.table_files(request.table)
    plan = _plan(context, request, files.facts)
    return plan, look_at_some(context, files, {file.path for file in plan.files}, plan.reason)


def _plan(context: Context, request: CompactionRequest, facts: TableFacts) -> PeriodFiles:
    if not any(column.name == INGEST_DATE for column in facts.columns):
        raise InvalidInput(
            f"{request.table} has no ingest dates, so it has no periods",
            hint="periods are for tables that are filled by neve table ingest",
        )
    if merging_of(facts.properties) is not None:
        raise InvalidInput(
            f"{request.table} drops or merges rows when it is compacted, and a period keeps each as it is",
            hint=neve("compact", request.table.short),
        )
    spec = period_spec(describe(context, request.table, request.file), request.period)
    check_kind(spec, request.period)
    return plan_period_files(
        spec,
        request.period,
        set(held_dates(context, facts)),
        context.catalog.live_files(facts),
        target_bytes=target_bytes(context, facts),
        now=context.clock(),
        ignore_delay=request.ignore_delay,
    )


def _carry_out(
    context: Context, request: CompactionRequest, plan: PeriodFiles, look: Look, run: Progress, *, began: float
) -> CompactionReceipt:
    rows = plan.rows

    def check(snapshot: int) -> None:
        nonlocal rows
        parent, rows = _verify(context, request, snapshot)
        run.undo = None if run.snapshot_after else neve("table", "rollback", request.table.short, "--to", str(parent))
        run.snapshot_after = snapshot

    done = carry_out(context, look, run, again=lambda _: _look(context, request)[1], check=check)
    sources = [file.path for group in done.groups for file in group.files]
    log_compaction(context, request, sources=sources, output=str(request.table), rows=rows, run_id=run.run_id)
    receipt = _receipt(request, plan, look.files.facts, began=began, run=run, rows=rows)
    receipt = receipt.model_copy(
        update={
            "files_before": len(sources),
            "files_after": done.files_written,
            "bytes_before": sum(group.bytes for group in done.groups),
            "bytes_after": done.bytes_written,
        }
    )
    run.details = receipt.model_dump(mode="json", include={"period", "rows", "files_before", "files_after"})
    return receipt


def _verify(context: Context, request: CompactionRequest, after: int) -> tuple[int, int]:
    """The snapshot that a commit replaced, and the rows of the period; taken back when they are another bag."""
    from neve.engine.content import fingerprint_period

    spark, table = context.session.spark, request.table
    replaced = context.catalog.facts(table).snapshot(after)
    if replaced is None or replaced.parent_id is None:
        raise RuntimeError(f"snapshot {after} of {table} replaced nothing")
    before = replaced.parent_id
    try:
        was, now = (fingerprint_period(spark, table, request.period, snapshot) for snapshot in (before, after))
        if was != now:
            raise CheckFailed(
                f"{request.period} had {was.rows:,} rows and would have {now.rows:,}, or other ones: taken back",
                hint=f"snapshot {after} holds what went wrong; please report it",
            )
    except BaseException:
        context.catalog.set_current_snapshot(table, before, expected=after)
        raise
    return before, now.rows


def _receipt(
    request: CompactionRequest,
    plan: PeriodFiles,
    facts: TableFacts,
    *,
    began: float,
    run: Progress | None = None,
    rows: int | None = None,
) -> CompactionReceipt:
    return CompactionReceipt(
        run_id=run.run_id if run else None,
        action="compact",
        table=str(request.table),
        reason=plan.reason,
        snapshot_before=facts.current_snapshot_id,
        snapshot_after=(run.snapshot_after if run else None) or facts.current_snapshot_id,
        duration_ms=round((time.monotonic() - began) * 1000),
        dry_run=request.dry_run and plan.action == "compact",
        undo=run.undo if run else None,
        period=str(request.period),
        rows=plan.rows if rows is None else rows,
        files_before=len(plan.files),
        files_after=0,
        bytes_before=plan.bytes,
        bytes_after=0,
        output=str(request.table),
        sources="until_snapshots_expire",
        missing_dates=list(plan.missing),
    )
