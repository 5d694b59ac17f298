"""Python's own work as tasks of Spark, for clusters of several executors: units go out, small answers come back.

An executor must have Névé. One that does not says so, for what a task begins with needs nothing of ours: it travels
whole, and looks for Névé when it is there. An error of ours is an answer too; Spark would try four times, and show a
trace of Java's. Workers import this module, so it must stay light.
"""

from __future__ import annotations

import pickle
import re
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from neve.errors import NeveError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_Unit = TypeVar("_Unit")
_Value = TypeVar("_Value")

_LEAVING, _PAUSE = 10.0, 0.1
_INSTALL = "PYSPARK_PYTHON names the Python of executors"
_NO_PYTHON = re.compile(r"Cannot run program [^\n]*|PYTHON_VERSION_MISMATCH\][^\n]*")

ATTEMPTS = 8
"""So often Spark begins a task at most, or almost: four times, and again where executors went or one was slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[_Value]):
    """What came of a unit: a value, an error, or what its executor lacks to begin at all.

    `attempt` is the number of the attempt that counts; others may have begun the same before it, and beside it.
    """

    value: _Value | None = None
    error: NeveError | None = None
    lacks: str | None = None
    attempt: int = 0


def run_tasks(spark: SparkSession, work: Sequence[_Unit], do: Callable[[_Unit, int], _Value]) -> list[Answer[_Value]]:
    """Does each unit in a task of its own; the answers are in the order of the units.

    `do` is a function of a module, and gets a unit and the number of the attempt: what attempts leave behind is for the
    caller to remove. When this raises, no attempt is at work any more.

    Raises:
        JobFailed: a task failed of what is no error of ours, as often as Spark tries; or the job was cancelled.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from neve.engine.errors import translated
    from neve.engine.marks import marked
    from neve.engine.session import use_in_thread

    context, mark = spark.sparkContext, f"neve-tasks-{uuid.uuid4().hex}"
    with marked(mark):
        use_in_thread(spark)
        try:
            units = context.parallelize([pickle.dumps(unit) for unit in work], len(work))
            told = units.map(_first_step(do.__module__, do.__name__, import_module("neve").__version__)).collect()
        except BaseException as exc:
            _wait_until_left(context, mark)
            if isinstance(exc, PySparkException | Py4JError) and (lack := _NO_PYTHON.search(str(exc))):
                return [Answer(lacks=f"executors have no such Python: {lack[0]}; {_INSTALL}") for _ in work]
            with translated():
                raise
    return [
        pickle.loads(answer) if lack is None else Answer(lacks=f"{lack}; {_INSTALL}", attempt=attempt)  # noqa: S301
        for answer, lack, attempt in told
    ]


def _first_step(module: str, name: str, version: str) -> Callable[[bytes], tuple[bytes, str | None, int]]:
    """What a task begins with: a function within a function is pickled with its code, and refers to nothing of ours."""

    def begin(unit: bytes) -> tuple[bytes, str | None, int]:
        import importlib
        import socket

        from pyspark import TaskContext

        task = TaskContext.get()
        attempt = 0 if task is None else task.attemptNumber()
        try:
            found = importlib.import_module("neve").__version__
            if found == version:
                ours = importlib.import_module("neve.engine.executors")
                return ours.answered(module, name, unit, attempt), None, attempt
            lack = f"has Névé {found}, not {version}"
        except ImportError as exc:
            lack = f"lacks what is installed here: {exc}"
        return b"", f"{socket.gethostname()} {lack}", attempt

    return begin


def answered(module: str, name: str, unit: bytes, attempt: int) -> bytes:
    """In a task: what comes of a unit, as bytes."""
    do: Callable[[Any, int], Any] | None = getattr(import_module(module), name, None)
    if do is None:
        raise ImportError(f"{module} has no {name}")
    try:
        answer = Answer(value=do(pickle.loads(unit), attempt), attempt=attempt)  # noqa: S301 - our driver's
    except NeveError as exc:
        answer = Answer(error=exc, attempt=attempt)
    return pickle.dumps(answer)


def _wait_until_left(context: SparkContext, mark: str) -> None:
    """Until no task of a job that has ended is at work: Spark lets them be, and kills them some seconds later."""
    from py4j.protocol import Py4JError

    until = time.monotonic() + _LEAVING
    with suppress(Py4JError, OSError, AttributeError):  # it has died, and its tasks with it
        while _active_tasks(context, mark) and time.monotonic() < until:
            time.sleep(_PAUSE)


def _active_tasks(context: SparkContext, mark: str) -> int:
    java: Any = context
    store = java._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    ours = [job for job in map(jobs.apply, range(jobs.size())) if job.jobTags().contains(mark)]
    stages = [job.stageIds().apply(place) for job in ours for place in range(job.stageIds().size())]
    return sum(int(store.lastStageAttempt(stage).numActiveTasks()) for stage in stages)
