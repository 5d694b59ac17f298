"""What files and snapshots come to: sizes, small files, skew, overlap, how often a table is written to. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from neve.model.directories import SizeClass
from neve.model.facts import Bound, FileFact, Snapshot, partition_label
from neve.model.health import Deletes, PartitionLoad, SortOverlap, WriteRate
from neve.model.rewrites import SMALL

MIB = 1024 * 1024
SIZE_CLASSES = tuple(size * MIB for size in (1, 8, 32, 128, 512))
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
Range = tuple[Bound, Bound]


def small_file_bytes(threshold_mb: int, target_bytes: int) -> int:
    """Below which size a file is small: the setting, or what compaction takes for small where a table's files are less.

    >>> small_file_bytes(64, 128 * MIB) == 64 * MIB, small_file_bytes(64, 32 * MIB) == 24 * MIB
    (True, True)
    """
    return min(threshold_mb * MIB, round(target_bytes * SMALL))


def size_classes(sizes: Sequence[int]) -> list[SizeClass]:
    """Files by their size; each class ends where the next begins."""
    found = []
    for low, high in pairwise([0, *SIZE_CLASSES, None]):
        inside = [size for size in sizes if size >= (low or 0) and (high is None or size < high)]
        found.append(SizeClass(below=high, files=len(inside), bytes=sum(inside)))
    return found


def by_partition(files: Sequence[FileFact]) -> Mapping[str, list[FileFact]]:
    """The files of each partition, by its label."""
    found: dict[str, list[FileFact]] = defaultdict(list)
    for file in files:
        found[partition_label(file.partition)].append(file)
    return found


def partition_load(label: str, files: Sequence[FileFact], small_bytes: int) -> PartitionLoad:
    data = [file for file in files if file.content == "data"]
    return PartitionLoad(
        partition=label,
        files=len(data),
        small_files=sum(file.bytes < small_bytes for file in data),
        delete_files=len(files) - len(data),
        bytes=sum(file.bytes for file in files),
    )


def skew_of(partitions: Sequence[PartitionLoad]) -> float | None:
    """The largest partition beside the average one; None for less than two."""
    total = sum(partition.bytes for partition in partitions)
    if len(partitions) < 2 or not total:
        return None
    return round(max(partition.bytes for partition in partitions) * len(partitions) / total, 2)


def deletes_of(files: Sequence[FileFact]) -> Deletes:
    rows = sum(file.rows for file in files if file.content == "data")
    gone = sum(file.rows for file in files if file.content == "position_deletes")
    return Deletes(
        delete_files=sum(file.content != "data" for file in files),
        equality_delete_files=sum(file.content == "equality_deletes" for file in files),
        rows_deleted=gone,
        share=round(min(gone / rows, 1.0), 4) if rows else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """Up to which sequence number the deletes of a partition that name no file may be of its data files."""

    positions: int
    equality: int

    @classmethod
    def of(cls, files: Sequence[FileFact]) -> Reach:
        """`files` are all of one partition."""
        nameless = [file for file in files if file.content != "data" and file.deletes_from is None]
        positions, equality = (
            max((file.sequence_number for file in nameless if file.content == kind), default=-1)
            for kind in ("position_deletes", "equality_deletes")
        )
        return cls(positions, equality)

    def covers(self, file: FileFact) -> bool:
        """An equality delete is of rows from before it. A position may be deleted by the commit that wrote it, and
        never before there was the file: a compaction's files keep the number of their rows, and are newer."""
        return file.sequence_number < self.equality or max(file.sequence_number, file.added) <= self.positions


def sort_overlap(column: str, partitions: Mapping[str, Sequence[FileFact]]) -> SortOverlap | None:
    """How files of the same partition overlap; None when no file says its range."""
    met: list[int] = []
    possible = 0
    for files in partitions.values():
        found = meetings([file.sort_range for file in files if file.sort_range is not None])
        met += found
        possible += len(found) * (len(found) - 1)
    if not met:
        return None
    return SortOverlap(
        column=column,
        files=len(met),
        overlapping=sum(count > 0 for count in met),
        share=round(sum(met) / possible, 4) if possible else 0.0,
        depth=round(1 + sum(met) / len(met), 2),
    )


def meetings(ranges: Sequence[Range]) -> list[int]:
    """With how many others each range shares more than an end: a value may go on from one file to the next.

    >>> meetings([(1, 5), (5, 9), (4, 6), (7, 7)])
    [1, 2, 2, 1]
    """
    lowers, uppers = sorted(low for low, _ in ranges), sorted(high for _, high in ranges)
    points: dict[Bound, int] = defaultdict(int)
    for low, high in ranges:
        points[low] += low == high
    return [
        bisect_left(lowers, high) - bisect_right(uppers, low) + (points[low] if low == high else -1)
        for low, high in ranges
    ]


def write_rate(snapshots: Sequence[Snapshot], now: datetime) -> WriteRate:
    oldest = min((snapshot.at for snapshot in snapshots), default=now)
    days = max((now - oldest) / _DAY, 1.0)
    return WriteRate(
        last_hour=sum(now - snapshot.at <= _HOUR for snapshot in snapshots),
        last_day=sum(now - snapshot.at <= _DAY for snapshot in snapshots),
        per_day=round(len(snapshots) / days, 2),
    )
