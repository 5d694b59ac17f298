"""Key ranges: a table's rows by half-open ranges of their row keys, as a binary tree of cuts.

Range 0 is everything. A cut divides a range at a value of one key: smaller ones are low, this value and greater ones
are high. Ranges that were cut stay known by their ids: rows that came for them earlier are still theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from neve.errors import InvalidInput
from neve.model.results import Answer
from neve.model.splits import Key, check_points, from_json, order, to_json

RANGE = "_neve_range"
"""The column that says which range a row was written for; NULL where its writer did not know the ranges."""

ROOT = 0

SPLIT_THRESHOLD = "ranges.split-threshold"
"""The property that says how many rows a range has when it is to be divided."""

DEFAULT_THRESHOLD = "1000000000"
_LEAST_THRESHOLD = 2


@dataclass(frozen=True, slots=True)
class Cut:
    """Range `range` is cut at `at`, a value of its row key number `key`; below lies range `low`, the rest is `high`."""

    range: int
    key: int
    at: Key
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """For each row key the least value, and the first value that is too great; None where there is no such bound."""

    id: int
    low: tuple[Key | None, ...]
    high: tuple[Key | None, ...]
    parent: int | None = None
    cut: Cut | None = None

    @property
    def leaf(self) -> bool:
        return self.cut is None

    def holds(self, key: int, least: Key, greatest: Key) -> bool:
        """Whether both values of a row key lie in the range."""
        low, high = self.low[key], self.high[key]
        return (low is None or order(low) <= order(least)) and (high is None or order(greatest) < order(high))


@dataclass(frozen=True)
class RangeTree:
    """The ranges of a table with so many row keys. Each cut is of a range that is there, and of a leaf."""

    keys: int
    cuts: tuple[Cut, ...] = ()

    @cached_property
    def ranges(self) -> Mapping[int, KeyRange]:
        """All ranges by id, those that were cut before those that came of it."""
        found = _whole(self.keys)
        for cut in self.cuts:
            _divide(found, cut)
        return found

    @cached_property
    def leaves(self) -> tuple[KeyRange, ...]:
        """The ranges that are not cut, in the order of their keys."""
        return tuple(self._below(ROOT))

    def _below(self, start: int) -> Iterator[KeyRange]:
        left = [start]
        while left:
            found = self.ranges[left.pop()]
            if found.cut is None:
                yield found
            else:
                left += [found.cut.high, found.cut.low]

    def split(self, range_id: int, key: int, at: Key) -> RangeTree:
        """The tree with one more cut.

        Raises:
            InvalidInput: there is no such leaf, or the value is not inside it.
        """
        _check_cut(self.ranges, range_id, key, at)
        first = max(self.ranges) + 1
        return RangeTree(self.keys, (*self.cuts, Cut(range_id, key, at, first, first + 1)))


def tree_of_points(points: Sequence[Key], keys: int) -> RangeTree:
    """The ranges between split points of the first key, as even a tree as there is.

    >>> [leaf.low[0] for leaf in tree_of_points([10, 20, 30], 1).leaves]
    [None, 10, 20, 30]
    """
    check_points(points)
    tree, left = RangeTree(keys), [(ROOT, 0, len(points))]
    cuts: list[Cut] = []
    while left:
        range_id, start, stop = left.pop()
        if start == stop:
            continue
        middle, first = (start + stop) // 2, 2 * len(cuts) + 1
        cuts.append(Cut(range_id, 0, points[middle], first, first + 1))
        left += [(first + 1, middle + 1, stop), (first, start, middle)]
    return replace(tree, cuts=tuple(cuts))


def points_of(tree: RangeTree) -> tuple[Key, ...]:
    """The split points of the first key, ascending.

    Raises:
        InvalidInput: ranges are cut by other keys too, which split points cannot say.
    """
    if any(cut.key for cut in tree.cuts):
        raise InvalidInput(
            "ranges are divided by more than the first key, which split points cannot say",
            hint="neve table export-partitions says all",
        )
    return tuple(sorted((cut.at for cut in tree.cuts), key=order))


def to_property(tree: RangeTree) -> str:
    """The tree as a table's properties keep it."""
    return json.dumps([[cut.range, cut.key, to_json(cut.at), cut.low, cut.high] for cut in tree.cuts])


def from_property(text: str, kinds: Sequence[str]) -> RangeTree:
    """`kinds` are those of the row keys."""
    cuts = [
        Cut(range_id, key, from_json(at, kinds[key]), low, high) for range_id, key, at, low, high in json.loads(text)
    ]
    return RangeTree(len(kinds), tuple(cuts))


def parse_threshold(text: str) -> int:
    """Raises InvalidInput for what is no number of rows that could be divided."""
    if not text.isdecimal() or int(text) < _LEAST_THRESHOLD:
        raise InvalidInput(
            f"{SPLIT_THRESHOLD} is {text!r}, and should be a number of rows, at least {_LEAST_THRESHOLD}",
            hint=f"neve table set TABLE {SPLIT_THRESHOLD}=1000000",
        )
    return int(text)


class ExportedRange(Answer):
    """A line of `export-partitions`. Values of binary keys are hexadecimal."""

    range: int
    parent: int | None
    leaf: bool
    low: list[int | str | None]
    high: list[int | str | None]
    split_key: str | None
    split_at: int | str | None
    children: tuple[int, int] | None


def exported(tree: RangeTree, names: Sequence[str]) -> list[ExportedRange]:
    """Every range of a tree: those that were cut, in the order of the cuts, then the leaves in that of their keys."""
    listed = [*(tree.ranges[cut.range] for cut in tree.cuts), *tree.leaves]
    return [
        ExportedRange(
            range=found.id,
            parent=found.parent,
            leaf=found.leaf,
            low=[None if bound is None else to_json(bound) for bound in found.low],
            high=[None if bound is None else to_json(bound) for bound in found.high],
            split_key=None if found.cut is None else names[found.cut.key],
            split_at=None if found.cut is None else to_json(found.cut.at),
            children=None if found.cut is None else (found.cut.low, found.cut.high),
        )
        for found in listed
    ]


def imported(lines: Iterable[ExportedRange], names: Sequence[str], kinds: Sequence[str]) -> RangeTree:
    """The tree that was exported, ids and all.

    Raises:
        InvalidInput: the lines are no tree of ranges of these row keys.
    """
    given, found = list(lines), _whole(len(names))
    cuts: list[Cut] = []
    for line in given:
        if line.split_key is None or line.children is None:
            continue
        if line.split_key not in names:
            raise InvalidInput(f"range {line.range} is divided by {line.split_key}, which is no row key of the table")
        key = names.index(line.split_key)
        cut = Cut(line.range, key, _value(line, kinds[key]), *line.children)
        _check_cut(found, cut.range, key, cut.at)
        if cut.low in found or cut.high in found or cut.low == cut.high or min(cut.low, cut.high) < 0:
            raise InvalidInput(f"range {line.range}: its parts {cut.low} and {cut.high} are there already")
        _divide(found, cut)
        cuts.append(cut)
    tree = RangeTree(len(names), tuple(cuts))
    if sorted(tree.ranges) != sorted(line.range for line in given):
        raise InvalidInput("the lines do not name each range once, a range before its parts", hint="export them again")
    return tree


def _value(line: ExportedRange, kind: str) -> Key:
    if isinstance(line.split_at, str) != (kind in ("string", "binary")) or line.split_at is None:
        raise InvalidInput(f"range {line.range}: {line.split_at!r} is no {kind}")
    try:
        return from_json(line.split_at, kind)
    except ValueError as exc:
        raise InvalidInput(f"range {line.range}: {line.split_at!r} is no hexadecimal number") from exc


def shown_key(value: Key | None) -> str:
    """A key as people read it.

    >>> shown_key("a b"), shown_key(7), shown_key(b"\\x01")
    ("'a b'", '7', "X'01'")
    """
    return f"X'{value.hex()}'" if isinstance(value, bytes) else "" if value is None else repr(value)


def _whole(keys: int) -> dict[int, KeyRange]:
    nothing: tuple[None, ...] = (None,) * keys
    return {ROOT: KeyRange(id=ROOT, low=nothing, high=nothing)}


def _divide(found: dict[int, KeyRange], cut: Cut) -> None:
    parent = found[cut.range]
    found[cut.range] = replace(parent, cut=cut)
    high, low = _put(parent.high, cut.key, cut.at), _put(parent.low, cut.key, cut.at)
    found[cut.low] = KeyRange(id=cut.low, parent=cut.range, low=parent.low, high=high)
    found[cut.high] = KeyRange(id=cut.high, parent=cut.range, low=low, high=parent.high)


def _check_cut(found: Mapping[int, KeyRange], range_id: int, key: int, at: Key) -> None:
    held = found.get(range_id)
    if held is None or not held.leaf:
        raise InvalidInput(f"range {range_id} is {'cut already' if held else 'not there'}")
    if held.low[key] == at or not held.holds(key, at, at):
        raise InvalidInput(f"{shown_key(at)} does not divide range {range_id}: it must lie inside")


def _put(bounds: tuple[Key | None, ...], key: int, value: Key) -> tuple[Key | None, ...]:
    return (*bounds[:key], value, *bounds[key + 1 :])
