"""Ingest into a directory table: one file per date, the ledger in the same change, then the log.

One writer at a time: whoever comes second waits, then looks at what the first left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from neve.engine.directory_tables import check_form, without_dates, write_days
from neve.engine.ingest import Tally, Work
from neve.errors import Refused
from neve.model.directory_tables import Ledger, LedgerDate, LedgerPeriod, Shape
from neve.model.ingest import Delivery, FindingRow, IngestPlan, IngestReceipt
from neve.model.results import Reason
from neve.model.types import Field, Primitive
from neve.plan.directory_tables import (
    check_names,
    day_files,
    day_path,
    folder_columns,
    folder_values,
    held_dates,
    periods_holding,
)
from neve.plan.ingest import plan_ingest
from neve.services.columns import fit
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
from neve.services.directory_tables.jobs import Job, at_work
from neve.services.directory_tables.tables import (
    Contents,
    DirectoryTable,
    check_columns,
    contents,
    entries,
    plain_files,
    shape_of,
)
from neve.services.ledger import log_ingest
from neve.services.rejected import Keep, keeping_rejected
from neve.services.runs import Progress, recorded
from neve.sql.columns import parse_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What an ingest brought."""

    plan: IngestPlan
    tally: Tally | None = None
    findings: Sequence[FindingRow] = ()


def ingest_directory(context: Context, table: DirectoryTable, request: Request) -> IngestReceipt:
    began = time.monotonic()
    deliveries = find_deliveries(context, request)
    _refuse_own(context, table, deliveries)
    plan = _plan(table, contents(context, table), deliveries, request)
    if request.dry_run or not plan.work:
        return make_receipt(request, plan, None, began=began, destination=_destination(table, plan))
    with recorded(context, "ingest", table.name, plan=described_plan(plan), reads=reads_of(plan)) as run:
        with keeping_rejected(context, table.name, run.run_id) as keep, at_work(context, table, run.run_id) as job:
            plan = _plan(table, job.found, deliveries, request)
            loaded = _load(job, request, plan, keep) if plan.work else Loaded(plan=plan)
        _log(context, table, loaded, run)
        run.details = sum_up(plan, loaded.tally)
    destination = _destination(table, plan)
    return make_receipt(
        request, plan, loaded.tally, began=began, run=run, findings=loaded.findings, destination=destination
    )


def _refuse_own(context: Context, table: DirectoryTable, deliveries: Sequence[Delivery]) -> None:
    own = context.catalog.files.inside(table.location)
    for path in (file.path for item in deliveries for file in item.files):
        if own(path):
            raise Refused(
                f"{path} lies in the folder of {table.name}: its rows would be there twice",
                hint="files with a day's name are read where they lie; load others from elsewhere",
            )


def _plan(table: DirectoryTable, found: Contents, deliveries: Sequence[Delivery], request: Request) -> IngestPlan:
    days = day_files(table.described, found.files, found.ledger)
    held = held_dates(found.ledger, days)
    return plan_ingest(deliveries, held, base_snapshot=None, replace=request.replace)


def _load(job: Job, request: Request, plan: IngestPlan, keep: Keep) -> Loaded:
    work, ledger = _fit(job, request, plan)
    described = job.table.described
    shape = shape_of(job.context, job.table, ledger)
    check_form(shape)
    dates = [item.delivery.date for item in plan.work]
    values = {day: folder_values(described, day) for day in dates}
    with telling(job.context, plan):
        tally, written = write_days(job.spark, work, shape, job.spool / "days", values)
    findings = judge(request, work, tally)
    tally = keep(job.spark, work, tally)
    ledger = _displace(job, dates, ledger, shape)
    there = {file.path for file in job.found.files}
    for day in dates:
        path = day_path(described, day)
        if path in there:
            job.change.remove(path)
        if day in written:
            job.hand_over(written[day], path)
    job.change.write_ledger(ledger.with_dates(_entries(job, plan, tally)).to_bytes())
    return Loaded(plan=plan, tally=tally, findings=findings)


def _fit(job: Job, request: Request, plan: IngestPlan) -> tuple[Work, Ledger]:
    """How the files are cleaned, and the ledger with the columns that the table has afterwards."""
    ledger, described = job.found.ledger, job.table.described
    folders = [Field(column.name, parse_type(column.type)) for column in folder_columns(described)]
    of_folders = {column.name for column in folders}
    own = [Field(column.name, parse_type(column.type)) for column in ledger.columns if column.name not in of_folders]
    fitted = fit(job.context, job.table.name, own, files_of(plan), request.dataset, evolve=request.evolve)
    check_names(described, fitted.work.columns)
    held = {column.name for column in ledger.columns}
    added = [*fitted.missing, *(column for column in folders if column.name not in held)]
    nested = entries([column for column in fitted.work.cleaning.columns if not isinstance(column.type, Primitive)])
    return fitted.work, ledger.with_types(nested).with_columns(entries(added))


def _displace(job: Job, dates: Sequence[date], ledger: Ledger, shape: Shape) -> Ledger:
    """Takes rows that are replaced out of the files of periods that were compacted; the ledger afterwards."""
    periods: dict[str, LedgerPeriod] = {}
    for label, held in periods_holding(ledger, dates, job.found.files).items():
        entry = ledger.periods[label]
        (file,) = plain_files(job.context, job.table, job.found, [entry.output])
        check_columns(job.context, job.table, [file], shape)
        written, rows = without_dates(job.spark, file, sorted(held), shape, job.spool / f"period-{label}")
        size = written.stat().st_size
        job.change.remove(entry.output)
        if rows:
            job.hand_over(written, entry.output)
        kept = tuple(day for day in entry.dates if day not in held)
        periods[label] = entry.model_copy(update={"dates": kept, "rows": rows, "bytes": size})
    return ledger.with_periods(periods)


def _entries(job: Job, plan: IngestPlan, tally: Tally) -> Mapping[date, LedgerDate]:
    now = job.context.clock()
    return {
        item.delivery.date: LedgerDate(
            content_hash=item.delivery.content_hash,
            run_id=job.run_id,
            rows=tally.rows_by_date.get(item.delivery.date, 0),
            ingested_at=now,
        )
        for item in plan.work
    }


def _log(context: Context, table: DirectoryTable, loaded: Loaded, run: Progress) -> None:
    if loaded.tally is None:
        run.reason = Reason(code="same_content", detail="a rival has loaded the same content meanwhile")
        return
    dates = [item.delivery.date for item in loaded.plan.work]
    log_ingest(
        context,
        table.name,
        loaded.plan,
        run_id=run.run_id,
        rows_by_date=loaded.tally.rows_by_date,
        rejected_by_date=loaded.tally.rejected_by_date,
        destinations={day: f"{table.location}/{day_path(table.described, day)}" for day in dates},
    )


def _destination(table: DirectoryTable, plan: IngestPlan) -> str:
    """The one file that was asked for, or the folder of several."""
    dates = [item.delivery.date for item in plan.dates]
    return f"{table.location}/{day_path(table.described, dates[0])}" if len(dates) == 1 else table.location
