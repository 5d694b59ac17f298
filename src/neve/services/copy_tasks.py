"""Copies as tasks of Spark, where its master has executors: each copy is a task, and the driver plans and commits.

Executors do what they can. What one of them cannot, for it lacks Névé or does not see the files, is left to this
process, which is told why and has the last word. Each attempt writes a file of its own: two that run at once, or one
after a death, never meet; of those that do not count, none stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.catalog.files import Files, local_path
from neve.config.connections import with_environment
from neve.engine.conf import master_of
from neve.errors import NotFound, StorageError
from neve.model.copying import CopyResult
from neve.model.units import counted
from neve.plan.masters import copies_run
from neve.services.copies import FileCopy, make_copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.engine.executors import Answer
    from neve.services.context import Context
    from neve.services.directories import Workplace


@dataclass(frozen=True, slots=True)
class Executors:
    """A Spark that has some, the files as this process reaches them, and who hears how it goes."""

    spark: SparkSession
    files: Files
    tell: Callable[[str], None]
    warn: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MadeCopy:
    """A file that was made, where it lies."""

    path: str
    result: CopyResult


def executors_of(context: Context) -> Executors | None:
    """Those of a lake's Spark; None where copies run in this process."""
    if copies_run(master_of(context.loaded)) == "threads":
        return None
    files = Files(with_environment(context.catalog.files.s3, context.env))
    return Executors(context.session.spark, files, context.tell, context.warn)


def executors_for(work: Workplace) -> Executors | None:
    """The same for work on plain folders. No Spark is started where it would have no executors."""
    if copies_run(work.master) == "threads":
        return None
    warn = work.tell if work.context is None else work.context.warn
    return Executors(work.spark, Files(), work.tell, warn)


def copy_by_tasks(executors: Executors | None, copies: Sequence[FileCopy]) -> list[MadeCopy | None]:
    """What tasks have made of each copy; None for those that are left to this process.

    Raises:
        NeveError: as a copy in this process would; of all that was written nothing is left.
    """
    from neve.engine.executors import run_tasks
    from neve.engine.tracking import tracked

    if executors is None or not copies:
        return [None] * len(copies)
    units = [replace(copy, s3=executors.files.s3) for copy in copies]
    keep: list[str] = []
    answers: list[Answer[CopyResult]] = []
    try:
        with tracked(executors.tell, "copying row groups"):
            answers = run_tasks(executors.spark, units, copy_in_task)
        if failed := next((answer.error for answer in answers if _is_final(answer)), None):
            raise failed
        made = [_made(executors, copy, answer) for copy, answer in zip(copies, answers, strict=True)]
        keep = [copy.path for copy in made if copy is not None]
    finally:
        _remove_rest(executors, copies, answers, keep)
    _tell_left(executors, made, answers)
    return made


def copy_in_task(copy: FileCopy, attempt: int) -> CopyResult:
    """What a task does."""
    return make_copy(replace(copy, target=attempted(copy.target, attempt)), Files(copy.s3))


def attempted(path: str, attempt: int) -> str:
    """The file of one attempt, `0-a.parquet` where `a.parquet` was to be."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{attempt}-{name}"


def _is_final(answer: Answer[CopyResult]) -> bool:
    """Whether another place would answer the same: what storage says may hold for one machine alone."""
    return answer.error is not None and not isinstance(answer.error, NotFound | StorageError)


def _made(executors: Executors, copy: FileCopy, answer: Answer[CopyResult]) -> MadeCopy | None:
    """What counts is what this process sees: a path of a disk leads elsewhere on a machine that does not share it."""
    if answer.value is None:
        return None
    path = attempted(copy.target, answer.attempt)
    if local_path(path) is not None and executors.files.size(path) != answer.value.bytes:
        return None
    return MadeCopy(path, answer.value)


def _remove_rest(
    executors: Executors, copies: Sequence[FileCopy], answers: Sequence[Answer[CopyResult]], keep: Sequence[str]
) -> None:
    """Removes what attempts have left that do not count: all of them when the job failed."""
    from neve.engine.executors import ATTEMPTS

    begun = [answer.attempt + 2 for answer in answers] or [ATTEMPTS] * len(copies)  # a slow one has another beside it
    paths = [attempted(copy.target, n) for copy, most in zip(copies, begun, strict=True) for n in range(most)]
    executors.files.remove_all(sorted(set(paths).difference(keep)))


def _tell_left(executors: Executors, made: Sequence[MadeCopy | None], answers: Sequence[Answer[CopyResult]]) -> None:
    left = [answer for copy, answer in zip(made, answers, strict=True) if copy is None]
    if left:
        why = left[0].lacks or (left[0].error and left[0].error.message) or "it is not seen from here what they write"
        total = counted(len(made), "file")
        executors.warn(f"{len(left)} of {total} copied by this process, not by Spark's executors: {why}")
