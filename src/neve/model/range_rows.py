"""What is told of a table's key ranges, on every surface."""

from __future__ import annotations

from typing import Literal

from neve.model.results import Answer, Reason, Receipt


class RangeRow(Answer):
    """A range as `neve table partitions` shows it. The row without a range is of files that no range was given for.

    `rows` are those of its own files; `rows_approximate` adds the share of what still lies in ranges that were cut.
    It will be split when it has as many rows as `ranges.split-threshold` says, unless all their keys are equal.
    `files_out_of_place` hold keys that belong to other ranges: readers find them, and the next compaction moves them.
    """

    range: int | None
    leaf: bool
    parent: int | None
    side: Literal["low", "high"] | None
    low: list[int | str | None]
    high: list[int | str | None]
    files: int
    files_out_of_place: int
    bytes: int
    rows: int
    rows_approximate: int
    will_be_split: bool
    may_split_when_compacted: bool
    unsplittable: bool
    split_key: str | None
    split_at: int | str | None


class SplitRow(Answer):
    """What became of one range, or would: `split_at` is where it is divided, None where all its keys are equal."""

    range: int
    rows: int
    split_key: str | None
    split_at: int | str | None
    parts: tuple[int, int] | None = None
    reason: Reason


class SplitReceipt(Receipt):
    """A receipt with each range that was looked at. `files_moved` went to the new ranges at once."""

    ranges: list[SplitRow]
    files_moved: int = 0


class RangeFiles(Answer):
    """How many files the ranges that are not cut have, and how much of the table lies in them."""

    ranges: int
    files: int
    files_in_leaves: int
    least: int
    most: int
    mean: float
    median: int
    p90: int
    p99: int
    rows: int
    rows_in_leaves_percent: float


class TouchedRange(Answer):
    """Files of one range that a read opens; of none, where they were written without one."""

    range: int | None
    files: int
    bytes: int


class RangeRead(Answer):
    """What a read by key opens, of how much: each file says itself which keys it may hold."""

    table: str
    regions: list[str]
    ranges: list[TouchedRange]
    files: int
    files_total: int
    bytes: int
    bytes_total: int
