"""A catalog in SQLite or PostgreSQL: rows through DB-API, metadata as files, PyIceberg only when something changes."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from neve.catalog.backend import Loaded
from neve.catalog.editing import Json, fallen_off, next_location, succeeding, with_tags, without_snapshots
from neve.catalog.facts import load_current, read_metadata
from neve.catalog.files import Files
from neve.catalog.rows import CatalogRows
from neve.errors import AlreadyExists
from neve.model.names import Namespace, TableName
from neve.model.specs import TableSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.catalog.commits import MetadataCommitter


class SqlBackend:
    def __init__(self, rows: CatalogRows, files: Files) -> None:
        self._rows = rows
        self._files = files

    @cached_property
    def _committer(self) -> MetadataCommitter:
        from neve.catalog.commits import MetadataCommitter

        return MetadataCommitter(self._rows, self._files)

    def namespaces(self) -> list[Namespace]:
        return self._rows.namespaces()

    def tables(self) -> list[TableName]:
        return [name for name, _ in self._rows.tables()]

    def metadata_locations(self) -> dict[TableName, str]:
        return dict(self._rows.tables())

    def metadata_location(self, name: TableName) -> str | None:
        return self._rows.metadata_location(name)

    def load(self, name: TableName) -> Loaded | None:
        return load_current(lambda: self._rows.metadata_location(name), self._files.read)

    def create(self, spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> None:
        metadata_location = self._committer.create(spec, location=location, properties=properties)
        try:
            self._rows.insert(spec.name, metadata_location)
        except AlreadyExists:
            self._files.remove_tree(location)
            raise

    def register(self, name: TableName, metadata_location: str) -> None:
        self._rows.insert(name, metadata_location)

    def rename(self, old: TableName, new: TableName, *, expected: str) -> bool:
        return self._rows.rename(old, new, expected=expected)

    exchanges = True

    def supersede(self, name: TableName, aside: TableName, *, expected: str) -> bool:
        return self._rows.supersede(name, aside, expected=expected)

    def exchange(self, one: TableName, other: TableName, *, expected: tuple[str, str]) -> bool:
        return self._rows.exchange(one, other, expected=expected)

    def drop(self, name: TableName, *, expected: str) -> bool:
        return self._rows.delete(name, expected=expected)

    def remove_snapshots(
        self, name: TableName, snapshots: Collection[int], references: Collection[str], *, expected: str
    ) -> bool:
        if self._rows.metadata_location(name) != expected:
            return False
        before = read_metadata(expected, self._files.read)
        return self._swap_in(name, expected, before, without_snapshots(before, snapshots, references))

    def set_tags(self, name: TableName, put: Mapping[str, int], remove: Collection[str]) -> bool:
        loaded = self.load(name)
        if loaded is None:
            return False
        after = with_tags(loaded.metadata, put, remove)
        if after["refs"] == loaded.metadata.get("refs", {}):
            return True
        return self._swap_in(name, loaded.location, loaded.metadata, after)

    def _swap_in(self, name: TableName, expected: str, before: Json, after: Json) -> bool:
        """Makes changed metadata the table's own; false when the name does not point at the expected one.

        Stamped by the world's clock, as PyIceberg and Spark do it: a lake's own may be told to run ahead, and Iceberg
        takes no commit that is older than the one before.
        """
        content = succeeding(after, before, location=expected, now_ms=time.time_ns() // 1_000_000)
        target = next_location(content.get("properties", {}), content["location"], expected)
        self._files.write_new(target, json.dumps(content).encode())
        if not self._rows.replace(name, expected=expected, location=target):
            self._files.remove(target)
            return False
        self._files.remove_all(fallen_off(before, content))
        return True

    def add_namespace(self, namespace: Namespace) -> bool:
        return self._rows.add_namespace(namespace)

    def drop_namespace(self, namespace: Namespace) -> bool:
        return self._rows.drop_namespace(namespace)

    def open_table(self, name: TableName) -> Table:
        return self._committer.load_table(name.identifier)

    def close(self) -> None:
        self._rows.close()
