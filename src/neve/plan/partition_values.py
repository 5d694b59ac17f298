"""Which partition a row belongs to, as Iceberg's specification computes it, in Iceberg's JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from neve.model.appends import FieldJson
from neve.model.changes import PartitionValue
from neve.plan.value_bounds import encode, unscaled

Row = Mapping[str, Any]
Compute = Callable[[Row], PartitionValue]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZED = re.compile(r"(bucket|truncate)\[(\d+)\]\Z")
_FLOATS = ("float", "double")
_TRUNCATED = ("int", "long", "decimal", "string", "binary")
_TIMES = ("date", "timestamp", "timestamptz")


def partition_fields(spec: Sequence[FieldJson], fields: Sequence[FieldJson]) -> list[Compute] | None:
    """How each field of a partition spec is computed from a row of typed values; None where one cannot be here."""
    places = dict(_places(fields, ()))
    found: list[Compute] = []
    for item in spec:
        if item["transform"] == "void":
            found.append(lambda _: None)
            continue
        if item.get("source-id") not in places:
            return None
        path, kind = places[item["source-id"]]
        convert = _transform(item["transform"], kind)
        if convert is None:
            return None
        found.append(_computed(path, convert))
    return found


def _computed(path: Sequence[str], convert: Callable[[Any], PartitionValue]) -> Compute:
    def compute(row: Row) -> PartitionValue:
        value: Any = row
        for name in path:
            value = None if value is None else value.get(name)
        return None if value is None else convert(value)

    return compute


def _places(fields: Sequence[FieldJson], path: tuple[str, ...]) -> Iterator[tuple[int, tuple[tuple[str, ...], str]]]:
    """Columns that hold one value per row, in structs too, by their ids."""
    for field in fields:
        here, kind = (*path, field["name"]), field["type"]
        if isinstance(kind, str):
            yield field["id"], (here, kind)
        elif kind["type"] == "struct":
            yield from _places(kind["fields"], here)


def _transform(name: str, kind: str) -> Callable[[Any], PartitionValue] | None:
    if name == "identity":
        return None if kind in _FLOATS else lambda value: as_json(kind, value)
    if match := _SIZED.match(name):
        size = int(match[2])
        if match[1] == "bucket":
            return None if kind in (*_FLOATS, "boolean") else lambda value: bucket(kind, value, size)
        return (lambda value: as_json(kind, truncated(value, size))) if kind.startswith(_TRUNCATED) else None
    if kind not in _TIMES:
        return None
    match name:
        case "year":
            return lambda value: _utc(value).year - 1970
        case "month":
            return lambda value: (_utc(value).year - 1970) * 12 + _utc(value).month - 1
        case "day":
            return lambda value: _utc(value).date().isoformat()
        case "hour" if kind != "date":
            return lambda value: (_utc(value) - _EPOCH) // timedelta(hours=1)
        case _:
            return None


def _utc(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def as_json(kind: str, value: Any) -> PartitionValue:
    """A value as Iceberg's JSON writes it."""
    match value:
        case bool() | int() | str():
            return value
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex().upper()
        case _:
            raise ValueError(f"no partition is named by a {kind} such as {value!r}")


def truncated(value: Any, width: int) -> Any:
    """
    >>> truncated(-1, 10), truncated("iceberg", 3), str(truncated(Decimal("10.65"), 50))
    (-10, 'ice', '10.50')
    """
    match value:
        case int():
            return value - value % width
        case Decimal():
            number = unscaled(value) - unscaled(value) % width
            digits = tuple(map(int, str(abs(number))))
            return Decimal((int(number < 0), digits, int(value.as_tuple().exponent)))
        case _:
            return value[:width]


def bucket(kind: str, value: Any, size: int) -> int:
    """
    >>> bucket("string", "iceberg", 128), bucket("long", 34, 128)
    (89, 83)
    """
    if kind in ("int", "date"):
        number = value if kind == "int" else int.from_bytes(encode("date", value), "little", signed=True)
        raw = encode("long", number)
    elif isinstance(value, str):
        raw = value.encode()
    else:
        raw = value if isinstance(value, bytes) else encode(kind, value)
    return (murmur3(raw) & 0x7FFFFFFF) % size


def murmur3(raw: bytes) -> int:
    """The 32-bit hash of the specification, seed 0, without a sign."""
    found, whole = 0, len(raw) // 4 * 4
    for place in range(0, whole, 4):
        found ^= _mixed(int.from_bytes(raw[place : place + 4], "little"))
        found = (_rotated(found, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    found ^= _mixed(int.from_bytes(raw[whole:], "little"))
    found ^= len(raw)
    found = (found ^ found >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return found ^ found >> 16


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF
