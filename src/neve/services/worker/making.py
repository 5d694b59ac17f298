"""A worker as settings and a caller ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from neve.errors import InvalidInput
from neve.observe.log import Event
from neve.services.context import Context
from neve.services.worker.metrics import MetricsFile
from neve.services.worker.worker import Worker, WorkerOptions


def make_worker(
    context: Context,
    *,
    slots: int | None = None,
    tables: Sequence[str] = (),
    metrics_file: str | Path | None = None,
    log: Callable[[Event], None] | None = None,
) -> Worker:
    """Raises InvalidInput for a number of slots, or a file, that cannot be."""
    settings = context.loaded.settings.worker
    wanted = settings.slots if slots is None else slots
    if wanted < 1:
        raise InvalidInput("a worker needs at least one slot", hint="give --slots 1 or more")
    if metrics_file is not None and not Path(metrics_file).absolute().parent.is_dir():
        raise InvalidInput(f"there is no folder for {metrics_file}", hint="make the folder first")
    return Worker(
        context,
        WorkerOptions(
            slots=wanted,
            tables=tuple(tables),
            lease=settings.lease,
            poll=settings.poll,
            log=log or (lambda _: None),
            on_look=MetricsFile(Path(metrics_file)).write if metrics_file is not None else lambda *_: None,
        ),
    )
