"""Compaction of an Iceberg table, first step: which files are worth rewriting, from the table's metadata. Pure.

What becomes of them is decided once their footers are known (plan/rewrite_groups.py). Repeated plans come to an end:
what a group becomes is no longer small, or alone, or has too little company.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from neve.model.changes import LiveFile
from neve.model.results import Reason
from neve.model.rewrites import Candidate, DataEntry, LeftAlone, Strategy, TableFiles
from neve.model.units import counted, format_bytes, format_count
from neve.plan.file_changes import Deletes

MANY_DELETED = 0.05
"""A file with this share of deleted rows is rewritten without them: what health begins to count."""

RATIO = 3
"""Size-ratio: the other files of a batch together have at least so many times the bytes of its largest."""

OUT_OF_RANGE = "out_of_range"
"""The reason for files of a key-range table whose rows belong to other ranges."""

AGED = "aged_off"
"""The reason for files with rows that a filter of the table drops."""

SORTED: tuple[Strategy, ...] = ("sort", "zorder", "hilbert")


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRules:
    """What was asked for, with the table's and the lake's values in place of what was not.

    `codecs` are those that files may be packed with, any where it is empty.
    `sorted_from` says of each commit that sorted as is asked for now, by its sequence number, at which one it looked.
    `heat` are the commits that took rows away just now: what they touched is left to its writer, unless a copy is quick
    enough.
    With `by_key`, rows go to the ranges of their keys and are sorted there, by Spark.
    With `unite`, a partition keeps one small file at most: files that are not alike go together, by Spark.
    """

    strategy: Strategy
    target_bytes: int
    small_bytes: int
    min_files: int
    max_files: int | None = None
    force: bool = False
    codecs: frozenset[str] = frozenset()
    sorted_from: Mapping[int, int] = field(default_factory=dict)
    heat: frozenset[int] = frozenset()
    only: frozenset[str] | None = None
    by_key: bool = False
    unite: bool = False

    @property
    def sorts(self) -> bool:
        """Whether rows are put in an order, which only Spark does."""
        return self.by_key or self.strategy in SORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files of each partition that are worth rewriting, with the reason; the others are left."""

    work: Mapping[str, tuple[tuple[Candidate, ...], Reason]]
    left: tuple[LeftAlone, ...]


def candidates(files: TableFiles) -> list[Candidate]:
    """Every data file with the deletes that are of it."""
    deletes = Deletes(files.deletes, files.unpartitioned)
    return [Candidate(entry=entry, deletes=_of(deletes, entry) if files.deletes else ()) for entry in files.data]


def _of(deletes: Deletes, entry: DataEntry) -> tuple[LiveFile, ...]:
    """Positions that were deleted before the file came are of others, though its rows are as old as they."""
    found = deletes.of(entry.file)
    return tuple(each for each in found if each.content != "position_deletes" or each.sequence >= entry.added)


def choose(files: Sequence[Candidate], spec_id: int, rules: RewriteRules) -> Chosen:
    """`spec_id` is the partition spec that the table writes by now."""
    work: dict[str, tuple[tuple[Candidate, ...], Reason]] = {}
    left: list[LeftAlone] = []
    for label, members in _by_partition(files).items():
        outside = [file for file in members if rules.only is not None and file.path not in rules.only]
        inside = [file for file in members if rules.only is None or file.path in rules.only]
        old = [file for file in inside if file.entry.file.spec_id != spec_id]
        picked, reason, others = _pick([file for file in inside if file.entry.file.spec_id == spec_id], rules)
        passed = [(outside, FILTERED), *others]
        if rules.force and old:
            work[_older(label)] = (tuple(old), OLD_LAYOUT)
        else:
            passed += [(old, OLD_LAYOUT)]
        if picked:
            work[label] = (tuple(picked), reason)
        left += [left_alone(label, rest, why) for rest, why in passed if rest]
    return Chosen(work=work, left=tuple(left))


def take(files: Sequence[Candidate], spec_id: int, paths: Collection[str], reason: Reason) -> Chosen:
    """Files that somebody else chose, by their paths, whatever their size."""
    work: dict[str, tuple[tuple[Candidate, ...], Reason]] = {}
    for label, members in _by_partition(file for file in files if file.path in paths).items():
        for old in (False, True):
            if found := tuple(file for file in members if (file.entry.file.spec_id != spec_id) is old):
                work[_older(label) if old else label] = (found, reason)
    return Chosen(work=work, left=())


def _older(label: str) -> str:
    return f"{label} of an older layout" if label else "an older layout"


FILTERED = Reason(code="filtered", detail="not what --where or --partition asks for")
OLD_LAYOUT = Reason(code="old_layout", detail="written under an older partitioning; --force rewrites it")
_Passed = list[tuple[list[Candidate], Reason]]


def _by_partition(files: Iterable[Candidate]) -> Mapping[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = defaultdict(list)
    for file in files:
        found[file.partition].append(file)
    return dict(sorted(found.items()))


def _pick(files: Sequence[Candidate], rules: RewriteRules) -> tuple[list[Candidate], Reason, _Passed]:
    """The files to take, why, and the others with why not."""
    if not files:
        return [], ALONE, []
    if rules.strategy in SORTED:
        return _pick_unsorted(files, rules)
    if rules.strategy == "size-ratio":
        return _pick_by_ratio(files, rules)
    return _pick_small(files, rules)


ALONE = Reason(code="alone", detail="no other file goes with it")


def _pick_small(files: Sequence[Candidate], rules: RewriteRules) -> tuple[list[Candidate], Reason, _Passed]:
    holed = [file for file in files if _is_holed(file, rules)]
    whole = [file for file in files if not _is_holed(file, rules)]
    small = [file for file in whole if file.bytes < rules.small_bytes]
    large = [file for file in whole if file.bytes >= rules.small_bytes]
    passed: _Passed = [(large, Reason(code="large_enough", detail=f"not below {format_bytes(rules.small_bytes)}"))]
    needed = 2 if rules.force else rules.min_files
    many = len(small) + len(holed) >= max(needed, 2) or (
        len(small) > 1 and sum(file.bytes for file in small) >= rules.target_bytes
    )
    if not many:
        below = f"{counted(len(small), 'file')} below {format_bytes(rules.small_bytes)}"
        few = Reason(code="few_small_files", detail=f"{below}: {format_count(needed)} make it worth while")
        return holed, _HOLED, [*passed, (small, few)]
    if not small:
        return holed, _HOLED, passed
    words = f"{counted(len(small), 'file')} below {format_bytes(rules.small_bytes)}"
    return [*holed, *small], Reason(code="small_files", detail=words), passed


_HOLED = Reason(code="deleted_rows", detail="rows of these files are deleted, and are still read")


def _is_holed(file: Candidate, rules: RewriteRules) -> bool:
    if not file.deletes:
        return False
    unsure = any(delete.referenced != file.path for delete in file.deletes)
    return rules.force or unsure or file.deleted_share >= MANY_DELETED


def _pick_by_ratio(files: Sequence[Candidate], rules: RewriteRules) -> tuple[list[Candidate], Reason, _Passed]:
    """The largest file is left out while the others together are not RATIO times as large."""
    chosen = sorted(files, key=lambda file: (file.bytes, file.path))
    left: list[Candidate] = []
    while len(chosen) > 1 and sum(file.bytes for file in chosen[:-1]) < RATIO * chosen[-1].bytes:
        left.append(chosen.pop())
    needed = 2 if rules.force else max(rules.min_files, 2)
    if len(chosen) < needed:
        few = Reason(code="size_ratio", detail=f"fewer than {needed} files are about as large as the largest of them")
        return [], ALONE, [([*chosen, *left], few)]
    kept = Reason(code="size_ratio", detail=f"larger than the others together would justify ({RATIO} times)")
    alike = Reason(code="size_ratio", detail=f"{counted(len(chosen), 'file')} of about the same size")
    return chosen, alike, [(left, kept)]


def _pick_unsorted(files: Sequence[Candidate], rules: RewriteRules) -> tuple[list[Candidate], Reason, _Passed]:
    """A partition is in order when one sort, so one look, made all of its files: two have put it in two orders."""
    last = max(rules.sorted_from.get(file.entry.added, -1) for file in files)
    new = [file for file in files if last < 0 or rules.sorted_from.get(file.entry.added) != last]
    if not new and not rules.force:
        return [], ALONE, [(list(files), Reason(code="in_order", detail="nothing came since it was put in order"))]
    return list(files), Reason(code="order", detail=f"{counted(len(new), 'file')} not in this order yet"), []


def left_alone(label: str, files: Sequence[Candidate], reason: Reason) -> LeftAlone:
    return LeftAlone(partition=label, files=len(files), bytes=sum(file.bytes for file in files), reason=reason)
