"""Manifests and their lists, quickly: they hold six figures per column of each file, and nearly none is asked for.

fastavro opens the file and knows the logical types. PyIceberg's decoder, imported without the rest of PyIceberg, takes
a quarter of the time for the records, as no figure becomes a dict of its own.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from neve.errors import StorageError

Read = Callable[[Any], Any]
"""Takes the next value off a decoder."""

_PLAIN: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": lambda decoder: decoder.read_boolean(),
    "int": lambda decoder: decoder.read_int(),
    "long": lambda decoder: decoder.read_int(),
    "float": lambda decoder: struct.unpack("<f", decoder.read(4))[0],
    "double": lambda decoder: struct.unpack("<d", decoder.read(8))[0],  # PyIceberg's read_double cuts it to a float
    "bytes": lambda decoder: decoder.read_bytes(),
    "string": lambda decoder: decoder.read_utf8(),
}


def read_schema(location: str, content: bytes) -> Mapping[str, Any]:
    """The schema that an Avro file was written with."""
    import fastavro

    try:
        schema: Any = fastavro.block_reader(io.BytesIO(content)).writer_schema
    except (ValueError, KeyError, EOFError, OverflowError, IndexError) as exc:
        raise StorageError(f"{location} is not an Avro file that Névé can read: {exc}") from exc
    return dict(schema)


def read_records(location: str, content: bytes, *, without: Collection[str] = ()) -> Iterator[Mapping[str, Any]]:
    """The records of an Avro file, as fastavro would give them, but for two things.

    Fields named in `without`, at any depth, are left out, and an array of ids and values is a dict: so Iceberg writes
    the bounds of columns, and what it counts of them.
    """
    import fastavro

    try:
        blocks: Any = fastavro.block_reader(io.BytesIO(content))
        read = _reader(blocks.writer_schema, frozenset(without))
        for block in blocks:
            decoder = _decoder(block.bytes_.getvalue())
            for _ in range(block.num_records):
                yield read(decoder)
    except (ValueError, KeyError, EOFError, OverflowError, IndexError) as exc:
        raise StorageError(f"{location} is not an Avro file that Névé can read: {exc}") from exc


def _decoder(content: bytes) -> Any:
    try:
        from pyiceberg.avro.decoder_fast import CythonBinaryDecoder
    except ImportError:
        from pyiceberg.avro.decoder import StreamingBinaryDecoder

        return StreamingBinaryDecoder(content)
    return CythonBinaryDecoder(content)


def _reader(kind: Any, without: frozenset[str]) -> Read:
    match kind:
        case str():
            return _PLAIN[kind]
        case list():
            return _union([_reader(choice, without) for choice in kind])
        case {"type": "record", "fields": fields}:
            return _record([_step(field, without) for field in fields])
        case {"type": "array", "items": {"type": "record", "fields": [{"type": "int"}, {"type": "bytes"}]}}:
            return _pairs
        case {"type": "array", "items": {"type": "record", "fields": [{"type": "int"}, {"type": "long"}]}}:
            return _number_pairs
        case {"type": "array", "items": items}:
            return _array(_reader(items, without))
        case {"type": "fixed", "size": size}:
            return _logical(kind, lambda decoder: decoder.read(size))
        case {"type": str(plain)}:
            return _logical(kind, _PLAIN[plain])
        case _:
            raise ValueError(f"a type that manifests do not have: {kind!r}")


def _logical(kind: dict[str, Any], read: Read) -> Read:
    from fastavro.read import LOGICAL_READERS

    convert = LOGICAL_READERS.get(f"{kind['type']}-{kind.get('logicalType')}")
    return read if convert is None else lambda decoder: convert(read(decoder), kind, kind)


def _union(choices: list[Read]) -> Read:
    return lambda decoder: choices[decoder.read_int()](decoder)


def _step(field: Mapping[str, Any], without: frozenset[str]) -> tuple[str | None, Read]:
    """A field's name, or None when it is left out, and how to get behind it."""
    if field["name"] not in without:
        return field["name"], _reader(field["type"], without)
    match field["type"]:
        case ["null", {"items": {"type": "record", "fields": [{"type": "int"}, {"type": "long"}]}}]:
            return None, _union([_PLAIN["null"], _pass_number_pairs])
        case kind:
            return None, _reader(kind, without)


def _record(steps: list[tuple[str | None, Read]]) -> Read:
    def take(decoder: Any) -> dict[str, Any]:
        found = {}
        for name, read in steps:
            value = read(decoder)
            if name is not None:
                found[name] = value
        return found

    return take


def _blocks(decoder: Any) -> Iterator[int]:
    """How many items come next, until none do; a negative number is followed by the size of the block."""
    while count := decoder.read_int():
        if count < 0:
            decoder.read_int()
        yield abs(count)


def _array(read: Read) -> Read:
    return lambda decoder: [read(decoder) for count in _blocks(decoder) for _ in range(count)]


def _pairs(decoder: Any) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for count in _blocks(decoder):
        decoder.read_int_bytes_dict(count, found)
    return found


def _number_pairs(decoder: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for count in _blocks(decoder):
        numbers = decoder.read_ints(2 * count)
        found.update(zip(numbers[::2], map(_signed, numbers[1::2]), strict=True))
    return found


def _signed(number: int) -> int:
    """PyIceberg's `read_ints` gives numbers below zero without their sign."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _pass_number_pairs(decoder: Any) -> None:
    for count in _blocks(decoder):
        decoder.read_ints(2 * count)
