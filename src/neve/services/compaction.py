"""Compaction of a period: its files become few, and every row is still there, which is checked."""

from __future__ import annotations

import time

from pydantic import JsonValue

from neve.errors import CheckFailed, CommitConflict, InvalidInput
from neve.model.commands import neve
from neve.model.compaction import CompactionReceipt
from neve.model.facts import TableFacts
from neve.model.ingest import INGEST_DATE
from neve.plan.period_files import PeriodFiles, plan_period_files
from neve.plan.periods import check_kind
from neve.services.compaction_requests import CompactionRequest, log_compaction, refuse
from neve.services.context import Context
from neve.services.descriptions import describe, period_spec
from neve.services.directory_tables.compaction import compact_directory
from neve.services.directory_tables.tables import find
from neve.services.ledger import held_dates
from neve.services.look import RUN_ID
from neve.services.repair import settle_dead_runs
from neve.services.runs import Progress, recorded

ATTEMPTS = 5
_MIB = 1024 * 1024
_TARGET = "write.target-file-size-bytes"


def compact_period(context: Context, request: CompactionRequest) -> CompactionReceipt:
    """Makes few files of a period's many. Readers and writers carry on meanwhile.

    Raises:
        Refused: it is too early, or compaction is switched off for this table.
        CheckFailed: days are missing and the table's file asks for all of them; or the rows came out otherwise.
    """
    settle_dead_runs(context)
    table = find(context, request.table, request.file)
    return _compact_iceberg(context, request) if table is None else compact_directory(context, table, request)


def _compact_iceberg(context: Context, request: CompactionRequest) -> CompactionReceipt:
    began = time.monotonic()
    facts = context.catalog.facts(request.table)
    plan = _plan(context, request, facts)
    refuse(plan.action, plan.reason)
    if plan.action != "compact" or request.dry_run:
        return _receipt(request, plan, facts, began=began)
    what: dict[str, JsonValue] = {"period": str(request.period)}
    with recorded(context, "compact", request.table, plan=what, snapshot_before=facts.current_snapshot_id) as run:
        return _carry_out(context, request, plan, facts, run, began=began)


def _plan(context: Context, request: CompactionRequest, facts: TableFacts) -> PeriodFiles:
    if not any(column.name == INGEST_DATE for column in facts.columns):
        raise InvalidInput(
            f"{request.table} has no ingest dates, so it has no periods",
            hint="periods are for tables that are filled by neve table ingest",
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


def target_bytes(context: Context, facts: TableFacts) -> int:
    """The table's own target size, or the lake's where it has none that is a size."""
    given = facts.properties.get(_TARGET, "")
    own = int(given) if given.isdecimal() else 0
    return own or context.loaded.settings.write.target_file_size_mb * _MIB


def _carry_out(
    context: Context, request: CompactionRequest, plan: PeriodFiles, facts: TableFacts, run: Progress, *, began: float
) -> CompactionReceipt:
    from neve.engine.rewriting import Rewritten, rewrite_period
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    target = target_bytes(context, facts)

    def rewrite() -> Rewritten:
        return rewrite_period(spark, request.table, plan.period, target_bytes=target, summary={RUN_ID: run.run_id})

    for attempt in range(2, ATTEMPTS + 1):
        try:
            done = rewrite()
            break
        except CommitConflict:
            context.tell(f"rows of these files were changed meanwhile; once more ({attempt} of {ATTEMPTS})")
    else:
        done = rewrite()
    rows = plan.rows
    if done.snapshot is not None and done.parent is not None:
        rows = _verify(context, request, before=done.parent, after=done.snapshot)
        run.snapshot_after = done.snapshot
        run.undo = neve("table", "rollback", request.table.short, "--to", str(done.parent))
    sources = [file.path for file in plan.files]
    log_compaction(context, request, sources=sources, output=str(request.table), rows=rows, run_id=run.run_id)
    receipt = _receipt(request, plan, facts, began=began, run=run, rows=rows)
    receipt = receipt.model_copy(
        update={
            "files_before": done.files_before,
            "files_after": done.files_after,
            "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after,
        }
    )
    run.details = receipt.model_dump(mode="json", include={"period", "rows", "files_before", "files_after"})
    return receipt


def _verify(context: Context, request: CompactionRequest, *, before: int, after: int) -> int:
    """How many rows the period has; takes the compaction back when they are not the same bag as before."""
    from neve.engine.rewriting import fingerprint_period

    spark, table = context.session.spark, request.table
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
    return now.rows


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
