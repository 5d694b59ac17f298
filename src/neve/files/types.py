"""Parquet's columns → our types. What Spark's Iceberg reader would read wrongly, or not at all, is refused.

Measured on Iceberg 1.12 (tests/spark/test_adopt.py holds the right ones to it): TIMESTAMP(MILLIS) comes out as a time
in 1970, without an error; unsigned integers and columns of no type fail when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neve.errors import Unsupported
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

Leaf = tuple[str, Mapping[str, Any]]
_PLAIN = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "long",
    "INT96": "timestamptz",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
}
_TEXTS = ("String", "Enum", "JSON")
_NUMBER = "PARQUET:field_id"
_MAX_PRECISION = 38


def leaf_type(physical: str, logical: Mapping[str, Any], *, length: int = 0) -> Primitive | None:
    """The type of a column by Parquet's words, logical ones as pyarrow writes them in JSON; None for one to refuse.

    >>> leaf_type("INT64", {"Type": "Timestamp", "timeUnit": "microseconds", "isAdjustedToUTC": False})
    Primitive(name='timestamp')
    """
    match logical:
        case {"Type": "None"} if physical == "FIXED_LEN_BYTE_ARRAY":
            return Primitive(f"fixed[{length}]")
        case {"Type": "None"} if physical in _PLAIN:
            return Primitive(_PLAIN[physical])
        case {"Type": "Int", "isSigned": True}:
            return Primitive(_PLAIN[physical])
        case {"Type": "Timestamp", "timeUnit": "microseconds", "isAdjustedToUTC": utc}:
            return Primitive("timestamptz" if utc else "timestamp")
        case {"Type": "Decimal", "precision": precision, "scale": scale} if precision <= _MAX_PRECISION:
            return Primitive(f"decimal({precision}, {scale})")
        case {"Type": "Date"}:
            return Primitive("date")
        case {"Type": "UUID"}:
            return Primitive("uuid")
        case {"Type": "BSON"}:
            return Primitive("binary")
        case {"Type": text} if text in _TEXTS and physical == "BYTE_ARRAY":
            return Primitive("string")
        case _:
            return None


def fields_of(schema: Any, leaves: Iterator[tuple[Primitive | None, str]], *, file: str) -> tuple[Field, ...]:
    """Arrow's tree of groups with Parquet's own leaves: Arrow restores types that the file does not hold."""
    return tuple(Field(field.name, _type(field.type, leaves, file=file, path=field.name)) for field in schema)


def _type(kind: Any, leaves: Iterator[tuple[Primitive | None, str]], *, file: str, path: str) -> Type:
    import pyarrow.types as is_

    if hasattr(kind, "storage_type"):
        kind = kind.storage_type
    if is_.is_struct(kind):
        return Struct(
            tuple(
                Field(field.name, _type(field.type, leaves, file=file, path=f"{path}.{field.name}")) for field in kind
            )
        )
    if is_.is_map(kind):
        key = _type(kind.key_type, leaves, file=file, path=f"{path}.key")
        return MapOf(key, _type(kind.item_type, leaves, file=file, path=f"{path}.value"))
    if is_list(kind):
        return ListOf(_type(kind.value_type, leaves, file=file, path=f"{path}.element"))
    leaf, words = next(leaves)
    if leaf is None:
        raise Unsupported(
            f"{file}: column {path} is {words}, which Spark and Iceberg cannot read as it is",
            hint="write the file anew with another type: signed integers, timestamps in microseconds…",
        )
    return leaf


def is_list(kind: Any) -> bool:
    import pyarrow.types as is_

    return bool(
        is_.is_list(kind)
        or is_.is_large_list(kind)
        or is_.is_fixed_size_list(kind)
        or is_.is_list_view(kind)
        or is_.is_large_list_view(kind)
    )


def field_ids(schema: Any) -> dict[str, int]:
    """The numbers that a file gives its columns, by dotted path; those that it does not number are left out."""
    return {path: int(field.metadata[_NUMBER.encode()]) for path, field in _fields(schema, "") if _is_numbered(field)}


def _is_numbered(field: Any) -> bool:
    return field.metadata is not None and _NUMBER.encode() in field.metadata


def _fields(fields: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    import pyarrow.types as is_

    for field in fields:
        path = f"{prefix}{field.name}"
        yield path, field
        kind = field.type
        if is_.is_struct(kind):
            yield from _fields(kind, f"{path}.")
        elif is_.is_map(kind):
            yield from _fields([kind.key_field.with_name("key"), kind.item_field.with_name("value")], f"{path}.")
        elif is_list(kind):
            yield from _fields([kind.value_field.with_name("element")], f"{path}.")
