"""A table's snapshots as steps, with the schema of each: what the planner of changes asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neve.catalog.backend import Loaded
from neve.catalog.facts import table_facts
from neve.errors import StorageError
from neve.model.changes import Column, Lineage, SnapshotStep
from neve.model.names import TableName


def table_lineage(name: TableName, loaded: Loaded) -> Lineage:
    """The lineage that a metadata file describes."""
    facts = table_facts(name, loaded.location, loaded.metadata)
    try:
        return Lineage(
            facts=facts,
            steps={json["snapshot-id"]: _step(json, loaded.metadata) for json in loaded.metadata.get("snapshots", ())},
            schemas={schema["schema-id"]: _columns(schema) for schema in loaded.metadata["schemas"]},
            schema_id=loaded.metadata["current-schema-id"],
            partition_sources={
                spec["spec-id"]: tuple(field["source-id"] for field in spec["fields"] if field["transform"] != "void")
                for spec in loaded.metadata["partition-specs"]
            },
        )
    except (KeyError, TypeError) as exc:
        raise StorageError(f"{loaded.location} is not Iceberg table metadata that Névé knows ({exc!r})") from exc


def _step(json: Mapping[str, Any], metadata: Mapping[str, Any]) -> SnapshotStep:
    return SnapshotStep(
        id=json["snapshot-id"],
        parent_id=json.get("parent-snapshot-id"),
        operation=json.get("summary", {}).get("operation", "unknown"),
        schema_id=json.get("schema-id", metadata["current-schema-id"]),
        manifest_list=json["manifest-list"],
    )


def _columns(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    return tuple(
        Column(id=field["id"], name=field["name"], type=field["type"], default=field.get("initial-default"))
        for field in schema["fields"]
    )
