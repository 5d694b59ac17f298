"""What Névé needs of a catalog, whichever kind it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from neve.model.names import Namespace, TableName
from neve.model.specs import TableSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table's current metadata and where it lies."""

    location: str
    metadata: Mapping[str, Any]


class Backend(Protocol):
    def namespaces(self) -> list[Namespace]: ...

    def tables(self) -> list[TableName]: ...

    def metadata_locations(self) -> dict[TableName, str]: ...

    def load(self, name: TableName) -> Loaded | None: ...

    def metadata_location(self, name: TableName) -> str | None: ...

    def create(self, spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> None:
        """Raises AlreadyExists, leaving nothing behind."""

    def register(self, name: TableName, metadata_location: str) -> None:
        """Raises AlreadyExists."""

    def rename(self, old: TableName, new: TableName, *, expected: str) -> bool:
        """False when `old` no longer points at the expected metadata; raises AlreadyExists when `new` is taken."""

    @property
    def exchanges(self) -> bool:
        """Whether `supersede` and `exchange` are one step here; where not, they raise Unsupported."""

    def supersede(self, name: TableName, aside: TableName, *, expected: str) -> bool:
        """`name` gets the metadata of `aside`, which goes; false when `name` does not point at the expected one."""

    def exchange(self, one: TableName, other: TableName, *, expected: tuple[str, str]) -> bool:
        """Both get each other's metadata; false when one does not point at the expected one."""

    def drop(self, name: TableName, *, expected: str) -> bool:
        """Forgets the table, leaves its files; false when the name no longer points at the expected metadata."""

    def remove_snapshots(
        self, name: TableName, snapshots: Collection[int], references: Collection[str], *, expected: str
    ) -> bool:
        """Takes snapshots and references off, files stay; false when the name does not point at the expected metadata.

        A reference that somebody else makes meanwhile counts as a change, where the catalog can tell.
        """

    def set_tags(self, name: TableName, put: Mapping[str, int], remove: Collection[str]) -> bool:
        """Makes or moves tags and removes others, in one commit; false when somebody else changed the table meanwhile.

        Raises ValueError where a snapshot is not there, or a branch has the name.
        """

    def add_namespace(self, namespace: Namespace) -> bool:
        """False when it is there."""

    def drop_namespace(self, namespace: Namespace) -> bool:
        """False when it holds tables or is not there."""

    def open_table(self, name: TableName) -> Table:
        """A PyIceberg table whose transactions commit here."""

    def close(self) -> None: ...
