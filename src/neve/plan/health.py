"""What a table's layout costs: a score from 0 to 100, each deduction with its reason, and what helps most. Pure.

Small files and deletes weigh most, as in Apache Amoro's score, then snapshots, manifests, skew and order, from the
bounds that Iceberg, Delta and Floe act at. Each deduction grows from nothing to its full points between two bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from math import ceil
from typing import Literal

from neve.model.commands import neve
from neve.model.facts import FileFact, Snapshot
from neve.model.health import Action, ActionKind, Deduction, Deletes, PartitionLoad, SortOverlap, State, TableHealth
from neve.model.names import TableName
from neve.model.refresh import Freshness
from neve.model.results import Reason
from neve.model.runs import OrphanScan
from neve.model.units import counted, format_bytes, format_count
from neve.plan.measures import (
    MIB,
    Reach,
    by_partition,
    deletes_of,
    partition_load,
    size_classes,
    skew_of,
    sort_overlap,
    write_rate,
)
from neve.plan.rewrites import MANY_DELETED
from neve.plan.tidying import MANIFEST_BYTES


@dataclass(frozen=True, slots=True)
class Scale:
    """No points up to `start`, all of them from `full` on."""

    points: int
    start: float
    full: float

    def deduct(self, value: float) -> int:
        """
        >>> [Scale(10, 100, 500).deduct(value) for value in (100, 300, 9999)]
        [0, 5, 10]
        """
        return round(self.points * min(max((value - self.start) / (self.full - self.start), 0.0), 1.0))


PERFECT = 100
HEALTHY = 80
FAIR = 50
"""From these scores on a table is healthy, or fair; below it is unhealthy."""
SMALL_FILES = Scale(60, 0, 1)
"""Of the share of small files that could be fewer; that many of them weigh in full, and fewer in proportion."""
MANY_SMALL_FILES = 100
DELETED_ROWS = Scale(30, 0.05, 0.3)
DELETE_FILES = Scale(15, 0.1, 1)
"""Of the number of delete files per data file; fewer than some are nothing to mend."""
SOME_DELETE_FILES = 10
EQUALITY_DELETES = Scale(25, 0, 100)
SNAPSHOTS = Scale(10, 100, 500)
MANIFESTS = Scale(10, 100, 500)
"""Of the manifests that are more than their bytes need."""
METADATA = Scale(10, 8 * MIB, 64 * MIB)
SKEW = Scale(10, 3, 10)
SORT_OVERLAP = Scale(10, 0, 1)
"""Of the pairs of files in a partition, as the share that overlaps."""
WORST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What an Iceberg table has beside its files. `expirable` snapshots would go by `neve expire`.

    `manifests_needed` are as few as `neve manifests` would leave; None where they all could share files.
    """

    snapshots: Sequence[Snapshot]
    expirable: int
    manifests: int
    manifest_bytes: int
    metadata_bytes: int
    manifests_needed: int | None = None
    scan: OrphanScan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How fresh a dynamic table is, in words. `error` is that of its last refresh, if it failed."""

    freshness: Freshness
    target_lag: str
    current_lag: str | None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class HealthFacts:
    """What is judged. `past` is None for a plain folder, `lateness` for a table that no query declares.

    A folder is compacted by period: its partitions are periods, and `due_periods` names those that can be now.
    """

    table: TableName
    format: Literal["iceberg", "parquet", "csv"]
    files: Sequence[FileFact]
    target_bytes: int
    small_bytes: int
    min_files: int
    sorted_by: str | None = None
    past: Past | None = None
    lateness: Lateness | None = None
    due_periods: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> Mapping[str, list[FileFact]]:
        return by_partition(self.files)

    @cached_property
    def loads(self) -> dict[str, PartitionLoad]:
        return {label: partition_load(label, files, self.small_bytes) for label, files in self.partitions.items()}

    @cached_property
    def crowded(self) -> dict[str, PartitionLoad]:
        """The partitions with enough small files to make fewer of them."""
        return {label: load for label, load in self.loads.items() if load.small_files >= max(self.min_files, 2)}

    @cached_property
    def large_files(self) -> int:
        return sum(load.files - load.small_files for load in self.loads.values())

    @cached_property
    def deletes(self) -> Deletes:
        return deletes_of(self.files)

    @cached_property
    def skew(self) -> float | None:
        return skew_of(list(self.loads.values()))

    @cached_property
    def overlap(self) -> SortOverlap | None:
        return None if self.sorted_by is None else sort_overlap(self.sorted_by, self.partitions)


def judge(facts: HealthFacts, *, now: datetime) -> TableHealth:
    """The health of a table."""
    deductions = _deductions(facts)
    score = _score(deductions)
    worst = sorted(facts.loads.values(), key=lambda load: (-load.small_files, -load.delete_files, load.partition))
    past, lateness = facts.past, facts.lateness
    return TableHealth(
        table=str(facts.table),
        format=facts.format,
        score=score,
        state=state_of(score),
        deductions=deductions,
        action=_action(facts, deductions),
        freshness=lateness.freshness if lateness else None,
        target_lag=lateness.target_lag if lateness else None,
        current_lag=lateness.current_lag if lateness else None,
        files=sum(load.files for load in facts.loads.values()),
        small_files=sum(load.small_files for load in facts.loads.values()),
        small_below=facts.small_bytes,
        bytes=sum(load.bytes for load in facts.loads.values()),
        histogram=size_classes([file.bytes for file in facts.files if file.content == "data"]),
        partitions=len(facts.loads),
        worst=worst[:WORST],
        skew=facts.skew,
        deletes=facts.deletes if past else None,
        snapshots=len(past.snapshots) if past else None,
        manifests=past.manifests if past else None,
        manifest_bytes=past.manifest_bytes if past else None,
        metadata_bytes=past.metadata_bytes if past else None,
        sort=facts.overlap,
        writes=write_rate(past.snapshots, now) if past else None,
        orphans_scanned_at=past.scan.scanned_at if past and past.scan else None,
        orphan_files=past.scan.files if past and past.scan else None,
        orphan_bytes=past.scan.bytes if past and past.scan else None,
    )


def state_of(score: int) -> State:
    return "healthy" if score >= HEALTHY else "fair" if score >= FAIR else "unhealthy"


def command_for(kind: ActionKind, table: TableName, *, period: str | None = None, force: bool = False) -> str:
    """What a person types."""
    if kind == "refresh":
        return neve("dynamic", "refresh", table.short)
    if kind == "sort":
        return neve("compact", table.short, "--strategy", "sort")
    how = ["--force"] if force else [] if period is None else ["--period", period]
    return neve(kind, table.short, *how)


# --------------------------------------------------------------------------------------------------------- deductions


def _deductions(facts: HealthFacts) -> list[Deduction]:
    """What costs points, the most first."""
    found = [_small_files(facts), _skew(facts), _overlap(facts), *_deleted(facts), *_metadata(facts)]
    return sorted((item for item in found if item.points), key=lambda item: -item.points)


def _score(deductions: Sequence[Deduction]) -> int:
    return max(PERFECT - sum(item.points for item in deductions), 0)


def _deduction(points: int, code: str, detail: str, action: ActionKind | None = None) -> Deduction:
    return Deduction(points=points, reason=Reason(code=code, detail=detail), action=action)


def _small_files(facts: HealthFacts) -> Deduction:
    small = sum(load.small_files for load in facts.crowded.values())
    detail = (
        f"{format_count(small)} files below {format_bytes(facts.small_bytes)} could be fewer, "
        f"in {counted(len(facts.crowded), 'partition' if facts.past else 'period')}"
    )
    mendable = facts.past is not None or _due_period(facts) is not None
    return _deduction(_small_points(facts, small), "small_files", detail, "compact" if mendable else None)


def _small_points(facts: HealthFacts, small: int) -> int:
    share = small / (small + facts.large_files) if small else 0
    return SMALL_FILES.deduct(share * min(small / MANY_SMALL_FILES, 1))


def _deleted(facts: HealthFacts) -> list[Deduction]:
    deletes = facts.deletes
    data = sum(load.files for load in facts.loads.values())
    per_file = deletes.delete_files / max(data, 1) if deletes.delete_files >= SOME_DELETE_FILES else 0
    return [
        _deduction(
            DELETED_ROWS.deduct(deletes.share),
            "deleted_rows",
            f"{deletes.share:.0%} of the rows in the files are deleted, and are still read",
            "compact",
        ),
        _deduction(
            DELETE_FILES.deduct(per_file),
            "delete_files",
            f"{counted(deletes.delete_files, 'delete file')} beside {counted(data, 'data file')}: readers open both",
            "compact",
        ),
        _deduction(
            EQUALITY_DELETES.deduct(deletes.equality_delete_files),
            "equality_deletes",
            f"{counted(deletes.equality_delete_files, 'file')} of equality deletes: readers compare each row with them",
            "compact",
        ),
    ]


def _metadata(facts: HealthFacts) -> list[Deduction]:
    past = facts.past
    if past is None:
        return []
    expire: ActionKind | None = "expire" if past.expirable else None
    old = f", {format_count(past.expirable)} that nobody needs any more" if past.expirable else ""
    return [
        _deduction(
            SNAPSHOTS.deduct(len(past.snapshots)),
            "snapshots",
            f"{counted(len(past.snapshots), 'snapshot')}{old}",
            expire,
        ),
        _deduction(
            MANIFESTS.deduct(past.manifests - _manifests_needed(past)),
            "manifests",
            f"{counted(past.manifests, 'manifest')} of {format_bytes(past.manifest_bytes)}: "
            f"{format_count(_manifests_needed(past))} would do",
            "manifests",
        ),
        _deduction(
            METADATA.deduct(past.metadata_bytes),
            "metadata",
            f"each commit writes a metadata file of {format_bytes(past.metadata_bytes)}",
            expire,
        ),
    ]


def _skew(facts: HealthFacts) -> Deduction:
    """A partition that fits into one file is not too large, however small the others are."""
    largest = max(facts.loads.values(), key=lambda load: load.bytes, default=None)
    if largest is None or facts.skew is None or largest.bytes <= facts.target_bytes:
        return _deduction(0, "skew", "")
    what = largest.partition or "what has no partition"
    return _deduction(SKEW.deduct(facts.skew), "skew", f"{what} holds {facts.skew:g} times the average of a partition")


def _overlap(facts: HealthFacts) -> Deduction:
    found = facts.overlap
    if found is None:
        return _deduction(0, "sort_overlap", "")
    detail = f"{format_count(found.overlapping)} of {format_count(found.files)} files overlap in {found.column}"
    return _deduction(SORT_OVERLAP.deduct(found.share), "sort_overlap", detail, "sort")


# ------------------------------------------------------------------------------------------------------------- action


def _action(facts: HealthFacts, deductions: Sequence[Deduction]) -> Action | None:
    """What helps most. Rows that are late come before files that are badly laid out."""
    if facts.lateness is not None and facts.lateness.freshness == "late":
        return _refresh(facts, facts.lateness)
    points: dict[ActionKind, int] = {}
    for item in deductions:
        if item.action is not None:
            points[item.action] = points.get(item.action, 0) + item.points
    if not points:
        return None
    left = {kind: _after(facts, deductions, kind) for kind in points}
    kind = max(points, key=lambda kind: (_score(left[kind]), points[kind]))
    gain = _score(left[kind]) - _score(deductions)
    match kind, facts.past:
        case "compact", None:
            return _compact_period(facts, deductions)
        case (("expire" | "manifests"), Past() as past):
            return _tidy(facts.table, past, kind, gain)
        case "sort", _:
            return _sort(facts, gain)
        case _:
            return _compact(facts, gain)


def _after(facts: HealthFacts, deductions: Sequence[Deduction], kind: ActionKind) -> list[Deduction]:
    """What would still cost points. Expiry takes only some of the snapshots, and of the metadata in proportion."""
    rest = [item for item in deductions if item.action != kind]
    past = facts.past
    if kind != "expire" or past is None or not past.snapshots:
        return rest
    kept = past.snapshots[past.expirable :]
    size = past.metadata_bytes * len(kept) // len(past.snapshots)
    found = _metadata(replace(facts, past=replace(past, snapshots=kept, expirable=0, metadata_bytes=size)))
    return rest + [item for item in found if item.reason.code in ("snapshots", "metadata")]


def _refresh(facts: HealthFacts, lateness: Lateness) -> Action:
    return Action(
        kind="refresh",
        command=command_for("refresh", facts.table),
        cost_bytes=None,
        cost="what changed in its sources",
        gain_points=0,
        gain=f"rows that are {lateness.current_lag} behind, for a target of {lateness.target_lag}, are fresh",
    )


def _compact(facts: HealthFacts, gain: int) -> Action:
    chosen = [_rewritten(facts, label) for label in facts.partitions]
    before, size = sum(map(len, chosen)), sum(file.bytes for files in chosen for file in files)
    after = sum(ceil(sum(file.bytes for file in files) / facts.target_bytes) for files in chosen)
    gone = facts.deletes.rows_deleted
    return Action(
        kind="compact",
        command=command_for("compact", facts.table, force=_holds_few_deletes(facts)),
        cost_bytes=size,
        cost=f"reads and writes {format_bytes(size)}",
        gain_points=gain,
        gain=f"{counted(before, 'file')} become about {format_count(max(after, 1))}"
        + (f", and {counted(gone, 'deleted row')} go" if gone else ""),
    )


def _holds_few_deletes(facts: HealthFacts) -> bool:
    """Whether some files have so few deleted rows that only `--force` takes them."""
    gone: Counter[str] = Counter()
    for file in facts.files:
        if file.deletes_from is not None:
            gone[file.deletes_from] += file.rows
    return any(
        0 < gone[file.path] < MANY_DELETED * file.rows
        and not (label in facts.crowded and file.bytes < facts.small_bytes)
        for label, files in facts.partitions.items()
        for file in files
    )


def _sort(facts: HealthFacts, gain: int) -> Action:
    size = sum(file.bytes for file in facts.files)
    return Action(
        kind="sort",
        command=command_for("sort", facts.table),
        cost_bytes=size,
        cost=f"reads, sorts and writes {format_bytes(size)}",
        gain_points=gain,
        gain=f"files of a partition no longer overlap in {facts.sorted_by}",
    )


def _compact_period(facts: HealthFacts, deductions: Sequence[Deduction]) -> Action | None:
    load = _due_period(facts)
    if load is None:
        return None
    period = facts.due_periods[load.partition]
    small = sum(other.small_files for other in facts.crowded.values())
    saved = _small_points(facts, small) - _small_points(facts, small - load.small_files)
    return Action(
        kind="compact",
        command=command_for("compact", facts.table, period=period),
        cost_bytes=load.bytes,
        cost=f"reads and writes {format_bytes(load.bytes)}",
        gain_points=min(saved, PERFECT - _score(deductions)),
        gain=f"{counted(load.files, 'file')} of {period} become 1",
    )


def _due_period(facts: HealthFacts) -> PartitionLoad | None:
    """Of the periods that can be compacted now, the one with the most small files."""
    due = [load for label, load in facts.crowded.items() if label in facts.due_periods]
    return max(due, key=lambda load: load.small_files, default=None)


def _tidy(table: TableName, past: Past, kind: ActionKind, gain: int) -> Action:
    """Of snapshots or manifests."""
    expires = kind == "expire"
    size = past.metadata_bytes if expires else past.manifest_bytes
    brings = (
        f"{counted(past.expirable, 'snapshot')} go, and the files that only they hold"
        if expires
        else f"{counted(past.manifests, 'manifest')} become about {format_count(_manifests_needed(past))}"
    )
    return Action(
        kind=kind,
        command=command_for(kind, table),
        cost_bytes=size,
        cost=f"reads and writes {format_bytes(size)} of metadata, no rows",
        gain_points=gain,
        gain=brings,
    )


def _rewritten(facts: HealthFacts, label: str) -> list[FileFact]:
    """The data files of a partition that compaction would take: many small ones, and those with deleted rows."""
    files = facts.partitions[label]
    named = {file.deletes_from for file in files if file.content != "data"}
    reach = Reach.of(files)
    return [
        file
        for file in files
        if file.content == "data"
        and ((label in facts.crowded and file.bytes < facts.small_bytes) or file.path in named or reach.covers(file))
    ]


def _manifests_needed(past: Past) -> int:
    if past.manifests_needed is not None:
        return past.manifests_needed
    return max(ceil(past.manifest_bytes / MANIFEST_BYTES), min(past.manifests, 1))
