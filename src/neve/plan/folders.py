"""Folders whose names are values: `region=eu/day=2024-01-31`. What they say, and of which type it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from urllib.parse import unquote

from neve.errors import InvalidSchema, Refused
from neve.model.types import Field, Primitive

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

Value = str | int | bool | date | Decimal | None
_INTEGER = re.compile(r"-?[0-9]+\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)\Z")
_UNSAFE = frozenset("\"#%'*/:=?\\{}[]^\x7f")
_INT, _LONG = 2**31, 2**63


def is_ignored(name: str) -> bool:
    """Files and folders that every reader passes over: `_SUCCESS`, `.part.crc`; but `_key=value` is a partition.

    >>> is_ignored("_SUCCESS"), is_ignored(".x.crc"), is_ignored("_k=1"), is_ignored("a.parquet")
    (True, True, False, False)
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def overlap(one: str, other: str) -> bool:
    """Whether two folders are the same, or one lies in the other.

    >>> overlap("/a/b", "/a/b/c"), overlap("/a/b", "/a/bc")
    (True, False)
    """
    first, second = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)


def partition_of(path: str) -> tuple[tuple[str, str | None], ...]:
    """Keys and values in the folder names of a path, decoded.

    >>> partition_of("region=e%2Fu/day=__HIVE_DEFAULT_PARTITION__/a.parquet")
    (('region', 'e/u'), ('day', None))
    """
    pairs = []
    for folder in path.split("/")[:-1]:
        key, equals, value = folder.partition("=")
        if not equals or not key:
            raise Refused(
                f"{path}: the folder {folder!r} is not key=value",
                hint="files lie flat in the folder, or in key=value folders; adopt other folders one by one",
            )
        pairs.append((_decode(key, path), None if value == NULL_FOLDER else _decode(value, path)))
    return tuple(pairs)


def folder_of(values: Mapping[str, str | None]) -> str:
    """The folder for rows of these values, written so that every reader gives the values back.

    >>> folder_of({"pair": "BTC/USD", "day": None}), folder_of({"city": "New York", "x": ""})
    ('pair=BTC%2FUSD/day=__HIVE_DEFAULT_PARTITION__', 'city=New York/x=__HIVE_DEFAULT_PARTITION__')
    """
    return "/".join(f"{_encode(key)}={_encode(value) if value else NULL_FOLDER}" for key, value in values.items())


def partition_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """The keys that every path has, in order."""
    keys = [tuple(key for key, _ in partition_of(path)) for path in paths]
    for path, found in zip(paths, keys, strict=True):
        if found != keys[0]:
            raise Refused(
                f"{paths[0]} is partitioned by {_list(keys[0])}, but {path} by {_list(found)}",
                hint="all files must lie at the same depth, under the same keys",
            )
        if len(set(found)) < len(found):
            raise Refused(f"{path}: a key is there twice")
    return keys[0] if keys else ()


def infer_type(values: Sequence[str]) -> str:
    """The narrowest type that all the texts are values of.

    >>> infer_type(["1", "-20"]), infer_type(["1", "3000000000"]), infer_type(["2024-02-29"]), infer_type(["1", "a"])
    ('int', 'long', 'date', 'string')
    """
    if values and all(_INTEGER.match(value) for value in values):
        numbers = [int(value) for value in values]
        for name, bound in (("int", _INT), ("long", _LONG)):
            if all(-bound <= number < bound for number in numbers):
                return name
    if values and all(_parse_date(value) is not None for value in values):
        return "date"
    return "string"


def key_type(column: Field) -> str:
    """The type of a column that folders are named for: one whose values text gives exactly."""
    match column.type:
        case Primitive("string" | "int" | "long" | "boolean" | "date" as name):
            return name
        case Primitive(name) if _DECIMAL.match(name):
            return name
        case kind:
            raise InvalidSchema(
                f"folders are named for {column.name}, but a name cannot be the exact value of a {kind}",
                hint="it can be that of boolean, int, bigint, decimal, date and string columns",
            )


def values_of(path: str, types: Mapping[str, str]) -> dict[str, Value]:
    """The values of a file's folders, each as its column's type."""
    values: dict[str, Value] = {}
    for key, text in partition_of(path):
        values[key] = None if text is None else parse_value(text, types[key])
        if text is not None and values[key] is None:
            raise Refused(
                f"{path}: the folder says {key} = {text!r}, but {key} is {Primitive(types[key])} in the files"
            )
    return values


def parse_value(text: str, kind: str) -> Value:
    """None when the text is no value of the type.

    >>> parse_value("007", "int"), parse_value("x", "int"), parse_value("1.5", "decimal(5, 2)")
    (7, None, Decimal('1.50'))
    """
    match kind:
        case "int" | "long":
            bound = _INT if kind == "int" else _LONG
            return int(text) if _INTEGER.match(text) and -bound <= int(text) < bound else None
        case "boolean":
            return {"true": True, "false": False}.get(text.lower())
        case "date":
            return _parse_date(text)
        case _ if sizes := _DECIMAL.match(kind):
            return _parse_decimal(text, int(sizes[1]), int(sizes[2]))
        case _:
            return text


def text_of(value: Value) -> str:
    """The value as Iceberg reads it back from text."""
    match value:
        case None:
            return NULL_FOLDER
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.match(text) else None
    except ValueError:
        return None


def _parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    try:
        number = Decimal(text)
        exact = number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    digits = len(exact.as_tuple().digits)
    return exact if exact == number and digits <= precision else None


def _encode(text: str) -> str:
    """As Hive and Spark do: what a file system or a path gives a meaning, and a dot that would hide or climb."""
    escaped = "".join(f"%{ord(letter):02X}" if letter in _UNSAFE or ord(letter) < 32 else letter for letter in text)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


def _decode(text: str, path: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as exc:
        raise Refused(f"{path}: {text!r} is not the percent-encoding of any text") from exc


def _list(keys: tuple[str, ...]) -> str:
    return ", ".join(keys) if keys else "nothing"
