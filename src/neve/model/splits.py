"""Split points: where the ranges of a key-range table begin. N of them make N + 1 half-open ranges of the first key."""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Sequence

from neve.errors import InvalidInput
from neve.model.types import Field, Primitive

Key = int | str | bytes
_BITS = {"int": 32, "long": 64}
KEY_TYPES = ("int", "long", "string", "binary")


def key_type(column: Field) -> str:
    """The kind of key a column holds; refuses a column that cannot be a row key."""
    name = column.type.name if isinstance(column.type, Primitive) else str(column.type)
    if name not in KEY_TYPES:
        raise InvalidInput(f"{column.name} is a {column.type}; a row key is an int, bigint, string or binary")
    if not column.required:
        raise InvalidInput(
            f"{column.name} may be NULL; a row key may not", hint=f"declare it: {column.name} … not null"
        )
    return name


def parse_points(text: str, kind: str, *, encoded: bool = False) -> tuple[Key, ...]:
    """The points of a split file: one per line, ascending. Strings may be base64, binary always is.

    >>> parse_points("10\\n20\\n", "int"), parse_points("cm93LTI1", "string", encoded=True)
    ((10, 20), ('row-25',))
    """
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    points = tuple(
        _parse(line.removesuffix("\r"), kind, f"split points, line {number}", encoded=encoded)
        for number, line in enumerate(lines, 1)
    )
    check_points(points)
    return points


def check_encoded(text: str | None, *, encoded: bool) -> None:
    """Refuses to be told how split points are written where there are none."""
    if encoded and text is None:
        raise InvalidInput("--base64 says how split points are written, and there are none", hint="give --split-points")


def format_points(points: Sequence[Key], *, encoded: bool = False) -> str:
    """A split file that `parse_points` reads back as the same points.

    >>> parse_points(format_points((b"a", b"b\\n")), "binary")
    (b'a', b'b\\n')
    """
    return "".join(f"{_format(point, encoded=encoded)}\n" for point in points)


def check_points(points: Sequence[Key]) -> None:
    """Refuses points that are not strictly ascending."""
    for earlier, later in itertools.pairwise(points):
        if earlier == later:
            raise InvalidInput(f"split points: duplicate found: {later!r}")
        if order(earlier) > order(later):
            raise InvalidInput(f"split points: {earlier!r} should be less than {later!r}", hint="sort them ascending")


def to_json(point: Key) -> int | str:
    """A point as JSON holds it: binary in hexadecimal."""
    return point.hex() if isinstance(point, bytes) else point


def from_json(value: int | str, kind: str) -> Key:
    return bytes.fromhex(str(value)) if kind == "binary" else value


def parse_key(text: str, kind: str) -> Key:
    """A value of a row key as people write it: binary in base64.

    >>> parse_key("7", "long"), parse_key("a", "string"), parse_key("AQ==", "binary")
    (7, 'a', b'\\x01')
    """
    return _parse(text, kind, "a key", encoded=False)


def _parse(line: str, kind: str, where: str, *, encoded: bool) -> Key:
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        try:
            value = int(line)
        except ValueError as exc:
            raise InvalidInput(f"{where}: {line!r} is not a whole number") from exc
        if not -limit <= value < limit:
            raise InvalidInput(f"{where}: {value} does not fit into a {kind}")
        return value
    if kind == "binary" or encoded:
        try:
            raw = base64.b64decode(line, validate=True)
            return raw if kind == "binary" else raw.decode()
        except (binascii.Error, UnicodeDecodeError) as exc:
            raise InvalidInput(f"{where}: {line!r} is not base64 of a {kind}") from exc
    return line


def _format(point: Key, *, encoded: bool) -> str:
    match point:
        case bytes():
            return base64.b64encode(point).decode()
        case str() if encoded:
            return base64.b64encode(point.encode()).decode()
        case str() if "\n" in point or "\r" in point:
            raise InvalidInput(f"{point!r} holds a line break", hint="export with --base64")
        case _:
            return str(point)


def order(point: Key) -> tuple[int, bytes]:
    """Spark's order: numbers by value, strings by their UTF-8 bytes."""
    if isinstance(point, int):
        return point, b""
    return 0, point.encode() if isinstance(point, str) else point
