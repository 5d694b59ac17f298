"""Values as JSON, the same on every surface."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import chain, count
from math import isfinite, isnan
from typing import Any


def as_json(value: Any) -> Any:
    """Python's values for SQL's as JSON: decimals, times and numbers that are none as text, bytes as hex.

    >>> as_json({"a": [b"\\x01", float("nan"), 0.5, Decimal("-1E-10")]})
    {'a': ['01', 'NaN', 0.5, '-0.0000000001']}
    """
    match value:
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return f"{value:f}"
        case bytes() | bytearray():
            return bytes(value).hex()
        case dict():
            return {str(as_json(key)): as_json(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return named_json(getattr(value, "__fields__", ()), value)
        case list() | tuple():
            return [as_json(item) for item in value]
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)


def named_json(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """An object; a name that is there again gets a number, so that no value is lost.

    >>> named_json(["id", "id"], [1, 2])
    {'id': 1, 'id_2': 2}
    """
    named: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        key = next(key for key in chain([name], (f"{name}_{n}" for n in count(2))) if key not in named)
        named[key] = as_json(value)
    return named
