"""Distinct values of columns, as the statistics in a table's metadata give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neve.errors import StorageError
from neve.model.facts import TableFacts
from neve.model.retention import ColumnStatistics

_THETA = "apache-datasketches-theta-v1"


def read_statistics(facts: TableFacts, metadata: Mapping[str, Any]) -> list[ColumnStatistics]:
    """Of each column of the table, what was counted last, in the order of the columns."""
    try:
        names = _names(metadata)
        order = {snapshot.id: snapshot.sequence_number for snapshot in facts.snapshots}
        known = sorted(metadata.get("statistics", ()), key=lambda item: order.get(item["snapshot-id"], -1))
        found = {item.column: item for file in known for item in _columns(file, names, facts)}
    except (KeyError, TypeError, ValueError) as exc:
        raise StorageError(f"{facts.metadata_location} has statistics that Névé cannot read ({exc!r})") from exc
    return [found[name] for name in names.values() if name in found]


def _columns(file: Mapping[str, Any], names: Mapping[int, str], facts: TableFacts) -> Iterator[ColumnStatistics]:
    snapshot = facts.snapshot(file["snapshot-id"])
    for blob in file.get("blob-metadata", ()):
        fields, told = blob["fields"], blob.get("properties", {}).get("ndv")
        if blob["type"] == _THETA and told is not None and len(fields) == 1 and fields[0] in names:
            yield ColumnStatistics(
                column=names[fields[0]],
                distinct_values=int(told),
                snapshot=file["snapshot-id"],
                at=snapshot.at if snapshot else None,
            )


def _names(metadata: Mapping[str, Any]) -> dict[int, str]:
    current = metadata["current-schema-id"]
    schema = next(item for item in metadata["schemas"] if item["schema-id"] == current)
    return {field["id"]: field["name"] for field in schema["fields"]}
