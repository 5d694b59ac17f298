"""Ingest by date, exactly once: look, plan, stage on a branch, judge, publish, record; start anew if a rival was first.

What a table holds for a date is written twice: in the summary of the snapshot that brought it, in the same commit as
the rows, and in `ingestion_log`, which outlives the snapshot. Either is enough to know that a delivery has been loaded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neve.engine.ingest import Tally, Work, stage
from neve.engine.loose import removing
from neve.engine.staging import Branch, publish, staged
from neve.errors import CommitConflict, CommitUnknown
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.ingest import (
    Delivery,
    FindingRow,
    IngestPlan,
    IngestReceipt,
)
from neve.model.names import TableName
from neve.model.results import Reason
from neve.plan.ingest import plan_ingest
from neve.plan.tables import refuse_dynamic
from neve.services.columns import fit_columns
from neve.services.context import Context
from neve.services.deliveries import (
    Request,
    described_plan,
    files_of,
    find_deliveries,
    judge,
    make_receipt,
    reads_of,
    sum_up,
    telling,
)
from neve.services.directory_tables.ingest import ingest_directory
from neve.services.directory_tables.tables import find
from neve.services.ledger import branch_of, doubtful_dates, held_dates, log_ingest, settle_staged
from neve.services.look import RUN_ID
from neve.services.rejected import keeping_rejected
from neve.services.repair import settle_dead_runs
from neve.services.runs import Progress, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 10


def ingest(context: Context, request: Request) -> IngestReceipt:
    """Loads deliveries into a table, each date once; all dates in one commit."""
    settle_dead_runs(context)
    table = find(context, request.table, request.file)
    return _ingest_iceberg(context, request) if table is None else ingest_directory(context, table, request)


def _ingest_iceberg(context: Context, request: Request) -> IngestReceipt:
    began = time.monotonic()
    facts = context.catalog.facts(request.table)
    refuse_dynamic(facts, verb="load files into", instead="load them into a table that it reads")
    deliveries = find_deliveries(context, request)
    plan = _plan(context, facts, deliveries, request)
    if request.dry_run or not plan.work:
        return make_receipt(request, plan, None, began=began)
    with recorded(
        context,
        "ingest",
        request.table,
        plan=described_plan(plan),
        snapshot_before=plan.base_snapshot,
        reads=reads_of(plan),
    ) as run:
        plan, tally, findings = _load(context, request, deliveries, run)
        if tally is not None:
            log_ingest(
                context,
                request.table,
                plan,
                run_id=run.run_id,
                rows_by_date=tally.rows_by_date,
                rejected_by_date=tally.rejected_by_date,
            )
        run.details = sum_up(plan, tally)
        run.undo = _undo(request.table, run)
    return make_receipt(request, plan, tally, began=began, run=run, findings=findings)


def _plan(context: Context, facts: TableFacts, deliveries: Sequence[Delivery], request: Request) -> IngestPlan:
    held = doubtful_dates(context, facts) | held_dates(context, facts)
    return plan_ingest(deliveries, held, base_snapshot=facts.current_snapshot_id, replace=request.replace)


def _load(
    context: Context, request: Request, deliveries: Sequence[Delivery], run: Progress
) -> tuple[IngestPlan, Tally | None, list[FindingRow]]:
    """Stages and publishes; when the table moved meanwhile, looks again and starts anew."""
    for attempt in range(1, ATTEMPTS + 1):
        facts = context.catalog.facts(request.table)
        plan = _plan(context, facts, deliveries, request)
        if not plan.work:
            run.reason = Reason(code="same_content", detail="a rival has loaded the same content meanwhile")
            return plan, None, []
        with fit_columns(context, request.table, files_of(plan), request.dataset, evolve=request.evolve) as work:
            try:
                tally, findings = _stage_and_publish(context, request, plan, work, run)
            except CommitConflict:
                if attempt == ATTEMPTS or run.snapshot_after is not None:
                    raise
                context.tell(f"the table was written to meanwhile; once more ({attempt + 1} of {ATTEMPTS})")
                continue
            return plan, tally, findings
    raise CommitConflict(f"{request.table} is being written to all the time", hint="try again later")


def _stage_and_publish(
    context: Context, request: Request, plan: IngestPlan, work: Work, run: Progress
) -> tuple[Tally, list[FindingRow]]:
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    with (
        staged(spark, request.table, branch_of(run.run_id), base=plan.base_snapshot) as branch,
        removing(spark, request.table) as loose,
    ):
        with telling(context, plan):
            tally = stage(spark, branch, work, plan, summary={RUN_ID: run.run_id}, loose=loose)
        findings = judge(request, work, tally)
        with keeping_rejected(context, request.table, run.run_id) as keep:
            tally = keep(spark, work, tally)
            context.store.runs.note(run.run_id, sum_up(plan, tally))
            run.snapshot_after = _publish(context, spark, branch, plan, run)
    return tally, findings


def _publish(context: Context, spark: SparkSession, branch: Branch, plan: IngestPlan, run: Progress) -> int:
    """Publishes what is staged. Where the answer is lost, the table says whether it was: its rejected rows go along."""
    try:
        return publish(spark, branch, base=plan.base_snapshot)
    except CommitUnknown:
        if (made := settle_staged(context, branch.table, run.run_id)) is None:
            raise
        return made.id


def _undo(table: TableName, run: Progress) -> str | None:
    if run.snapshot_after is None or run.snapshot_before is None:
        return None
    return neve("table", "rollback", table.short, "--to", str(run.snapshot_before))
