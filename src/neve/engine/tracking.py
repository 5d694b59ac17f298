"""Spark's jobs while they run, told to a person."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neve.engine.session import running_session
from neve.model.progress import progress_line

_EVERY = 0.5


@contextmanager
def tracked(tell: Callable[[str], None], what: str) -> Iterator[None]:
    """Tells how many tasks of Spark's running stages are done, until the work inside ends."""
    began = time.monotonic()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY):
            done, total = _tasks()
            if total:
                tell(progress_line(what, done, total, seconds=time.monotonic() - began))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    if (seconds := time.monotonic() - began) >= 1:
        tell(f"{what}: {seconds:.0f} s")


def _tasks() -> tuple[int, int]:
    """Tasks that are done, and all tasks, of the stages that run now; nothing while Spark comes or goes."""
    try:
        if (spark := running_session()) is None:
            return 0, 0
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # noqa: BLE001 - a look that fails must not fail the work
        return 0, 0
    found: list[Any] = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
