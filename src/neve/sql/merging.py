"""The rows of a key-range table as its filters and aggregations make them: one SELECT over a relation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from neve.model.merging import AgeOff, Aggregation, Merging
from neve.model.names import quote
from neve.model.types import Field, Primitive, spelled

_MAPS = {"map_sum": "x + y", "map_min": "LEAST(x, y)", "map_max": "GREATEST(x, y)"}


def merged(relation: str, merging: Merging, columns: Sequence[Field], keys: Sequence[str], *, now: datetime) -> str:
    """`relation` is SQL; `columns` are all that it is read for, `keys` those that make rows one.

    Without aggregations every column of the relation stays.
    """
    where = " AND ".join(_young(item, columns, now) for item in merging.age_offs) or "true"
    if not merging.aggregations:
        return f"SELECT * FROM {relation} WHERE {where}"  # noqa: S608 - names are quoted
    group = ", ".join(map(quote, keys))
    chosen = ", ".join(_chosen(merging.aggregations, columns, keys))
    return f"SELECT {chosen} FROM {relation} WHERE {where} GROUP BY {group}"  # noqa: S608 - names are quoted


def _chosen(aggregations: Sequence[Aggregation], columns: Sequence[Field], keys: Sequence[str]) -> Iterator[str]:
    operations = {item.column: item.operation for item in aggregations}
    for column in columns:
        name = quote(column.name)
        yield name if column.name in keys else f"{_aggregate(operations[column.name], column)} AS {name}"


def _aggregate(operation: str, column: Field) -> str:
    """A sum is wider than what it sums, and has to fit the column again: one that does not fails the query."""
    name, kind = quote(column.name), spelled(column.type)
    if operation not in _MAPS:
        return f"CAST({operation.upper()}({name}) AS {kind})"
    both = f"COALESCE({_MAPS[operation]}, x, y)"
    merge = f"COALESCE(MAP_ZIP_WITH(a, b, (k, x, y) -> {both}), a, b)"
    return f"REDUCE(COLLECT_LIST({name}), CAST(NULL AS {kind}), (a, b) -> CAST({merge} AS {kind}))"


def _young(item: AgeOff, columns: Sequence[Field], now: datetime) -> str:
    """NULL is not young."""
    kind = next(column.type for column in columns if column.name == item.column)
    least = cutoff(item, now)
    if kind == Primitive("date"):
        return f"{quote(item.column)} >= DATE'{least:%Y-%m-%d}'"
    word = "TIMESTAMP_LTZ" if kind == Primitive("timestamptz") else "TIMESTAMP_NTZ"
    zone = "Z" if kind == Primitive("timestamptz") else ""
    return f"{quote(item.column)} >= {word}'{least:%Y-%m-%d %H:%M:%S.%f}{zone}'"


def cutoff(item: AgeOff, now: datetime) -> datetime:
    """The first moment that is not too long ago, in UTC."""
    return now.astimezone(UTC) - timedelta(days=item.days)
