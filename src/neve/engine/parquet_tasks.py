"""What Spark's Python workers do: write rows into Parquet files of our naming, a row group in memory at a time.

Spark's own writer names its files itself, so that other tools would see them before they count; it also knows no size
to write files to. Workers import this module, so it must stay light.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from neve.errors import Unsupported
from neve.files.encoding import repeating_columns
from neve.files.types import is_list

GROUP, HASH = "_neve_group", "_neve_hash"
RUN_KEY = "neve.run"
_BATCH = 65_536
_ARROW_KEY = "ARROW:schema"
_GROUP_BYTES = 128 * 1024 * 1024
_MASK = (1 << 64) - 1

Told = Mapping[str, str | None]
"""Values by column, as text: what a folder's name tells of files that lack its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where and how files are written. `file_bytes` is a size to begin a new file at; None for one file per group.

    `open_groups` is 1 when the rows of a group come together; else so many files are written at once by each task.
    """

    folder: str
    run_id: str
    compression: str
    row_group_rows: int = 1_000_000
    file_bytes: int | None = None
    open_groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A staged file. `group` says whose rows it holds, `digest` adds up the hashes of its rows, if they had any."""

    address: str
    group: str
    rows: int
    bytes: int
    digest: int


REPORT = f"address string, {GROUP} string, rows bigint, bytes bigint, digest bigint"


def write_batches(batches: Iterator[Any], sink: Sink) -> Iterator[Any]:
    """Writes rows into the files of their groups, in a Spark task; one report per file."""
    yield _as_batch(write_files(batches, sink))


def write_files(batches: Iterator[Any], sink: Sink) -> list[WrittenFile]:
    """Writes rows into the files of their groups. Rows of a group keep their order."""
    return write_parts(map(_runs if sink.open_groups == 1 else sorted_out, batches), sink)


def write_parts(parts: Iterator[Iterable[tuple[str, Any]]], sink: Sink) -> list[WrittenFile]:
    """The same for rows that come by group already: for each batch, the groups that it holds and their rows."""
    writers: dict[str, _Writer] = {}
    reports: list[WrittenFile] = []
    for part in parts:
        for group, rows in part:
            writer = writers.pop(group, None)
            if writer is None:
                if len(writers) == sink.open_groups:
                    reports += writers.pop(next(iter(writers))).close()  # the one that has waited longest
                writer = _Writer(sink)
            writers[group] = writer
            if rows.num_rows <= sink.row_group_rows:
                reports += writer.add((group, rows))
                continue
            for start in range(0, rows.num_rows, sink.row_group_rows):  # a file may be full within a batch
                reports += writer.add((group, rows.slice(start, sink.row_group_rows)))
        if sum(writer.waiting_bytes for writer in writers.values()) >= _GROUP_BYTES:
            max(writers.values(), key=lambda writer: writer.waiting_bytes).flush()
    for writer in writers.values():
        reports += writer.close()
    return reports


def merge_files(batches: Iterator[Any], sink: Sink) -> Iterator[Any]:
    """Reads lists of files with pyarrow, in their order, and writes each list as one file.

    A job's `files` are pairs: an address, and as text the values of columns that its folder tells for the file.
    """
    for batch in batches:
        for text in batch.column(0).to_pylist():
            job = json.loads(text)
            yield _as_batch(_merge(job["group"], job["files"], sink))


def _merge(group: str, files: Sequence[tuple[str, Told]], sink: Sink) -> list[WrittenFile]:
    import pyarrow.parquet as pq

    schema = common_schema([pq.read_schema(path) for path, _ in files])
    writer = _Writer(sink)
    reports = []
    for path, told in files:
        with opened(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                reports += writer.add((group, fit(batch, schema, told)))
    if not writer.is_open:
        writer.open(group, schema)
    return [*reports, *writer.close()]


def opened(path: str, **options: Any) -> Any:
    """A source file. INT96 comes in microseconds, as Spark reads it: nanoseconds would not reach the year 2263."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", **options)


class _Writer:
    """The file that is being written, and the rows that wait for its next row group."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._file: Any = None
        self._schema: Any = None
        self._stream: Any = None
        self._group = ""
        self._address = ""
        self._rows = self._digest = 0
        self._waiting: list[Any] = []
        self._waiting_rows = self.waiting_bytes = 0

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    def add(self, run: tuple[str, Any]) -> list[WrittenFile]:
        group, batch = run
        done = self.close() if self.is_open and group != self._group else []
        rows, hashes = _without_hash(batch)
        if not self.is_open:
            self.open(group, rows.schema)
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._digest = (self._digest + hashes) & _MASK
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        if self._waiting_rows >= self._sink.row_group_rows or self.waiting_bytes >= _GROUP_BYTES:
            self.flush()
        if self._sink.file_bytes is not None and self._stream.tell() >= self._sink.file_bytes:
            done += self.close()
        return done

    def open(self, group: str, schema: Any) -> None:
        import pyarrow as pa

        self._group, self._rows, self._digest = group, 0, 0
        self._address = os.path.join(self._sink.folder, f"{uuid.uuid4().hex}.staged")  # noqa: PTH118 - also S3
        self._stream = pa.OSFile(self._address, "wb")
        self._schema = schema.with_metadata({RUN_KEY: self._sink.run_id})

    def close(self) -> list[WrittenFile]:
        if not self.is_open:
            return []
        self.flush()
        if self._file is None:
            self._begin([])
        self._file.close()
        size = self._stream.tell()
        self._stream.close()
        self._file = self._stream = None
        return [
            WrittenFile(
                address=self._address, group=self._group, rows=self._rows, bytes=size, digest=signed(self._digest)
            )
        ]

    def flush(self) -> None:
        """Writes what waits, as row groups."""
        import pyarrow as pa

        if self._waiting:
            table = pa.Table.from_batches(self._waiting).replace_schema_metadata({RUN_KEY: self._sink.run_id})
            table = _own_dictionaries(table)
            self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0
            if self._file is None:
                self._begin(repeating_columns(table))
            for start in range(0, table.num_rows, self._sink.row_group_rows):
                part = table.slice(start, self._sink.row_group_rows)
                self._file.write_table(part, row_group_size=max(1, part.num_rows))

    def _begin(self, repeating: list[str]) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetWriter(
            self._stream,
            self._schema,
            compression=self._sink.compression,
            use_dictionary=repeating,
            store_schema=False,
            write_batch_size=_BATCH,
        )
        plain = plain_schema(self._schema)  # that columns came as dictionaries is nothing for readers to know
        pairs = {_ARROW_KEY: base64.b64encode(plain.serialize().to_pybytes()), RUN_KEY: self._sink.run_id}
        self._file.add_key_value_metadata(pairs)


def _runs(batch: Any) -> Iterator[tuple[str, Any]]:
    """The batch cut where the group changes, without the group's column."""
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    place = batch.schema.get_field_index(GROUP)
    groups = batch.column(place)
    rows = batch.select([name for name in batch.schema.names if name != GROUP])
    changes = pc.indices_nonzero(pc.not_equal(groups.slice(1), groups.slice(0, batch.num_rows - 1))).to_pylist()
    starts = [0, *(change + 1 for change in changes)]
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield groups[start].as_py(), rows.slice(start, end - start)


def sorted_out(batch: Any) -> Iterator[tuple[str, Any]]:
    """The rows of each group of a batch, copied: a slice would hold on to the rows of all."""
    place = batch.schema.get_field_index(GROUP)
    rows = batch.select([name for name in batch.schema.names if name != GROUP])
    groups = batch.column(place).dictionary_encode()
    names = groups.dictionary.to_pylist()
    for code, part in taken_apart(rows, groups.indices):
        yield names[code], part


def taken_apart(rows: Any, codes: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each code, in their order. Rows are copied, none is held."""
    import pyarrow.compute as pc

    counts = sorted((count["values"], count["counts"]) for count in pc.value_counts(codes).to_pylist())
    order = None if len(counts) == 1 else pc.array_sort_indices(codes)  # stable
    start = 0
    for code, count in counts:
        yield code, rows if order is None else rows.take(order.slice(start, count))
        start += count


def _own_dictionaries(table: Any) -> Any:
    """One dictionary for each column that has some, and nothing in it that no row holds."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as is_

    table = table.unify_dictionaries()
    for place, column in enumerate(table.columns):
        if not is_.is_dictionary(column.type):
            continue
        dictionary = column.chunk(0).dictionary
        codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
        used = None if len(dictionary) == 1 else codes.unique().drop_null().sort()
        if used is not None and len(used) < len(dictionary):
            held = dictionary.take(used)
            constant = len(used) == 1 and not codes.null_count
            places = [pa.repeat(pa.scalar(0, pa.int32()), len(codes))] if constant else pc.index_in(codes, used).chunks
            new = [pa.DictionaryArray.from_arrays(chunk, held) for chunk in places]
            table = table.set_column(place, table.field(place), pa.chunked_array(new, column.type))
    return table


def _without_hash(batch: Any) -> tuple[Any, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if HASH not in batch.schema.names:
        return batch, 0
    hashes = pc.sum(batch.column(HASH).view(pa.uint64())).as_py() or 0  # modulo 2⁶⁴
    return batch.select([name for name in batch.schema.names if name != HASH]), int(hashes)


def common_schema(schemas: Sequence[Any]) -> Any:
    """The columns of all files, numbers as wide as the widest; the planner has seen that nothing else differs.

    Raises:
        Unsupported: pyarrow cannot put them together.
    """
    import pyarrow as pa

    plain = [plain_schema(schema) for schema in schemas]
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as exc:
        raise Unsupported(
            f"the files cannot be put together: {str(exc).splitlines()[0]}", hint="write them with the same types"
        ) from exc


def plain_schema(schema: Any) -> Any:
    """Without what columns came as: dictionaries, views, time zones, and the metadata of whoever wrote them."""
    import pyarrow as pa

    return pa.schema([_plain(field) for field in schema.remove_metadata()])


def _plain(field: Any) -> Any:
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: Any) -> Any:
    """The one type of pyarrow's for a column of Parquet. Nanoseconds are INT96, which are instants to Spark."""
    import pyarrow as pa
    import pyarrow.types as is_

    if is_.is_struct(kind):
        return pa.struct([_plain(inner) for inner in kind])
    if is_.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field))
    if is_list(kind):
        return pa.list_(_plain(kind.value_field))
    if is_.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if is_.is_timestamp(kind):
        return pa.timestamp("us", "UTC") if kind.tz or kind.unit == "ns" else kind
    if is_.is_large_string(kind) or is_.is_string_view(kind):
        return pa.string()
    if is_.is_large_binary(kind) or is_.is_binary_view(kind):
        return pa.binary()
    if is_.is_date64(kind):
        return pa.date32()
    return pa.int64() if is_.is_duration(kind) else kind


def fit(batch: Any, schema: Any, told: Told = MappingProxyType({})) -> Any:
    """The batch with these columns. One that it lacks has the value that is told, or is NULL."""
    import pyarrow as pa

    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        column = _repeated(told.get(field.name), field.type, batch.num_rows) if place < 0 else batch.column(place)
        columns.append(column if column.type == field.type else _cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _repeated(text: str | None, kind: Any, rows: int) -> Any:
    import pyarrow as pa

    return pa.nulls(rows, kind) if text is None else pa.repeat(pa.scalar(text).cast(kind), rows)


def _cast(column: Any, kind: Any) -> Any:
    """pyarrow casts from dictionaries, but to none."""
    import pyarrow as pa
    import pyarrow.types as is_

    if not is_.is_dictionary(kind):
        return column.cast(kind)
    encoded = column if is_.is_dictionary(column.type) else column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices.cast(kind.index_type), encoded.dictionary.cast(kind.value_type)
    )


def signed(number: int) -> int:
    """A sum as 64 bits with a sign hold it."""
    number &= _MASK
    return number - (1 << 64) if number >= 1 << 63 else number


def _as_batch(reports: Sequence[WrittenFile]) -> Any:
    import pyarrow as pa

    columns = {
        "address": (pa.string(), [report.address for report in reports]),
        GROUP: (pa.string(), [report.group for report in reports]),
        "rows": (pa.int64(), [report.rows for report in reports]),
        "bytes": (pa.int64(), [report.bytes for report in reports]),
        "digest": (pa.int64(), [report.digest for report in reports]),
    }
    arrays = [pa.array(values, kind) for kind, values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
