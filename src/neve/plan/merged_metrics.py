"""What manifests say of several files, as what they would say of one that holds all their rows. Pure.

Counts add up where every file has them. A bound holds where every file that has values in the column has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import copysign

from neve.model.bounds import comparable
from neve.model.facts import Bound
from neve.model.rewrites import FileMetrics

_Ordered = tuple[tuple[Bound, float], bytes]


def merged_metrics(parts: Sequence[FileMetrics], types: Mapping[int, str]) -> FileMetrics:
    """Of columns that the table still has; `types` are theirs, by field id."""
    return FileMetrics(
        sizes=_sums([part.sizes for part in parts], types),
        values=_sums([part.values for part in parts], types),
        nulls=_sums([part.nulls for part in parts], types),
        nans=_sums([part.nans for part in parts], types),
        lower=_bounds(parts, types, lambda part: part.lower, min),
        upper=_bounds(parts, types, lambda part: part.upper, max),
    )


def _sums(counts: Sequence[Mapping[int, int]], types: Mapping[int, str]) -> dict[int, int]:
    known = set(types).intersection(*counts) if counts else set()
    return {column: sum(count[column] for count in counts) for column in sorted(known)}


def _bounds(
    parts: Sequence[FileMetrics],
    types: Mapping[int, str],
    side: Callable[[FileMetrics], Mapping[int, bytes]],
    best: Callable[[list[_Ordered]], _Ordered],
) -> dict[int, bytes]:
    found = {}
    for column in sorted({column for part in parts for column in side(part) if column in types}):
        held = [_held(part, side(part).get(column), column, types[column]) for part in parts]
        known = [bound for bound in held if isinstance(bound, tuple)]
        if None not in held and known:
            found[column] = best(known)[1]
    return found


def _held(part: FileMetrics, raw: bytes | None, column: int, kind: str) -> _Ordered | bool | None:
    """A bound that compares, True where the file has no values to bound, None where nobody knows.

    Iceberg puts −0.0 before 0.0.
    """
    if raw is None:
        return True if _is_empty(part, column) else None
    value = comparable(kind, raw)
    return None if value is None else ((value, copysign(1, value) if isinstance(value, float) else 0), raw)


def _is_empty(part: FileMetrics, column: int) -> bool:
    """Whether all values of a column are NULL or NaN."""
    values, nulls = part.values.get(column), part.nulls.get(column)
    return values is not None and nulls is not None and values == nulls + part.nans.get(column, 0)
