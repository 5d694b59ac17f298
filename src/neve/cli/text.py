"""Answers as plain text: aligned tables, key-value blocks, numbers and times as people read them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel

from neve.model.results import Reason
from neve.model.units import format_bytes

_SIZE = re.compile(r"bytes|bytes_.+|.+_bytes|(smallest|largest|average)_file")
_PLAIN_NUMBERS = (
    "snapshot",
    "parent",
    "current_snapshot",
    "snapshot_before",
    "snapshot_after",
    "format_version",
    "pid",
)
_LEFT, _RIGHT = "<", ">"
_NOTHING: tuple[object, ...] = (None, "", [], {})
# Controls, line separators, text direction overrides, halves of surrogate pairs.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def cell(key: str, value: object) -> str:
    """A value as a person reads it.

    >>> cell("rows", 12345), cell("bytes_read", 2048), cell("online", False), cell("parent", None), cell("mb", 0.70304)
    ('12,345', '2.0 KB', 'no', '-', '0.703')
    """
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() if _SIZE.fullmatch(key):
            return format_bytes(value)
        case int() if key not in _PLAIN_NUMBERS:
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case Reason():
            return printable(value.detail)
        case BaseModel():
            return ", ".join(f"{name} {cell(name, inner)}" for name, inner in value)
        case {"before": before, "after": after}:
            return f"{cell(key, before)} → {cell(key, after)}"
        case Mapping():
            return printable(", ".join(f"{name}={inner}" for name, inner in value.items())) or "-"
        case list() | tuple():
            return ", ".join(cell(key, item) for item in value) or "-"
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """Text that cannot drive a terminal or break a line: control characters are shown by their codes.

    >>> printable(chr(27) + "[2J" + chr(10) + "été")
    '\\\\x1b[2J\\\\nété'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, bold: bool = False) -> str:
    """An answer's rows: headings and values as people read them."""
    cells = [[cell(key, value) for key, value in zip(headings, row, strict=True)] for row in rows]
    names = [heading.upper().replace("_", " ") for heading in headings]
    return _aligned(names, cells, [_side([row[index] for row in rows]) for index in range(len(headings))], bold=bold)


def fitted(headings: Sequence[str], rows: Sequence[Sequence[object]], *, screen: int, bold: bool = False) -> str:
    """A table as far as the screen is wide enough: else without columns that say nothing, and where each row would
    still be broken into three lines and more, a block for each row."""
    whole = table(headings, rows, bold=bold)
    if _widest(whole) <= screen:
        return whole
    said = [index for index in range(len(headings)) if any(row[index] not in _NOTHING for row in rows)]
    names, told = [headings[index] for index in said], [[row[index] for index in said] for row in rows]
    short = table(names, told, bold=bold)
    if _widest(short) <= 2 * screen:
        return short
    pairs = [[(key, value) for key, value in zip(names, row, strict=True) if value not in _NOTHING] for row in told]
    return "\n\n".join(map(block, pairs))


def grid(headings: Sequence[str], rows: Sequence[Sequence[str | int]], *, bold: bool = False) -> str:
    """A query's rows: names and values exactly as they are."""
    cells = [[printable(str(value)) for value in row] for row in rows]
    sides = [_side([value for value in column if value != "NULL"]) for column in zip(*rows, strict=True)]
    return _aligned(headings, cells, sides or [_LEFT] * len(headings), bold=bold)


def _aligned(names: Sequence[str], cells: Sequence[Sequence[str]], sides: Sequence[str], *, bold: bool) -> str:
    widths = [max(map(_width, column)) for column in zip(names, *cells, strict=True)]
    lines = [_line(names, widths, sides), *(_line(row, widths, sides) for row in cells)]
    if bold:
        lines[0] = f"\033[1m{lines[0]}\033[0m"
    return "\n".join(lines)


def block(pairs: Sequence[tuple[str, object]]) -> str:
    """Keys and values below each other."""
    names = [key.replace("_", " ") for key, _ in pairs]
    width = max(map(_width, names), default=0)
    return "\n".join(
        f"{_pad(name, width, _LEFT)}  {cell(key, value)}" for name, (key, value) in zip(names, pairs, strict=True)
    )


def _widest(text: str) -> int:
    return max(map(_width, text.splitlines()), default=0)


def _side(values: Sequence[object]) -> str:
    numbers = [value for value in values if value is not None]
    return _RIGHT if numbers and all(isinstance(v, int) and not isinstance(v, bool) for v in numbers) else _LEFT


def _line(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str]) -> str:
    return "  ".join(map(_pad, cells, widths, sides)).rstrip()


def _pad(text: str, width: int, side: str) -> str:
    space = " " * (width - _width(text))
    return space + text if side == _RIGHT else text + space


def _width(text: str) -> int:
    """Columns that the text takes on a screen: marks take none, wide characters two."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
