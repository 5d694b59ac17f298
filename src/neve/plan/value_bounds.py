"""The least and the greatest of some values, in the bytes that Iceberg's manifests keep. Pure.

Long texts and bytes are cut: the lower bound is the beginning of the least, the upper one is raised so that it stays
above the greatest. A bound that nothing can be said for is None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import copysign, isnan
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def value_bounds(kind: str, values: Sequence[Any], length: int | None) -> tuple[bytes | None, bytes | None]:
    """Of values of a primitive type, none of them None. `length` is how many characters or bytes are kept.

    >>> value_bounds("int", [3, -1], 16)
    (b'\\xff\\xff\\xff\\xff', b'\\x03\\x00\\x00\\x00')
    >>> value_bounds("string", ["abc", "b"], 1)
    (b'a', b'b')
    >>> value_bounds("string", ["bc"], 1)
    (b'b', b'c')
    """
    held = [value for value in values if not (isinstance(value, float) and isnan(value))]
    if not held:
        return None, None
    order = _order(kind)
    least, greatest = min(held, key=order), max(held, key=order)
    if kind == "string":
        lower = least if length is None else least[:length]
        upper = greatest if length is None else _raised_text(greatest, length)
        return lower.encode(), None if upper is None else upper.encode()
    if kind == "binary" or kind.startswith("fixed"):
        return least if length is None else least[:length], _raised_bytes(greatest, length)
    return encode(kind, least), encode(kind, greatest)


def encode(kind: str, value: Any) -> bytes:
    """One value that is neither text nor bytes."""
    match kind:
        case "boolean":
            return bytes([value])
        case "int":
            return struct.pack("<i", value)
        case "long":
            return struct.pack("<q", value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "date":
            return struct.pack("<i", value.toordinal() - date(1970, 1, 1).toordinal())
        case "timestamp" | "timestamptz":
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return struct.pack("<q", (moment - _EPOCH) // _MICRO)
        case _:
            return _decimal(value)


def unscaled(value: Decimal) -> int:
    """The number without its point, however many digits it has."""
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def _decimal(value: Decimal) -> bytes:
    """In as few bytes as hold it and its sign."""
    number = unscaled(value)
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


def _order(kind: str) -> Callable[[Any], Any]:
    if kind == "string":
        return lambda text: text.encode()
    if kind in ("float", "double"):
        return lambda number: (number, copysign(1, number))  # as Iceberg has it, -0.0 comes before 0.0
    return lambda value: value


def _raised_text(text: str, length: int) -> str | None:
    """A text of at most so many characters that nothing beginning like `text` is above."""
    if len(text) <= length:
        return text
    for place in range(length - 1, -1, -1):
        following = ord(text[place]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST:
            return text[:place] + chr(following)
    return None


def _raised_bytes(raw: bytes, length: int | None) -> bytes | None:
    if length is None or len(raw) <= length:
        return raw
    for place in range(length - 1, -1, -1):
        if raw[place] < 0xFF:
            return raw[:place] + bytes([raw[place] + 1])
    return None
