"""A catalog that PyIceberg speaks to: REST, Glue, Hive."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from neve.catalog.backend import Loaded
from neve.catalog.files import Files
from neve.errors import AlreadyExists, StorageError, Unsupported
from neve.model.names import CATALOG, Namespace, TableName
from neve.model.specs import TableSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


class RemoteBackend:
    def __init__(self, properties: Mapping[str, str], files: Files) -> None:
        self._properties = dict(properties)
        self._files = files

    @cached_property
    def _catalog(self) -> PyIcebergCatalog:
        from pyiceberg.catalog import load_catalog

        from neve.catalog.commits import as_json

        def write(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
            with io.new_output(metadata_path).create() as stream:
                stream.write(json.dumps(as_json(metadata)).encode())

        try:
            catalog = load_catalog(CATALOG, **self._properties)
        except (OSError, ValueError) as exc:
            raise StorageError(f"cannot reach the catalog: {exc}", hint="check catalog.uri; run `neve doctor`") from exc
        catalog._write_metadata = write  # type: ignore[attr-defined]
        return catalog

    def namespaces(self) -> list[Namespace]:
        found: set[Namespace] = set()
        todo: list[Namespace] = [()]
        while todo:
            for child in self._catalog.list_namespaces(todo.pop()):
                if child and child not in found:
                    found.add(child)
                    todo.append(child)
        return sorted(found)

    def tables(self) -> list[TableName]:
        return sorted(
            {
                TableName(tuple(identifier[:-1]), identifier[-1])
                for namespace in self.namespaces()
                for identifier in self._catalog.list_tables(namespace)
            }
        )

    def metadata_locations(self) -> dict[TableName, str]:
        return {name: location for name in self.tables() if (location := self.metadata_location(name)) is not None}

    def metadata_location(self, name: TableName) -> str | None:
        loaded = self.load(name)
        return None if loaded is None else loaded.location

    def load(self, name: TableName) -> Loaded | None:
        from pyiceberg.exceptions import NoSuchTableError

        from neve.catalog.commits import as_json

        try:
            table = self._catalog.load_table(name.identifier)
        except NoSuchTableError:
            return None
        return Loaded(table.metadata_location, as_json(table.metadata))

    def create(self, spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        from neve.catalog.commits import build_metadata

        metadata = build_metadata(spec, location=location, properties=properties)
        try:
            self._catalog.create_table(
                spec.name.identifier,
                metadata.schema(),
                location=location,
                partition_spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                properties=dict(properties),
            )
        except TableAlreadyExistsError as exc:
            raise _taken(spec.name) from exc

    def register(self, name: TableName, metadata_location: str) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self._catalog.register_table(name.identifier, metadata_location)
        except TableAlreadyExistsError as exc:
            raise _taken(name) from exc

    def rename(self, old: TableName, new: TableName, *, expected: str) -> bool:
        """These catalogs rename by name alone: a rival who comes between look and deed is not seen."""
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        if self.metadata_location(old) != expected:
            return False
        try:
            self._catalog.rename_table(old.identifier, new.identifier)
        except TableAlreadyExistsError as exc:
            raise _taken(new) from exc
        except NoSuchTableError:
            return False
        return True

    exchanges = False

    def supersede(self, name: TableName, aside: TableName, *, expected: str) -> bool:
        raise Unsupported(f"this catalog cannot put {aside} in the place of {name} in one step ({expected})")

    def exchange(self, one: TableName, other: TableName, *, expected: tuple[str, str]) -> bool:
        raise Unsupported(f"this catalog cannot exchange {one} and {other} in one step ({' and '.join(expected)})")

    def drop(self, name: TableName, *, expected: str) -> bool:
        """As with `rename`: looked at first, then dropped by name."""
        from pyiceberg.exceptions import NoSuchTableError

        if self.metadata_location(name) != expected:
            return False
        try:
            self._catalog.drop_table(name.identifier)
        except NoSuchTableError:
            return False
        return True

    def remove_snapshots(
        self,
        name: TableName,
        snapshots: Collection[int],
        references: Collection[str],
        *,
        expected: str,
    ) -> bool:
        """These catalogs make the change and set the time themselves; what they are told to check are references."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table.update import (
            AssertRefSnapshotId,
            AssertTableUUID,
            RemoveSnapshotRefUpdate,
            RemoveSnapshotsUpdate,
            TableUpdate,
        )

        table = self.open_table(name)
        if table.metadata_location != expected:
            return False
        checks = [
            AssertRefSnapshotId(ref=ref, snapshot_id=found.snapshot_id) for ref, found in table.metadata.refs.items()
        ]
        updates: list[TableUpdate] = [
            *(RemoveSnapshotRefUpdate(ref_name=reference) for reference in references),
            *([RemoveSnapshotsUpdate(snapshot_ids=list(snapshots))] if snapshots else []),
        ]
        try:
            self._catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid), *checks), (*updates,))
        except CommitFailedException:
            return False
        return True

    def set_tags(self, name: TableName, put: Mapping[str, int], remove: Collection[str]) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        table = self.open_table(name)
        update = table.manage_snapshots()
        for tag, snapshot_id in put.items():
            update = update.create_tag(snapshot_id, tag)
        for tag in remove:
            if tag in table.metadata.refs:
                update = update.remove_tag(tag)
        try:
            update.commit()
        except CommitFailedException:
            return False
        return True

    def add_namespace(self, namespace: Namespace) -> bool:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        try:
            self._catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            return False
        return True

    def drop_namespace(self, namespace: Namespace) -> bool:
        from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

        try:
            self._catalog.drop_namespace(namespace)
        except (NoSuchNamespaceError, NamespaceNotEmptyError):
            return False
        return True

    def open_table(self, name: TableName) -> Table:
        return self._catalog.load_table(name.identifier)

    def close(self) -> None:
        self._catalog.close()


def _taken(name: TableName) -> AlreadyExists:
    return AlreadyExists(f"table {name} already exists", hint="choose another name, or delete it first")
