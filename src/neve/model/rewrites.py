"""Words for compaction of an Iceberg table: its data files with all that is said of them, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from neve.model.changes import LiveFile
from neve.model.facts import TableFacts, partition_label
from neve.model.results import Answer, Reason, Receipt

Strategy = Literal["binpack", "size-ratio", "sort", "zorder", "hilbert"]
Mechanic = Literal["copy", "encode", "spark"]
"""copy: row groups move as they are · encode: this process decodes and encodes · spark: a job does."""


SMALL = 0.75
"""A file below this part of the target size is small: Iceberg's own bound."""


class CompactOptions(TypedDict, total=False):
    """What every door takes. Sizes are bytes, or words such as 128MB."""

    force: bool
    target_file_size: str | int | None
    max_files: int | None
    where: str | None
    partition: Mapping[str, object]
    strategy: str
    by: Sequence[str]
    expire_snapshots: bool
    snapshot_retention_hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """What a manifest says of a file's columns, by field id. Bounds are Iceberg's bytes."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    values: Mapping[int, int] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    nans: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataEntry:
    """A data file as a manifest lists it; `place` is its partition in words, `added` the sequence of its commit.

    `first_row_id` is None where the table has no row lineage, or had none when the file came.
    """

    file: LiveFile
    place: Mapping[str, str | None]
    first_row_id: int | None
    added: int
    metrics: FileMetrics

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def partition(self) -> str:
        return partition_label(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of a table's current snapshot. `unpartitioned` are such specs, `types` those of columns, by id.

    `ids` are those of the columns that are in no other.
    """

    facts: TableFacts
    spec_id: int
    unpartitioned: frozenset[int]
    types: Mapping[int, str]
    ids: Mapping[str, int] = field(default_factory=dict)
    data: tuple[DataEntry, ...] = ()
    deletes: tuple[LiveFile, ...] = ()

    @property
    def bytes(self) -> int:
        """Of the data files."""
        return sum(entry.file.bytes for entry in self.data)

    def below(self, size: int) -> int:
        """Data files of fewer bytes."""
        return sum(entry.file.bytes < size for entry in self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A data file that may be compacted, with the deletes that apply to it."""

    entry: DataEntry
    deletes: tuple[LiveFile, ...] = ()

    @property
    def partition(self) -> str:
        return self.entry.partition

    @property
    def path(self) -> str:
        return self.entry.path

    @property
    def bytes(self) -> int:
        return self.entry.file.bytes

    @property
    def rows(self) -> int:
        return self.entry.file.rows

    @property
    def deleted_share(self) -> float:
        """Of the rows in the file, as far as the deletes speak of this file alone."""
        gone = sum(delete.rows for delete in self.deletes if delete.referenced == self.path)
        return gone / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files of one partition that become fewer together, and by which mechanic."""

    partition: str
    files: tuple[Candidate, ...]
    mechanic: Mechanic
    reason: Reason

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def outputs(self, target_bytes: int) -> int:
        """How many files come of it, about: as many as are not small, so that files which all were become fewer."""
        return max(1, min(-(-self.bytes // target_bytes), int(self.bytes / (SMALL * target_bytes))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """Files of a partition that stay as they are, and why."""

    partition: str
    files: int
    bytes: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan:
    """What becomes of a table's files: groups that are rewritten, most useful first, and what is left alone."""

    groups: tuple[Group, ...] = ()
    left: tuple[LeftAlone, ...] = ()

    @property
    def files(self) -> int:
        return sum(len(group.files) for group in self.groups)


class GroupRow(Answer):
    """A group as surfaces show it."""

    partition: str
    files: int
    bytes: int
    mechanic: Mechanic
    reason: Reason


class LeftRow(Answer):
    """Files that were left alone, as surfaces show them."""

    partition: str
    files: int
    bytes: int
    reason: Reason


class RewriteReceipt(Receipt):
    """A receipt of a table's compaction: files and bytes are those of the whole table, whoever wrote them.

    `bytes_saved` is by the compaction alone. Of the groups that a writer came before, `groups_lost` are as they were.
    """

    compacted: bool
    strategy: Strategy
    files_before: int
    files_after: int
    files_compacted: int
    files_removed: int
    files_written: int
    bytes_before: int
    bytes_after: int
    bytes_saved: int
    rows_deleted: int
    snapshots_expired: int
    compaction_time_ms: float
    small_files_remaining: int
    commits: int
    conflicts: int
    groups_lost: int
    groups: list[GroupRow]
    left: list[LeftRow]
