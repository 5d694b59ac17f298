"""Avro records and bounds, read quickly: the same values as fastavro's, and an error for what is none."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
import sys
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from neve.catalog.avro import read_records
from neve.errors import StorageError
from neve.model.bounds import Bounded, bounds_of, comparable

VALUES: dict[str, tuple[Any, Any]] = {
    "b": ("boolean", True),
    "i": ("int", -5),
    "l": ("long", 2**60),
    "f": ("float", 0.5),
    "d": ("double", math.pi),
    "s": ("string", "été"),
    "raw": ("bytes", b"\x00\xff"),
    "fixed": ({"type": "fixed", "name": "four", "size": 4}, b"abcd"),
    "date": ({"type": "int", "logicalType": "date"}, dt.date(1969, 12, 31)),
    "time": ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4)),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)),
    "id": ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, uuid.UUID(int=7).bytes),
    "n": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-1.50")),
    "list": ({"type": "array", "items": "long"}, [1, 2, 3]),
    "inner": ({"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "int"]}]}, {"x": None}),
}


def pairs(key: str, value: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    return {"type": "array", "items": {"type": "record", "name": key, "fields": fields}}


def written(fields: dict[str, tuple[Any, Any]], *, rows: int = 3, codec: str = "deflate") -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": k, "type": kind} for k, (kind, _) in fields.items()]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [{k: value for k, (_, value) in fields.items()}] * rows, codec=codec)
    return stream.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_values_are_those_of_fastavro(codec: str) -> None:
    fields = VALUES | {
        f"{name}_or_null": (["null", kind], value) for name, (kind, value) in VALUES.items() if name in "bils"
    }
    content = written(fields, rows=1000, codec=codec)
    assert list(read_records("x", content)) == list(fastavro.reader(io.BytesIO(content)))


def test_bounds_and_counts_are_dicts_and_fields_can_be_left_out() -> None:
    bounds = {1: b"a", 300: b""}
    fields = {
        "status": ("int", 1),
        "sizes": (["null", pairs("k1", "long")], [{"key": 1, "value": 2**40}, {"key": 2, "value": -1}]),
        "lower": (["null", pairs("k2", "bytes")], [{"key": key, "value": value} for key, value in bounds.items()]),
        "none": (["null", pairs("k3", "bytes")], None),
        "last": ("string", "end"),
    }
    content = written(fields)
    (first, *_) = read_records("x", content)
    assert first == {"status": 1, "sizes": {1: 2**40, 2: -1}, "lower": bounds, "none": None, "last": "end"}
    (left, *_) = read_records("x", content, without=("sizes", "lower"))
    assert left == {"status": 1, "none": None, "last": "end"}


def test_blocks_that_tell_their_size() -> None:
    """Other writers say how many bytes a block of an array has: then its count is negative."""
    content = written({"list": ({"type": "array", "items": "int"}, [1, 2])}, rows=1, codec="null")
    plain, sized = b"\x04\x02\x04\x00", b"\x03\x04\x02\x04\x00"
    assert content.count(b"\x02\x08" + plain) == 1
    changed = content.replace(b"\x02\x08" + plain, b"\x02\x0a" + sized)
    assert list(read_records("x", changed)) == [{"list": [1, 2]}] == list(fastavro.reader(io.BytesIO(changed)))


def test_without_the_fast_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    content = written(VALUES | {"lower": (pairs("k", "bytes"), [{"key": 1, "value": b"a"}])})
    fast = list(read_records("x", content))
    monkeypatch.setitem(sys.modules, "pyiceberg.avro.decoder_fast", None)
    assert list(read_records("x", content)) == fast


@pytest.mark.parametrize("damage", ["cut", "text", "count"])
def test_what_is_no_avro_file_is_an_error_with_its_place(damage: str) -> None:
    content = written({"s": ("string", "abcdef"), "l": ("long", 1)}, codec="null")
    damaged = {
        "cut": content[:-20],
        "text": b"not avro",
        "count": content.replace(b"\x0cabcdef", b"\x7eabcdef", 1),
    }[damage]
    assert damaged != content
    with pytest.raises(StorageError, match=r"s3://b/m\.avro"):
        list(read_records("s3://b/m.avro", damaged))


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        ("int", [struct.pack("<i", number) for number in (-(2**31), -1, 0, 7, 256)]),
        ("long", [struct.pack("<q", -(2**40)), struct.pack("<i", -3), struct.pack("<q", 2**40)]),
        ("date", [struct.pack("<i", days) for days in (-1, 0, 19_000)]),
        ("timestamptz", [struct.pack("<q", micros) for micros in (-1, 0, 10**15)]),
        ("decimal(9,2)", [number.to_bytes(3, "big", signed=True) for number in (-999, -1, 0, 256)]),
        ("float", [struct.pack("<f", number) for number in (-math.inf, -0.5, 2.0)]),
        ("double", [struct.pack("<d", -1e300), struct.pack("<f", -0.5), struct.pack("<d", 1e300)]),
        ("boolean", [b"\x00", b"\x01"]),
        ("string", [text.encode() for text in ("", "A", "Z", "a", "é", "😀")]),
        ("binary", [b"\x00", b"\x7f", b"\xff"]),
        ("fixed[2]", [b"\x00\x01", b"\x01\x00"]),
    ],
)
def test_bounds_compare_as_their_type_does(kind: str, ascending: list[bytes]) -> None:
    found: list[Any] = [comparable(kind, raw) for raw in ascending]
    assert None not in found
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_no_bounds() -> None:
    nan = struct.pack("<d", math.nan)
    for kind, raw in (("double", nan), ("double", b"123"), ("variant", b"x"), ("int", b""), ("int", None)):
        assert comparable(kind, raw) is None
    column = Bounded(1, "string")
    assert bounds_of({"lower_bounds": {1: b"a"}, "upper_bounds": {1: b"b"}}, column) == (b"a", b"b")
    assert bounds_of({"lower_bounds": {1: b"a"}, "upper_bounds": {2: b"b"}}, column) is None
    assert bounds_of({"lower_bounds": None, "upper_bounds": None}, column) is None
    assert bounds_of({"lower_bounds": {1: b"a"}, "upper_bounds": {1: b"b"}}, None) is None
