"""Durations, sizes and counts: how people write them, and how they are shown.

What is parsed always names its unit, so that nobody has to guess one; only a duration of `0` may stand alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from neve.errors import InvalidInput

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%\Z")
_COUNT = re.compile(r"[0-9]{1,18}\Z")

_AMOUNT = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]+)\s*")
_MICROSECONDS = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1000,
}
_DURATION_UNITS = {
    spelling: _MICROSECONDS[unit]
    for unit, spellings in {
        "w": "w week weeks",
        "d": "d day days",
        "h": "h hr hrs hour hours",
        "m": "m min mins minute minutes",
        "s": "s sec secs second seconds",
        "ms": "ms millisecond milliseconds",
    }.items()
    for spelling in spellings.split()
}
_SIZE_NAMES = ("B", "KB", "MB", "GB", "TB", "PB")
_SIZE_UNITS: dict[str, int] = {name.casefold(): 1000**power for power, name in enumerate(_SIZE_NAMES)} | {
    f"{name[0]}iB".casefold(): 1024**power for power, name in enumerate(_SIZE_NAMES) if power
}


def parse_duration(text: str) -> timedelta:
    """A length of time, larger units first; months and years have no fixed length and are refused.

    >>> parse_duration("7d"), parse_duration("2 h"), parse_duration("0")
    (datetime.timedelta(days=7), datetime.timedelta(seconds=7200), datetime.timedelta(0))
    >>> parse_duration("90 minutes") == parse_duration("1h30m") == parse_duration("1.5 hours")
    True

    Raises:
        InvalidInput: the text is not a duration, or is longer than a timedelta can hold.
    """
    if text.strip() == "0":
        return timedelta(0)
    microseconds, position, above = Fraction(0), 0, None
    while position < len(text):
        match = _AMOUNT.match(text, position)
        unit = _DURATION_UNITS.get(match[2].casefold()) if match else None
        if match is None or unit is None or (above is not None and unit >= above):
            raise _not_a_duration()
        microseconds += Fraction(match[1]) * unit
        position, above = match.end(), unit
    if above is None:
        raise _not_a_duration()
    try:
        return timedelta(microseconds=round(microseconds))
    except OverflowError as exc:
        raise InvalidInput("this duration is too long") from exc


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back to the same duration.

    >>> format_duration(timedelta(days=7)), format_duration(timedelta(minutes=90)), format_duration(timedelta(0))
    ('7d', '1h30m', '0')
    >>> format_duration(timedelta(milliseconds=1250)), format_duration(-timedelta(minutes=5))
    ('1s250ms', '-5m')
    """
    left = duration // timedelta(microseconds=1)
    sign, left = ("-", -left) if left < 0 else ("", left)
    parts = []
    for unit in ("d", "h", "m", "s"):
        amount, left = divmod(left, _MICROSECONDS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    if left:
        parts.append(f"{left / 1000:g}ms")
    return sign + "".join(parts) if parts else "0"


def parse_size(text: str) -> int:
    """Bytes; `KB`, `MB`… count in thousands, `KiB`, `MiB`… in 1024s.

    >>> parse_size("128MB"), parse_size("1.5 GiB"), parse_size("512 b")
    (128000000, 1610612736, 512)

    Raises:
        InvalidInput: the text is not a size.
    """
    match = _AMOUNT.fullmatch(text)
    unit = _SIZE_UNITS.get(match[2].casefold()) if match else None
    if match is None or unit is None:
        raise InvalidInput("not a size: write a number and a unit, such as 128MB or 1.5GiB")
    return round(Fraction(match[1]) * unit)


def format_bytes(count: int) -> str:
    """Two or three digits and a decimal unit, for people.

    >>> format_bytes(1234567), format_bytes(999), format_bytes(31_400_000), format_bytes(999_999)
    ('1.2 MB', '999 B', '31 MB', '1.0 MB')
    """
    if count < 0:
        return f"-{format_bytes(-count)}"
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in _SIZE_NAMES[1:]:
        amount /= 1000
        if round(amount) < 1000 or unit == _SIZE_NAMES[-1]:
            break
    return f"{amount:.1f} {unit}" if round(amount, 1) < 10 else f"{amount:,.0f} {unit}"


def format_count(count: int) -> str:
    """
    >>> format_count(12345)
    '12,345'
    """
    return f"{count:,}"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{format_count(number)} {noun}{'' if number == 1 else 's'}"


def _not_a_duration() -> InvalidInput:
    return InvalidInput("not a duration: write numbers and units, larger first, such as 7d, 2 h, 90 minutes or 1h30m")


@dataclass(frozen=True, slots=True)
class Limit:
    """How many rows may fail: a count, or a share of all rows in percent."""

    count: int | None = None
    percent: Decimal | None = None

    @classmethod
    def parse(cls, text: str | int) -> Limit:
        """`100` or `0.5%`.

        >>> Limit.parse("2.5%").allows(failing=5, rows=200), Limit.parse(0).allows(failing=1, rows=200)
        (True, False)

        Raises:
            ValueError: neither of the two.
        """
        words = str(text).strip()
        if _COUNT.match(words):
            return cls(count=int(words))
        match = _PERCENT.match(words)
        if match is None or Decimal(match[1]) > 100:
            raise ValueError(f"must be a number of rows or a share such as 0.5%, not {words!r}")
        return cls(percent=Decimal(match[1]))

    def allows(self, *, failing: int, rows: int) -> bool:
        if self.percent is not None:
            return failing * 100 <= self.percent * rows
        return failing <= (self.count or 0)

    def __str__(self) -> str:
        return f"{self.percent} %" if self.percent is not None else str(self.count)
