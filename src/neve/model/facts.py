"""What a table is, read from its metadata alone: the input of planners and of every page that shows a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from neve.model.layout import SortField, Transform
from neve.model.names import TableName
from neve.model.retention import ColumnStatistics
from neve.model.specs import ONLINE
from neve.model.types import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    id: int
    parent_id: int | None
    sequence_number: int
    at: datetime
    operation: str
    summary: Mapping[str, str]
    manifest_list: str

    def total(self, what: str) -> int:
        """A running total that the writer kept in the summary, such as `data-files`; 0 when it kept none."""
        return int(self.summary.get(f"total-{what}", 0))

    @property
    def rows(self) -> int | None:
        """Live rows; None where equality deletes make the count unknown without reading data."""
        if self.total("equality-deletes") or "total-records" not in self.summary:
            return None
        return self.total("records") - self.total("position-deletes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A named snapshot: a branch or a tag, with what it says of how long it and a branch's snapshots are kept."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot_id: int
    max_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    name: TableName
    uuid: str
    location: str
    metadata_location: str
    format_version: int
    updated_at: datetime
    columns: tuple[Field, ...]
    partition_by: tuple[Transform, ...]
    sort_by: tuple[SortField, ...]
    properties: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    current_snapshot_id: int | None
    made_current: tuple[tuple[datetime, int], ...]
    references: tuple[Reference, ...]

    @property
    def online(self) -> bool:
        return self.properties.get(ONLINE, "true").lower() != "false"

    @property
    def current(self) -> Snapshot | None:
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    def snapshot(self, snapshot_id: int) -> Snapshot | None:
        return next((snapshot for snapshot in self.snapshots if snapshot.id == snapshot_id), None)

    def ancestors(self) -> Iterator[Snapshot]:
        """The current snapshot, then its parents as far as they are kept."""
        by_id = {snapshot.id: snapshot for snapshot in self.snapshots}
        step = by_id.get(self.current_snapshot_id) if self.current_snapshot_id is not None else None
        while step is not None:
            yield step
            step = by_id.get(step.parent_id) if step.parent_id is not None else None


Bound = int | float | bytes
"""A value of a column, as something that compares as the column's type does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """A live data or delete file of one snapshot. `ingest_dates` are the first and last it holds, where it says so.

    `deletes_from` is the one data file that a deletion vector speaks of, `only_of` that of a file of position deletes
    which names no other. `sort_range` is the least and the greatest value of the column that the table is sorted by
    first. `sequence_number` is that of its rows, `added` that of the commit which brought the file, where it is known:
    a compaction's files are newer than their rows.
    """

    content: Literal["data", "position_deletes", "equality_deletes"]
    path: str
    format: str
    partition: Mapping[str, str | None]
    rows: int
    bytes: int
    sequence_number: int
    spec_id: int
    ingest_dates: tuple[date, date] | None = None
    deletes_from: str | None = None
    only_of: str | None = None
    sort_range: tuple[Bound, Bound] | None = None
    added: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSize:
    """A manifest of the current snapshot, of data files or of delete files."""

    spec_id: int
    deletes: bool
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files of a table's current snapshot, and the metadata that leads to them.

    `statistics` are the distinct values that somebody counted, of this snapshot or an earlier one.
    """

    files: tuple[FileFact, ...] = ()
    manifest_sizes: tuple[ManifestSize, ...] = ()
    metadata_bytes: int = 0
    statistics: tuple[ColumnStatistics, ...] = ()


def partition_label(partition: Mapping[str, str | None]) -> str:
    """`ts_day=2024-01-01/region=eu`; empty for an unpartitioned table."""
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in partition.items())


def instant(milliseconds: int) -> datetime:
    """Iceberg's clock (milliseconds since 1970) as a UTC time."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
