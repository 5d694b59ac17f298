"""How well a table is laid out: what was measured, what costs it points, and the one action that helps most."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from neve.model.directories import SizeClass
from neve.model.refresh import Freshness
from neve.model.results import Answer, Reason

State = Literal["unreadable", "unhealthy", "fair", "healthy"]
STATES: tuple[State, ...] = get_args(State)
ActionKind = Literal["compact", "expire", "manifests", "refresh", "sort"]


class Deduction(Answer):
    """Points that a table loses, and why; `action` mends it, None where no command does."""

    points: int
    reason: Reason
    action: ActionKind | None


class Action(Answer):
    """A command, what it comes to and what it brings. `cost_bytes` are read and written; None when nobody can tell."""

    kind: ActionKind
    command: str
    cost_bytes: int | None
    cost: str
    gain_points: int
    gain: str


class PartitionLoad(Answer):
    """The files of one partition; of a folder, of the period that its days belong to."""

    partition: str
    files: int
    small_files: int
    delete_files: int
    bytes: int


class Deletes(Answer):
    """Rows that are deleted and still in the files, and their `share` of these. Equality deletes count as no rows."""

    delete_files: int
    equality_delete_files: int
    rows_deleted: int
    share: float


class SortOverlap(Answer):
    """How well files keep to the order of the column that they are sorted by first.

    `files` say their range, `overlapping` of them share values with another file of their partition, and `share` of all
    pairs of files do. `depth` is how many files the range of a file meets on average, its own included: 1 is in order.
    """

    column: str
    files: int
    overlapping: int
    share: float
    depth: float


class WriteRate(Answer):
    """Commits, by the snapshots that are kept; `per_day` is their average since the oldest, over a day at least."""

    last_hour: int
    last_day: int
    per_day: float


class TableHealth(Answer):
    """How a table is laid out, from metadata alone. What a plain folder does not have is None.

    `skew` is the size of the largest partition beside their average. `orphans_scanned_at` is None when nobody has
    looked for files that nothing names; `orphan_files` and `orphan_bytes` are what the last look found and left.
    """

    table: str
    format: str
    score: int
    state: State
    deductions: list[Deduction]
    action: Action | None
    freshness: Freshness | None
    target_lag: str | None
    current_lag: str | None
    files: int
    small_files: int
    small_below: int
    bytes: int
    histogram: list[SizeClass]
    partitions: int
    worst: list[PartitionLoad]
    skew: float | None
    deletes: Deletes | None
    snapshots: int | None
    manifests: int | None
    manifest_bytes: int | None
    metadata_bytes: int | None
    sort: SortOverlap | None
    writes: WriteRate | None
    orphans_scanned_at: datetime | None
    orphan_files: int | None
    orphan_bytes: int | None


class StatusRow(Answer):
    """A table in `neve status`; all but the name and the reason is None when it cannot be read.

    `due` is what scheduled work would do now, `reason` what weighs most, `next_command` what helps most.
    """

    table: str
    state: State
    score: int | None
    freshness: Freshness | None
    current_lag: str | None
    target_lag: str | None
    files: int | None
    small_files: int | None
    bytes: int | None
    due: list[str]
    reason: Reason | None
    next_command: str | None

    @property
    def late(self) -> bool:
        return self.freshness == "late"

    @property
    def amiss(self) -> bool:
        return self.late or self.state in ("unhealthy", "unreadable")
