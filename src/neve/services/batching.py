"""Submitting files, and loading what was submitted in batches: each batch is one ingest, and so one commit.

A file is marked with the run that loaded it only after the commit. Whoever dies between the two leaves it pending; its
date is then found to hold the same content, and nothing is loaded twice. One process at a time makes batches of a
table: of two, the one that had seen fewer files of a date could come last and replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from neve.errors import Cancelled, Conflict, LeaseHeld, NeveError, Refused, SparkUnavailable, StoreError
from neve.model.batching import Batch, BatchLimits, BatchOutcome, BatchPlan, DateFiles, LandedFile, SubmittedFile
from neve.model.commands import neve
from neve.model.dataset import Dataset
from neve.model.ingest import IngestReceipt
from neve.model.names import TableName
from neve.model.periods import date_ranges
from neve.model.results import Reason, Receipt
from neve.model.runs import Lease
from neve.plan.batching import halve, plan_batches
from neve.plan.tables import refuse_dynamic
from neve.services.context import Context
from neve.services.deliveries import Request, ask, date_in_name
from neve.services.descriptions import describe
from neve.services.directory_tables.tables import contents, find
from neve.services.ingest import ingest as ingest_files
from neve.services.landing import find_paths, format_of, look_at
from neve.services.leases import TTL, leased
from neve.services.ledger import held_dates

Ingest = Callable[[Context, Request], IngestReceipt]

_NOT_OF_A_FILE = (Conflict, SparkUnavailable, StoreError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """`force` does not wait for the minima; `drop_missing` forgets files that are gone; `holding` are left alone."""

    table: TableName
    file: Path | None = None
    force: bool = False
    drop_missing: bool = False
    dry_run: bool = False
    holding: frozenset[date] = frozenset()


def submit(
    context: Context,
    name: TableName,
    file: Path | None,
    *,
    sources: Sequence[str],
    day: date | str | None = None,
    name_pattern: str | None = None,
) -> Receipt:
    """Records files for later; all of them, or none when one is refused. Nothing is read but sizes and times."""
    check_table(context, name, file)
    request = ask(context, name, file, sources=sources, day=day, name_pattern=name_pattern)
    landed = look_at(find_paths(request.sources, context.catalog.files), context.catalog.files)
    known = {row.path: row for row in context.store.submissions.for_table(name.short)}
    rows = [submission(context, request, item, known.get(item.path)) for item in landed]
    put_submissions(context, rows)
    return Receipt(
        run_id=None,
        action="submit",
        table=str(name),
        details={
            "files": len(rows),
            "bytes": sum(row.bytes for row in rows),
            "dates": date_ranges(sorted({row.date for row in rows})),
        },
    )


def check_table(context: Context, name: TableName, file: Path | None) -> None:
    """Raises TableNotFound unless there is such a table, of any kind, and Refused for one that its query fills."""
    if find(context, name, file) is None:
        refuse_dynamic(
            context.catalog.facts(name), verb="load files into", instead="load them into a table that it reads"
        )


def submission(context: Context, request: Request, file: LandedFile, known: SubmittedFile | None) -> SubmittedFile:
    """A file as it is recorded.

    Raises:
        InvalidInput: neither its name nor the dataset config tells its format, or the name has no date.
        Refused: it has been loaded for another date, whose rows would stay.
    """
    format_of(file.path, (request.dataset or Dataset(name="as_is")).source)
    day = request.day or date_in_name(file.path, request.name_pattern or "")
    if known is not None and known.run_id is not None and known.date != day:
        raise Refused(
            f"{file.path} has been loaded for {known.date} (run {known.run_id}), and is now said to be for {day}",
            hint="submit it under another name; then load what is right for the first date",
        )
    return SubmittedFile(
        table_name=request.table.short,
        path=file.path,
        date=day,
        bytes=file.bytes,
        modified_at=file.modified_at,
        submitted_at=context.clock(),
    )


def put_submissions(context: Context, rows: Iterable[SubmittedFile]) -> None:
    """All in one transaction."""
    with context.store.transaction():
        for row in rows:
            context.store.submissions.put(row)


def look_ahead(context: Context, request: BatchRequest) -> BatchPlan:
    """What `load_batches` would do now, or why it would wait."""
    described = describe(context, request.table, request.file)
    limits = BatchLimits() if described is None else described.ingestion.batch
    rows = [row for row in context.store.submissions.for_table(request.table.short) if row.date not in request.holding]
    pending, done = [row for row in rows if row.run_id is None], [row for row in rows if row.run_id is not None]
    return plan_batches(pending, done, limits, now=context.clock(), force=request.force)


def load_batches(context: Context, request: BatchRequest, *, ingest: Ingest = ingest_files) -> Iterator[BatchOutcome]:
    """Loads what is ready, batch by batch, and tells what became of each; `waiting` when nothing is ready.

    What fails stays submitted, and the rest goes on: of a batch of several dates that fails, the halves are tried.

    Raises:
        LeaseHeld: somebody else makes batches of this table now.
    """
    check_table(context, request.table, request.file)
    plan = look_ahead(context, request)
    if plan.reason is not None:
        yield BatchOutcome(table=str(request.table), state="waiting", reason=plan.reason)
    elif request.dry_run:
        for batch in plan.batches:
            present, refused = _part(context, request, batch)
            yield from refused
            if present.dates:
                yield _outcome(request, present, state="planned")
    else:
        with leased(context, f"the batches of {request.table.short}") as lease:
            for batch in look_ahead(context, request).batches:  # what was seen before the lease may be loaded by now
                yield from _Loading(context, request, lease, ingest).load(batch)


@dataclass(frozen=True, slots=True)
class _Loading:
    context: Context
    request: BatchRequest
    lease: Lease
    ingest: Ingest

    def load(self, batch: Batch) -> Iterator[BatchOutcome]:
        present, refused = _part(self.context, self.request, batch)
        yield from refused
        if present.dates:
            yield from self._load_present(present)

    def _load_present(self, batch: Batch) -> Iterator[BatchOutcome]:
        dates = {file.path: file.date for file in batch.files}
        try:
            asked = ask(self.context, self.request.table, self.request.file, sources=list(dates), dates=dates)
            receipt = self.ingest(self.context, asked)
        except Cancelled:
            raise  # nothing is wrong with a file of it, and nobody wants the rest now
        except NeveError as exc:
            if len(batch.dates) > 1 and not isinstance(exc, _NOT_OF_A_FILE):
                for half in halve(batch):
                    yield from self._load_present(half)
            else:
                yield failed(self.request.table, exc, batch)
            return
        self._mark(batch, receipt)
        yield _outcome(self.request, batch, state="loaded", receipt=receipt)

    def _mark(self, batch: Batch, receipt: IngestReceipt) -> None:
        """After a lost lease, whose new holder may have loaded more of these dates than we, all of it is pending."""
        submissions = self.context.store.submissions
        try:
            self.context.store.leases.renew(self.lease, TTL, self.context.clock())
        except LeaseHeld:
            submissions.reopen(self.request.table.short, [day.date for day in batch.dates])
            raise
        runs = _loaded_by(self.context, self.request, receipt)
        with self.context.store.transaction():
            for file in batch.files:
                if run_id := runs.get(file.date):
                    submissions.mark(file, run_id)


def _loaded_by(context: Context, request: BatchRequest, receipt: IngestReceipt) -> dict[date, str | None]:
    """The run that brought what each date holds: this one, or an earlier one that had the same content."""
    runs = {row.date: receipt.run_id for row in receipt.dates}
    skipped = [row.date for row in receipt.dates if row.action == "skip"]
    if skipped:
        table = find(context, request.table, request.file)
        held = (
            held_dates(context, context.catalog.facts(request.table))
            if table is None
            else contents(context, table).ledger.held()
        )
        runs |= {day: held[day].run_id for day in skipped if day in held}
    return runs


def _part(context: Context, request: BatchRequest, batch: Batch) -> tuple[Batch, list[BatchOutcome]]:
    """The batch without the dates of files that are gone, or without those files, and what is to be said of them."""
    missing = [file for file in batch.files if not context.catalog.files.exists(file.path)]
    gone = {file.path for file in missing}
    whole = [day for day in batch.dates if gone.isdisjoint(file.path for file in day.files)]
    if not request.drop_missing:
        refused = [_refuse(request, day, gone) for day in batch.dates if day not in whole]
        return Batch(dates=tuple(whole)), refused
    if not request.dry_run:
        for file in missing:
            context.store.submissions.withdraw(file)
    left = [DateFiles(date=day.date, files=tuple(f for f in day.files if f.path not in gone)) for day in batch.dates]
    return Batch(dates=tuple(day for day in left if any(file.run_id is None for file in day.files))), []


def _refuse(request: BatchRequest, day: DateFiles, gone: set[str]) -> BatchOutcome:
    first, *more = [file for file in day.files if file.path in gone]
    others = f" and {len(more):,} more" if more else ""
    was = f"whose rows {day.date} holds (run {first.run_id})," if first.run_id else f"submitted for {day.date},"
    error = Refused(
        f"{first.path}{others}, {was} is gone; nothing of this date was loaded",
        hint=f"put it back, or load without it: {neve('table', 'batch', request.table.short, '--drop-missing')}",
    )
    return failed(request.table, error, Batch(dates=(day,)))


def failed(table: TableName, error: NeveError, batch: Batch) -> BatchOutcome:
    return BatchOutcome(
        table=str(table),
        state="failed",
        dates=[day.date for day in batch.dates],
        files=[file.path for file in batch.files],
        bytes=batch.bytes,
        reason=Reason(code=error.code, detail=error.message),
        hint=error.hint,
    )


def _outcome(request: BatchRequest, batch: Batch, **rest: object) -> BatchOutcome:
    return BatchOutcome.model_validate(
        {
            "table": str(request.table),
            "dates": [day.date for day in batch.dates],
            "files": [file.path for file in batch.files],
            "bytes": batch.bytes,
            **rest,
        }
    )
