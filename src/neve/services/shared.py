"""Who else has files in or around a table's folder: other tables, whatever is in the trash, plain folders."""

from __future__ import annotations

from dataclasses import dataclass

from neve.catalog.files import canonical_folder
from neve.errors import StorageError
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.plan.tables import folder_of, overlap
from neve.services.context import Context

_ELSEWHERE = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another owner of files, with the folders they may lie in. `metadata_location` leads to them, if it has any."""

    label: str
    folders: tuple[str, ...]
    metadata_location: str | None = None


def others_around(context: Context, facts: TableFacts) -> list[Neighbour]:
    """Whoever has a folder within the table's, around it, or the same; tables that are being rebuilt aside too."""
    ours = canonical_folder(facts.location)
    return [
        other
        for other in _everyone_else(context, facts)
        if any(overlap(ours, canonical_folder(folder)) for folder in other.folders)
    ]


def folders_of(facts: TableFacts) -> tuple[str, ...]:
    """Where a table's files may lie: its folder, that of its metadata, and those that its properties name."""
    named = (facts.properties[key] for key in _ELSEWHERE if key in facts.properties)
    return (facts.location, folder_of(facts.metadata_location), *named)


def _everyone_else(context: Context, facts: TableFacts) -> list[Neighbour]:
    found = [
        Neighbour(str(name), _folders(context, name, place), place)
        for name, place in context.catalog.metadata_locations(aside=True).items()
        if name != facts.name
    ]
    found += [
        Neighbour(f"{row.table_name} in the trash", (row.location,), row.metadata_location)
        for row in context.store.trash.list()
        if row.table_uuid != facts.uuid
    ]
    found += [
        Neighbour(f"{row.table_name}, a folder of {row.format} files", (row.base_path,))
        for row in context.store.registry.list()
        if row.format != "iceberg"
    ]
    return found


def _folders(context: Context, name: TableName, metadata_location: str) -> tuple[str, ...]:
    """Of a table whose metadata cannot be read, as far as its path tells."""
    try:
        return folders_of(context.catalog.facts_at(name, metadata_location))
    except StorageError:
        return (folder_of(metadata_location),)
