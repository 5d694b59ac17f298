"""Rows of local Parquet files into files by partition, with pyarrow in the driver's threads: no Spark, no shuffle.

For partitions that can all be written at once. Each thread takes source files of its own, a batch in memory at a time;
texts that repeat stay dictionaries all the way. Every row that is read gets a number before it is sorted out, and what
was written is read back and must have the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from neve.engine.directories import group_name
from neve.engine.parquet_tasks import (
    HASH,
    Sink,
    WrittenFile,
    common_schema,
    fit,
    opened,
    signed,
    taken_apart,
    write_parts,
)
from neve.errors import CheckFailed
from neve.files.hashing import bag_hash, row_hashes
from neve.plan.directories import Dataset, Group, group_text
from neve.plan.shares import in_shares

_ROWS = 131_072
_SAMPLE = 32
_MOST_CODES = 4096
_REPEATING_BYTES, _SMALL = 2.5, 1024
"""A text takes 4 bytes and more, unless it stands in a dictionary. Small columns are as they like."""


class TooManyGroups(Exception):
    """More partitions than can be written at once: Spark does it then."""


class _Stopped(Exception):
    """Another thread has failed, and its error is the one to tell."""


def columns_of(dataset: Dataset) -> Any:
    """The columns of all files, with dictionaries where texts repeat."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ThreadPoolExecutor() as pool:
        footers = list(pool.map(pq.read_metadata, _paths(dataset)))
    columns = common_schema([footer.schema.to_arrow_schema() for footer in footers])
    texts = {column.name for column in columns if pa.types.is_string(column.type) or pa.types.is_binary(column.type)}
    for footer in footers:
        texts &= _repeating(footer, texts)
    return pa.schema([_as_dictionary(column) if column.name in texts else column for column in columns])


def _repeating(footer: Any, names: Iterable[str]) -> set[str]:
    """Of some columns, those that a file holds as dictionaries throughout, or not at all."""
    found = set(names)
    for number in range(footer.num_row_groups if found else 0):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            if chunk.path_in_schema in found and not _is_dictionary(chunk):
                found.remove(chunk.path_in_schema)
    return found


def _is_dictionary(chunk: Any) -> bool:
    small = chunk.total_uncompressed_size <= _REPEATING_BYTES * chunk.num_values + _SMALL
    return small and chunk.has_dictionary_page and not any("DELTA" in name for name in chunk.encodings)


def _as_dictionary(column: Any) -> Any:
    import pyarrow as pa

    return column.with_type(pa.dictionary(pa.int32(), column.type))


def sample_groups(dataset: Dataset, keys: Sequence[str]) -> int:
    """How many partitions the rows of some files would make."""
    paths = _paths(dataset)
    return len(_count(paths[:: -(-len(paths) // _SAMPLE) or 1], keys))


def count_groups(dataset: Dataset, keys: Sequence[str]) -> dict[Group, int]:
    """How many rows each partition would get."""
    return _count(_paths(dataset), keys)


def _count(paths: Sequence[str], keys: Sequence[str]) -> Counter[Group]:
    found: Counter[Group] = Counter()
    with ThreadPoolExecutor() as pool:
        for held in pool.map(lambda path: _groups_of(path, keys), paths):
            found.update(held)
    return found


def split_files(
    dataset: Dataset,
    columns: Any,
    keys: Sequence[str],
    sink: Sink,
    *,
    threads: int,
    most_groups: int,
    validate: bool,
    advance: Callable[[int], None],
) -> list[WrittenFile]:
    """Writes the rows into staged files of their partitions; `advance` hears of bytes as sources are done.

    Raises:
        CheckFailed: with `validate`, a file does not hold the rows that it should.
        TooManyGroups: nothing is left of what was written.
    """
    groups, before = _Groups(most_groups), set(Path(sink.folder).iterdir())
    sink = replace(sink, open_groups=max(most_groups, 2))
    work = [
        _Share(paths=share, columns=columns, keys=tuple(keys), sink=sink, groups=groups, alone=threads == 1)
        for share in _shares(dataset, threads)
    ]
    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(share.write, validate=validate, advance=advance) for share in work]
        try:
            return list(chain.from_iterable(task.result() for task in tasks))
        except BaseException:
            groups.stop()
            raise
        finally:
            if groups.are_too_many:
                pool.shutdown()
                for file in set(Path(sink.folder).iterdir()) - before:
                    file.unlink()


@dataclass(slots=True)
class _Groups:
    """The partitions that all threads have seen; one that sees too many stops them all."""

    most: int
    seen: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)
    stopped: bool = False

    @property
    def are_too_many(self) -> bool:
        return len(self.seen) > self.most

    def add(self, group: str) -> None:
        with self.lock:
            if self.stopped:
                raise _Stopped
            self.seen.add(group)
            if self.are_too_many:
                raise TooManyGroups

    def stop(self) -> None:
        """What is written no longer matters: another thread has failed."""
        self.stopped = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The source files of one thread, in their order, with their sizes."""

    paths: Sequence[tuple[str, int]]
    columns: Any
    keys: tuple[str, ...]
    sink: Sink
    groups: _Groups
    alone: bool

    def write(self, *, validate: bool, advance: Callable[[int], None]) -> list[WrittenFile]:
        files = write_parts(self._parts(advance, validate=validate), self.sink)
        if validate:
            for file in files:
                self._check(file)
        return files

    def _parts(self, advance: Callable[[int], None], *, validate: bool) -> Iterator[Iterator[tuple[str, Any]]]:
        for path, size in self.paths:
            for rows in self._read(path):
                marked = rows.append_column(HASH, row_hashes(rows)) if validate else rows
                yield self._apart(marked)
            advance(size)

    def _apart(self, rows: Any) -> Iterator[tuple[str, Any]]:
        codes, groups = _group_codes(rows, self.keys)
        for code, part in taken_apart(rows, codes):
            group = group_name(tuple(map(group_text, groups[code])))
            self.groups.add(group)
            yield group, part

    def _read(self, path: str) -> Iterator[Any]:
        import pyarrow as pa

        dictionaries = [column.name for column in self.columns if pa.types.is_dictionary(column.type)]
        with opened(path, read_dictionary=dictionaries, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_ROWS, use_threads=self.alone):
                if batch.num_rows:
                    yield fit(batch, self.columns)

    def _check(self, file: WrittenFile) -> None:
        """What was written, as it lies there, against the rows that were read."""
        rows = digest = 0
        for batch in self._read(file.address):
            rows += batch.num_rows
            digest += bag_hash(row_hashes(batch))
        if (rows, signed(digest)) != (file.rows, file.digest):
            raise CheckFailed(
                f"partition {file.group} does not hold the rows of its sources", hint="nothing was changed"
            )


def _group_codes(rows: Any, keys: Sequence[str]) -> tuple[Any, list[tuple[Any, ...]]]:
    """The partition of each row as a place in a list of partitions; some of them may have no row."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as is_

    codes: Any = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    found: list[tuple[Any, ...]] = [()]
    for key in keys:
        place = rows.schema.get_field_index(key)
        column = pa.nulls(rows.num_rows, pa.string()) if place < 0 else rows.column(place)
        encoded = column if is_.is_dictionary(column.type) else column.dictionary_encode()
        values = [*encoded.dictionary.to_pylist(), None]
        own = encoded.indices.cast(pa.int64()).fill_null(len(values) - 1)
        codes = own if len(found) == 1 else pc.add(pc.multiply(codes, len(values)), own)
        used = None if len(found) * len(values) <= _MOST_CODES else codes.unique()
        places = range(len(found) * len(values)) if used is None else used.to_pylist()
        found = [(*found[code // len(values)], values[code % len(values)]) for code in places]
        codes = codes if used is None else pc.index_in(codes, used).cast(pa.int64())
    return codes, found


def _groups_of(path: str, keys: Sequence[str]) -> Counter[Group]:
    import pyarrow.parquet as pq

    found: Counter[Group] = Counter()
    with pq.ParquetFile(path) as file:
        held = file.schema_arrow.names
        there = [key for key in keys if key in held]  # a column that a file lacks is NULL
        if not there:
            return Counter({(None,) * len(keys): rows} if (rows := file.metadata.num_rows) else ())
        for batch in file.iter_batches(batch_size=_ROWS, columns=there):
            if batch.num_rows:
                codes, groups = _group_codes(batch, keys)
                for held_by in codes.value_counts().to_pylist():
                    found[tuple(map(group_text, groups[held_by["values"]]))] += held_by["counts"]
    return found


def _paths(dataset: Dataset) -> list[str]:
    return [f"{dataset.location}/{footer.path}" for footer in dataset.footers]


def _shares(dataset: Dataset, threads: int) -> list[list[tuple[str, int]]]:
    """Source files in their order, with their sizes."""
    sizes = [footer.bytes for footer in dataset.footers]
    return in_shares(list(zip(_paths(dataset), sizes, strict=True)), sizes, threads)
