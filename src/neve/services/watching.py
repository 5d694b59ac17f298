"""Watching a landing folder: complete files are submitted as they arrive, and loaded in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from neve.errors import InvalidInput, LeaseHeld, NeveError, Refused
from neve.model.batching import BatchOutcome, LandedFile, SubmittedFile
from neve.model.names import TableName
from neve.model.patterns import pattern_kind
from neve.model.results import Reason
from neve.plan.watching import Watcher, shapes_of
from neve.services.batching import BatchRequest, Ingest, check_table, load_batches, put_submissions, submission
from neve.services.context import Context
from neve.services.deliveries import ask
from neve.services.ingest import ingest as ingest_files
from neve.services.landing import look_into


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """`once` ends when all that lies in the folder is complete and was tried; else it goes on until interrupted."""

    table: TableName
    file: Path | None = None
    folder: str
    name_pattern: str
    every: timedelta = timedelta(seconds=5)
    settle: timedelta = timedelta(seconds=5)
    once: bool = False

    def __post_init__(self) -> None:
        if self.every <= timedelta(0) or self.settle < timedelta(0):
            raise InvalidInput("there must be a time between two looks", hint="give --every 5s or more")
        if (kind := pattern_kind(self.name_pattern)) != "day":
            raise InvalidInput(
                f"{self.name_pattern} names a {kind}, not a day", hint='write {date}, such as "sales_{date}.csv"'
            )


def watch(
    context: Context,
    request: WatchRequest,
    *,
    sleep: Callable[[float], None] = time.sleep,
    ingest: Ingest = ingest_files,
) -> Iterator[BatchOutcome]:
    """What was loaded and what failed, as it happens. A failure is told once, and the loop goes on.

    Raises:
        NeveError: the first look failed, or one of a watch that ends by itself.
    """
    check_table(context, request.table, request.file)
    watching = _Watching(context, request, Watcher(settle=request.settle), ingest)
    told: str | None = None
    is_first = True
    while True:
        try:
            ended = yield from watching.look()
            told = None
        except NeveError as exc:
            if is_first or request.once:
                raise
            ended = False
            if exc.message != told:
                told = exc.message
                yield _problem(request.table, exc)
        if ended and request.once:
            return
        is_first = False
        sleep(request.every.total_seconds())


@dataclass(frozen=True, slots=True)
class _Watching:
    context: Context
    request: WatchRequest
    watcher: Watcher
    ingest: Ingest

    def look(self) -> Generator[BatchOutcome, None, bool]:
        """One look; whether all that lies in the folder was complete, and was tried."""
        landed = look_into(self.request.folder, self.context.catalog.files)
        known = {row.path: row for row in self._rows()}
        look = self.watcher.sort(landed, known, self.context.clock())
        yield from self._submit(look.arrived, known)
        rows = self._rows()
        shapes = shapes_of(rows, landed)
        changing = frozenset(known[file.path].date for file in look.growing if file.path in known)
        batches = load_batches(
            self.context,
            BatchRequest(
                table=self.request.table,
                file=self.request.file,
                force=self.request.once and not look.growing,
                holding=changing | self.watcher.standing(shapes, self.context.clock()),
            ),
            ingest=self.ingest,
        )
        try:
            for outcome in batches:
                is_news = self.watcher.note(outcome, shapes, self.context.clock())
                if is_news and outcome.state != "waiting":
                    yield outcome
        except LeaseHeld as exc:
            self.context.tell(exc.message)
            return False
        return not look.growing

    def _rows(self) -> tuple[SubmittedFile, ...]:
        return self.context.store.submissions.for_table(self.request.table.short)

    def _submit(self, arrived: tuple[LandedFile, ...], known: dict[str, SubmittedFile]) -> Iterator[BatchOutcome]:
        if not arrived:
            return
        asked = ask(
            self.context, self.request.table, self.request.file, sources=(), name_pattern=self.request.name_pattern
        )
        rows = []
        for file in arrived:
            try:
                rows.append(submission(self.context, asked, file, known.get(file.path)))
            except (InvalidInput, Refused) as exc:
                self.watcher.refuse(file)
                yield _problem(self.request.table, exc, file)
        put_submissions(self.context, rows)


def _problem(table: TableName, error: NeveError, file: LandedFile | None = None) -> BatchOutcome:
    return BatchOutcome(
        table=str(table),
        state="failed",
        files=[] if file is None else [file.path],
        bytes=0 if file is None else file.bytes,
        reason=Reason(code=error.code, detail=error.message),
        hint=error.hint,
    )
