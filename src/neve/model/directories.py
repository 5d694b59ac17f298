"""Plain folders of data files: what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from neve.model.results import Answer


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DataFile:
    """A file of a folder, by its path in it."""

    path: str
    bytes: int

    @property
    def folder(self) -> str:
        """Where it lies: `` or `region=eu/day=1`, as written."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL that gives a column its new value."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """Rows of one file that go, change where they are, or change and leave their partition."""

    dropped: int = 0
    changed: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What a change of rows comes to: the files that hold such rows, and the partitions that rows move to."""

    files: Mapping[str, FileWork]
    targets: Mapping[tuple[str | None, ...], int] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        return sum(work.dropped for work in self.files.values())

    @property
    def changed(self) -> int:
        return sum(work.changed + work.moved for work in self.files.values())


class RowStats(Answer):
    """What a change of rows did, or would do: the same figures in both cases."""

    run_id: str | None = None
    dry_run: bool = False
    partitions_affected: int = 0
    files_read: int = 0
    files_written: int = 0
    files_deleted: int = 0
    rows_before: int = 0
    rows_after: int = 0
    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    bytes_read: int = 0
    bytes_rewritten: int = 0
    errors: int = 0
    backup: str | None = None
    undo: str | None = None


class CompactStats(Answer):
    """What a compaction did, or would do; `bytes_after` of a dry run is an estimate."""

    run_id: str | None = None
    dry_run: bool = False
    partitions_scanned: int = 0
    partitions_compacted: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    errors: int = 0
    start_time: datetime | None = None
    end_time: datetime | None = None
    undo: str | None = None


class RepartitionStats(Answer):
    """What a repartition did, or would do."""

    run_id: str | None = None
    dry_run: bool = False
    files_read: int = 0
    files_written: int = 0
    records_read: int = 0
    records_written: int = 0
    partitions_created: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    errors: int = 0
    resumed: bool = False
    validated: bool = False
    backup: str | None = None
    undo: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None


class SizeEstimate(Answer):
    """What a repartition would come to. Sizes and rows are those of the source, from its footers."""

    total_rows: int
    total_files: int
    num_partitions: int
    avg_rows_per_partition: float
    estimated_size_mb: float
    partition_cols: list[str]


class PartitionFiles(Answer):
    """The files of one partition."""

    partition: str
    files: int
    small_files: int
    rows: int
    bytes: int
    smallest_file: int
    largest_file: int
    average_file: int


class SizeClass(Answer):
    """One bar of a histogram: how many files are smaller than `below`, and not smaller than the one before."""

    below: int | None
    files: int
    bytes: int


class Fragmentation(Answer):
    """How a folder's files are spread; the worst partitions first."""

    directory: str
    partitions: int
    files: int
    small_files: int
    rows: int
    bytes: int
    fragmented: int
    worst: list[PartitionFiles]
    histogram: list[SizeClass]
