"""What must not be copied is refused, with a reason that names the file; what only looks different is not."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from tests.unit.copier_files import copied, first_chunk, first_column, make_table, rewritten, shape_of, write_all

from neve.errors import AlreadyExists, InvalidInput, NeveError, NotFound, Unsupported
from neve.files.copier import LocalSource, LocalTarget, MemorySource, copy, inspect, verify
from neve.files.copier.thrift import BINARY, I32, I64, Struct
from neve.files.copier.words import TAIL, Chunk, Column, File, Group
from neve.plan.copying import can_copy


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_all(tmp_path, [make_table(1, 60, ("number", "text", "day"))], row_group_size=20)[0]


class Keys(pe.KmsClient):  # type: ignore[misc] # pyarrow has no types
    """Wraps keys by doing nothing to them."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plain_footer", [False, True])
def test_encrypted_files(tmp_path: Path, *, plain_footer: bool) -> None:
    table = make_table(1, 30, ("number", "text"))
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["text"]}, plaintext_footer=plain_footer
    )
    factory = pe.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    shape = shape_of(tmp_path / "a.parquet")
    assert shape.encrypted
    assert shape.problem is not None
    assert shape.problem.code == "encrypted"
    with pytest.raises(Unsupported, match=r"a\.parquet: its (footer is|columns are) encrypted"):
        copied([tmp_path / "a.parquet"], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "not_parquet"),
        (b"PAR1", "not_parquet"),
        (b"id,name\n1,a\n2,b\n", "not_parquet"),
        (b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1", "corrupt"),
        (b"PAR1" + b"\x15\x04\x00" + b"\x03\x00\x00\x00PAR1", "corrupt"),
        (b"PAR1" + bytes(100) + b"\x10\x00\x00\x00PARE", "encrypted"),
    ],
)
def test_no_parquet_file(data: bytes, code: str) -> None:
    shape = inspect(MemorySource("x.parquet", data))
    assert shape.problem is not None
    assert shape.problem.code == code
    assert shape.problem.detail.startswith("x.parquet: ")


def test_a_missing_file_and_an_existing_target(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        LocalSource(tmp_path / "none")
    (tmp_path / "there").write_text("kept")
    with pytest.raises(AlreadyExists):
        LocalTarget(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "kept"
    with LocalTarget(tmp_path / "out") as target, pytest.raises(InvalidInput, match="at least one file"):
        copy([], target)


def test_every_truncation_is_seen(file: Path) -> None:
    data = file.read_bytes()
    for length in range(0, len(data), 7):
        shape = inspect(MemorySource("cut", data[:length]))
        assert shape.problem is not None, length


DAMAGES: dict[str, tuple[str, Callable[[Struct], None]]] = {
    "rows": ("corrupt", lambda tree: tree.put(File.ROWS, I64, 61)),
    "version": ("unknown_version", lambda tree: tree.put(File.VERSION, I32, 3)),
    "file field": ("unknown_field", lambda tree: tree.put(32_767, BINARY, b"x")),
    "group field": ("unknown_field", lambda tree: tree.structs(File.ROW_GROUPS)[0].put(8, I64, 4)),
    "chunk field": ("unknown_field", lambda tree: first_chunk(tree).put(10, I64, 4)),
    "column field": ("unknown_field", lambda tree: first_column(tree).put(18, I64, 4)),
    "codec": ("unknown_codec", lambda tree: first_column(tree).put(Column.CODEC, I32, 8)),
    "external": ("external_columns", lambda tree: first_chunk(tree).put(Chunk.FILE_PATH, BINARY, b"b.parquet")),
    "negative place": ("corrupt", lambda tree: first_column(tree).put(Column.DATA_PAGE, I64, -5)),
    "far place": ("corrupt", lambda tree: first_column(tree).put(Column.COMPRESSED, I64, 1 << 40)),
    "no bytes": ("corrupt", lambda tree: first_column(tree).put(Column.COMPRESSED, I64, 0)),
    "values": ("corrupt", lambda tree: first_column(tree).put(Column.VALUES, I64, 19)),
    "type": ("corrupt", lambda tree: first_column(tree).put(Column.TYPE, I32, 6)),
    "kind of a field": ("corrupt", lambda tree: first_column(tree).put(Column.TYPE, BINARY, b"6")),
    "dictionary": ("corrupt", lambda tree: first_column(tree).put(Column.DICTIONARY_PAGE, I64, 1 << 20)),
    "columns": ("corrupt", lambda tree: tree.structs(File.ROW_GROUPS)[0].put_structs(Group.COLUMNS, [])),
    "orders": ("corrupt", lambda tree: tree.put_structs(File.COLUMN_ORDERS, [])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_footers_that_do_not_add_up(file: Path, damage: str) -> None:
    code, change = DAMAGES[damage]
    shape = shape_of(rewritten(file, change))
    assert shape.problem is not None
    assert shape.problem.code == code


def test_two_columns_in_one_place(file: Path) -> None:
    def change(tree: Struct) -> None:
        one, other, _ = tree.structs(File.ROW_GROUPS)[0].structs(Group.COLUMNS)
        first, second = one.struct(Chunk.COLUMN), other.struct(Chunk.COLUMN)
        assert first is not None
        assert second is not None
        first.put(Column.COMPRESSED, I64, first.number(Column.COMPRESSED) + 1)

    shape = shape_of(rewritten(file, change))
    assert shape.problem is not None
    assert "same place" in shape.problem.detail


def test_a_metadata_file_of_a_dataset(tmp_path: Path, file: Path) -> None:
    metadata = pq.read_metadata(file)
    metadata.set_file_path("000.parquet")
    metadata.write_metadata_file(tmp_path / "_metadata")
    problem = shape_of(tmp_path / "_metadata").problem
    assert problem is not None
    assert problem.code == "external_columns"


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_footer_never_makes_a_plausible_file(tmp_path: Path, file: Path, seed: int) -> None:
    """Flip bytes of the footer: refused, or the output reads as the damaged file does, or as it did before."""
    rng, data = random.Random(seed), file.read_bytes()
    start = len(data) - TAIL - int.from_bytes(data[-TAIL:-4], "little")
    refused = 0
    for number in range(60):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            damaged[rng.randrange(start, len(data))] = rng.randrange(256)
        source, out = MemorySource("damaged", bytes(damaged)), tmp_path / f"{number}.out"
        try:
            with LocalTarget(out) as target:
                copy([source], target)
        except NeveError:
            refused += 1
            continue
        assert _read(out.read_bytes()) in (_read(bytes(damaged)), _read(data))
    assert refused > 20


def _read(data: bytes) -> str:
    try:
        return repr(pq.ParquetFile(pa.BufferReader(data)).read().to_pylist())
    except (OSError, ValueError, pa.ArrowException):
        return "unreadable"


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"k": pa.int32()}, {"k": pa.int64()}, "column k is optional INT32, and optional INT64"),
        ({"k": pa.int32()}, {"j": pa.int32()}, "column k stands where the other has j"),
        ({"k": pa.int32()}, {"k": pa.int32(), "j": pa.int32()}, "column j is in one of them only"),
        ({"a": pa.int32(), "b": pa.int32()}, {"b": pa.int32(), "a": pa.int32()}, "column a stands where"),
        ({"k": pa.string()}, {"k": pa.binary()}, "column k is optional BYTE_ARRAY string, and optional BYTE_ARRAY"),
        ({"k": pa.timestamp("us")}, {"k": pa.timestamp("us", "UTC")}, r"timestamp\(micros, local\), and"),
        ({"k": pa.timestamp("us")}, {"k": pa.timestamp("ms")}, r"timestamp\(millis, local\)"),
        ({"k": pa.decimal128(9, 2)}, {"k": pa.decimal128(9, 3)}, r"decimal\(9, 2\), and"),
        ({"k": pa.list_(pa.int32())}, {"k": pa.list_(pa.int64())}, "column element is"),
        ({"k": pa.int32()}, {"k": pa.uint32()}, r"int\(32, unsigned\)"),
    ],
)
def test_schemas_that_differ(tmp_path: Path, one: dict[str, Any], other: dict[str, Any], words: str) -> None:
    tables = [pa.table({name: pa.array([None], kind) for name, kind in kinds.items()}) for kinds in (one, other)]
    files = write_all(tmp_path, tables)
    reason = can_copy([shape_of(file) for file in files])
    assert reason is not None
    assert reason.code == "schema_differs"
    assert str(files[0]) in reason.detail
    with pytest.raises(Unsupported, match=words):
        copied(files, tmp_path / "out.parquet")


def test_nullable_and_required_columns_do_not_mix(tmp_path: Path) -> None:
    schemas = [pa.schema([pa.field("k", pa.int32(), nullable=nullable)]) for nullable in (True, False)]
    files = write_all(tmp_path, [pa.table({"k": pa.array([1], pa.int32())}).cast(schema) for schema in schemas])
    reason = can_copy([shape_of(file) for file in files])
    assert reason is not None
    assert reason.detail.endswith("column k is optional INT32, and required INT32")


def test_other_field_ids_are_another_schema(tmp_path: Path) -> None:
    def numbered(number: int) -> pa.Table:
        return pa.table(
            {"k": [1]}, schema=pa.schema([pa.field("k", pa.int64(), metadata={"PARQUET:field_id": str(number)})])
        )

    files = write_all(tmp_path, [numbered(1), numbered(2)])
    reason = can_copy([shape_of(file) for file in files])
    assert reason is not None
    assert reason.detail.endswith("column k is optional INT64 field 1, and optional INT64 field 2")


def test_only_one_of_two_orders_its_statistics(file: Path) -> None:
    reason = can_copy([shape_of(file), shape_of(rewritten(file, lambda tree: tree.drop(File.COLUMN_ORDERS)))])
    assert reason is not None
    assert reason.code == "orders_differ"


@pytest.mark.parametrize("place", [Chunk.OFFSET_INDEX, Chunk.COLUMN_INDEX])
def test_a_page_index_elsewhere_is_refused(tmp_path: Path, place: Chunk) -> None:
    (file,) = write_all(tmp_path, [make_table(1, 50, ("number",))], write_page_index=True)
    for value in (0, 4, 1 << 40):
        moved = rewritten(file, lambda tree, value=value: first_chunk(tree).put(place, I64, value))  # type: ignore[misc]
        with pytest.raises(Unsupported, match="page index"):
            copied([moved], tmp_path / "out.parquet")
        assert not (tmp_path / "out.parquet").exists()


def test_a_bloom_filter_elsewhere_is_refused(tmp_path: Path) -> None:
    (file,) = write_all(tmp_path, [make_table(1, 50, ("number",))], bloom_filter_options={"number": {"ndv": 50}})
    for value in (0, 4, 1 << 40):
        moved = rewritten(file, lambda tree, value=value: first_column(tree).put(Column.BLOOM, I64, value))  # type: ignore[misc]
        with pytest.raises(Unsupported, match="Bloom filter"):
            copied([moved], tmp_path / "out.parquet")


def test_a_bloom_filter_without_its_length(tmp_path: Path) -> None:
    """Writers of before format 2.10 leave the length to the filter's own header."""
    (file,) = write_all(tmp_path, [make_table(1, 50, ("number",))], bloom_filter_options={"number": {"ndv": 50}})
    copied([rewritten(file, lambda tree: first_column(tree).drop(Column.BLOOM_LENGTH))], tmp_path / "out.parquet")
    copied([file], tmp_path / "wanted.parquet")
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "wanted.parquet").read_bytes()


def test_verify_sees_a_wrong_copy(tmp_path: Path) -> None:
    tables = [make_table(seed, 100, ("number", "text")) for seed in range(3)]
    files = write_all(tmp_path, tables, write_page_index=True, row_group_size=50)
    copied(files[:2], tmp_path / "out.parquet")
    data = bytearray((tmp_path / "out.parquet").read_bytes())
    with LocalSource(files[0]) as one, LocalSource(files[1]) as two, LocalSource(files[2]) as three:
        whole = MemorySource("out", bytes(data))
        assert verify([one, two], whole, depth="rows") is None
        assert "rows" in _detail(verify([one], whole))
        assert "is not its source's" in _detail(verify([one, three], whole))
        data[30:40] = bytes(10)
        assert verify([one, two], MemorySource("out", bytes(data))) is None, "the footer is whole"
        assert verify([one, two], MemorySource("out", bytes(data[:-1]))) is not None
    swapped = write_all(tmp_path, [tables[0].set_column(0, "number", tables[0]["number"].take(pa.arange(99, -1, -1)))])
    pq.write_table(tables[0], tmp_path / "one.parquet")
    with LocalSource(tmp_path / "one.parquet") as one, LocalSource(swapped[0]) as other:
        assert _detail(verify([one], other, depth="rows"))


def _detail(reason: Any) -> str:
    assert reason is not None
    return str(reason.detail)
