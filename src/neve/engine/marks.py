"""Whose a thread's Spark jobs are, so that those of one run can be cancelled and no others.

A mark is a tag of Spark's: jobs have all that their thread has. Threads that work for another take its marks along in
a copy of its context (`contextvars.copy_context`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_PROPERTY = "spark.job.tags"
_marks: ContextVar[tuple[str, ...]] = ContextVar("neve_marks", default=())
_told = threading.local()


def current_marks() -> tuple[str, ...]:
    """Those of the work that this thread is at, the outermost first."""
    return _marks.get()


@contextmanager
def marked(mark: str) -> Iterator[None]:
    """Jobs that begin inside have one mark more."""
    token = _marks.set((*_marks.get(), mark))
    try:
        if (spark := _running()) is not None:
            mark_thread(spark)
        yield
    finally:
        _marks.reset(token)


def mark_thread(spark: SparkContext) -> None:
    """Tells Spark the marks of this thread, where it does not know them yet."""
    from py4j.protocol import Py4JError

    wanted = (spark, _marks.get())
    if getattr(_told, "marks", (spark, ())) == wanted:
        return
    with suppress(Py4JError, OSError, AttributeError):  # a Spark that has died has no jobs
        spark.setLocalProperty(_PROPERTY, ",".join(wanted[1]) or None)  # type: ignore[arg-type]
        _told.marks = wanted


def _running() -> SparkContext | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context
