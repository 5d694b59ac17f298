"""Counts and bounds of an output's columns, gathered from the statistics of its column chunks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from neve.files.copier.thrift import Struct
from neve.files.copier.words import Column, Stats
from neve.model.copying import ColumnMetrics, Leaf

TYPE_ORDER = "1:00"
"""How a FileShape tells the order that a column's type defines; any other bounds nothing that we could compare."""

_UNORDERED = ("unknown", "float16")
_Decode = Callable[[bytes], Any]


def column_metrics(leaf: Leaf, order: str | None, chunks: Sequence[Struct]) -> ColumnMetrics:
    """One column over all its chunks. A bound needs statistics in every chunk that holds a value."""
    held = [(column.struct(Column.STATISTICS) or Struct(), column.number(Column.VALUES)) for column in chunks]
    valued = [stats for stats, values in held if stats.integer(Stats.NULLS) != values]
    decode = _decoder(leaf) if order == TYPE_ORDER else None
    lower, upper = (_bound(valued, field, pick, decode) for field, pick in ((Stats.MIN, min), (Stats.MAX, max)))
    exact = all(stats.boolean(field) is True for stats in valued for field in (Stats.MIN_EXACT, Stats.MAX_EXACT))
    return ColumnMetrics(
        path=leaf.path,
        field_id=leaf.element.field_id,
        physical=leaf.element.physical or "",
        logical=leaf.element.logical,
        size=sum(column.number(Column.COMPRESSED) for column in chunks),
        values=sum(values for _, values in held),
        nulls=_sum([stats.integer(Stats.NULLS) for stats, _ in held]),
        nans=_sum([stats.integer(Stats.NANS) for stats, _ in held]),
        lower=lower,
        upper=upper,
        exact=exact or leaf.element.physical not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _bound(chunks: Sequence[Struct], field: Stats, pick: Callable[..., Any], decode: _Decode | None) -> bytes | None:
    bounds = [stats.binary(field) for stats in chunks]
    if decode is None or not bounds:
        return None
    values: list[tuple[Any, bytes]] = []
    for bound in bounds:
        value = None if bound is None else _decoded(bound, decode)
        if bound is None or value is None or value != value:  # noqa: PLR0124 a NaN bounds nothing
            return None
        values.append((value, bound))
    chosen: tuple[Any, bytes] = pick(values, key=lambda pair: pair[0])
    return _signed_zero(chosen[1], chosen[0], field)


def _decoded(bound: bytes, decode: _Decode) -> Any:
    try:
        return decode(bound)
    except struct.error:
        return None


def _signed_zero(bound: bytes, value: Any, field: Stats) -> bytes:
    """A zero may stand for both of its signs, so a lower bound is the negative one, an upper bound the positive one."""
    if not isinstance(value, float) or value:
        return bound
    return struct.pack("<f" if len(bound) == 4 else "<d", -0.0 if field == Stats.MIN else 0.0)


def _decoder(leaf: Leaf) -> _Decode | None:
    """How values of a column compare; None where their order is not defined."""
    logical, physical = leaf.element.logical, leaf.element.physical
    if logical in _UNORDERED or logical.startswith(("logical", "converted 21")):
        return None
    unsigned = logical.startswith("int") and logical.endswith("unsigned)")
    match physical:
        case "BOOLEAN":
            return _unpacked("<?")
        case "INT32":
            return _unpacked("<I" if unsigned else "<i")
        case "INT64":
            return _unpacked("<Q" if unsigned else "<q")
        case "FLOAT":
            return _unpacked("<f")
        case "DOUBLE":
            return _unpacked("<d")
        case "BYTE_ARRAY" | "FIXED_LEN_BYTE_ARRAY" if logical.startswith("decimal"):
            return lambda bound: int.from_bytes(bound, "big", signed=True)
        case "BYTE_ARRAY" | "FIXED_LEN_BYTE_ARRAY":
            return lambda bound: bound
        case _:
            return None


def _unpacked(layout: str) -> _Decode:
    return lambda bound: struct.unpack(layout, bound)[0]
