"""Parquet files for the tests of row-group copy: every kind of column, written in every way there is."""

from __future__ import annotations

import datetime as dt
import random
import string
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from neve.files.copier import LocalSource, LocalTarget, copy, inspect, verify
from neve.files.copier.footer import read_footer
from neve.files.copier.thrift import Struct, write_struct
from neve.files.copier.words import MAGIC, TAIL, Chunk, File, Group
from neve.model.copying import CopyOptions, CopyResult, FileShape

EPOCH = dt.datetime(2020, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
NESTED = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "flag": (pa.bool_(), lambda r: r.random() < 0.5),
    "small": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "unsigned": (pa.uint32(), lambda r: r.randrange(2**32)),
    "number": (pa.int32(), lambda r: r.randrange(-(2**31), 2**31)),
    "large": (pa.int64(), lambda r: r.randrange(-(2**63), 2**63)),
    "single": (pa.float32(), lambda r: float(r.randrange(-1000, 1000)) / 8),
    "double": (pa.float64(), lambda r: r.choice([r.uniform(-1e9, 1e9), 0.0, -0.0])),
    "text": (pa.string(), lambda r: "".join(r.choices(string.printable + "éλ😀", k=r.randrange(12)))),
    "blob": (pa.binary(), lambda r: r.randbytes(r.randrange(40))),
    "fixed": (pa.binary(16), lambda r: r.randbytes(16)),
    "money": (pa.decimal128(9, 2), lambda r: Decimal(r.randrange(-(10**9) + 1, 10**9)) / 100),
    "wide": (pa.decimal128(38, 10), lambda r: Decimal(r.randrange(-(10**20), 10**20)) / 10**10),
    "day": (pa.date32(), lambda r: (EPOCH + dt.timedelta(days=r.randrange(-9000, 9000))).date()),
    "at": (pa.timestamp("us"), lambda r: EPOCH + dt.timedelta(microseconds=r.randrange(10**15))),
    "at_utc": (
        pa.timestamp("us", "UTC"),
        lambda r: EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=r.randrange(9)),
    ),
    "id": (pa.binary(16), lambda r: UUID(int=r.getrandbits(128)).bytes),
    "list": (pa.list_(pa.int64()), lambda r: [r.choice([None, r.randrange(9)]) for _ in range(r.randrange(4))]),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        lambda r: [(f"k{n}", r.choice([None, n])) for n in range(r.randrange(3))],
    ),
    "struct": (NESTED, lambda r: {"x": r.choice([None, 1]), "tags": r.choice([None, [], ["a", None]])}),
    "deep": (pa.list_(pa.list_(NESTED)), lambda r: [[], None, [{"x": 1, "tags": ["b"]}, None]][: r.randrange(4)]),
}
DELTA = {"number": "DELTA_BINARY_PACKED", "large": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}
SPLIT = {"single": "BYTE_STREAM_SPLIT", "double": "BYTE_STREAM_SPLIT", "number": "BYTE_STREAM_SPLIT"}


def make_table(
    seed: int, rows: int, kinds: Sequence[str] = tuple(KINDS), *, nulls: float = 0.1, ids: bool = False
) -> pa.Table:
    """Random rows of the kinds named; with `ids`, every column and all below it carry field ids."""
    rng = random.Random(seed)
    numbers = iter(range(1, 1000))
    fields, columns = [], []
    for name in kinds:
        kind, value = KINDS[name]
        fields.append(
            _numbered(pa.field(name, kind, nullable=nulls > 0), numbers)
            if ids
            else pa.field(name, kind, nullable=nulls > 0)
        )
        values = [None if rng.random() < nulls else value(rng) for _ in range(rows)]
        columns.append(pa.array(values, fields[-1].type))
    return pa.table(columns, schema=pa.schema(fields))


def _numbered(field: pa.Field, numbers: Any) -> pa.Field:
    metadata = {"PARQUET:field_id": str(next(numbers))}
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_numbered(inner, numbers) for inner in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_numbered(kind.key_field, numbers), _numbered(kind.item_field, numbers))
    elif pa.types.is_list(kind):
        kind = pa.list_(_numbered(kind.value_field, numbers))
    return pa.field(field.name, kind, field.nullable, metadata)


def write_all(folder: Path, tables: Sequence[pa.Table], **how: Any) -> list[Path]:
    files = [folder / f"{number:03}.parquet" for number in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        pq.write_table(table, file, **how)
    return files


def copied(files: Sequence[Path], out: Path, **how: Any) -> CopyResult:
    """Copies local files, and checks the output against them by everything but its rows."""
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(file)) for file in files]
        with LocalTarget(out) as target:
            result = copy(sources, target, **how)
        assert result.bytes == out.stat().st_size
        added = [extra.field_id for extra in how.get("extra_columns", ())]
        assert verify(sources, stack.enter_context(LocalSource(out)), depth="pages", without=added) is None
    return result


def shape_of(file: Path) -> FileShape:
    with LocalSource(file) as source:
        return inspect(source)


def by_duckdb(*files: Path) -> pa.Table:
    """What DuckDB reads from files, one after the other."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return pa.concat_tables([connection.sql(f"FROM read_parquet('{file}')").to_arrow_table() for file in files])


def options(**how: Any) -> CopyOptions:
    return CopyOptions(**how)


def rewritten(file: Path, change: Callable[[Struct], None]) -> Path:
    """The file with another footer, as a writer of our own wish would have written it."""
    with LocalSource(file) as source:
        tree = read_footer(source).tree
    assert tree is not None
    data = file.read_bytes()
    body = data[: -TAIL - int.from_bytes(data[-TAIL:-4], "little")]
    change(tree)
    footer = write_struct(tree)
    out = file.with_suffix(f".{len(list(file.parent.iterdir()))}.parquet")
    out.write_bytes(body + footer + len(footer).to_bytes(4, "little") + MAGIC)
    return out


def first_chunk(tree: Struct) -> Struct:
    return tree.structs(File.ROW_GROUPS)[0].structs(Group.COLUMNS)[0]


def first_column(tree: Struct) -> Struct:
    column = first_chunk(tree).struct(Chunk.COLUMN)
    assert column is not None
    return column
