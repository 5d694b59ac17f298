"""File names that stand for a day or a longer period: `{date}.parquet`, `year={year}/month={month}/data.parquet`.

`{year} {month} {week} {day}` are zero-padded numbers, `{quarter}` is one digit, and `{date}` is a day as a date format
(Python's strftime) writes it. Beside `{week}`, `{year}` is the ISO year. A pattern must determine what it names: one
that gives two days, or two periods, the same name is refused.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from neve.errors import InvalidInput, nearest
from neve.model.periods import Period, PeriodKind, period_of, quarter_of

DATE_FORMAT = "%Y-%m-%d"

_TWO_DIGIT_YEARS = range(1969, 2069)  # as Python and POSIX read %y
_READ: dict[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "short_year": lambda day: day.year % 100,
    "quarter": quarter_of,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "day_of_year": lambda day: day.timetuple().tm_yday,
    "iso_year": lambda day: day.isocalendar().year,
    "week": lambda day: day.isocalendar().week,
    "weekday": lambda day: day.isoweekday(),
}
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class _Token:
    """A number of fixed width in a name, or the English name of a month."""

    field: str
    width: int = 0
    words: tuple[str, ...] = ()

    def write(self, day: date) -> str:
        value = _READ[self.field](day)
        return self.words[value - 1] if self.words else f"{value:0{self.width}}"

    def read(self, text: str) -> int:
        return [word.lower() for word in self.words].index(text.lower()) + 1 if self.words else int(text)

    @property
    def regex(self) -> str:
        return f"((?i:{'|'.join(self.words)}))" if self.words else f"([0-9]{{{self.width}}})"


_DIRECTIVES = {
    "Y": _Token("year", 4),
    "y": _Token("short_year", 2),
    "m": _Token("month", 2),
    "b": _Token("month", words=tuple(name[:3] for name in _MONTHS)),
    "B": _Token("month", words=_MONTHS),
    "d": _Token("day", 2),
    "j": _Token("day_of_year", 3),
    "G": _Token("iso_year", 4),
    "V": _Token("week", 2),
    "u": _Token("weekday", 1),
}
_NUMBERS = {
    "year": _DIRECTIVES["Y"],
    "month": _DIRECTIVES["m"],
    "week": _DIRECTIVES["V"],
    "day": _DIRECTIVES["d"],
    "quarter": _Token("quarter", 1),
}
_PLACEHOLDERS = ("date", *_NUMBERS)

# What a name must hold to stand for one period of a kind, and what it may hold: that which every day of it shares.
_DETERMINED: tuple[tuple[PeriodKind, frozenset[str], frozenset[str]], ...] = (
    ("day", frozenset({"year", "month", "day"}), frozenset(_READ)),
    ("day", frozenset({"year", "day_of_year"}), frozenset(_READ)),
    ("day", frozenset({"iso_year", "week", "weekday"}), frozenset(_READ)),
    ("week", frozenset({"iso_year", "week"}), frozenset({"iso_year", "week"})),
    ("month", frozenset({"year", "month"}), frozenset({"year", "short_year", "quarter", "month"})),
    ("quarter", frozenset({"year", "quarter"}), frozenset({"year", "short_year", "quarter"})),
    ("year", frozenset({"year"}), frozenset({"year", "short_year"})),
)


@dataclass(frozen=True, slots=True)
class _Template:
    kind: PeriodKind
    parts: tuple[str | _Token, ...]
    regex: re.Pattern[str]

    @property
    def tokens(self) -> list[_Token]:
        return [part for part in self.parts if isinstance(part, _Token)]


def pattern_kind(pattern: str, date_format: str = DATE_FORMAT) -> PeriodKind:
    """What each name of a pattern stands for; checks the pattern.

    >>> pattern_kind("{date}.parquet"), pattern_kind("{year}-W{week}.parquet"), pattern_kind("{date}.csv", "%Y%m")
    ('day', 'week', 'month')

    Raises:
        InvalidInput: an unknown placeholder or directive, or two days or periods would have the same name.
    """
    return _template(pattern, date_format).kind


def has_date(pattern: str) -> bool:
    """Whether the date format matters to a pattern."""
    return any(name == "date" for _, name in _placeholders(pattern))


def format_pattern(pattern: str, when: Period | date, date_format: str = DATE_FORMAT) -> str:
    """The name of a period, or of the period that a day lies in. Where a pattern names days, a longer period has the
    name of its first.

    >>> format_pattern("year={year}/month={month}/day={day}/data.parquet", date(2024, 1, 5))
    'year=2024/month=01/day=05/data.parquet'
    >>> format_pattern("{year}-W{week}.parquet", date(2024, 12, 30))
    '2025-W01.parquet'

    Raises:
        InvalidInput: the pattern is not one, names periods of another kind, or cannot hold this year.
    """
    template = _template(pattern, date_format)
    if isinstance(when, Period) and when.kind != "day" and template.kind not in {"day", when.kind}:
        raise InvalidInput(f"the pattern {pattern!r} names a {template.kind}, and {when} is a {when.kind}")
    day = when.first if isinstance(when, Period) else when
    fields = {token.field for token in template.tokens}
    if "short_year" in fields and "year" not in fields and day.year not in _TWO_DIGIT_YEARS:
        raise InvalidInput(f"%y cannot tell {day.year} from a year of another century", hint="write it with %Y")
    return "".join(part if isinstance(part, str) else part.write(day) for part in template.parts)


def match_pattern(pattern: str, name: str, date_format: str = DATE_FORMAT) -> date | Period | None:
    """The day, or the longer period, that a whole name stands for; None when the pattern gives this name to none.

    >>> match_pattern("sales_{date}.csv", "sales_2024-01-15.csv")
    datetime.date(2024, 1, 15)
    >>> str(match_pattern("{year}-{month}.parquet", "2024-01.parquet"))
    '2024-01'

    Raises:
        InvalidInput: the pattern is not one.
    """
    template = _template(pattern, date_format)
    match = template.regex.fullmatch(name)
    if match is None:
        return None
    values = [(token.field, token.read(text)) for token, text in zip(template.tokens, match.groups(), strict=True)]
    try:
        period = period_of(_day_in(dict(values)), template.kind)
    except (ValueError, OverflowError, InvalidInput):
        return None  # digits that the calendar does not have
    if any(_READ[field](period.first) != value for field, value in values):
        return None  # two parts of the name disagree
    return period.first if template.kind == "day" else period


def _day_in(values: Mapping[str, int]) -> date:
    """The first day that the values of a determined name allow."""
    year = values.get("year")
    if year is None and "short_year" in values:
        year = values["short_year"] + (1900 if values["short_year"] >= _TWO_DIGIT_YEARS.start % 100 else 2000)
    if year is not None and "day_of_year" in values:
        return date(year, 1, 1) + timedelta(days=values["day_of_year"] - 1)
    if year is None or ("weekday" in values and not {"month", "day"} <= values.keys()):
        return date.fromisocalendar(values["iso_year"], values["week"], values.get("weekday", 1))
    month = values.get("month", 3 * values.get("quarter", 1) - 2)
    return date(year, month, values.get("day", 1))


@lru_cache(maxsize=256)
def _template(pattern: str, date_format: str) -> _Template:
    parts = tuple(_parts(pattern, date_format))
    fields = frozenset(part.field for part in parts if isinstance(part, _Token))
    regex = "".join(re.escape(part) if isinstance(part, str) else part.regex for part in parts)
    return _Template(_kind(pattern, fields), parts, re.compile(regex))


def _kind(pattern: str, fields: frozenset[str]) -> PeriodKind:
    known = fields | {"year"} if "short_year" in fields else fields
    for kind, needed, allowed in _DETERMINED:
        if needed <= known and fields <= allowed:
            return kind
    raise InvalidInput(
        f"the pattern {pattern!r} gives several days or periods the same name",
        hint="use {date}, {year} with {month} and {day}, with {month}, with {week} or with {quarter}, or {year} alone",
    )


def _parts(pattern: str, date_format: str) -> Iterator[str | _Token]:
    pieces = _placeholders(pattern)
    names = {name for _, name in pieces if name is not None}
    if "week" in names and names & {"month", "day", "quarter"}:
        raise InvalidInput(
            f"{{week}} belongs to an ISO year; {{month}}, {{day}} and {{quarter}} do not: {pattern!r}",
            hint="put {week} beside {year} or {date} only",
        )
    for literal, name in pieces:
        yield literal
        if name == "date":
            yield from _date_parts(date_format)
        elif name == "year" and "week" in names:
            yield _DIRECTIVES["G"]
        elif name is not None:
            yield _NUMBERS[name]


def _placeholders(pattern: str) -> list[tuple[str, str | None]]:
    """Each stretch of plain text with the placeholder that follows it."""
    try:
        pieces = list(string.Formatter().parse(pattern))
    except ValueError as exc:
        raise InvalidInput(f"the braces in the pattern {pattern!r} do not match", hint="write {{ for a brace") from exc
    for _, name, spec, conversion in pieces:
        if name is None:
            continue
        if name not in _PLACEHOLDERS:
            known = " ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
            raise InvalidInput(
                f"unknown placeholder {{{name}}} in the pattern {pattern!r}",
                hint=nearest(name, _PLACEHOLDERS) or f"known: {known}",
            )
        if spec or conversion:
            raise InvalidInput(
                f"{{{name}}} takes no format of its own in the pattern {pattern!r}", hint="numbers are zero-padded"
            )
    return [(literal, name) for literal, name, _, _ in pieces]


def _date_parts(date_format: str) -> Iterator[str | _Token]:
    for text in re.findall(r"%.?|[^%]+", date_format, re.DOTALL):
        if not text.startswith("%"):
            yield text
        elif text == "%%":
            yield "%"
        elif text[1:] in _DIRECTIVES:
            yield _DIRECTIVES[text[1:]]
        else:
            known = " ".join(f"%{letter}" for letter in _DIRECTIVES)
            raise InvalidInput(f"unknown {text!r} in the date format {date_format!r}", hint=f"known: {known}")
