"""What a folder of Parquet files holds as one table, and which of its files a piece of work concerns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from neve.errors import InvalidSchema, Refused
from neve.model.commands import neve
from neve.model.names import shown
from neve.model.specs import find_column
from neve.model.types import Field, Type
from neve.plan.adopt import Doubt, Footer, merge_columns, with_keys
from neve.plan.folders import Value, folder_of, key_type, partition_keys, text_of, values_of
from neve.plan.rows import partition_values

OWN = "_neve_"
Group = tuple[str | None, ...]
"""Partition values as text; NULL and the empty string share a folder, as in Hive."""


@dataclass(frozen=True)
class Dataset:
    """A folder's files with their footers, columns and partition keys."""

    location: str
    footers: tuple[Footer, ...]
    columns: tuple[Field, ...]
    keys: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(footer.rows for footer in self.footers)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def types(self) -> dict[str, str]:
        return {key: key_type(find_column(self.columns, key)) for key in self.keys}

    @cached_property
    def groups(self) -> dict[str, Group]:
        """The partition values of each file's folder."""
        return {
            footer.path: tuple(map(group_text, values_of(footer.path, self.types).values())) for footer in self.footers
        }

    @cached_property
    def folders(self) -> dict[Group, str]:
        """The folder of each partition, as it is written there."""
        return {self.groups[footer.path]: footer.path.rpartition("/")[0] for footer in reversed(self.footers)}

    def folder(self, group: Group) -> str:
        """Where rows of a partition go: to those that are there already, else to a new folder."""
        return self.folders.get(group) or folder_of(dict(zip(self.keys, group, strict=True)))

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """The partition columns that a file does not hold inside, by path."""
        found = {}
        for footer in self.footers:
            inside = {column.name for column in footer.columns}
            if lacking := tuple(key for key in self.keys if key not in inside):
                found[footer.path] = lacking
        return found

    def told(self) -> dict[str, dict[str, str | None]]:
        """What folders tell of the partition columns that a file does not hold inside, by path."""
        return {
            path: {key: self.groups[path][self.keys.index(key)] for key in keys}
            for path, keys in self.lacking().items()
        }

    def only(self, paths: Sequence[str]) -> Dataset:
        wanted = set(paths)
        footers = tuple(footer for footer in self.footers if footer.path in wanted)
        return Dataset(self.location, footers, self.columns, self.keys)


def describe(location: str, footers: Sequence[Footer]) -> Dataset:
    """The files of a folder as one table.

    Raises:
        InvalidSchema: columns of two files do not fit together, or have names that Névé keeps for itself.
        Refused: the files do not all lie under the same keys.
    """
    keys = partition_keys([footer.path for footer in footers])
    columns = with_keys(merge_columns(footers), keys, footers)
    folded: dict[str, str] = {}
    for column in columns:
        if column.name.startswith(OWN):
            raise InvalidSchema(f"the files have a column {column.name}, a name that Névé keeps for itself")
        if (other := folded.setdefault(column.name.casefold(), column.name)) != column.name:
            raise InvalidSchema(f"columns {other} and {column.name} differ in their case only", hint="rename one")
    return Dataset(location, tuple(footers), columns, keys)


def prune(dataset: Dataset, partition_filter: Mapping[str, object] | None) -> tuple[Dataset, dict[str, Value]]:
    """The files whose folders a partition filter allows, and the values that their rows must have.

    Raises:
        InvalidInput: a key is no partition key, or a value none of its type.
    """
    wanted = partition_values(dataset.types, partition_filter, where=dataset.location)
    places = {dataset.keys.index(key): group_text(value) for key, value in wanted.items()}
    allowed = [
        path for path, group in dataset.groups.items() if all(group[place] == text for place, text in places.items())
    ]
    return dataset.only(allowed), wanted


def group_text(value: Value) -> str | None:
    """NULL and the empty string lie in one folder."""
    return None if value is None or value == "" else text_of(value)


def disagreements(dataset: Dataset) -> tuple[list[Doubt], list[Doubt]]:
    """Files whose folder says something else than their rows, by their statistics; and those that must be read."""
    proven: list[Doubt] = []
    unsure: list[Doubt] = []
    lacking = dataset.lacking()
    for footer in dataset.footers:
        values = values_of(footer.path, dataset.types)
        for key, value in values.items():
            if not footer.rows or key in lacking.get(footer.path, ()):
                continue
            doubt = Doubt(path=footer.path, column=key, value=value)
            if key not in footer.constants:
                unsure.append(doubt)
            elif not agrees(value, footer.constants[key]):
                proven.append(doubt)
    return proven, unsure


def agrees(folder: Value, held: object) -> bool:
    """Whether a row's value belongs in a folder of this value."""
    return held == folder or (folder is None and held == "")


def refuse_disagreement(location: str, doubts: Sequence[Doubt]) -> None:
    """A change that trusted such folders would miss rows, or move them by itself."""
    if doubts:
        first = doubts[0]
        more = f" (and {len(doubts) - 1:,} more)" if len(doubts) > 1 else ""
        raise Refused(
            f"{first.path}{more}: the folder says {shown(first.column)} = {first.value!r}, but its rows say otherwise",
            hint=f"move the rows to the folders of their values: {neve('parquet', 'repair', location)}",
        )


MOST_OPEN = 64
_LEAST_FILE = 16 * 1024 * 1024


def open_groups(groups: int, *, tasks: int, bytes: int) -> int:  # noqa: A002
    """How many partitions each task writes at once: 1 when the rows had better be brought together first.

    Few partitions of many rows need no shuffle: each task writes a file of its own to every one of them.

    >>> open_groups(10, tasks=2, bytes=2 * 10**9), open_groups(10, tasks=2, bytes=10**8)
    (10, 1)
    """
    fits = 1 < groups <= MOST_OPEN and bytes >= groups * tasks * _LEAST_FILE
    return groups if fits else 1


def split_threads(groups: int, *, cores: int, bytes: int) -> int:  # noqa: A002
    """How many threads write all partitions at once, each files of its own; 0 when there are too many partitions.

    >>> [split_threads(groups, cores=8, bytes=10**9) for groups in (1, 10, 64, 65)]
    [8, 5, 1, 0]
    """
    return 0 if groups > MOST_OPEN else max(1, min(cores, bytes // (max(groups, 1) * _LEAST_FILE)))


def whole_files(dataset: Dataset, keys: Sequence[str], *, limit: int) -> list[tuple[Group, list[Footer]]]:
    """Files that would lie in one partition as a whole, by their statistics, in packs of about so many bytes.

    Those that lack a column, or hold one in another type, are not among them.
    """
    found: dict[Group, list[Footer]] = {}
    for footer in dataset.footers:
        if footer.rows and footer.columns == dataset.columns and all(key in footer.constants for key in keys):
            group = tuple(group_text(cast("Value", footer.constants[key])) for key in keys)
            found.setdefault(group, []).append(footer)
    return [(group, pack) for group, files in found.items() for pack in first_fit(files, limit)]


def kind_of(columns: Sequence[Field], name: str) -> Type:
    return next(column.type for column in columns if column.name == name)


# --------------------------------------------------------------------------------------------------------- compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one partition that become one file."""

    folder: str
    files: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    target_bytes: int
    min_file_count: int = 2
    max_file_bytes: int | None = None
    target_file_count: int | None = None
    sorts: bool = False


_GOOD_ENOUGH = 0.75
"""A file of this share of the target is left alone, so that a second run finds nothing to do."""


def plan_bins(footers: Sequence[Footer], rules: CompactionRules) -> tuple[list[Bin], int]:
    """Which files are merged, and how many partitions were looked at.

    Files are taken in the order of their names, so that rows keep theirs as far as files have one.
    """
    partitions: dict[str, list[Footer]] = {}
    for footer in sorted(footers, key=lambda footer: footer.path):
        partitions.setdefault(footer.path.rpartition("/")[0], []).append(footer)
    bins: list[Bin] = []
    for folder, files in partitions.items():
        chosen = [file for file in files if _is_candidate(file, rules)]
        if len(chosen) >= rules.min_file_count:
            bins += _pack(folder, chosen, rules)
    return bins, len(partitions)


def _is_candidate(file: Footer, rules: CompactionRules) -> bool:
    if rules.max_file_bytes is not None:
        return file.bytes < rules.max_file_bytes
    return rules.target_file_count is not None or rules.sorts or file.bytes < _GOOD_ENOUGH * rules.target_bytes


def _pack(folder: str, files: Sequence[Footer], rules: CompactionRules) -> list[Bin]:
    if rules.target_file_count is not None:
        count = min(rules.target_file_count, len(files))  # as many files as there are may still be sorted
        packs = _even(files, count, -(-sum(file.bytes for file in files) // count))
    else:
        packs = first_fit(files, rules.target_bytes)
    return [
        Bin(folder=folder, files=tuple(file.path for file in pack), bytes=sum(file.bytes for file in pack))
        for pack in packs
        if len(pack) > 1 or (rules.sorts and pack)
    ]


def first_fit(files: Sequence[Footer], limit: int) -> list[list[Footer]]:
    """Files in their order, in packs of about so many bytes."""
    packs: list[list[Footer]] = [[]]
    held = 0
    for file in files:
        if packs[-1] and held + file.bytes > limit:
            packs.append([])
            held = 0
        packs[-1].append(file)
        held += file.bytes
    return packs


def _even(files: Sequence[Footer], count: int, limit: int) -> list[list[Footer]]:
    """Exactly `count` packs, none empty, of about the same size."""
    packs: list[list[Footer]] = [[]]
    held = 0
    for index, file in enumerate(files):
        left, packs_left = len(files) - index, count - len(packs)
        if packs[-1] and packs_left and (held + file.bytes / 2 > limit or left <= packs_left):
            packs.append([])
            held = 0
        packs[-1].append(file)
        held += file.bytes
    return packs
