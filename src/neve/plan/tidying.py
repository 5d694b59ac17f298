"""Whether manifests, deletes and statistics are worth the work. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from neve.errors import InvalidInput, Refused
from neve.model.changes import REPLACE
from neve.model.facts import FileFact, ManifestSize, Snapshot, TableFacts, partition_label
from neve.model.retention import ColumnStatistics
from neve.model.rewrites import SMALL
from neve.model.types import Primitive
from neve.plan.rows import find_name

MANIFEST_TARGET = "commit.manifest.target-size-bytes"
MANIFEST_BYTES = 8 * 1024 * 1024
DELETE_TARGET = "write.delete.target-file-size-bytes"
DELETE_BYTES = 64 * 1024 * 1024
DELETE_GRANULARITY = "write.delete.granularity"
_VECTORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """How many manifests there are and how few would do; `specs` are those whose manifests are worth rewriting."""

    before: int
    after: int
    bytes: int
    specs: tuple[int, ...]

    @property
    def nothing(self) -> bool:
        return not self.specs


def plan_manifests(sizes: Sequence[ManifestSize], target_bytes: int) -> ManifestPlan:
    """Manifests of one partition spec and one kind can share a file; so few as their bytes need are enough.

    >>> few = [ManifestSize(spec_id=0, deletes=False, bytes=1000)] * 3
    >>> plan = plan_manifests([*few, ManifestSize(spec_id=1, deletes=False, bytes=9_000_000)], 8_000_000)
    >>> plan.before, plan.after, plan.specs
    (4, 2, (0,))
    """
    groups: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for item in sizes:
        groups[item.spec_id, item.deletes].append(item.bytes)
    needed = {key: min(max(ceil(sum(found) / target_bytes), 1), len(found)) for key, found in groups.items()}
    return ManifestPlan(
        before=len(sizes),
        after=sum(needed.values()),
        bytes=sum(item.bytes for item in sizes),
        specs=tuple(sorted({spec for (spec, deletes), found in groups.items() if len(found) > needed[spec, deletes]})),
    )


def manifest_target(facts: TableFacts) -> int:
    """Bytes per manifest, as the table says."""
    return _size_property(facts, MANIFEST_TARGET, MANIFEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlan:
    """What there is of deletes. `rewrite` files become fewer, or vectors; `dangling` ones have no data file left."""

    position_files: int
    vectors: int
    equality_files: int
    rewrite: int
    dangling: int
    to_vectors: bool

    @property
    def nothing(self) -> bool:
        return not self.rewrite and not self.dangling


def plan_deletes(facts: TableFacts, files: Sequence[FileFact]) -> DeletePlan:
    """What is worth doing about a table's delete files.

    Raises:
        Refused: there are equality deletes alone, which only compaction takes away.
    """
    deletes = [file for file in files if file.content != "data"]
    position = [file for file in deletes if file.content == "position_deletes" and file.format != "puffin"]
    to_vectors = facts.format_version >= _VECTORS
    rewrite = len(position) if to_vectors else _crowded(facts, position)
    return DeletePlan(
        position_files=len(position),
        vectors=sum(file.format == "puffin" for file in deletes),
        equality_files=sum(file.content == "equality_deletes" for file in deletes),
        rewrite=rewrite,
        dangling=_dangling(files),
        to_vectors=to_vectors,
    )


def refuse_equality_alone(facts: TableFacts, plan: DeletePlan, *, instead: str) -> None:
    """Equality deletes are compared with rows: only writing the rows anew takes them away."""
    if plan.nothing and plan.equality_files and not plan.position_files and not plan.vectors:
        raise Refused(
            f"{facts.name} has {plan.equality_files:,} files of equality deletes and no others: "
            "only writing its rows anew folds them in",
            hint=instead,
        )


def _crowded(facts: TableFacts, files: Sequence[FileFact]) -> int:
    """How many of them, being small, could be one with another: of their partition, or of their data file.

    Spark writes a file of deletes per data file, unless the table says otherwise: then so does a rewrite.
    """
    small = _size_property(facts, DELETE_TARGET, DELETE_BYTES) * SMALL
    shared = facts.properties.get(DELETE_GRANULARITY, "").lower() == "partition"
    places = Counter((_place(file), None if shared else file.only_of) for file in files if file.bytes < small)
    return sum(count for count in places.values() if count > 1)


def _dangling(files: Sequence[FileFact]) -> int:
    """Deletes that are older than every data file of their partition, and vectors of a file that is gone."""
    oldest: dict[tuple[int, str], int] = {}
    present = set()
    for file in files:
        if file.content == "data":
            present.add(file.path)
            place = _place(file)
            oldest[place] = min(oldest.get(place, file.sequence_number), file.sequence_number)
    return sum(_is_dangling(file, oldest, present) for file in files if file.content != "data")


def _is_dangling(file: FileFact, oldest: Mapping[tuple[int, str], int], present: set[str]) -> bool:
    if file.format == "puffin":
        return file.deletes_from not in present
    since = oldest.get(_place(file))
    if file.content == "equality_deletes":
        return bool(file.partition) and since is not None and file.sequence_number <= since
    return since is not None and file.sequence_number < since


def _place(file: FileFact) -> tuple[int, str]:
    return file.spec_id, partition_label(file.partition)


def countable_columns(facts: TableFacts) -> list[str]:
    """The columns whose distinct values can be counted: those of a plain type."""
    return [column.name for column in facts.columns if isinstance(column.type, Primitive)]


def choose_statistics_columns(
    facts: TableFacts, asked: Sequence[str] | None, known: Sequence[ColumnStatistics]
) -> list[str]:
    """The columns to count: those asked for, with those whose figures a new count would otherwise drop; else all."""
    countable = countable_columns(facts)
    if asked is None:
        if not countable:
            raise InvalidInput(f"{facts.name} has no column of a plain type to count")
        return countable
    names = [column.name for column in facts.columns]
    chosen = [find_name(names, name, where=str(facts.name)) for name in asked]
    if nested := [name for name in chosen if name not in countable]:
        raise InvalidInput(
            f"distinct values of {nested[0]} cannot be counted: it is a nested column",
            hint=f"--columns {','.join(countable)}" if countable else None,
        )
    kept = [item.column for item in known if item.column in countable]
    return list(dict.fromkeys([*chosen, *kept]))


def columns_to_recount(facts: TableFacts, known: Sequence[ColumnStatistics]) -> list[str]:
    """The columns that were counted before and still can be."""
    countable = set(countable_columns(facts))
    return [item.column for item in known if item.column in countable]


def rows_touched_since(facts: TableFacts, snapshots: Collection[int]) -> int | None:
    """Rows written or deleted since the oldest of these snapshots; None where not all are in the table's history.

    A row that was changed was deleted and written, and counts once. What only lies otherwise since was not touched.
    """
    left, touched = set(snapshots), 0
    for snapshot in facts.ancestors():
        left.discard(snapshot.id)
        if not left:
            return touched
        touched += 0 if snapshot.operation == REPLACE else _touched(snapshot)
    return None


def _touched(snapshot: Snapshot) -> int:
    def number(what: str) -> int:
        return int(snapshot.summary.get(what, 0))

    positions = number("added-position-deletes") - number("removed-position-deletes")
    gone = number("deleted-records") + number("added-equality-deletes") + max(positions, 0)
    return max(number("added-records"), gone)


def _size_property(facts: TableFacts, key: str, default: int) -> int:
    """A property that is a size; nonsense is as good as none, as it is for whoever writes."""
    text = facts.properties.get(key, "")
    return int(text) if text.isdecimal() and int(text) else default
