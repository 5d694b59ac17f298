"""`neve schedule` and `neve worker`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from neve.cli.options import open_lake, options, say
from neve.cli.render import emit
from neve.errors import InvalidInput, WorkFailed
from neve.observe.log import Event, as_json, as_text

if TYPE_CHECKING:
    from types import FrameType

    from neve.model.work import JobOutcome
    from neve.services.worker.worker import Worker

_GRACE, _INTERRUPTED = 5.0, 130
"""Seconds that jobs have to end in once they are broken off."""


def show_schedule(at: str | None) -> None:
    emit(open_lake().schedule(None if at is None else _moment(at)), empty="no tables yet")


def run_worker(
    *,
    once: bool,
    slots: int | None,
    tables: Sequence[str],
    log_format: Literal["text", "json"],
    metrics_file: Path | None,
) -> None:
    if not once and options.output in ("json", "csv"):
        raise InvalidInput(f"-o {options.output} cannot show what has no end", hint="use -o jsonl, or --once")
    line = as_json if log_format == "json" else as_text

    def log(event: Event) -> None:
        say(line(event))

    with open_lake(create=True) as lake:
        worker = lake.worker(slots=slots, tables=tables, metrics_file=metrics_file, log=log)
        with _draining(worker):
            if once:
                _emit_all(worker.tick())
            else:
                _emit_each(worker.run())


def _emit_all(outcomes: Sequence[JobOutcome]) -> None:
    emit(outcomes, empty="nothing was due")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        named = "; ".join(
            f"{each.action} of {each.table} ({each.reason.detail if each.reason else ''})" for each in failed
        )
        raise WorkFailed(
            f"{len(failed):,} of {len(outcomes):,} failed: {named}", hint="neve schedule says when each is tried again"
        )


def _emit_each(outcomes: Iterator[JobOutcome]) -> None:
    """As they come, for programs; people read the log."""
    for outcome in outcomes:
        if options.output == "jsonl":
            emit([outcome])
            sys.stdout.flush()


@contextmanager
def _draining(worker: Worker) -> Iterator[None]:
    """SIGTERM and Ctrl-C let the worker finish what runs; a second one breaks it off, and ends us whatever it does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def drain(number: int, _: object) -> None:
        worker.drain()
        for each in before:
            signal.signal(each, break_off)
        say(f"{signal.Signals(number).name}: finishing what runs; once more breaks it off")

    def break_off(number: int, frame: FrameType | None) -> None:
        last = threading.Timer(_GRACE, _leave)
        last.daemon = True
        last.start()
        for each in before:
            signal.signal(each, signal.default_int_handler)
        signal.default_int_handler(number, frame)

    for number in before:
        signal.signal(number, drain)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave() -> None:
    """A thread that works cannot be ended. What it has not committed is nowhere, and its claim runs out by itself."""
    say("what runs has not ended: it is left as it is, and done again after its lease")
    os._exit(_INTERRUPTED)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInput(f"not a time: {text!r}", hint="write it as 2026-11-16T12:00Z") from exc
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
