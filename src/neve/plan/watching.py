"""What a watcher of a landing folder remembers between two looks: pure, with the time as an argument.

A file is complete when its size and time of change have been seen unchanged for a while. What was submitted and has not
changed since is no news, also to a watcher that has just started. What failed is tried again when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from neve.errors import (
    CommitConflict,
    CommitUnknown,
    Conflict,
    EngineError,
    FileGone,
    JobFailed,
    LeaseHeld,
    SparkUnavailable,
    StalePlan,
    StorageError,
    StoreError,
)
from neve.model.batching import BatchOutcome, LandedFile, SubmittedFile

_FIRST_PAUSE = timedelta(minutes=1)
_LONGEST_PAUSE = timedelta(hours=1)
_DOUBLINGS = 6
_PASSING = frozenset(
    error.code
    for error in (
        *(Conflict, CommitConflict, StalePlan, LeaseHeld),
        *(EngineError, JobFailed, FileGone, SparkUnavailable, StorageError, CommitUnknown, StoreError),
    )
)

Shape = frozenset[tuple[str, datetime, bool]]
"""The files of a date: path, when submitted, and whether it lies there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Files that are complete and new or changed, and those that are too young to tell."""

    arrived: tuple[LandedFile, ...]
    growing: tuple[LandedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    shape: Shape
    why: str
    passing: bool
    at: datetime
    tries: int

    def stands(self, shape: Shape | None, now: datetime) -> bool:
        if shape != self.shape:
            return False
        return not self.passing or now - self.at < min(
            _FIRST_PAUSE * 2 ** min(self.tries - 1, _DOUBLINGS), _LONGEST_PAUSE
        )


class Watcher:
    def __init__(self, *, settle: timedelta) -> None:
        self._settle = settle
        self._since: dict[LandedFile, datetime] = {}
        self._refused: set[LandedFile] = set()
        self._failures: dict[date, _Failure] = {}

    def sort(self, landed: Sequence[LandedFile], known: Mapping[str, SubmittedFile], now: datetime) -> Look:
        """What a look found, beside what the table's submissions say."""
        self._since = {file: self._since.get(file, now) for file in landed}
        self._refused &= self._since.keys()
        news = [file for file in landed if file not in self._refused and not _is_known(file, known.get(file.path))]
        grown = {file for file in news if now - self._since[file] >= self._settle}
        return Look(
            arrived=tuple(file for file in news if file in grown),
            growing=tuple(file for file in news if file not in grown),
        )

    def refuse(self, file: LandedFile) -> None:
        """A file that cannot be submitted; it is not looked at again before it changes."""
        self._refused.add(file)

    def standing(self, shapes: Mapping[date, Shape], now: datetime) -> frozenset[date]:
        """Dates that failed and should be left alone.

        A date is tried again when one of its files changes, comes or goes. What may pass by itself, such as storage
        that cannot be reached, is also tried again after a minute, two, four… up to an hour.
        """
        return frozenset(day for day, failure in self._failures.items() if failure.stands(shapes.get(day), now))

    def note(self, outcome: BatchOutcome, shapes: Mapping[date, Shape], now: datetime) -> bool:
        """Remembers what became of a batch; whether it should be told, as the same failure again should not."""
        if outcome.state != "failed" or outcome.reason is None:
            for day in outcome.dates:
                self._failures.pop(day, None)
            return True
        told = True
        for day in outcome.dates:
            earlier = self._failures.get(day)
            shape, why = shapes.get(day, frozenset()), outcome.reason.detail
            again = earlier is not None and (earlier.shape, earlier.why) == (shape, why)
            told = told and not again
            self._failures[day] = _Failure(
                shape=shape,
                why=why,
                passing=outcome.reason.code in _PASSING,
                at=now,
                tries=earlier.tries + 1 if again and earlier is not None else 1,
            )
        return told


def shapes_of(rows: Iterable[SubmittedFile], landed: Iterable[LandedFile]) -> dict[date, Shape]:
    """The shape of every date that has submitted files."""
    there = {file.path for file in landed}
    found: dict[date, set[tuple[str, datetime, bool]]] = {}
    for row in rows:
        found.setdefault(row.date, set()).add((row.path, row.submitted_at, row.path in there))
    return {day: frozenset(members) for day, members in found.items()}


def _is_known(file: LandedFile, row: SubmittedFile | None) -> bool:
    return row is not None and row.is_as(file)
