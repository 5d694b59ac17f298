"""Rows of local Parquet files into files by partition, with pyarrow in the driver's threads: no Spark, no shuffle.

For partitions that can all be written at once. Each thread takes source files of its own, a batch in memory at a time.
What was written is compared with the sources row by row: the rows of a partition keep the order of their sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from neve.engine.parquet_tasks import (
    GROUP,
    Sink,
    WrittenFile,
    common_schema,
    fit,
    sorted_out,
    write_files,
)
from neve.errors import CheckFailed
from neve.plan.directories import Dataset, Group, group_text

_ROWS = 65_536


def columns_of(dataset: Dataset) -> Any | None:
    """The columns of all files; None where pyarrow would write a type that others cannot read: INT96 as nanoseconds."""
    import pyarrow.parquet as pq

    columns = common_schema([pq.read_schema(path) for path in _paths(dataset)])
    return None if any("[ns" in str(field.type) for field in columns) else columns


def find_groups(dataset: Dataset, keys: Sequence[str]) -> set[Group]:
    """The partitions that rows would make, from the key columns alone."""
    found: set[Group] = set()
    with ThreadPoolExecutor() as pool:
        for groups in pool.map(lambda path: _groups_of(path, keys), _paths(dataset)):
            found |= groups
    return found


def split_files(
    dataset: Dataset,
    columns: Any,
    keys: Sequence[str],
    sink: Sink,
    *,
    threads: int,
    groups: int,
    validate: bool,
    advance: Callable[[int], None],
) -> list[WrittenFile]:
    """Writes the rows into staged files of their partitions; `advance` hears of bytes as sources are done.

    Raises:
        CheckFailed: with `validate`, a file does not hold the rows that it should.
    """
    shares = _shares(dataset, threads)
    work = [
        _Share(paths=share, columns=columns, keys=tuple(keys), sink=replace(sink, open_groups=max(groups, 2)))
        for share in shares
    ]
    with ThreadPoolExecutor(threads) as pool:
        return list(chain.from_iterable(pool.map(lambda share: share.write(validate=validate, advance=advance), work)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The source files of one thread, in their order, with their sizes."""

    paths: Sequence[tuple[str, int]]
    columns: Any
    keys: tuple[str, ...]
    sink: Sink

    def write(self, *, validate: bool, advance: Callable[[int], None]) -> list[WrittenFile]:
        files = write_files(self._batches(advance), self.sink)
        if validate:
            self._check(files)
        return files

    def _batches(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Any]:
        import pyarrow.parquet as pq

        for path, size in self.paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=_ROWS):
                    rows = fit(batch, self.columns)
                    yield rows.append_column(GROUP, _group_column(rows, self.keys))
            advance(size)

    def _check(self, files: Sequence[WrittenFile]) -> None:
        """The sources once more, against what was written."""
        by_group: dict[str, list[str]] = {}
        for file in files:
            by_group.setdefault(file.group, []).append(file.address)
        held = {group: _Stream(addresses) for group, addresses in by_group.items()}
        for batch in self._batches():
            for group, rows in sorted_out(batch):
                if group not in held or not _same(rows, held[group].take(rows.num_rows)):
                    raise CheckFailed(
                        f"partition {group} does not hold the rows of its sources", hint="nothing was changed"
                    )
        if any(stream.take(1).num_rows for stream in held.values()):
            raise CheckFailed("a partition holds more rows than its sources", hint="nothing was changed")


class _Stream:
    """The rows of files one after the other, as many at a time as are wanted."""

    def __init__(self, addresses: Sequence[str]) -> None:
        import pyarrow as pa

        self._schema, self._batches = _reading(addresses)
        self._rest = pa.Table.from_batches([], self._schema)

    def take(self, count: int) -> Any:
        import pyarrow as pa

        parts, lacking = [self._rest], count - self._rest.num_rows
        while lacking > 0 and (batch := next(self._batches, None)) is not None:
            parts.append(pa.Table.from_batches([batch], self._schema))
            lacking -= batch.num_rows
        table = pa.concat_tables(parts)
        self._rest = table.slice(count)
        return table.slice(0, count)


def _reading(addresses: Sequence[str]) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    def read() -> Iterator[Any]:
        for address in addresses:
            with pq.ParquetFile(address) as file:
                for batch in file.iter_batches(batch_size=_ROWS):
                    yield batch.replace_schema_metadata(None)

    return pq.read_schema(addresses[0]).remove_metadata(), read()


def _same(rows: Any, table: Any) -> bool:
    """Value by value, NaN like NaN and −0.0 unlike 0.0: floats are compared by their bits."""
    if rows.num_rows != table.num_rows or rows.schema.names != table.schema.names:
        return False
    return all(
        _bits(one).equals(_bits(other.combine_chunks())) for one, other in zip(rows.columns, table.columns, strict=True)
    )


def _bits(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as is_

    if is_.is_float64(array.type):
        return array.view(pa.int64())
    if is_.is_float32(array.type):
        return array.view(pa.int32())
    if is_.is_nested(array.type):
        return pa.array([repr(value) for value in array.to_pylist()], pa.string())
    return array


def _group_column(rows: Any, keys: Sequence[str]) -> Any:
    """The partition of each row as JSON, in a dictionary: a text per partition, not per row."""
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
        both = pc.add(pc.multiply(codes, len(values)), own).dictionary_encode()
        found = [(*found[code // len(values)], values[code % len(values)]) for code in both.dictionary.to_pylist()]
        codes = both.indices.cast(pa.int64())
    texts = [json.dumps([*map(group_text, values)], ensure_ascii=False) for values in found]
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), pa.array(texts, pa.string()))


def _groups_of(path: str, keys: Sequence[str]) -> set[Group]:
    import pyarrow.parquet as pq

    found: set[Group] = set()
    held = pq.read_schema(path).names
    there = [key for key in keys if key in held]  # a column that a file lacks is NULL
    with pq.ParquetFile(path, read_dictionary=there) as file:
        if not there:
            return {(None,) * len(keys)} if file.metadata.num_rows else found
        for batch in file.iter_batches(batch_size=_ROWS, columns=there):
            found |= {tuple(json.loads(text)) for text in _group_column(batch, keys).dictionary.to_pylist()}
    return found


def _paths(dataset: Dataset) -> list[str]:
    return [f"{dataset.location}/{footer.path}" for footer in dataset.footers]


def _shares(dataset: Dataset, threads: int) -> list[list[tuple[str, int]]]:
    """Source files in their order, in as many shares of about the same size."""
    total = sum(footer.bytes for footer in dataset.footers)
    shares: list[list[tuple[str, int]]] = [[] for _ in range(threads)]
    before = 0
    for footer in dataset.footers:
        shares[min(threads - 1, before * threads // max(total, 1))].append(
            (f"{dataset.location}/{footer.path}", footer.bytes)
        )
        before += footer.bytes
    return [share for share in shares if share]
