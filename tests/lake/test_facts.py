"""Facts read by hand from metadata and manifests, against PyIceberg's own reading of the same tables."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, ListType, MapType, PrimitiveType, StructType
from tests.lake.lakes import V2, append_files, facts, make

from neve.catalog.facts import partition_text
from neve.lake import Lake
from neve.model.facts import partition_label
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type
from neve.services.specs import alterations_from_words

TRANSFORMS = {
    "d": ("identity", "year", "month", "day", "bucket[7]", "void"),
    "ts": ("identity", "year", "month", "day", "hour", "bucket[3]", "void"),
    "tz": ("identity", "month", "hour"),
    "i": ("identity", "bucket[5]", "truncate[10]", "void"),
    "l": ("identity", "bucket[2]", "truncate[100]"),
    "s": ("identity", "bucket[4]", "truncate[2]", "void"),
    "b": ("identity", "bucket[4]", "truncate[1]"),
    "n": ("identity", "bucket[4]", "truncate[50]"),
    "o": ("identity",),
    "st.x": ("identity", "bucket[3]"),
}
COLUMNS = (
    "d date, ts timestamp_ntz, tz timestamp, i int, l bigint, s string, b binary, n decimal(9,2), o boolean, "
    "st struct<x:int,y:struct<z:array<map<string,int>>>>"
)


def plain(kind: IcebergType) -> Type:
    """PyIceberg's type as ours."""
    match kind:
        case StructType():
            return Struct(tuple(Field(f.name, plain(f.field_type), f.required, f.doc) for f in kind.fields))
        case ListType():
            return ListOf(plain(kind.element_type), kind.element_required)
        case MapType():
            return MapOf(plain(kind.key_type), plain(kind.value_type), kind.value_required)
        case PrimitiveType():
            return Primitive(str(kind))
        case _:
            raise AssertionError(kind)


def check_against_pyiceberg(lake: Lake, name: str = "t") -> None:
    found = facts(lake, name)
    theirs = StaticTable.from_metadata(found.metadata_location)
    metadata = theirs.metadata
    assert found.uuid == str(metadata.table_uuid)
    assert found.location == metadata.location
    assert found.format_version == metadata.format_version
    assert found.updated_at == datetime.fromtimestamp(metadata.last_updated_ms / 1000, UTC)
    assert dict(found.properties) == dict(metadata.properties)
    assert Struct(found.columns) == plain(theirs.schema().as_struct())
    assert [(item.column, item.function) for item in found.partition_by] == [
        (theirs.schema().find_column_name(field.source_id), str(field.transform))
        for field in theirs.spec().fields
        if str(field.transform) != "void"
    ]
    assert [(item.term.column, item.descending) for item in found.sort_by] == [
        (theirs.schema().find_column_name(field.source_id), "desc" in str(field.direction).lower())
        for field in theirs.sort_order().fields
    ]
    assert [(s.id, s.parent_id, s.sequence_number) for s in found.snapshots] == [
        (s.snapshot_id, s.parent_snapshot_id, s.sequence_number) for s in metadata.snapshots
    ]
    assert found.current_snapshot_id == metadata.current_snapshot_id
    assert {r.name: r.snapshot_id for r in found.references} == {
        name: ref.snapshot_id for name, ref in metadata.refs.items()
    }
    check_files(lake, name, theirs)


def check_files(lake: Lake, name: str, theirs: StaticTable) -> None:
    ours = lake._context.catalog.live_files(facts(lake, name))
    if theirs.current_snapshot() is None:
        assert ours == []
        return
    files = theirs.inspect.files().to_pylist()
    assert Counter((f.path, f.rows, f.bytes) for f in ours) == Counter(
        (f["file_path"], f["record_count"], f["file_size_in_bytes"]) for f in files
    )
    labels = {}
    for manifest in theirs.current_snapshot().manifests(theirs.io):  # type: ignore[union-attr]
        spec = theirs.specs()[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(theirs.io):
            texts = {
                field.name: their_text(theirs, field.source_id, str(field.transform), entry.data_file.partition[index])
                for index, field in enumerate(spec.fields)
            }
            labels[entry.data_file.file_path] = texts
    assert {file.path: dict(file.partition) for file in ours} == labels
    rows = lake.table(name).partitions()
    assert sum(row.rows for row in rows) == sum(f["record_count"] for f in files)
    assert {row.partition for row in rows} == {partition_label(texts) for texts in labels.values()}


def their_text(table: StaticTable, source: int, transform: str, value: object) -> str | None:
    """A partition value in PyIceberg's words, where those are the same as ours."""
    if value is None:
        return None
    kind = table.schema().find_field(source).field_type
    if transform in ("year", "month", "day", "hour") or (transform == "identity" and "date" in str(kind)):
        return parse_transform(transform).to_human_string(kind, value)
    if transform == "identity" and str(kind).startswith("timestamp"):
        assert isinstance(value, int)
        text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).isoformat()
        return text if str(kind) == "timestamptz" else text.removesuffix("+00:00")
    return None if transform == "void" else partition_text(transform, value)


def raw_value(generator: random.Random, column: str, transform: str) -> object:
    if transform == "void" or generator.random() < 0.15:
        return None
    name = transform.partition("[")[0]
    if name == "bucket":
        return generator.randrange(int(transform[7:-1]))
    if name in ("year", "month", "day", "hour"):
        return generator.randrange({"year": 50, "month": 600, "day": 20000, "hour": 480000}[name])
    values: dict[str, object] = {
        "d": generator.randrange(20000),
        "ts": generator.randrange(10**15),
        "tz": generator.randrange(10**15),
        "i": generator.randrange(-50, 50) * 10,
        "l": generator.randrange(10**12) * 100,
        "s": generator.choice(["", "a", "é/=x", "数据", "null"]),
        "b": generator.randbytes(2),
        "o": generator.random() < 0.5,
        "st.x": generator.randrange(9),
    }
    return Decimal(generator.randrange(-999, 999)).scaleb(-2) if column == "n" else values[column]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.slow
def test_random_tables(lake: Lake, seed: int) -> None:
    generator = random.Random(seed)
    chosen = [
        (column, generator.choice(kinds))
        for column, kinds in generator.sample(sorted(TRANSFORMS.items()), generator.randrange(5))
    ]
    lake.tables.create(
        "t", COLUMNS, partition_by=[spelled(*item) for item in chosen], sort_by=["i desc", "s"], properties=V2
    )
    check_against_pyiceberg(lake)
    for _ in range(generator.randrange(1, 4)):
        table = lake._context.catalog._backend.open_table(lake.table("t").name)
        fields = table.spec().fields
        sources = {field.name: table.schema().find_column_name(field.source_id) or "" for field in fields}
        parts = [
            {
                field.name: raw_value(generator, renamed_back(sources[field.name]), str(field.transform))
                for field in fields
            }
            for _ in range(generator.randrange(1, 6))
        ]
        append_files(lake, "t", parts, rows=generator.randrange(1, 100))
        evolve(lake, generator)
        check_against_pyiceberg(lake)


@pytest.mark.parametrize("column", TRANSFORMS)
@pytest.mark.slow
def test_every_transform(lake: Lake, column: str) -> None:
    generator = random.Random(column)
    for number, transform in enumerate(TRANSFORMS[column]):
        name = f"t{number}"
        lake.tables.create(name, COLUMNS, partition_by=[spelled(column, transform)], properties=V2)
        (field,) = lake._context.catalog._backend.open_table(lake.table(name).name).spec().fields
        append_files(lake, name, [{field.name: raw_value(generator, column, transform)} for _ in range(4)])
        check_against_pyiceberg(lake, name)


def spelled(column: str, function: str) -> str:
    name, _, size = function.rstrip("]").partition("[")
    return f"{name}({size}, {column})" if size else f"{name}({column})"


def renamed_back(column: str) -> str:
    return column.removeprefix("r_")


def evolve(lake: Lake, generator: random.Random) -> None:
    """Renames, adds, drops, and lays out anew."""
    columns = {column.name for column in facts(lake, "t").columns}
    changes: dict[str, object] = {"add": [f"x{generator.randrange(10**6)} int"]}
    renameable = [column for column in ("d", "i", "s", "l") if column in columns]
    if renameable and generator.random() < 0.6:
        column = generator.choice(renameable)
        changes["rename"] = {column: f"r_{column}"}
    elif generator.random() < 0.5:
        current = [column for column in ("o", "b", "tz") if column in columns]
        changes["partition_by"] = [generator.choice(current)] if current else [""]
    lake.table("t").alter(alterations_from_words(**changes))  # type: ignore[arg-type]
    extra = [column.name for column in facts(lake, "t").columns if column.name.startswith("x")]
    if len(extra) > 1:
        lake.table("t").alter(alterations_from_words(drop=[extra[0]]))


def test_metadata_that_is_packed(lake: Lake) -> None:
    make(lake, rows=3)
    found = facts(lake, "t")
    packed = Path(found.metadata_location).with_name("00007-x.gz.metadata.json")
    packed.write_bytes(gzip.compress(Path(found.metadata_location).read_bytes()))
    again = lake._context.catalog.facts_at(found.name, str(packed))
    assert again.columns == found.columns
    assert again.current == found.current
    assert lake._context.catalog.live_files(again) == lake._context.catalog.live_files(found)


def test_real_rows_are_counted(lake: Lake) -> None:
    make(lake, rows=7)
    check_against_pyiceberg(lake)
    assert lake.table("t").show().rows == 7


@pytest.mark.parametrize(
    ("transform", "value", "text"),
    [
        ("year", 0, "1970"),
        ("year", -1, "1969"),
        ("month", -1, "1969-12"),
        ("month", 0, "1970-01"),
        ("day", -1, "1969-12-31"),
        ("hour", -1, "1969-12-31-23"),
        ("identity", b"\x00\xff", "00ff"),
        ("identity", "a/b=c", "a/b=c"),
        ("bucket[4]", 3, "3"),
        ("void", None, None),
    ],
)
def test_partition_values_in_words(transform: str, value: object, text: str | None) -> None:
    assert partition_text(transform, value) == text
