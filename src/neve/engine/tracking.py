"""Spark's jobs while they run, told to a person."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from neve.model.progress import progress_line

if TYPE_CHECKING:
    from pyspark import SparkContext

_EVERY = 0.5
_report: ContextVar[str | None] = ContextVar("report", default=None)


@contextmanager
def tracked(tell: Callable[[str], None], what: str) -> Iterator[None]:
    """Tells how many tasks of Spark's running stages are done, until the work inside ends."""
    began = time.monotonic()

    def look() -> None:
        done, total = _tasks()
        if total:
            tell(progress_line(what, done, total, seconds=time.monotonic() - began))

    with _watched(look):
        yield
    _tell_end(tell, what, began)


@contextmanager
def tracked_input(tell: Callable[[str], None], what: str, total: int) -> Iterator[None]:
    """Tells how many rows and bytes of a known total have been read since the work inside began, until it ends.

    Spark counts what it reads; Python's workers on this machine add a line to a file for each of theirs.
    """
    began = time.monotonic()
    stages: dict[int, tuple[int, int]] = {}

    def look() -> None:
        stages.update(_input(stages))
        found = [*stages.values(), *_told(Path(report.name))]
        read = sum(each for each, _ in found)
        if rows := sum(each for _, each in found):
            words = f"{what}, {rows:,} rows"
            tell(progress_line(words, min(read, total), total, seconds=time.monotonic() - began, bytes=True))

    with NamedTemporaryFile(prefix="neve-read-") as report:
        token = _report.set(report.name)
        try:
            with _watched(look):
                yield
        finally:
            _report.reset(token)
    _tell_end(tell, what, began)


def report_file() -> str | None:
    """Where workers of the work inside `tracked_input` tell what they have read: a line of bytes and rows each time."""
    return _report.get()


def _told(report: Path) -> Iterator[tuple[int, int]]:
    for line in report.read_text().splitlines():
        read, rows = line.split()
        yield int(read), int(rows)


@contextmanager
def _watched(look: Callable[[], None]) -> Iterator[None]:
    """Looks now and then, beside the work inside."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _tell_end(tell: Callable[[str], None], what: str, began: float) -> None:
    if (seconds := time.monotonic() - began) >= 1:
        tell(f"{what}: {seconds:.0f} s")


def _context() -> SparkContext | None:
    """Spark's, whichever thread asks: a session is known to its own thread only."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _tasks() -> tuple[int, int]:
    """Tasks that are done, and all tasks, of the stages that run now; nothing while Spark comes or goes."""
    try:
        if (spark := _context()) is None:
            return 0, 0
        tracker = spark.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # noqa: BLE001 - a look that fails must not fail the work
        return 0, 0
    found: list[Any] = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)


def _input(known: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Bytes and rows that the stages which run now, or were known before, have read from files."""
    try:
        if (spark := _context()) is None:
            return {}
        stages = {*known, *spark.statusTracker().getActiveStageIds()}
        store = spark._jsc.sc().statusStore()
        attempts = {stage: store.lastStageAttempt(stage) for stage in stages}
        return {stage: (attempt.inputBytes(), attempt.inputRecords()) for stage, attempt in attempts.items()}
    except Exception:  # noqa: BLE001 - a look that fails must not fail the work
        return {}
