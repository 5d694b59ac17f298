"""Files that were submitted to a table and wait to be loaded: when they are, and in which company."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from neve.errors import InvalidInput
from neve.model.ingest import IngestReceipt
from neve.model.results import Answer, Reason
from neve.model.runs import Record, RunId
from neve.model.units import format_duration, parse_duration, parse_size

OutcomeState = Literal["loaded", "failed", "waiting", "planned"]


def _as_size(value: object) -> object:
    """A size names its unit; only 0 may stand alone."""
    if value == 0 and not isinstance(value, bool):
        return 0
    try:
        return parse_size(str(value))
    except InvalidInput as exc:
        raise ValueError(exc.message) from exc


def _as_duration(value: object) -> object:
    if isinstance(value, dt.timedelta):
        return value
    try:
        return parse_duration(str(value))
    except InvalidInput as exc:
        raise ValueError(exc.message) from exc


def _size_text(size: int) -> str:
    return f"{size}B"


Size = Annotated[int, BeforeValidator(_as_size), PlainSerializer(_size_text, return_type=str, when_used="json")]
Age = Annotated[
    dt.timedelta, BeforeValidator(_as_duration), PlainSerializer(format_duration, return_type=str, when_used="json")
]
Count = Annotated[int, Field(strict=True, ge=1)]


class BatchLimits(BaseModel):
    """`ingestion.batch` of a table's file. Both minima must hold, unless the oldest file has waited for `max_age`.

    The maxima close a batch; they count every file that the batch reads, in bytes of the files as they lie there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_size: Size = 0
    max_size: Annotated[Size, Field(gt=0)] = 5_000_000_000
    min_files: Count = 1
    max_files: Count = 100
    max_age: Age = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """A file as it lies in a landing folder, unread."""

    path: str
    bytes: int
    modified_at: dt.datetime


class SubmittedFile(Record):
    """A file that was submitted for a date. It waits until `run_id` names the run that loaded it."""

    table_name: str
    path: str
    date: dt.date
    bytes: int
    modified_at: AwareDatetime
    submitted_at: AwareDatetime
    run_id: RunId | None = None

    def is_as(self, file: LandedFile) -> bool:
        """Whether the file has not changed since it was submitted."""
        return (self.bytes, self.modified_at) == (file.bytes, file.modified_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateFiles:
    """All files of one date: loading a date replaces its rows, so those loaded before are read with the new ones."""

    date: dt.date
    files: tuple[SubmittedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one ingest, and so one commit, loads."""

    dates: tuple[DateFiles, ...]

    @property
    def files(self) -> tuple[SubmittedFile, ...]:
        return tuple(file for day in self.dates for file in day.files)

    @property
    def bytes(self) -> int:
        return sum(day.bytes for day in self.dates)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Batches in the order to load them; `reason` says why there is none."""

    batches: tuple[Batch, ...] = ()
    reason: Reason | None = None


class BatchOutcome(Answer):
    """What became of a batch, or of a file that could not be submitted.

    `reason` says why it failed, or why nothing is ready yet; what failed stays submitted.
    """

    table: str
    state: OutcomeState
    dates: list[dt.date] = Field(default_factory=list)
    files: list[str] = Field(default_factory=list)
    bytes: int = 0
    reason: Reason | None = None
    hint: str | None = None
    receipt: IngestReceipt | None = None
