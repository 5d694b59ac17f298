"""Reads by key: what was asked for as regions of the row keys, and which files may hold such rows. Pure."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence

from neve.errors import InvalidInput
from neve.model.names import TableName
from neve.model.range_rows import RangeRead, TouchedRange
from neve.model.regions import Region, Side
from neve.model.rest import KeyEnd, KeyWord
from neve.model.splits import Key, parse_key
from neve.plan.ranges import Keys, PlacedFile


def exact_region(keys: Keys, values: Sequence[Key]) -> Region:
    """The rows that have these values in the first row keys; further keys may have any."""
    _check_values(keys, values)
    exact = (Side(low=value, high=value, with_high=True) for value in values)
    return (*exact, *(Side() for _ in keys.row_keys[len(values) :]))


def between_region(
    keys: Keys, low: Sequence[Key | None], high: Sequence[Key | None], *, with_low: bool, with_high: bool
) -> Region:
    """The rows whose row keys lie between those of two lists, key by key."""
    _check_values(keys, low)
    _check_values(keys, high)
    lows, highs = (_filled(values, len(keys.row_keys)) for values in (low, high))
    return tuple(
        Side(low=least, high=most, with_low=with_low, with_high=with_high)
        for least, most in zip(lows, highs, strict=True)
    )


def read_values(keys: Keys, given: KeyWord | KeyEnd, *, ends: bool = False) -> list[Key | None]:
    """Values of the row keys: a text as people write it, with commas between several, or a list of them.

    Of `ends`, nothing is no end.
    """
    if isinstance(given, list):
        words = ["" if word is None else str(word) for word in given]
    else:
        text = "" if given is None else str(given)
        words = [text] if len(keys.row_keys) == 1 else next(csv.reader([text])) or [""]
    if len(words) > len(keys.row_keys):
        raise InvalidInput(
            f"{given!r} has {len(words)} values, and there are {len(keys.row_keys)} row keys",
            hint=f"the keys are {', '.join(keys.row_keys)}; put quotes around a value with a comma",
        )
    return [None if ends and not word else parse_key(word, kind) for word, kind in zip(words, keys.kinds, strict=False)]


def plan_read(table: TableName, placed: Sequence[PlacedFile], regions: Sequence[Region]) -> RangeRead:
    """The files that may hold rows of a region. A range's id is not asked: a file says itself which keys it has."""
    touched = [file for file in placed if any(_may_hold(file, region) for region in regions)]
    files, sizes = Counter(file.range for file in touched), Counter[int | None]()
    for file in touched:
        sizes[file.range] += file.file.bytes
    return RangeRead(
        table=str(table),
        regions=[" and ".join(map(str, region)) for region in regions],
        ranges=[
            TouchedRange(range=range_id, files=count, bytes=sizes[range_id])
            for range_id, count in sorted(files.items(), key=lambda item: -1 if item[0] is None else item[0])
        ],
        files=len(touched),
        files_total=len(placed),
        bytes=sum(sizes.values()),
        bytes_total=sum(file.file.bytes for file in placed),
    )


def _may_hold(file: PlacedFile, region: Region) -> bool:
    return all(span is None or side.meets(*span) for side, span in zip(region, file.spans, strict=True))


def _check_values(keys: Keys, values: Sequence[Key | None]) -> None:
    if not values or len(values) > len(keys.row_keys):
        raise InvalidInput(
            f"{len(values)} values for the {len(keys.row_keys)} row keys {', '.join(keys.row_keys)}",
            hint="give a value for each, or for the first ones",
        )
    for name, kind, value in zip(keys.row_keys, keys.kinds, values, strict=False):
        wanted = {"string": str, "binary": bytes}.get(kind, int)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise InvalidInput(f"{name} is a {kind}, and {value!r} is not")


def _filled(values: Sequence[Key | None], size: int) -> list[Key | None]:
    return [*values, *([None] * (size - len(values)))]
