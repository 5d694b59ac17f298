"""Days, weeks, months, quarters and years.

Weeks are ISO weeks: 2024-12-30 lies in 2025-W01, and 2020 has a W53.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

from neve.errors import InvalidInput

PeriodKind = Literal["day", "week", "month", "quarter", "year"]
KINDS: tuple[PeriodKind, ...] = get_args(PeriodKind)
"""Shortest first."""

_LABEL = re.compile(
    r"(?P<year>[0-9]{4})(?:-(?:W(?P<week>[0-9]{2})|Q(?P<quarter>[0-9])|(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?))?",
    re.IGNORECASE,
)
_DAY = timedelta(days=1)
_SPELLINGS = "write 2024-01-15, 2024-W05, 2024-01, 2024-Q1 or 2024"


@dataclass(frozen=True, slots=True)
class Period:
    """A whole day, week, month, quarter or year; `first` and `last` both belong to it."""

    kind: PeriodKind
    first: date
    last: date

    def __post_init__(self) -> None:
        if (self.first, self.last) != _bounds(self.first, self.kind):
            raise ValueError(f"{self.first} to {self.last} is not a whole {self.kind}")

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What `parse_period` reads back.

        >>> period_of(date(2024, 12, 30), "week").label, period_of(date(2024, 5, 1), "quarter").label
        ('2025-W01', '2024-Q2')
        """
        match self.kind:
            case "day":
                return self.first.isoformat()
            case "week":
                year, week, _ = self.first.isocalendar()
                return f"{year:04}-W{week:02}"
            case "month":
                return self.first.isoformat()[:7]
            case "quarter":
                return f"{self.first.year:04}-Q{quarter_of(self.first)}"
            case "year":
                return f"{self.first.year:04}"

    def days(self) -> tuple[date, ...]:
        """Every day, in order."""
        length = (self.last - self.first).days + 1
        return tuple(self.first + timedelta(days=step) for step in range(length))

    def contains(self, other: date | Period) -> bool:
        """Whether a day, or every day of another period, lies in this one."""
        if isinstance(other, Period):
            return self.first <= other.first and other.last <= self.last
        return self.first <= other <= self.last

    def previous(self) -> Period:
        """Raises InvalidInput before the first day of the calendar."""
        return self._neighbour(self.first, -1)

    def next(self) -> Period:
        """Raises InvalidInput after the last day of the calendar."""
        return self._neighbour(self.last, 1)

    def _neighbour(self, edge: date, step: int) -> Period:
        try:
            return period_of(edge + timedelta(days=step), self.kind)
        except OverflowError as exc:
            raise InvalidInput(f"the calendar has no {self.kind} beyond {self.label}") from exc


@lru_cache(maxsize=4096)
def period_of(day: date, kind: PeriodKind) -> Period:
    """The period of a kind that a day lies in.

    >>> str(period_of(date(2024, 1, 15), "month"))
    '2024-01'

    Raises:
        InvalidInput: it is the last week of the year 9999, which the calendar cannot hold.
    """
    return Period(kind, *_bounds(day, kind))


def parse_period(text: str) -> Period:
    """What a person means by `2024-01`, `2024-W05`, `2024`, `2024-Q1` or `2024-01-15`.

    >>> parse_period("2024-W05").first, parse_period("2024-02").last
    (datetime.date(2024, 1, 29), datetime.date(2024, 2, 29))

    Raises:
        InvalidInput: the text is none of these, or the calendar has no such period.
    """
    match = _LABEL.fullmatch(text)
    if match is None:
        raise InvalidInput(f"not a period: {text!r}", hint=_SPELLINGS)
    numbers = {name: int(digits) for name, digits in match.groupdict().items() if digits is not None}
    kind: PeriodKind = next((kind for kind in KINDS if kind in numbers), "year")
    try:
        return period_of(_first_day(numbers), kind)
    except (ValueError, InvalidInput) as exc:
        raise InvalidInput(f"the calendar has no {kind} {text!r}", hint=_remedy(numbers)) from exc


def missing_dates(days: Iterable[date]) -> list[date]:
    """The days between the first and the last that are not among them.

    >>> missing_dates([date(2024, 1, 4), date(2024, 1, 1), date(2024, 1, 2)])
    [datetime.date(2024, 1, 3)]
    """
    gaps = [(before, (after - before).days) for before, after in pairwise(sorted(set(days)))]
    return [before + step * _DAY for before, length in gaps for step in range(1, length)]


def date_ranges(days: Sequence[date]) -> str:
    """Days in ascending order, as people say them.

    >>> date_ranges([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 5)])
    '2024-01-01 to 2024-01-02, 2024-01-05'
    """
    if not days:
        return ""
    starts = [days[0], *(after for before, after in pairwise(days) if after - before > _DAY)]
    ends = [*(before for before, after in pairwise(days) if after - before > _DAY), days[-1]]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in pairs)


def quarter_of(day: date) -> int:
    return (day.month + 2) // 3


def _first_day(numbers: Mapping[str, int]) -> date:
    if "week" in numbers:
        return date.fromisocalendar(numbers["year"], numbers["week"], 1)
    if "quarter" in numbers:
        return date(numbers["year"], 3 * numbers["quarter"] - 2, 1)
    return date(numbers["year"], numbers.get("month", 1), numbers.get("day", 1))


def _remedy(numbers: Mapping[str, int]) -> str:
    year = numbers["year"]
    if "week" in numbers and year:
        return f"the weeks of {year} are W01 to W{date(year, 12, 28).isocalendar().week}"
    if "day" in numbers and year and 1 <= numbers["month"] <= 12:
        return f"that month has {calendar.monthrange(year, numbers['month'])[1]} days"
    return _SPELLINGS


def _bounds(day: date, kind: PeriodKind) -> tuple[date, date]:
    match kind:
        case "day":
            return day, day
        case "week":
            monday = day - timedelta(days=day.weekday())
            try:
                return monday, monday + timedelta(days=6)
            except OverflowError as exc:
                raise InvalidInput(f"the week of {day} reaches beyond the calendar") from exc
        case "month":
            return _months(day.year, day.month, day.month)
        case "quarter":
            last = 3 * quarter_of(day)
            return _months(day.year, last - 2, last)
        case "year":
            return _months(day.year, 1, 12)


def _months(year: int, first: int, last: int) -> tuple[date, date]:
    return date(year, first, 1), date(year, last, calendar.monthrange(year, last)[1])
