"""The lake's catalog as the services use it: every read is JVM-free, every change is one commit or none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neve.catalog.backend import Backend
from neve.catalog.entries import read_table_files
from neve.catalog.facts import (
    partition_columns,
    read_layout,
    read_manifest_sizes,
    read_metadata,
    table_facts,
)
from neve.catalog.files import Files
from neve.catalog.lineage import table_lineage
from neve.catalog.manifests import read_manifest, read_manifest_list
from neve.catalog.reach import Reach
from neve.catalog.rows import CatalogRows
from neve.catalog.statistics import read_statistics
from neve.catalog.targets import append_target
from neve.config import CommitSettings, LoadedSettings
from neve.config.connections import SQL_CATALOGS, arrow_s3, pyiceberg_properties, sql_catalog_uri
from neve.database import open_database
from neve.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    NamespaceNotFound,
    NeveError,
    NotEmpty,
    StalePlan,
    StorageError,
    TableNotFound,
    nearest,
)
from neve.model.appends import AppendTarget
from neve.model.changes import Lineage, LiveFile, Manifest, SnapshotStep
from neve.model.facts import FileFact, Layout, ManifestSize, TableFacts
from neve.model.names import Namespace, TableName, is_aside
from neve.model.retention import ColumnStatistics, StoredFile
from neve.model.rewrites import TableFiles
from neve.model.specs import Alteration, TableSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

Elsewhere = Callable[[TableName], NeveError | None]


def _nowhere(_: TableName) -> NeveError | None:
    return None


def open_catalog(loaded: LoadedSettings, *, elsewhere: Elsewhere = _nowhere) -> Catalog:
    """The catalog that the settings name; a SQL catalog's tables are made when missing.

    `elsewhere` knows of names that are no Iceberg tables, and what to say of them.
    """
    files = Files(arrow_s3(loaded))
    backend: Backend
    if loaded.settings.catalog.type in SQL_CATALOGS:
        from neve.catalog.sql import SqlBackend

        rows = CatalogRows(open_database(sql_catalog_uri(loaded), create=True, what="catalog"))
        rows.ensure_tables()
        backend = SqlBackend(rows, files)
    else:
        from neve.catalog.remote import RemoteBackend

        backend = RemoteBackend(pyiceberg_properties(loaded), files)
    return Catalog(backend, files, loaded.settings.commit, elsewhere)


class Catalog:
    def __init__(self, backend: Backend, files: Files, commit: CommitSettings, elsewhere: Elsewhere) -> None:
        self._backend = backend
        self._commit = commit
        self._elsewhere = elsewhere
        self.files = files

    def namespaces(self) -> list[Namespace]:
        return self._backend.namespaces()

    def tables(self) -> list[TableName]:
        """Every table; those that are being built aside are nobody's yet."""
        return [name for name in self._backend.tables() if not is_aside(name)]

    def exists(self, name: TableName) -> bool:
        return self._backend.metadata_location(name) is not None

    def metadata_location(self, name: TableName) -> str:
        """Where the table's current metadata lies, even when it cannot be read."""
        location = self._backend.metadata_location(name)
        if location is None:
            raise self.unknown(name)
        return location

    def metadata_locations(self, *, aside: bool = False) -> dict[TableName, str]:
        """Where the current metadata of every table lies; with `aside`, of those that are being built too."""
        found = self._backend.metadata_locations()
        return {name: place for name, place in found.items() if aside or not is_aside(name)}

    def facts(self, name: TableName) -> TableFacts:
        loaded = self._backend.load(name)
        if loaded is None:
            raise self.unknown(name)
        return table_facts(name, loaded.location, loaded.metadata)

    def facts_at(self, name: TableName, metadata_location: str) -> TableFacts:
        """Facts from a metadata file that no catalog need know."""
        return table_facts(name, metadata_location, read_metadata(metadata_location, self.files.read))

    def lineage(self, name: TableName) -> Lineage:
        """The table's snapshots as steps; facts of the same metadata come with it."""
        loaded = self._backend.load(name)
        if loaded is None:
            raise self.unknown(name)
        return table_lineage(name, loaded)

    def append_target(self, name: TableName) -> AppendTarget:
        """The table as a writer of new rows must know it."""
        loaded = self._backend.load(name)
        if loaded is None:
            raise self.unknown(name)
        return append_target(name, loaded)

    def manifests(self, step: SnapshotStep) -> list[Manifest]:
        return self.manifests_in(step.manifest_list)

    def manifests_in(self, manifest_list: str) -> list[Manifest]:
        return read_manifest_list(manifest_list, self.files.read)

    def manifest_files(self, manifest: Manifest) -> list[LiveFile]:
        return read_manifest(manifest, self.files.read)

    def table_files(self, name: TableName) -> TableFiles:
        """The current files with all that is said of them; facts of the same metadata come with it."""
        loaded = self._backend.load(name)
        if loaded is None:
            raise self.unknown(name)
        return read_table_files(name, loaded, self.files.read)

    def layout(self, facts: TableFacts) -> Layout:
        """The current files of a table, with what leads to them."""
        if facts.current is None:
            return Layout(metadata_bytes=len(self.files.read(facts.metadata_location)))
        return read_layout(facts, facts.current, self.files.read)

    def manifest_sizes(self, facts: TableFacts) -> tuple[ManifestSize, ...]:
        """The manifests of a table's current snapshot."""
        return () if facts.current is None else read_manifest_sizes(facts.current, self.files.read)

    def statistics(self, facts: TableFacts) -> list[ColumnStatistics]:
        """How many distinct values columns have, of the newest snapshot that somebody counted them for."""
        return read_statistics(facts, self._metadata(facts))

    def live_files(self, facts: TableFacts) -> list[FileFact]:
        """The current files of a table."""
        return [] if facts.current is None else list(self.layout(facts).files)

    def ever_partitioned_by(self, name: TableName) -> frozenset[str]:
        """Columns that partition the files of this table, or did under an earlier layout that files may still have."""
        loaded = self._backend.load(name)
        if loaded is None:
            raise self.unknown(name)
        return partition_columns(loaded.metadata)

    def unknown(self, name: TableName) -> NeveError:
        """The error for a table that is not there, with the nearest names."""
        if (elsewhere := self._elsewhere(name)) is not None:
            return elsewhere
        known = {str(other): other for other in self.tables()}
        hint = nearest(str(name), known) or nearest(name.name, (other.name for other in known.values()))
        return TableNotFound(f"no table {name}", hint=hint or "see what there is: neve table list")

    def create(self, spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> None:
        self._backend.create(spec, location=location, properties=properties)

    def register(self, name: TableName, metadata_location: str) -> None:
        self._backend.register(name, metadata_location)

    def rename(self, old: TableName, new: TableName, *, expected: str) -> bool:
        """False when `old` no longer points at the expected metadata: look again."""
        return self._backend.rename(old, new, expected=expected)

    def drop(self, name: TableName, *, expected: str | None = None) -> bool:
        """False when the name no longer points at the expected metadata (as it is now, if None): look again."""
        return self._backend.drop(name, expected=self.metadata_location(name) if expected is None else expected)

    def ensure_namespace(self, namespace: Namespace) -> bool:
        """Makes a namespace and those above it where they are missing; false when it was there already."""
        present, made = set(self.namespaces()), False
        for depth in range(1, len(namespace) + 1):
            made = namespace[:depth] not in present and self._backend.add_namespace(namespace[:depth])
        return made

    def drop_namespace(self, namespace: Namespace) -> None:
        """Drops an empty namespace; a full one is refused, naming what it holds."""
        text = ".".join(namespace)
        if namespace not in (known := self.namespaces()):
            raise NamespaceNotFound(f"no namespace {text}", hint=nearest(text, (".".join(name) for name in known)))
        held = [str(table) for table in self.tables() if table.namespace[: len(namespace)] == namespace]
        held += [".".join(name) for name in known if len(name) > len(namespace) and name[: len(namespace)] == namespace]
        if held:
            shown = ", ".join(held[:5]) + (" …" if len(held) > 5 else "")
            raise NotEmpty(f"namespace {text} holds {len(held)}: {shown}", hint="delete or rename those first")
        if not self._backend.drop_namespace(namespace):
            raise NotEmpty(f"namespace {text} was filled meanwhile", hint="delete or rename its tables first")

    def set_properties(self, name: TableName, *, put: Mapping[str, str], remove: Sequence[str] = ()) -> None:
        def change(transaction: Transaction) -> None:
            if put:
                transaction.set_properties(dict(put))
            if remove:
                transaction.remove_properties(*remove)

        self._change(name, change)

    def swap_property(self, name: TableName, key: str, *, expected: str, value: str) -> bool:
        """Sets a property in one try; false when it is no longer the expected one, or a rival's commit came first."""
        from pyiceberg.exceptions import CommitFailedException

        table = self._backend.open_table(name)
        if table.metadata.properties.get(key) != expected:
            return False
        try:
            with table.transaction() as transaction:
                transaction.set_properties({key: value})
        except CommitFailedException:
            return False
        return True

    def alter(
        self,
        name: TableName,
        alterations: Sequence[Alteration],
        *,
        put: Mapping[str, str] | None = None,
        remove: Sequence[str] = (),
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Alterations and properties in one commit, or StalePlan when a property is no longer the expected one."""

        def change(transaction: Transaction) -> None:
            from neve.catalog.alter import apply_alterations

            properties = transaction.table_metadata.properties
            if any(properties.get(key) != value for key, value in (expected or {}).items()):
                raise StalePlan(f"{name} was changed meanwhile", hint="look at it and decide again")
            apply_alterations(transaction, alterations)
            if put:
                transaction.set_properties(dict(put))
            if gone := [key for key in remove if key in properties]:
                transaction.remove_properties(*gone)

        self._change(name, change)

    def set_aside(self, name: TableName, aside: TableName) -> str:
        """Gives the table a second, hidden name, under which it can be rebuilt unseen; which metadata both have now."""
        location = self.metadata_location(name)
        self._backend.register(aside, location)
        return location

    def supersede(self, name: TableName, aside: TableName, *, expected: str) -> bool:
        """What was rebuilt aside becomes the table, in one step; false when the table was changed meanwhile."""
        return self._backend.supersede(name, aside, expected=expected)

    def forget_aside(self, aside: TableName) -> None:
        """Takes the hidden name away, if it is there; files stay."""
        if (location := self._backend.metadata_location(aside)) is not None:
            self._backend.drop(aside, expected=location)

    def exchange(self, one: TableName, other: TableName, *, expected: tuple[str, str]) -> bool:
        """Two tables change names in one step; false when one of them was changed meanwhile."""
        return self._backend.exchange(one, other, expected=expected)

    @property
    def exchanges(self) -> bool:
        """Whether this catalog can change what several names mean in one step."""
        return self._backend.exchanges

    def set_current_snapshot(self, name: TableName, snapshot_id: int, *, expected: int | None) -> None:
        """Rolls back, or raises StalePlan when the current snapshot is no longer the expected one."""

        def change(table: Table) -> None:
            if table.metadata.current_snapshot_id != expected:
                raise StalePlan(f"{name} was written to meanwhile", hint="look at its history and decide again")
            table.manage_snapshots().set_current_snapshot(snapshot_id).commit()

        self._manage(name, change)

    def only_through(self, facts: TableFacts, snapshots: Collection[int], reach: Reach) -> list[StoredFile]:
        """Files that nothing in a table would name any more without these snapshots, each with its size.

        Raises:
            StalePlan: the table was changed since these facts.
        """
        found = reach.only_through(self._metadata(facts), frozenset(snapshots))
        return [reach.sized(file) for file in found]

    def named_files(self, metadata_location: str, reach: Reach) -> list[str]:
        """Every file that a table's metadata leads to: of all snapshots, its statistics, and earlier metadata.

        No catalog need know the metadata: a deleted table may come back.
        """
        found = reach.everything(read_metadata(metadata_location, self.files.read))
        log = self.earlier_metadata(metadata_location)
        return [metadata_location, *log, *(file.path for file in found if file.path)]

    def earlier_metadata(self, metadata_location: str) -> list[str]:
        """The metadata files that a table's log names; some may have been removed."""
        metadata = read_metadata(metadata_location, self.files.read)
        return [entry["metadata-file"] for entry in metadata.get("metadata-log", ())]

    def reach(self) -> Reach:
        """A reader of what tables name; it reads each file of metadata once."""
        return Reach(self.files)

    def remove_snapshots(self, facts: TableFacts, snapshots: Collection[int], references: Collection[str]) -> bool:
        """Takes snapshots and references off in one commit; files stay. False when the table was changed meanwhile."""
        return self._backend.remove_snapshots(facts.name, snapshots, references, expected=facts.metadata_location)

    def _metadata(self, facts: TableFacts) -> Mapping[str, Any]:
        loaded = self._backend.load(facts.name)
        if loaded is None:
            raise self.unknown(facts.name)
        if loaded.location != facts.metadata_location:
            raise StalePlan(f"{facts.name} was changed meanwhile", hint="look at it and decide again")
        return loaded.metadata

    def create_tag(self, name: TableName, tag: str, *, snapshot_id: int) -> None:
        def change(table: Table) -> None:
            _refuse_taken(table, name, tag)
            table.manage_snapshots().create_tag(snapshot_id, tag).commit()

        self._manage(name, change)

    def set_tags(self, name: TableName, *, put: Mapping[str, int] | None = None, remove: Sequence[str] = ()) -> None:
        """Makes or moves tags and removes others, in one commit; one that is not there need not go."""
        self._until_done(name, lambda: self._backend.set_tags(name, put or {}, remove))

    def create_branch(self, name: TableName, branch: str, *, snapshot_id: int) -> None:
        def change(table: Table) -> None:
            _refuse_taken(table, name, branch)
            table.manage_snapshots().create_branch(snapshot_id, branch).commit()

        self._manage(name, change)

    def remove_tag(self, name: TableName, tag: str) -> None:
        self._manage(name, lambda table: table.manage_snapshots().remove_tag(tag).commit())

    def remove_branch(self, name: TableName, branch: str) -> None:
        self._manage(name, lambda table: table.manage_snapshots().remove_branch(branch).commit())

    def close(self) -> None:
        self._backend.close()

    def _change(self, name: TableName, change: Callable[[Transaction], None]) -> None:
        def run(table: Table) -> None:
            with table.transaction() as transaction:
                change(transaction)

        self._manage(name, run)

    def _manage(self, name: TableName, run: Callable[[Table], object]) -> None:
        """Runs a change that PyIceberg makes."""
        from pyiceberg.exceptions import CommitFailedException

        def attempt() -> bool:
            try:
                run(self._backend.open_table(name))
            except CommitFailedException:
                return False
            return True

        self._until_done(name, attempt)

    def _until_done(self, name: TableName, attempt: Callable[[], bool]) -> None:
        """Makes a metadata change; one that lost to a rival is made anew on what the rival left."""
        for tried in range(self._commit.retries + 1):
            if not self.exists(name):
                raise self.unknown(name)
            try:
                if attempt():
                    return
            except (FileNotFoundError, StorageError) as exc:
                if not self.exists(name):  # a rival deleted it, folder and all
                    raise self.unknown(name) from exc
                if isinstance(exc, StorageError):
                    raise
                raise StorageError(f"the metadata of {name} is gone: {exc}", hint="run `neve doctor`") from exc
            except ValueError as exc:
                raise InvalidInput(str(exc)) from exc
            if tried < self._commit.retries:
                self._wait(tried)
        raise CommitConflict(
            f"{name} is being changed all the time: gave up after {self._commit.retries + 1} tries",
            hint="try again, or raise commit.retries",
        )

    def _wait(self, attempt: int) -> None:
        """Exponential back-off with full jitter."""
        ceiling = min(self._commit.max_wait_ms, self._commit.min_wait_ms * 2**attempt)
        time.sleep(random.uniform(0, ceiling) / 1000)  # noqa: S311


def _refuse_taken(table: Table, name: TableName, label: str) -> None:
    """A rival may have made it since we looked; PyIceberg would move it without a word."""
    if label in table.metadata.refs:
        raise AlreadyExists(f"{name} already has a tag or branch {label}", hint="choose another name, or --delete it")
