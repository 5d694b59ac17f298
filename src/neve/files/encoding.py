"""Small Parquet files into one by decoding and encoding them: for row groups that are too small to be copied.

Each new row group is encoded by itself, in memory, so that all cores work on one output; then row groups are copied
into it. Nothing is known here of a table but what the files say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from neve.files.copier import Lineage, MemorySource, Source, Target, copy, inspect, lineage_columns
from neve.files.copier.extra import Held, RowGroupAt
from neve.files.copier.lineage import ROW_ID, SEQUENCE
from neve.model.copying import CopyOptions, CopyResult, Element, FileShape

LINEAGE = (ROW_ID, SEQUENCE)
_SAMPLE = 4096
_MOST_UNPACKED = 128 << 20
_NOT_REPEATING = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How row groups are written: the codec as pyarrow names it, and the bytes of one, packed, as Iceberg counts."""

    codec: str
    level: int | None
    row_group_bytes: int


Open = Callable[[], Source]


@dataclass(frozen=True, slots=True)
class Piece:
    """Files that become one row group, and the place of the first among all. They are opened when their turn comes."""

    first: int
    sources: tuple[Open, ...]


def encode(
    files: Sequence[tuple[Open, FileShape]],
    target: Target,
    *,
    lineage: Sequence[Lineage] | None,
    encoding: Encoding,
    options: CopyOptions,
    pool: Executor,
) -> CopyResult:
    """Writes the files' rows to the target, in order. One output is held in memory.

    All have the same columns, but that some may be required in one and not in another.
    """
    pieces = list(_pieces(files, encoding.row_group_bytes))
    first, one = files[0]
    schema = None if all(shape.elements == one.elements for _, shape in files) else _nullable_schema(first)
    work = partial(_encode, lineage=lineage, encoding=encoding, schema=schema)
    return copy(list(pool.map(work, pieces)), target, options=options)


def _nullable_schema(file: Open) -> Any:
    """The columns of all, none of them required. Lineage comes later."""
    import pyarrow as pa

    return pa.schema([_nullable(field) for field in _read(file).schema if field.name not in LINEAGE])


def _nullable(field: Any) -> Any:
    """A column that may be NULL, and so may all that lies within it, but for keys."""
    import pyarrow as pa
    import pyarrow.types as is_

    kind = field.type
    if is_.is_struct(kind):
        kind = pa.struct([_nullable(inner) for inner in kind])
    elif is_.is_map(kind):
        kind = pa.map_(kind.key_field, _nullable(kind.item_field))
    elif is_.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def can_encode(source: Source, shape: FileShape, encoding: Encoding) -> bool:
    """Whether pyarrow would write the very same columns: types, names, field ids and what may be NULL."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.arrow()) as file:
        again = inspect(_written("again", file.schema_arrow.empty_table(), encoding))
    return _columns(again) == _columns(shape)


def _columns(shape: FileShape) -> tuple[Element, ...]:
    """The root of the schema has a name that says nothing."""
    return shape.elements[1:] if shape.elements and shape.elements[0].physical is None else shape.elements


def _pieces(files: Sequence[tuple[Open, FileShape]], row_group_bytes: int) -> Iterator[Piece]:
    """Files for one row group each; rows that pack well make a smaller one, as they are all in memory unpacked."""
    held: list[Open] = []
    most_unpacked = max(row_group_bytes, _MOST_UNPACKED)
    first = packed = unpacked = 0
    for number, (source, shape) in enumerate(files):
        packed, unpacked = packed + shape.data_bytes, unpacked + shape.unpacked_bytes
        if held and (packed > row_group_bytes or unpacked > most_unpacked):
            yield Piece(first, tuple(held))
            held, first, packed, unpacked = [], number, shape.data_bytes, shape.unpacked_bytes
        held.append(source)
    if held:
        yield Piece(first, tuple(held))


def _encode(piece: Piece, *, schema: Any, lineage: Sequence[Lineage] | None, encoding: Encoding) -> MemorySource:
    import pyarrow as pa

    held = [_read(source) for source in piece.sources]
    names = [name for name in held[0].schema.names if name not in LINEAGE]
    plain = all(table.schema.names == names for table in held)
    own = held if plain else [table.select(names) for table in held]
    table = pa.concat_tables(own if schema is None else [part.cast(schema) for part in own])
    if lineage is not None:
        lines = lineage[piece.first : piece.first + len(held)]
        for name, column in _lineage(held, lines).items():
            table = table.append_column(name, column)
    return _written(f"row group from file {piece.first}", table, encoding, sample=held[0])


def _read(file: Open) -> Any:
    """A small file comes in one read; pyarrow would ask for each column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with closing(file()) as source:
        content = pa.BufferReader(source.read_at(0, source.size))
    with pq.ParquetFile(content, pre_buffer=False) as parquet:
        return parquet.read(use_threads=False)


def _lineage(held: Sequence[Any], lines: Sequence[Lineage]) -> dict[Any, Any]:
    """The lineage columns of some files together, with a value for every row."""
    import pyarrow as pa

    found = {}
    for extra in lineage_columns(lines):
        parts: list[Any] = []
        for number, table in enumerate(held):
            own = _held(table, extra.name)
            values = extra.values(RowGroupAt(number, 0, 0, table.num_rows, own))
            parts.append(own.read() if values is None and own is not None else values)
        found[extra.field] = pa.chunked_array(parts, type=extra.kind)
    return found


def _held(table: Any, name: str) -> Held | None:
    if name not in table.schema.names:
        return None
    column = table.column(name)
    return Held(column.null_count, column.combine_chunks)


def _written(name: str, table: Any, encoding: Encoding, *, sample: Any = None) -> MemorySource:
    """`sample` are some of the rows, by which it is told whose values repeat."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(None),
        sink,
        row_group_size=max(table.num_rows, 1),
        compression=encoding.codec,
        compression_level=encoding.level,
        use_dictionary=True if sample is None else [*repeating_columns(sample), SEQUENCE],
        store_schema=False,
        store_decimal_as_integer=True,
        write_page_index=True,
    )
    return MemorySource(name, sink.getvalue())


def repeating_columns(table: Any) -> list[str]:
    """The columns whose values repeat. For others a dictionary is most of the work of writing, and then given up."""
    sample = table.take(list(range(0, table.num_rows, max(1, table.num_rows // _SAMPLE))))
    found = []
    for field, column in zip(sample.schema, sample.columns, strict=True):
        leaves = _leaves(field.name, field.type)
        if leaves != [field.name] or len(column.unique()) <= sample.num_rows * _NOT_REPEATING:
            found += leaves
    return found


def _leaves(path: str, kind: Any) -> list[str]:
    """A column as Parquet names its leaves."""
    import pyarrow.types as is_

    if is_.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if is_.is_map(kind):
        return [
            *_leaves(f"{path}.key_value.key", kind.key_type),
            *_leaves(f"{path}.key_value.value", kind.item_type),
        ]
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [path]
