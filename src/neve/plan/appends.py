"""Whether new rows can be written by this process alone, and what they and their file then say. Pure.

Iceberg's own writer is the oracle: where it would do something that we do not, the rows are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neve.model.appends import AppendTarget, FieldJson
from neve.model.results import Reason
from neve.plan.partition_values import partition_fields

MOST_ROWS = 10_000
"""Of a file that this process writes: it stays small, and is made in the time of a commit."""

MOST_PARTITIONED = 500
"""The same where each row may need a file of its own."""

_TYPES = re.compile(
    r"(boolean|int|long|float|double|string|binary|date|timestamp|timestamptz"
    r"|decimal\(\s*\d+\s*,\s*\d+\s*\)|fixed\[\d+\])\Z"
)
_METRICS = "write.metadata.metrics."
_TRUNCATE = re.compile(r"truncate\((\d+)\)\Z")
_TRUNCATED = 16
_COLUMNS_WITH_METRICS = 100
_NOT_OURS = {
    "write.format.default": ("parquet",),
    "write.object-storage.enabled": ("false",),
    "write.data.path": (),
    "write.folder-storage.path": (),
    "write.location-provider.impl": (),
    "encryption.key-id": (),
    "write.wap.enabled": ("false",),
}
"""Properties that change what is written or where, with the values by which they do not."""

_BLOOM = "write.parquet.bloom-filter-enabled.column."
_CODEC = "write.parquet.compression-codec"
CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
}
"""Iceberg's words, and pyarrow's."""


def spark_needed(target: AppendTarget, rows: int) -> Reason | None:
    """Why Spark is to write these rows; None where this process can."""
    facts = target.facts
    if rows > MOST_ROWS:
        return Reason(code="many_rows", detail=f"more than {MOST_ROWS:,} rows")
    if target.spec and rows > MOST_PARTITIONED:
        return Reason(code="many_rows", detail=f"more than {MOST_PARTITIONED:,} rows of a partitioned table")
    if partition_fields(target.spec, target.fields) is None:
        return Reason(code="partitioned", detail="the table is partitioned in a way that only Spark writes")
    if facts.sort_by:
        return Reason(code="sorted", detail="the table is sorted")
    for key, plain in _NOT_OURS.items():
        if (found := facts.properties.get(key)) is not None and found.lower() not in plain:
            return Reason(code="property", detail=f"the table has {key}={found}")
    if any(key.startswith(_BLOOM) and value == "true" for key, value in facts.properties.items()):
        return Reason(code="bloom_filters", detail="the table has Bloom filters")
    if facts.properties.get(_CODEC, "zstd").lower() not in CODECS:
        return Reason(code="codec", detail=f"{facts.properties[_CODEC]} is a codec that only Spark writes")
    columns = list(leaves(target.fields))
    if len(columns) > _COLUMNS_WITH_METRICS:
        return Reason(code="many_columns", detail=f"more than {_COLUMNS_WITH_METRICS} columns")
    for leaf in columns:
        if not _TYPES.match(leaf.type):
            return Reason(code="type", detail=f"{leaf.path} is a {leaf.type}")
    if (name := _shared_name(target.fields)) is not None:
        return Reason(code="names", detail=f"two columns would be called {name} in a file")
    return None


def _shared_name(fields: Sequence[FieldJson]) -> str | None:
    """A name that two fields of one level have in a file."""
    names = [stored_name(field["name"]) for field in fields]
    inner = [name for field in fields if (name := _shared_within(field["type"])) is not None]
    return next((name for name in names if names.count(name) > 1), inner[0] if inner else None)


def _shared_within(kind: Any) -> str | None:
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        return _shared_name(kind["fields"])
    within = (kind.get(part) for part in ("element", "key", "value"))
    return next((name for part in within if part and (name := _shared_within(part)) is not None), None)


def stored_name(name: str) -> str:
    """A column's name as Iceberg's writer puts it into a file: with letters, digits and _ alone.

    >>> stored_name("a b"), stored_name("1st"), stored_name("é")
    ('a_x20b', '_1st', 'é')
    """
    raw = name.encode("utf-16-be")
    units = [chr(int.from_bytes(raw[place : place + 2], "big")) for place in range(0, len(raw), 2)]
    found = "".join(unit if unit.isalpha() or unit.isdecimal() or unit == "_" else _escaped(unit) for unit in units)
    return f"_{found}" if units and units[0].isdecimal() else found


def _escaped(unit: str) -> str:
    return f"_x{ord(unit):X}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that holds values. `repeated` is one within a list or a map."""

    id: int
    type: str
    path: str
    repeated: bool


def leaves(fields: Sequence[FieldJson]) -> Iterator[Leaf]:
    """In the order of a Parquet file: depth first."""
    for field in fields:
        yield from _leaves(field["id"], field["type"], field["name"], repeated=False)


def _leaves(number: int, kind: Any, path: str, *, repeated: bool) -> Iterator[Leaf]:
    if isinstance(kind, str):
        yield Leaf(number, kind, path, repeated)
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield from _leaves(field["id"], field["type"], f"{path}.{field['name']}", repeated=repeated)
    elif kind["type"] == "list":
        yield from _leaves(kind["element-id"], kind["element"], f"{path}.element", repeated=True)
    else:
        yield from _leaves(kind["key-id"], kind["key"], f"{path}.key", repeated=True)
        yield from _leaves(kind["value-id"], kind["value"], f"{path}.value", repeated=True)


def kept_metrics(properties: Mapping[str, str], path: str) -> tuple[bool, int | None]:
    """What a manifest is to keep of a column: whether counts, and how long its bounds are, 0 for none, None for whole.

    >>> kept_metrics({}, "a"), kept_metrics({"write.metadata.metrics.column.a": "counts"}, "a")
    ((True, 16), (True, 0))
    """
    asked = properties.get(f"{_METRICS}column.{path}", properties.get(f"{_METRICS}default", "")).lower()
    if match := _TRUNCATE.match(asked):
        return True, int(match[1])
    return {"none": (False, 0), "counts": (True, 0), "full": (True, None)}.get(asked, (True, _TRUNCATED))


def codec_of(properties: Mapping[str, str]) -> str:
    """The codec that a table asks for, as pyarrow names it."""
    return CODECS[properties.get(_CODEC, "zstd").lower()]


def with_defaults(fields: Sequence[FieldJson], record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record with what the table has for columns that it does not name: Iceberg writes both in the same JSON."""
    missing = {
        field["name"]: field["write-default"]
        for field in fields
        if field["name"] not in record and isinstance(field["type"], str) and field.get("write-default") is not None
    }
    inner = {
        field["name"]: with_defaults(field["type"]["fields"], record[field["name"]])
        for field in fields
        if isinstance(field["type"], dict)
        and field["type"]["type"] == "struct"
        and isinstance(record.get(field["name"]), Mapping)
    }
    return {**record, **missing, **inner} if missing or inner else record
