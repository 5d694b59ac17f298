"""A landing folder whose time stands still between looks, and a table that is a dict: ingest without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

from neve.errors import CheckFailed, NeveError
from neve.lake import Lake
from neve.model.batching import BatchOutcome
from neve.model.ingest import IngestReceipt
from neve.model.names import TableName
from neve.plan.ingest import plan_ingest
from neve.services.batching import BatchRequest, load_batches
from neve.services.context import Context
from neve.services.deliveries import Request, find_deliveries, make_receipt
from neve.services.ledger import held_dates, log_ingest
from neve.services.runs import recorded
from neve.services.watching import WatchRequest, watch


class EndOfTimeError(Exception):
    """A watch without an end has slept for long enough."""


@dataclass
class Table:
    """What ingest does to a table, date by date. Files that say `bad` fail, and `error` is raised when it is set."""

    rows: dict[date, list[str]] = field(default_factory=dict)
    loads: list[list[str]] = field(default_factory=list)
    error: NeveError | None = None

    def ingest(self, context: Context, request: Request) -> IngestReceipt:
        began = time.monotonic()
        held = held_dates(context, context.catalog.facts(request.table))
        plan = plan_ingest(find_deliveries(context, request), held, base_snapshot=None, replace=False)
        if self.error is not None:
            raise self.error
        if not plan.work:
            return make_receipt(request, plan, None, began=began)
        contents = {
            item.delivery.date: sorted(Path(file.path).read_text() for file in item.delivery.files)
            for item in plan.work
        }
        if any("bad" in text for texts in contents.values() for text in texts):
            raise CheckFailed("this file is bad")
        with recorded(context, "ingest", request.table) as run:
            self.rows |= contents
            self.loads.append([Path(file.path).name for item in plan.work for file in item.delivery.files])
            log_ingest(context, request.table, plan, run_id=run.run_id, rows_by_date={}, rejected_by_date={})
        return make_receipt(request, plan, None, began=began, run=run)


@dataclass
class World:
    """A lake, a landing folder and a clock. Whatever is planned for a time happens while the watcher sleeps."""

    lake: Lake
    folder: Path
    name: str = "sales"
    now: datetime = datetime(2026, 11, 16, 6, tzinfo=UTC)
    table: Table = field(default_factory=Table)
    plans: list[tuple[datetime, Callable[[], object]]] = field(default_factory=list)
    ends: datetime | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.lake.tables.create(self.name, "id bigint")
        self.lake._context.clock = lambda: self.now

    def write(self, name: str, text: str) -> Path:
        """A file as it is now; every write has its own time."""
        self.now += timedelta(microseconds=1)
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(0, round(self.now.timestamp() * 1e6) * 1000))
        return path

    def at(self, seconds: float, deed: Callable[..., object], *arguments: object) -> None:
        self.plans.append((self.now + timedelta(seconds=seconds), partial(deed, *arguments)))

    def sleep(self, seconds: float) -> None:
        until = self.now + timedelta(seconds=seconds)
        for when, deed in sorted(self.plans, key=lambda plan: plan[0]):
            if when <= until:
                self.now = max(self.now, when)
                deed()
        self.plans = [plan for plan in self.plans if plan[0] > until]
        self.now = max(self.now, until)
        if self.ends is not None and self.now >= self.ends:
            raise EndOfTimeError

    def watch(self, *, seconds: float | None = None, every: float = 5, pattern: str = "") -> list[BatchOutcome]:
        """Watches for a time, or once."""
        self.ends = None if seconds is None else self.now + timedelta(seconds=seconds)
        request = WatchRequest(
            table=TableName.parse(self.name),
            folder=str(self.folder),
            name_pattern=pattern or "sales_{date}.csv",
            every=timedelta(seconds=every),
            once=seconds is None,
        )
        return list(_until_end(watch(self.lake._context, request, sleep=self.sleep, ingest=self.table.ingest)))

    def batch(self, **options: bool) -> list[BatchOutcome]:
        request = BatchRequest(table=TableName.parse(self.name), **options)  # type: ignore[arg-type]
        return list(load_batches(self.lake._context, request, ingest=self.table.ingest))

    def submit(self, *paths: Path, day: str = "2024-01-01") -> None:
        self.lake.table(self.name).submit(*paths, date=day)

    def pending(self) -> list[str]:
        rows = self.lake._context.store.submissions.for_table(self.name)
        return [Path(row.path).name for row in rows if row.run_id is None]


def _until_end(outcomes: Iterator[BatchOutcome]) -> Iterator[BatchOutcome]:
    try:
        yield from outcomes
    except EndOfTimeError:
        return
