"""Decisions about key ranges: where a file lies, what is told of each range, where one is to be divided. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from neve.errors import InvalidInput
from neve.model.bounds import comparable
from neve.model.facts import Bound, TableFacts
from neve.model.merging import Merging, merging_of
from neve.model.range_rows import RangeFiles, RangeRow
from neve.model.ranges import (
    DEFAULT_THRESHOLD,
    RANGE,
    SPLIT_THRESHOLD,
    KeyRange,
    RangeTree,
    from_property,
    parse_threshold,
)
from neve.model.rewrites import Candidate, TableFiles
from neve.model.specs import RANGES, SORT_KEYS, find_column
from neve.model.splits import Key, key_type, order, to_json
from neve.plan.rewrites import candidates
from neve.plan.tables import row_keys_of

State = Literal["in_place", "of_parent", "unplaced", "misplaced"]
"""Whether a file's rows lie in the leaf they were written for, in a range that was cut since, in none, or elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a key-range table, with the ranges that it has now."""

    row_keys: tuple[str, ...]
    kinds: tuple[str, ...]
    sort_keys: tuple[str, ...]
    tree: RangeTree
    threshold: int
    merging: Merging | None = None

    @property
    def order(self) -> tuple[str, ...]:
        return (*self.row_keys, *self.sort_keys)


def keys_of(facts: TableFacts) -> Keys | None:
    """None for a table that has no row keys, or none that it could keep ranges by."""
    names, text = row_keys_of(facts), facts.properties.get(RANGES)
    if not names or text is None:
        return None
    kinds = tuple(key_type(find_column(facts.columns, name)) for name in names)
    return Keys(
        row_keys=names,
        kinds=kinds,
        sort_keys=tuple(map(str, json.loads(facts.properties.get(SORT_KEYS, "[]")))),
        tree=from_property(text, kinds),
        threshold=parse_threshold(facts.properties.get(SPLIT_THRESHOLD, DEFAULT_THRESHOLD)),
        merging=merging_of(facts.properties),
    )


def need_keys(facts: TableFacts) -> Keys:
    """Raises InvalidInput when the table has no row keys."""
    keys = keys_of(facts)
    if keys is None:
        raise InvalidInput(f"{facts.name} has no row keys, so it has no key ranges", hint="create it with --row-keys")
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """A data file and the range that its writer gave it, with the least and greatest value of each row key.

    Values are None where the manifest does not say them; readers then have to look into the file.
    """

    file: Candidate
    range: int | None
    spans: tuple[tuple[Bound, Bound] | None, ...]
    state: State

    @property
    def rows(self) -> int:
        """Those that are not deleted, as far as the deletes speak of this file alone."""
        gone = sum(delete.rows for delete in self.file.deletes if delete.referenced == self.file.path)
        return self.file.rows - gone


def place_files(files: TableFiles, keys: Keys) -> list[PlacedFile]:
    """Every data file of a table, as its manifests describe it."""
    return [_placed(file, files, keys) for file in candidates(files)]


def _placed(file: Candidate, files: TableFiles, keys: Keys) -> PlacedFile:
    text = file.entry.place.get(RANGE)
    spans = tuple(_span(file, files, name) for name in keys.row_keys)
    given = None if text is None else int(text)
    return PlacedFile(file=file, range=given, spans=spans, state=_state(given, spans, keys))


def _span(file: Candidate, files: TableFiles, name: str) -> tuple[Bound, Bound] | None:
    column = files.ids[name]
    metrics, kind = file.entry.metrics, files.types[column]
    least, greatest = comparable(kind, metrics.lower.get(column)), comparable(kind, metrics.upper.get(column))
    return None if least is None or greatest is None else (least, greatest)


def _state(given: int | None, spans: Sequence[tuple[Bound, Bound] | None], keys: Keys) -> State:
    if given is None:
        return "unplaced"
    found = keys.tree.ranges.get(given)
    if found is None or not all(_inside(found, key, span) for key, span in enumerate(spans)):
        return "misplaced"
    return "in_place" if found.leaf else "of_parent"


def _inside(found: KeyRange, key: int, span: tuple[Bound, Bound] | None) -> bool:
    """A file that does not say which keys it holds is opened by every read, and is where its writer said it is."""
    return span is None or found.holds(key, _key(span[0]), _key(span[1]))


def _key(bound: Bound) -> Key:
    """Bounds of texts are bytes, which are in the order of the texts."""
    return bound if isinstance(bound, bytes) else int(bound)


# ----------------------------------------------------------------------------------------------------------- reports


@dataclass(frozen=True)
class RangeReport:
    """What is told of the ranges of a table."""

    keys: Keys
    placed: Sequence[PlacedFile]

    @cached_property
    def _of(self) -> Mapping[int | None, Sequence[PlacedFile]]:
        """A file counts for the range it was written for; one that names a range which is not there, for none."""
        found: dict[int | None, list[PlacedFile]] = defaultdict(list)
        for file in self.placed:
            found[file.range if file.range in self.keys.tree.ranges else None].append(file)
        return found

    def rows(self) -> list[RangeRow]:
        """The ranges in the order in which they came, then what has none."""
        shares = dict(self._approximate())
        rows = [self._row(found, shares[found.id]) for found in self.keys.tree.ranges.values()]
        return [*rows, self._without()] if self._of.get(None) else rows

    def files(self) -> RangeFiles:
        counts = sorted(len(self._of.get(leaf.id, ())) for leaf in self.keys.tree.leaves)
        rows = sum(file.rows for file in self.placed)
        settled = sum(file.rows for file in self.placed if file.state == "in_place")
        return RangeFiles(
            ranges=len(counts),
            files=len(self.placed),
            files_in_leaves=sum(counts),
            least=counts[0],
            most=counts[-1],
            mean=round(sum(counts) / len(counts), 3),
            median=_percentile(counts, 50),
            p90=_percentile(counts, 90),
            p99=_percentile(counts, 99),
            rows=rows,
            rows_in_leaves_percent=round(100 * settled / rows, 3) if rows else 100.0,
        )

    def own_rows(self, range_id: int | None) -> int:
        return sum(file.rows for file in self._of.get(range_id, ()))

    def _approximate(self) -> Iterator[tuple[int, int]]:
        """The rows of each range, with an even share of those that lie in ranges above it."""
        share: dict[int, float] = {}
        for found in self.keys.tree.ranges.values():
            above = 0.0 if found.parent is None else share[found.parent] / 2
            share[found.id] = above + self.own_rows(found.id)
            yield found.id, round(share[found.id])

    def _row(self, found: KeyRange, approximate: int) -> RangeRow:
        files, rows = self._of.get(found.id, ()), self.own_rows(found.id)
        cut, parent = found.cut, None if found.parent is None else self.keys.tree.ranges[found.parent].cut
        full = found.leaf and rows >= self.keys.threshold
        constant = full and self._is_constant(files)
        return RangeRow(
            range=found.id,
            leaf=found.leaf,
            parent=found.parent,
            side=None if parent is None else "low" if parent.low == found.id else "high",
            low=_shown(found.low),
            high=_shown(found.high),
            files=len(files),
            files_out_of_place=sum(file.state == "misplaced" for file in files),
            bytes=sum(file.file.bytes for file in files),
            rows=rows,
            rows_approximate=approximate,
            will_be_split=full and not constant,
            may_split_when_compacted=found.leaf and not full and approximate >= self.keys.threshold,
            unsplittable=constant,
            split_key=None if cut is None else self.keys.row_keys[cut.key],
            split_at=None if cut is None else to_json(cut.at),
        )

    def _is_constant(self, files: Sequence[PlacedFile]) -> bool:
        """Whether no row key has two values, as far as the files say."""
        spans = {(key, span) for file in files for key, span in enumerate(file.spans)}
        return len(spans) == len(self.keys.row_keys) and all(span and span[0] == span[1] for _, span in spans)

    def _without(self) -> RangeRow:
        files, rows = self._of[None], self.own_rows(None)
        nothing: list[int | str | None] = [None] * len(self.keys.row_keys)
        return RangeRow(
            range=None,
            leaf=False,
            parent=None,
            side=None,
            low=nothing,
            high=nothing,
            files=len(files),
            files_out_of_place=len(files),
            bytes=sum(file.file.bytes for file in files),
            rows=rows,
            rows_approximate=rows,
            will_be_split=False,
            may_split_when_compacted=False,
            unsplittable=False,
            split_key=None,
            split_at=None,
        )


def _percentile(ascending: Sequence[int], percent: int) -> int:
    """The least value that so many percent of all are not above.

    >>> _percentile([1, 2, 3, 4], 50), _percentile([1, 2, 3, 4], 90)
    (2, 4)
    """
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


def _shown(bounds: Sequence[Key | None]) -> list[int | str | None]:
    return [None if bound is None else to_json(bound) for bound in bounds]


# ------------------------------------------------------------------------------------------------------------- splits


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """Where a range is divided: a value of the row key of this number."""

    key: int
    at: Key


def split_point(samples: Sequence[Sequence[Key]]) -> SplitPoint | None:
    """The median of the first row key that has more than one value; None when no key has. Samples are by key.

    Where most rows have the least value, the next one divides: both parts always have rows.

    >>> split_point([[5, 5, 5], [1, 2, 9]]), split_point([[1, 1, 1, 2]]), split_point([[3, 3]])
    (SplitPoint(key=1, at=2), SplitPoint(key=0, at=2), None)
    """
    for key, values in enumerate(samples):
        ascending = sorted(values, key=order)
        if not ascending or ascending[0] == ascending[-1]:
            continue
        median = ascending[len(ascending) // 2]
        above = (value for value in ascending if order(value) > order(ascending[0]))
        return SplitPoint(key, median if order(median) > order(ascending[0]) else next(above))
    return None


def even_points(sample: Sequence[Key], leaves: int) -> tuple[Key, ...]:
    """Split points that make so many ranges of about the same number of rows; fewer where too few values differ.

    >>> even_points([1, 2, 3, 4, 5, 6, 7, 8], 4), even_points([1, 1, 2, 2], 3)
    ((3, 5, 7), (2,))
    """
    if leaves < 1:
        raise InvalidInput("a table has at least one range")
    ascending = sorted(sample, key=order)
    picked = (ascending[len(ascending) * step // leaves] for step in range(1, leaves) if ascending)
    inside = [point for point in picked if order(point) > order(ascending[0])]
    return tuple(dict.fromkeys(inside))
