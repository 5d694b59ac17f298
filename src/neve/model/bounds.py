"""The ranges of values that writers keep in manifests, as values that compare as the column does."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from neve.model.facts import Bound

_LITTLE_ENDIAN = ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_AS_BYTES = ("string", "binary", "uuid", "fixed")
_FLOATS = {4: "<f", 8: "<d"}


@dataclass(frozen=True, slots=True)
class Bounded:
    """A column whose ranges are asked for, by its id and Iceberg's word for its type."""

    id: int
    type: str


def bounds_of(file: Mapping[str, Any], column: Bounded | None) -> tuple[Bound, Bound] | None:
    """The least and the greatest value of a column in a file of a manifest; None where the writer kept none.

    Long texts are cut by writers, so that the greatest value may be a little beyond the real one.
    """
    if column is None:
        return None
    lower, upper = (
        comparable(column.type, (file.get(side) or {}).get(column.id)) for side in ("lower_bounds", "upper_bounds")
    )
    return None if lower is None or upper is None else (lower, upper)


def comparable(kind: str, raw: bytes | None) -> Bound | None:
    """A bound as a number, or as bytes where those are in the order of the type; None for what has no order.

    >>> comparable("int", (7).to_bytes(4, "little")), comparable("decimal(9,2)", b"\\xff"), comparable("string", b"a")
    (7, -1, b'a')
    """
    if raw is None:
        return None
    if kind.partition("[")[0] in _AS_BYTES:
        return raw
    if not raw:
        return None
    if kind == "boolean":
        return raw[0]
    if kind in _LITTLE_ENDIAN:
        return int.from_bytes(raw, "little", signed=True)
    if kind.startswith("decimal"):
        return int.from_bytes(raw, "big", signed=True)
    if kind in ("float", "double") and len(raw) in _FLOATS:
        (number,) = struct.unpack(_FLOATS[len(raw)], raw)
        return None if isnan(number) else float(number)
    return None
