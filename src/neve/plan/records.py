"""JSON values as the values of a column's type, exactly or not at all. Pure.

A number that has more digits than its column, a time without the offset that it needs, a word for a number: each is
refused with the place where it stands. Decimals may come as numbers or as text; JSON is read without rounding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

from neve.errors import InvalidInput, InvalidSchema, nearest
from neve.model.ingest import is_hidden
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

_WHOLE = {"int": 32, "long": 64}
_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)\Z")
_FIXED = re.compile(r"fixed\[(\d+)\]\Z")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?P<offset>Z|[+-]\d{2}:?\d{2})?)?\Z")
_FLOAT_MAX = 3.4028235677973366e38
_HINTS = {
    "timestamptz": "write it as 2026-11-16T12:00:00.000000Z",
    "timestamp": "write it as 2026-11-16T12:00:00.000000, without an offset",
    "date": "write it as 2026-11-16",
    "binary": "write bytes as hexadecimal digits",
    "decimal": "as a number or as text, with no more digits than the column has",
}


def visible(columns: Sequence[Field]) -> tuple[Field, ...]:
    """The columns that people know of."""
    return tuple(column for column in columns if not is_hidden(column.name))


def typed_records(columns: Sequence[Field], records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records as rows: a value for every column, None where a record says nothing.

    Raises:
        InvalidInput: a value does not fit its column; it is named by record and field.
    """
    return [typed_record(columns, record, f"records[{index}]") for index, record in enumerate(records)]


def typed_record(columns: Sequence[Field], record: Mapping[str, Any], where: str) -> dict[str, Any]:
    _refuse_unknown([column.name for column in columns], record, where)
    return {column.name: _field(column, record.get(column.name), f"{where}.{column.name}") for column in columns}


def check_upsert(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """The fields that records name, all the same ones, with a key that no two share.

    A field that only some name would be made NULL by the others.
    """
    given, seen = list(records[0]), dict[str, int]()
    for index, record in enumerate(records):
        if set(record) != set(given):
            raise InvalidInput(f"records[{index}] names other fields than records[0]", hint="give them separately")
        if missing := [key for key in keys if key not in record]:
            raise InvalidInput(f"records[{index}] lacks {missing[0]}, which is part of the primary key")
        first = seen.setdefault(repr([record[key] for key in keys]), index)
        if first != index:
            raise InvalidInput(f"records[{index}] has the primary key of records[{first}]", hint="give each key once")
    return given


def _refuse_unknown(known: Sequence[str], given: Mapping[str, Any], where: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"{where}: there is no field {name}", hint=nearest(name, known) or f"there are {', '.join(known)}"
            )


def _field(field: Field, value: Any, where: str) -> Any:
    if value is None and field.required:
        raise InvalidInput(f"{where}: a value is required")
    return typed(field.type, value, where)


def typed(kind: Type, value: Any, where: str) -> Any:
    """One JSON value as a value of a type; null stays None."""
    if value is None:
        return None
    match kind:
        case Primitive(name):
            return _primitive(name, value, where, kind)
        case ListOf(element, required):
            if not isinstance(value, list):
                raise _unfit(where, value, kind)
            item = Field("", element, required)
            return [_field(item, each, f"{where}[{index}]") for index, each in enumerate(value)]
        case MapOf(key, inner, required):
            if not isinstance(value, dict):
                raise _unfit(where, value, kind)
            item = Field("", inner, required)
            return {_key(key, word, where): _field(item, each, f"{where}.{word}") for word, each in value.items()}
        case Struct(fields):
            if not isinstance(value, dict):
                raise _unfit(where, value, kind)
            return typed_record(fields, value, where)


def _primitive(name: str, value: Any, where: str, kind: Primitive) -> Any:
    try:
        found = _convert(name, value)
    except (ValueError, DecimalException, OverflowError):
        found = None
    if found is None:
        raise _unfit(where, value, kind)
    return found


def _convert(name: str, value: Any) -> Any:
    """The value in Python's type for it; None, or ValueError, where it is none."""
    is_text = isinstance(value, str)
    if name in _WHOLE:
        bound = 1 << (_WHOLE[name] - 1)
        return value if _is_whole(value) and -bound <= value < bound else None
    if name in ("float", "double"):
        return _float(value, single=name == "float")
    if match := _DECIMAL.match(name):
        return _decimal(value, int(match[1]), int(match[2]))
    if match := _FIXED.match(name):
        return found if is_text and len(found := bytes.fromhex(value)) == int(match[1]) else None
    match name:
        case "boolean":
            return value if isinstance(value, bool) else None
        case "string":
            return value if is_text and value.encode() is not None else None
        case "binary":
            return bytes.fromhex(value) if is_text and " " not in value else None
        case "date":
            return date.fromisoformat(value) if is_text and len(value) == 10 else None
        case "timestamptz" | "timestamp":
            return _time(value, zoned=name == "timestamptz") if is_text else None
        case _:
            raise InvalidSchema(f"values of type {Primitive(name)} cannot come as JSON", hint="use SQL or files")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _float(value: Any, *, single: bool) -> float | None:
    if isinstance(value, str):
        return float(value) if value in _NO_NUMBERS else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    found = float(value)
    return found if abs(found) <= (_FLOAT_MAX if single else 1.7976931348623157e308) else None


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """With as many places as the column has; a value that would be rounded or cut is none of it."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    exact = Context(prec=precision, traps=[InvalidOperation, Inexact])
    found = Decimal(value)
    return found.quantize(Decimal((0, (1,), -scale)), context=exact) if found.is_finite() else None


def _time(text: str, *, zoned: bool) -> datetime | None:
    """Microseconds at most; where a column has times of the world, one without an offset is UTC."""
    match = _TIME.match(text)
    if match is None or (match["offset"] and not zoned):
        return None
    found = datetime.fromisoformat(text)
    if not zoned:
        return found
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _key(kind: Type, word: str, where: str) -> Any:
    """The key of a map: JSON has texts alone."""
    if isinstance(kind, Primitive) and kind.name in _WHOLE and re.fullmatch(r"-?\d+", word):
        return typed(kind, int(word), where)
    if isinstance(kind, Primitive) and kind.name == "boolean":
        return typed(kind, {"true": True, "false": False}.get(word.lower(), word), where)
    if isinstance(kind, Primitive) and kind.name in ("float", "double") and word not in _NO_NUMBERS:
        try:
            return typed(kind, Decimal(word), where)
        except InvalidOperation:
            raise _unfit(where, word, kind) from None
    return typed(kind, word, where)


def _unfit(where: str, value: Any, kind: Type) -> InvalidInput:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    word = kind.name.partition("(")[0] if isinstance(kind, Primitive) else ""
    return InvalidInput(
        f"{where}: {shown if len(shown) <= 60 else shown[:59] + '…'} is no {kind}", hint=_HINTS.get(word)
    )
