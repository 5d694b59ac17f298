"""Thrift's compact protocol, as far as Parquet uses it. What nobody asks to see is kept as it stands, byte for byte.

A struct is a dictionary from field number to kind and value. Lists and structs are taken apart only where a `Nest`
says so; all others stay `bytes`. That preserves what we do not know, and is a good deal faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(1, 13)
_INTEGERS = (I16, I32, I64)
_BOOLEANS = (TRUE, FALSE)
_LISTS = (LIST, SET)
_DEEPEST = 32
_LONGEST_VARINT = 70
_TOO_LARGE = 1 << 64

Nest = Mapping[int, "Nest"]
"""The fields to take apart, by number, each with those to take apart inside it."""

FLAT: Nest = {}


class Malformed(ValueError):
    """The bytes are not the structure they should be; the message says what is wrong, not where."""


class Items(NamedTuple):
    """A list that was taken apart: the kind of its elements, and they."""

    kind: int
    values: list[Any]


class Struct(dict[int, tuple[int, Any]]):
    """Fields by number, each with its kind. The readers below check the kind, so that a caller need not."""

    __slots__ = ()

    def integer(self, field: int) -> int | None:
        found = self.get(field)
        if found is None:
            return None
        if found[0] not in _INTEGERS and found[0] != BYTE:
            raise Malformed(f"field {field} is not a number")
        return int(found[1])

    def number(self, field: int) -> int:
        """As `integer`, of a field that must be there."""
        value = self.integer(field)
        if value is None:
            raise Malformed(f"field {field} is missing")
        return value

    def boolean(self, field: int) -> bool | None:
        found = self.get(field)
        if found is None:
            return None
        if found[0] not in _BOOLEANS:
            raise Malformed(f"field {field} is not a truth value")
        return found[0] == TRUE

    def binary(self, field: int) -> bytes | None:
        found = self.get(field)
        return None if found is None else self._checked(field, found, BINARY, bytes)

    def struct(self, field: int) -> Struct | None:
        found = self.get(field)
        return None if found is None else self._checked(field, found, STRUCT, Struct)

    def raw(self, field: int) -> bytes | None:
        """The bytes of a list or struct that was not taken apart."""
        found = self.get(field)
        if found is None:
            return None
        raw: bytes = self._checked(field, found, STRUCT if found[0] == STRUCT else LIST, bytes)
        return raw

    def structs(self, field: int) -> list[Struct]:
        return list(self._elements(field, STRUCT))

    def binaries(self, field: int) -> list[bytes]:
        return list(self._elements(field, BINARY))

    def integers(self, field: int) -> list[int]:
        return list(self._elements(field, I32, I64))

    def put(self, field: int, kind: int, value: Any) -> None:
        self[field] = (kind, value)

    def put_structs(self, field: int, values: Iterable[Struct]) -> None:
        self[field] = (LIST, Items(STRUCT, list(values)))

    def drop(self, *fields: int) -> None:
        for field in fields:
            self.pop(field, None)

    def _elements(self, field: int, *kinds: int) -> Iterable[Any]:
        found = self.get(field)
        if found is None:
            return ()
        items: Items = self._checked(field, found, LIST, Items)
        if items.values and items.kind not in kinds:
            raise Malformed(f"field {field} is a list of something else")
        return items.values

    @staticmethod
    def _checked(field: int, found: tuple[int, Any], kind: int, form: type[Any]) -> Any:
        if found[0] != kind or not isinstance(found[1], form):
            raise Malformed(f"field {field} is of another kind")
        return found[1]


def read_struct(data: bytes, at: int = 0, nest: Nest = FLAT) -> tuple[Struct, int]:
    """The struct at a place, and the place behind it.

    Raises:
        Malformed: the bytes end too soon, or are no such structure.
    """
    reader = _Reader(data, at)
    try:
        struct = reader.struct(nest, 0)
    except IndexError as exc:
        raise Malformed("it ends too soon") from exc
    return struct, reader.at


def write_struct(struct: Struct) -> bytes:
    """The bytes of a struct, its fields in ascending order."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    """A place in bytes. It runs over the end with an IndexError, which `read_struct` turns into Malformed."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def struct(self, nest: Nest, depth: int) -> Struct:
        """Numbers and texts are read in place: most fields are such, and a call would cost more than all the rest."""
        struct, data, at, field = Struct(), self.data, self.at, 0
        while head := data[at]:
            kind, self.at = head & 15, at + 1
            field = field + (head >> 4) if head >> 4 else self._integer()
            if field in struct:
                raise Malformed(f"field {field} comes twice")
            at = self.at
            if kind in _INTEGERS or kind == BINARY:
                value = data[at]
                if value > 127:
                    value = self._varint()
                    at = self.at
                else:
                    at += 1
                if kind == BINARY:
                    if at + value > len(data):
                        raise IndexError
                    struct[field] = (kind, data[at : at + value])
                    at += value
                else:
                    struct[field] = (kind, (value >> 1) ^ -(value & 1))
            else:
                struct[field] = (kind, self._value(kind, nest.get(field), depth))
                at = self.at
        self.at = at + 1
        return struct

    def _byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def _varint(self) -> int:
        data, at, value = self.data, self.at, 0
        for shift in range(0, _LONGEST_VARINT, 7):
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128 and value < _TOO_LARGE:
                self.at = at
                return value
        raise Malformed("a number is too large")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise IndexError
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def _value(self, kind: int, nest: Nest | None, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == BINARY:
            return self._take(self._varint())
        if kind in _BOOLEANS:
            return kind == TRUE
        if kind == STRUCT or kind in _LISTS:
            if nest is None:
                start = self.at
                self._skip(kind, depth)
                return self.data[start : self.at]
            return self.struct(nest, depth + 1) if kind == STRUCT else self._items(nest, depth + 1)
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return self._take(8)
        raise Malformed(f"kind {kind} is not known")

    def _items(self, nest: Nest, depth: int) -> Items:
        kind, count = self._list_head()
        if kind in _BOOLEANS:
            return Items(kind, list(self._take(count)))
        return Items(kind, [self._value(kind, nest, depth) for _ in range(count)])

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        return head & 15, (head >> 4 if head < 0xF0 else self._varint())

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise Malformed("it is nested too deeply")
        if kind in _INTEGERS:
            self._skip_varint()
        elif kind == BINARY:
            self._jump(self._varint())
        elif kind == STRUCT:
            self._skip_fields(depth)
        elif kind in _LISTS:
            self._skip_items(depth)
        elif kind == DOUBLE:
            self._jump(8)
        elif kind == BYTE:
            self._jump(1)
        elif kind not in _BOOLEANS:
            raise Malformed(f"kind {kind} is not known")

    def _skip_fields(self, depth: int) -> None:
        while head := self._byte():
            if not head >> 4:
                self._skip_varint()
            if head & 15 in _INTEGERS:
                self._skip_varint()
            else:
                self._skip(head & 15, depth + 1)

    def _skip_items(self, depth: int) -> None:
        kind, count = self._list_head()
        if kind in _BOOLEANS or kind == BYTE:
            self._jump(count)
        elif kind in _INTEGERS:
            for _ in range(count):
                self._skip_varint()
        else:
            for _ in range(count):
                self._skip(kind, depth + 1)

    def _skip_varint(self) -> None:
        data, at = self.data, self.at
        while data[at] > 127:
            at += 1
        self.at = at + 1

    def _jump(self, length: int) -> None:
        self.at += length
        if self.at > len(self.data):
            raise IndexError


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field in sorted(struct):
        kind, value = struct[field]
        if 0 < field - last < 16:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, field)
        last = field
        if kind in _INTEGERS and 0 <= value < 64:
            out.append(value << 1)
        else:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif isinstance(value, bytes):
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in _LISTS:
        _write_items(out, value)
    elif kind == BYTE:
        out.append(value)


def _write_items(out: bytearray, items: Items) -> None:
    count = len(items.values)
    if count < 15:
        out.append(count << 4 | items.kind)
    else:
        out.append(0xF0 | items.kind)
        _write_varint(out, count)
    if items.kind in _BOOLEANS:
        out += bytes(items.values)
        return
    for value in items.values:
        _write_value(out, items.kind, value)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
