"""The files of a table's current snapshot with all that manifests say of them: what compaction works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neve.catalog.backend import Loaded
from neve.catalog.facts import partition_text, table_facts
from neve.catalog.files import Reader
from neve.catalog.manifests import Place, read_entries, read_manifest, read_manifest_list
from neve.errors import StorageError
from neve.model.changes import LiveFile
from neve.model.names import TableName
from neve.model.rewrites import TableFiles


def read_table_files(name: TableName, loaded: Loaded, read: Reader) -> TableFiles:
    """Each file of metadata is read once."""
    facts, metadata = table_facts(name, loaded.location, loaded.metadata), loaded.metadata
    manifests = [] if facts.current is None else read_manifest_list(facts.current.manifest_list, read)
    try:
        places = {spec["spec-id"]: _places(spec["fields"]) for spec in metadata["partition-specs"]}
        return TableFiles(
            facts=facts,
            spec_id=metadata["default-spec-id"],
            unpartitioned=frozenset(
                spec["spec-id"]
                for spec in metadata["partition-specs"]
                if all(field["transform"] == "void" for field in spec["fields"])
            ),
            ids={field["name"]: field["id"] for field in _current_schema(metadata)["fields"]},
            types=dict(_leaves(_current_schema(metadata)["fields"])),
            data=tuple(
                entry
                for item in manifests
                if not item.deletes
                for entry in read_entries(item, read, places[item.spec_id])
            ),
            deletes=tuple(file for item in manifests if item.deletes for file in read_manifest(item, read)),
        )
    except (KeyError, StopIteration, TypeError) as exc:
        raise StorageError(f"{loaded.location} is not Iceberg table metadata that Névé knows ({exc!r})") from exc


def _places(fields: list[Mapping[str, Any]]) -> Place:
    """For the files of a partition spec."""

    def place(file: LiveFile) -> Mapping[str, str | None]:
        return {
            field["name"]: partition_text(field["transform"], value)
            for field, value in zip(fields, file.partition, strict=True)
        }

    return place


def _current_schema(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    wanted = metadata["current-schema-id"]
    found: Mapping[str, Any] = next(schema for schema in metadata["schemas"] if schema["schema-id"] == wanted)
    return found


def _leaves(fields: list[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Ids and types of all columns that hold values, in lists and maps too."""
    for field in fields:
        yield from _leaf(field["id"], field["type"])


def _leaf(number: int, kind: Any) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        yield number, kind
    elif kind["type"] == "struct":
        yield from _leaves(kind["fields"])
    elif kind["type"] == "list":
        yield from _leaf(kind["element-id"], kind["element"])
    else:
        yield from _leaf(kind["key-id"], kind["key"])
        yield from _leaf(kind["value-id"], kind["value"])
