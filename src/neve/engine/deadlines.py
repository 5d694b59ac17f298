"""Work on Spark that must end in time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.errors import NeveError, TimedOut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AGAIN = 0.2


@contextmanager
def within(spark: SparkSession, seconds: float | None) -> Iterator[None]:
    """Ends the jobs that this thread starts inside when the time is over; without a time, lets them be.

    Raises:
        TimedOut: it was over.
    """
    if seconds is None:
        yield
        return
    context, group = spark.sparkContext, f"neve-{uuid.uuid4().hex}"
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        late.set()
        while not done.wait(_AGAIN):  # one that is still being planned begins its job later
            context.cancelJobGroup(group)

    context.setJobGroup(group, "a request with a time limit", interruptOnCancel=True)
    watcher = threading.Thread(target=watch, name="neve-deadline", daemon=True)
    watcher.start()
    try:
        yield
    except NeveError as exc:
        if late.is_set():
            raise TimedOut(f"it took longer than {seconds:g} s", hint="ask for less, or give it more time") from exc
        raise
    finally:
        done.set()
        watcher.join()
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)  # type: ignore[arg-type]
