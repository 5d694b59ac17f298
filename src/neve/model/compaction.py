"""Compaction of days into periods: the files there are, the plan for a period, and whether its turn has come."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from neve.model.periods import Period
from neve.model.results import Reason, Receipt

Action = Literal["compact", "none", "skip", "refuse"]
Sources = Literal["deleted", "kept", "until_snapshots_expire"]
"""What becomes of the files that a period was made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFile:
    """A file with rows of one day. A day may have several."""

    date: dt.date
    path: str
    rows: int
    bytes: int
    ingested_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPeriod:
    """A period that was compacted: its file, the days in it, and every source that ever went in."""

    period: Period
    output: str
    sources: tuple[str, ...]
    dates: frozenset[dt.date]
    rows: int
    bytes: int
    compacted_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodPlan:
    """What to do about one period, and why.

    `output` is the name of its file. When the action is "compact", `days` and `periods` are merged into it, together
    with the rows of `merge_into`, which is the period's file as it stands. `missing` are the days nobody delivered.
    """

    period: Period
    action: Action
    reason: Reason
    planned_at: dt.datetime
    output: str
    days: tuple[DayFile, ...] = ()
    periods: tuple[CompactedPeriod, ...] = ()
    merge_into: CompactedPeriod | None = None
    delete_source: bool = False
    missing: tuple[dt.date, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that go in and are then deleted or put aside; the file that is merged into is not one of them."""
        return (*(day.path for day in self.days), *(period.output for period in self.periods))

    @property
    def rows(self) -> int:
        """Rows in the sources."""
        return sum(day.rows for day in self.days) + sum(period.rows for period in self.periods)

    @property
    def bytes(self) -> int:
        """Bytes in the sources."""
        return sum(day.bytes for day in self.days) + sum(period.bytes for period in self.periods)

    @property
    def dates(self) -> frozenset[dt.date]:
        """The days that the output holds afterwards."""
        held = self.merge_into.dates if self.merge_into else frozenset()
        return held.union((day.date for day in self.days), *(period.dates for period in self.periods))


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A period whose turn has come, with the plan to carry out."""

    period: Period
    reason: Reason
    plan: PeriodPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """A period that is left alone now; `due_at` is its next turn, where the schedule gives it one."""

    period: Period
    reason: Reason
    due_at: dt.datetime | None = None


class CompactionReceipt(Receipt):
    """A receipt with what became of a period's files."""

    period: str
    rows: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    output: str
    sources: Sources
    missing_dates: list[dt.date]
