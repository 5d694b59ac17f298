"""Compaction of an Iceberg table, second step: groups of files, each with the cheapest mechanic that is right. Pure.

Row groups that are large enough are copied as they are; smaller ones are decoded and encoded by this process, as long
as all files of a group are alike; Spark takes what is left over, what has deleted rows, and what is to be sorted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from neve.model.copying import CopyOptions, FileShape
from neve.model.results import Reason
from neve.model.rewrites import SMALL, Candidate, Group, LeftAlone, Mechanic, RewritePlan
from neve.model.units import format_bytes, format_count
from neve.plan.copying import MAX_FOOTER_BYTES, MAX_ROW_GROUPS, MIN_ROW_GROUP_BYTES, copy_class
from neve.plan.rewrites import AGED, ALONE, OUT_OF_RANGE, SORTED, Chosen, RewriteRules, left_alone

Sized = TypeVar("Sized", Candidate, Group)

MAX_COPIED = 400
"""So many files are copied into one, at most: all of them are open at the same time."""

SPARK_GROUP_BYTES = 32 << 30
"""Spark sorts or rewrites so much in one job, at most."""

_REMAINDER, _AT_MOST = 0.1, 1.5
"""Less than this part of the target is no file of its own, as long as the one before does not grow beyond that part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footers:
    """What is known of the chosen files: those that only Spark can take, and the footers of the others.

    `encodable` are those whose columns this process can write just as they are.
    """

    spark: Mapping[str, Reason]
    shapes: Mapping[str, FileShape]
    encodable: frozenset[str]
    options: CopyOptions


def for_spark(file: Candidate, *, spec_id: int, lineage: bool) -> Reason | None:
    """Why a file is for Spark whatever its footer says: a copy keeps rows that are deleted, and knows Parquet alone."""
    held = file.entry.file
    if file.deletes:
        return Reason(code="deletes", detail="its deleted rows are to go")
    if held.format != "parquet" or held.encrypted:
        return Reason(code="format", detail=f"{'encrypted' if held.encrypted else held.format} files are for Spark")
    if held.spec_id != spec_id:
        return Reason(code="old_layout", detail="its rows belong to other partitions now")
    if lineage and file.entry.first_row_id is None:
        return Reason(code="no_row_ids", detail="it came before the table kept row ids")
    return None


def assign(chosen: Chosen, footers: Footers, rules: RewriteRules) -> RewritePlan:
    """Groups for each partition, those that help most first."""
    groups: list[Group] = []
    left = list(chosen.left)
    for label, (files, reason) in chosen.work.items():
        made = (
            _spark_groups(label, files, reason)
            if rules.sorts
            else list(_packed_groups(label, files, reason, footers, rules))
        )
        if rules.unite:
            made = _united(label, made, rules)
        kept, passed = _worth_it(made, rules)
        groups += kept
        left += [left_alone(label, group.files, why) for group, why in passed]
    return _within_budget(_ranked(groups, rules), left, rules)


def _packed_groups(
    label: str, files: Sequence[Candidate], reason: Reason, footers: Footers, rules: RewriteRules
) -> Iterator[Group]:
    """Files to copy that are alike; then what is left and can be encoded together; the rest is for Spark."""
    ordered = sorted(files, key=lambda file: (file.entry.first_row_id or 0, file.entry.file.sequence, file.path))
    shapes = footers.shapes
    rest = [file for file in ordered if file.path in footers.spark]
    why = next((footers.spark[file.path] for file in rest), _UNLIKE)
    known = [file for file in ordered if file.path in shapes]
    large = [file for file in known if not is_for_encoding(shapes[file.path], rules.codecs)]
    copied, _ = _together(large, lambda file: copy_class(shapes[file.path], footers.options), shapes, rules)
    for part in _cut(copied):
        yield Group(partition=label, files=part, mechanic="copy", reason=reason)
    taken = {file.path for part in copied for file in part}
    others = [file for file in known if file.path not in taken and file.path in footers.encodable]
    rest += [file for file in known if file.path not in taken and file.path not in footers.encodable]
    encoded, alone = _together(others, lambda file: _encode_class(shapes[file.path], footers), shapes, rules)
    for part in encoded:
        how = _how(part, shapes, reason)
        yield Group(partition=label, files=part, mechanic="encode", reason=how)
    yield from _spark_groups(label, [*rest, *alone], why)


def _spark_groups(label: str, files: Sequence[Candidate], reason: Reason) -> list[Group]:
    parts = cut_by_bytes(files, SPARK_GROUP_BYTES)
    return [Group(partition=label, files=part, mechanic="spark", reason=reason) for part in parts]


def _united(label: str, groups: Sequence[Group], rules: RewriteRules) -> list[Group]:
    """Groups that would leave several small files go together; what Spark makes of deleted rows may be small too."""

    def is_small(group: Group) -> bool:
        return group.mechanic == "spark" or group.bytes < SMALL * rules.target_bytes

    files = [group.files for group in groups if is_small(group)]
    if len(files) < 2:
        return list(groups)
    together = [file for members in files for file in members]
    return [*(group for group in groups if not is_small(group)), *_spark_groups(label, together, _UNLIKE)]


def _cut(bins: Sequence[tuple[Candidate, ...]]) -> Iterator[tuple[Candidate, ...]]:
    for packed in bins:
        for start in range(0, len(packed), MAX_COPIED):
            yield packed[start : start + MAX_COPIED]


_UNLIKE = Reason(code="unlike", detail="their columns differ, or their row groups are too small to be copied")


def _together(
    files: Sequence[Candidate],
    alike: Callable[[Candidate], Hashable],
    shapes: Mapping[str, FileShape],
    rules: RewriteRules,
) -> tuple[list[tuple[Candidate, ...]], list[Candidate]]:
    """Files of one class in bins of the target size, and files that nobody goes with."""
    classes: dict[Hashable, list[Candidate]] = defaultdict(list)
    for file in files:
        classes[alike(file)].append(file)
    bins = [packed for members in classes.values() for packed in _bins(members, shapes, rules.target_bytes)]
    return [tuple(packed) for packed in bins if len(packed) > 1], [packed[0] for packed in bins if len(packed) == 1]


def _encode_class(shape: FileShape, footers: Footers) -> Hashable:
    """As for a copy, but a column may be required in one file and not in another: so Spark writes them."""
    elements = tuple(
        replace(element, repetition="optional") if element.repetition == "required" else element
        for element in shape.elements
    )
    return copy_class(replace(shape, elements=elements), footers.options)


def is_for_encoding(shape: FileShape, codecs: frozenset[str]) -> bool:
    """Whether a file's row groups are too small to be kept as they are, or packed with a codec that is not wanted."""
    held = [group for group in shape.row_groups if group.rows]
    small = bool(held) and shape.data_bytes < MIN_ROW_GROUP_BYTES * len(held)
    return small or bool(codecs and {found for each in shape.codecs for found in each} - codecs)


def _how(files: Sequence[Candidate], shapes: Mapping[str, FileShape], reason: Reason) -> Reason:
    groups = sum(max(len(shapes[file.path].row_groups), 1) for file in files)
    size = sum(shapes[file.path].data_bytes for file in files) // groups
    why = "too small to be copied" if size < MIN_ROW_GROUP_BYTES else "not alike"
    return Reason(code=reason.code, detail=f"{reason.detail}; row groups of {format_bytes(size)}, {why}")


def _bins(files: Sequence[Candidate], shapes: Mapping[str, FileShape], target_bytes: int) -> Iterator[list[Candidate]]:
    """Neighbours, until a file is full and no longer small; a remainder, or one file alone, joins the one before."""
    packed: list[list[Candidate]] = []
    size = groups = footers = 0
    for file in files:
        shape = shapes[file.path]
        grown = size + file.bytes
        full = grown > target_bytes and (size >= SMALL * target_bytes or grown > _AT_MOST * target_bytes)
        over = groups + len(shape.row_groups) > MAX_ROW_GROUPS or footers + shape.footer_bytes > MAX_FOOTER_BYTES
        if not packed or full or over:
            packed.append([])
            size = groups = footers = 0
        packed[-1].append(file)
        size, groups, footers = size + file.bytes, groups + len(shape.row_groups), footers + shape.footer_bytes
    if len(packed) > 1 and (len(packed[-1]) == 1 or size < _REMAINDER * target_bytes):
        last = packed.pop()
        if sum(file.bytes for file in packed[-1]) + size > _AT_MOST * target_bytes:
            packed.append(last)
        else:
            packed[-1] += last
    return iter(packed)


def cut_by_bytes(items: Iterable[Sized], limit: int) -> Iterator[tuple[Sized, ...]]:
    """Neighbours together, until they have so many bytes."""
    part: list[Sized] = []
    size = 0
    for item in items:
        if part and size + item.bytes > limit:
            yield tuple(part)
            part, size = [], 0
        part.append(item)
        size += item.bytes
    if part:
        yield tuple(part)


def _worth_it(groups: Sequence[Group], rules: RewriteRules) -> tuple[list[Group], list[tuple[Group, Reason]]]:
    kept: list[Group] = []
    passed: list[tuple[Group, Reason]] = []
    for group in groups:
        if rules.strategy not in SORTED and len(group.files) == 1 and not group.files[0].deletes and not _moves(group):
            passed.append((group, ALONE))
        elif group.mechanic == "spark" and _is_hot(group, rules):
            passed.append((group, _HOT))
        else:
            kept.append(group)
    return kept, passed


_HOT = Reason(code="hot", detail="rows of it were changed just now: a job on it would lose to the next writer")


def _moves(group: Group) -> bool:
    return group.reason.code in ("old_layout", OUT_OF_RANGE, AGED)


def _is_hot(group: Group, rules: RewriteRules) -> bool:
    """Rows that only come make no rewrite lose."""
    touched = {
        number for file in group.files for number in (file.entry.added, *(each.sequence for each in file.deletes))
    }
    return bool(touched & rules.heat)


# -------------------------------------------------------------------------------------------------------------- budget

_COST: Mapping[Mechanic, float] = {"copy": 0.05, "encode": 0.5, "spark": 1.0}
"""What a byte costs beside a byte that Spark rewrites."""

_OPEN_BYTES = 4 << 20
"""A file that need not be opened saves as much as reading this many bytes."""


def _ranked(groups: Sequence[Group], rules: RewriteRules) -> list[Group]:
    return sorted(groups, key=lambda group: (-_worth(group, rules), group.partition))


def _worth(group: Group, rules: RewriteRules) -> float:
    """What readers save per byte of work."""
    fewer = len(group.files) - group.outputs(rules.target_bytes)
    deleted = sum(file.bytes * file.deleted_share for file in group.files)
    return (fewer * _OPEN_BYTES + deleted) / (_COST[group.mechanic] * group.bytes + _OPEN_BYTES)


def _within_budget(groups: Sequence[Group], left: Sequence[LeftAlone], rules: RewriteRules) -> RewritePlan:
    if rules.max_files is None:
        return RewritePlan(groups=tuple(groups), left=tuple(left))
    kept: list[Group] = []
    passed = list(left)
    room = rules.max_files
    for group in groups:
        taken = group.files[:room] if len(group.files) > room else group.files
        over = group.files[len(taken) :]
        if over and (len(taken) < 2 or rules.strategy in SORTED):  # half a partition in order is in none
            taken, over = (), group.files
        if taken:
            kept.append(replace(group, files=taken))
            room -= len(taken)
        if over:
            passed.append(left_alone(group.partition, over, _beyond(rules.max_files)))
    return RewritePlan(groups=tuple(kept), left=tuple(passed))


def _beyond(max_files: int) -> Reason:
    return Reason(code="max_files", detail=f"{format_count(max_files)} files at once, no more (--max-files)")
