"""What an ingest is asked for, and what it answers: the part that is the same for every kind of table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pydantic import JsonValue

from neve.engine.ingest import Tally, Work
from neve.engine.keeping import count_rules
from neve.errors import CheckFailed, InvalidInput
from neve.model.dataset import Dataset
from neve.model.ingest import DatePlan, DateRow, Delivery, FindingRow, IngestPlan, IngestReceipt, SourceFile
from neve.model.names import TableName
from neve.model.patterns import match_pattern
from neve.model.results import Reason
from neve.model.tablefile import TableFile
from neve.model.units import Limit
from neve.plan.ingest import check_dates, make_delivery, too_many_rejected
from neve.services.context import Context
from neve.services.descriptions import describe, file_of
from neve.services.landing import check_reach, find_files
from neve.services.lineage import Reads
from neve.services.runs import Progress
from neve.services.specs import dataset_path, load_dataset
from neve.sql.cleaning import judge as judge_validations


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for. The date of each file is `day`, the one that its path has in `dates`, or in its name."""

    table: TableName
    file: Path | None
    sources: tuple[str, ...]
    day: date | None = None
    name_pattern: str | None = None
    dates: Mapping[str, date] | None = None
    dataset: Dataset | None = None
    evolve: bool = False
    replace: bool = False
    max_rejected: Limit | None = None
    dry_run: bool = False


def ask(
    context: Context,
    name: TableName,
    file: Path | None,
    *,
    sources: Sequence[str],
    day: date | str | None = None,
    name_pattern: str | None = None,
    dates: Mapping[str, date] | None = None,
    dataset_config: Path | None = None,
    replace: bool = False,
    max_rejected: str | int | None = None,
    dry_run: bool = False,
) -> Request:
    """The request, with what the table's file says where the caller says nothing."""
    check_way_to_date(day, name_pattern, dates)
    path = file_of(context, name, file)
    table = describe(context, name, file)
    named = dataset_config or (dataset_path(path, table, context.loaded.root) if path and table else None)
    limit = max_rejected if max_rejected is not None else (table.ingestion.max_rejected if table else None)
    return Request(
        table=name,
        file=file,
        sources=tuple(sources),
        day=parse_day(day),
        name_pattern=name_pattern,
        dates=dates,
        dataset=_cleaning(None if named is None else load_dataset(named), table),
        evolve=table is not None and table.schema_changes == "evolve",
        replace=replace,
        max_rejected=None if limit is None else _limit(limit),
        dry_run=dry_run,
    )


def _cleaning(dataset: Dataset | None, table: TableFile | None) -> Dataset | None:
    """How files are cleaned: what the table's file says of missing columns holds where the cleaning file is silent."""
    if table is None or "missing_columns" not in table.ingestion.model_fields_set:
        return dataset
    if dataset is not None and "missing_columns" in dataset.model_fields_set:
        return dataset
    refused = table.ingestion.missing_columns == "refuse"
    if dataset is None and not refused:
        return None  # as files are that nobody cleans
    cleaning = dataset or Dataset(name="as_is")
    return cleaning.model_copy(update={"missing_columns": "error" if refused else "null"})


def check_way_to_date(*ways: object) -> None:
    """Refuses no way to find the dates of files, and more than one."""
    if sum(way is not None for way in ways) != 1:
        raise InvalidInput("give a date, or a pattern to find it in the names", hint="--date or --date-from-name")


def parse_day(day: date | str | None) -> date | None:
    if day is None or isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError as exc:
        raise InvalidInput(f"not a date: {day!r}", hint="write YYYY-MM-DD") from exc


def _limit(text: str | int) -> Limit:
    try:
        return Limit.parse(text)
    except ValueError as exc:
        raise InvalidInput(f"--max-rejected {exc}") from exc


def find_deliveries(context: Context, request: Request) -> list[Delivery]:
    """The files that were named, by the date they are for."""
    dataset = request.dataset or Dataset(name="as_is")
    for source in request.sources:
        check_reach(context, source)
    files = find_files(request.sources, context.catalog.files, source=dataset.source, tell=context.tell)
    dates = {file.path: _date_of(file.path, request) for file in files}
    check_dates(files, dates)
    by_date: dict[date, list[SourceFile]] = {}
    for file in files:
        day = dates[file.path]
        if day is not None:
            by_date.setdefault(day, []).append(file)
    cleaning = "" if request.dataset is None else request.dataset.model_dump_json()
    return [make_delivery(day, members, cleaning=cleaning) for day, members in by_date.items()]


def _date_of(path: str, request: Request) -> date | None:
    if request.name_pattern is not None:
        return date_in_name(path, request.name_pattern)
    return request.day if request.dates is None else request.dates.get(path)


def date_in_name(path: str, pattern: str) -> date:
    """The day that a pattern finds in a file's name, and in as many of its folders as the pattern has."""
    depth = pattern.count("/") + 1
    found = match_pattern(pattern, "/".join(Path(path).parts[-depth:]))
    if found is None:
        raise InvalidInput(
            f"{Path(path).name} does not look like {pattern}", hint="leave it out, or give another pattern"
        )
    if not isinstance(found, date):
        raise InvalidInput(
            f"{pattern} names a {found.kind}, not a day", hint='write {date}, such as "sales_{date}.csv"'
        )
    return found


def judge(request: Request, work: Work, tally: Tally) -> list[FindingRow]:
    """Raises CheckFailed when too many rows were rejected or a validation of severity error did not hold."""
    if why := too_many_rejected(tally.rows_rejected, tally.rows_read, request.max_rejected):
        rules = ", ".join(f"{rule}: {count:,}" for rule, count in count_rules(work, tally).items())
        raise CheckFailed(f"{why} ({rules}); nothing was loaded", hint="mend the files, or raise --max-rejected")
    findings = [
        FindingRow(validation=finding.name, severity=finding.severity, detail=finding.message)
        for finding in judge_validations(work.validations, tally.measured)
    ]
    if failed := [finding for finding in findings if finding.severity == "error"]:
        said = "; ".join(f"{finding.validation}: {finding.detail}" for finding in failed)
        raise CheckFailed(
            f"validation failed, nothing was loaded: {said}", hint="mend the files, or use severity: warn"
        )
    return findings


def files_of(plan: IngestPlan) -> Mapping[SourceFile, date]:
    return {file: item.delivery.date for item in plan.work for file in item.delivery.files}


def reads_of(plan: IngestPlan) -> Reads:
    """For lineage: the files that are loaded."""
    return Reads(files=[file.path for file in files_of(plan)])


@contextmanager
def telling(context: Context, plan: IngestPlan) -> Iterator[None]:
    """Tells how far the files of a plan are read, while Spark reads them."""
    from neve.engine.tracking import tracked_input

    files = files_of(plan)
    what = f"ingesting {len(files):,} {'file' if len(files) == 1 else 'files'}"
    with tracked_input(context.tell, what, sum(file.bytes for file in files)):
        yield


def described_plan(plan: IngestPlan) -> dict[str, JsonValue]:
    return {item.delivery.date.isoformat(): item.delivery.content_hash for item in plan.work}


def sum_up(plan: IngestPlan, tally: Tally | None) -> dict[str, JsonValue]:
    if tally is None:
        return {}
    return {
        "dates": len(plan.work),
        "rows_ingested": sum(tally.rows_by_date.values()),
        "rows_rejected": tally.rows_rejected,
        "rejected_by_rule": dict(tally.rejected_by_rule),
        "rows_by_date": {str(day): rows for day, rows in tally.rows_by_date.items()},
        "rejected_by_date": {str(day): tally.rejected_by_date.get(day, 0) for day in tally.rows_by_date},
    }


def make_receipt(
    request: Request,
    plan: IngestPlan,
    tally: Tally | None,
    *,
    began: float,
    destination: str | None = None,
    run: Progress | None = None,
    findings: Sequence[FindingRow] = (),
) -> IngestReceipt:
    skipped = plan.having("skip")
    several = f"{len(skipped):,} dates already hold this content"
    nothing = (
        Reason(code="same_content", detail=several if len(skipped) > 1 else skipped[0].reason.detail)
        if skipped
        else None
    )
    return IngestReceipt(
        run_id=run.run_id if run else None,
        action="ingest",
        table=str(request.table),
        reason=(run.reason if run else None) or (nothing if not plan.work else None),
        snapshot_before=plan.base_snapshot,
        snapshot_after=(run.snapshot_after if run else None) or plan.base_snapshot,
        duration_ms=round((time.monotonic() - began) * 1000),
        dry_run=request.dry_run,
        undo=run.undo if run else None,
        destination=destination or str(request.table),
        dates=[_date_row(item, tally) for item in plan.dates],
        rows_ingested=sum(tally.rows_by_date.values()) if tally else 0,
        rows_rejected=tally.rows_rejected if tally else 0,
        rejected_by_rule=dict(tally.rejected_by_rule) if tally else {},
        findings=list(findings),
        columns_not_loaded=list(tally.columns_not_loaded) if tally else [],
        files_read=len(files_of(plan)) if tally else 0,
        bytes_read=sum(file.bytes for file in files_of(plan)) if tally else 0,
    )


def _date_row(item: DatePlan, tally: Tally | None) -> DateRow:
    return DateRow(
        date=item.delivery.date,
        action=item.action,
        reason=item.reason,
        files=len(item.delivery.files),
        bytes=sum(file.bytes for file in item.delivery.files),
        rows_ingested=tally.rows_by_date.get(item.delivery.date) if tally else None,
        rows_rejected=tally.rejected_by_date.get(item.delivery.date, 0) if tally and item.action != "skip" else None,
    )
