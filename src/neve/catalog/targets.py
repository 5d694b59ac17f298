"""What a writer of new rows must know of a table, from its metadata."""

from __future__ import annotations

from neve.catalog.backend import Loaded
from neve.catalog.facts import table_facts
from neve.errors import StorageError
from neve.model.appends import AppendTarget
from neve.model.names import TableName


def append_target(name: TableName, loaded: Loaded) -> AppendTarget:
    metadata = loaded.metadata
    try:
        wanted = int(metadata["current-schema-id"])
        schema = next(schema for schema in metadata["schemas"] if schema["schema-id"] == wanted)
        spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
        return AppendTarget(
            facts=table_facts(name, loaded.location, metadata),
            schema_id=wanted,
            spec_id=int(metadata["default-spec-id"]),
            spec=tuple(spec["fields"]),
            fields=tuple(schema["fields"]),
        )
    except (KeyError, StopIteration, TypeError, ValueError) as exc:
        raise StorageError(f"{loaded.location} is not Iceberg table metadata that Névé knows ({exc!r})") from exc
