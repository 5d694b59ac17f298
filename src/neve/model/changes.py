"""Words for what changed in a table between two snapshots: its lineage, the plan, and the files the plan reads.

The answer is a Z-set: rows of the chosen columns with a weight, `+n` for rows that came and `-n` for rows that went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.types import IcebergJson

WEIGHT = "_w"
REPLACE, APPEND = "replace", "append"

# nothing: no Spark job · appends: added files as they are · diff: changed files, netted · compare: both snapshots,
# netted · impossible: that past is gone · reinitialise: this is another table
Tier = Literal["nothing", "appends", "diff", "compare", "impossible", "reinitialise"]
Road = Literal["auto", "fast", "general"]
PartitionValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column by its field id, which a rename or a wider type does not change. The type is Iceberg's JSON.

    `default` is what rows written before the column have in it.
    """

    id: int
    name: str
    type: IcebergJson
    default: IcebergJson | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStep:
    """A snapshot as a step from its parent."""

    id: int
    parent_id: int | None
    operation: str
    schema_id: int
    manifest_list: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The steps that a table still knows, and the schemas they were made with."""

    facts: TableFacts
    steps: Mapping[int, SnapshotStep]
    schemas: Mapping[int, tuple[Column, ...]]
    schema_id: int
    partition_sources: Mapping[int, tuple[int, ...]]

    def schema_of(self, snapshot_id: int | None) -> int:
        """The schema that a reader of the snapshot sees; for the current one that is the table's own."""
        if snapshot_id is None or snapshot_id == self.facts.current_snapshot_id:
            return self.schema_id
        return self.steps[snapshot_id].schema_id


@dataclass(frozen=True, slots=True)
class Leg:
    """Two snapshots whose files are compared; from nothing when `since` is None."""

    since: int | None
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """How the changes from `since` (None: from nothing) to `until` are to be read, and why so.

    Columns are those of the later schema. The changes are the sum over all legs: a rewrite of files that changes no row
    lies between two legs, and nobody reads it.
    """

    table: TableName
    uuid: str
    metadata_location: str
    since: int | None
    until: int | None
    schema_id: int
    columns: tuple[Column, ...]
    tier: Tier
    reason: Reason
    legs: tuple[Leg, ...] = ()

    @property
    def possible(self) -> bool:
        return self.tier not in ("impossible", "reinitialise")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A list of data files or of delete files, as a snapshot names it. Its content never changes."""

    path: str
    deletes: bool
    spec_id: int
    sequence: int
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data or delete file as a manifest lists it. Partition values are Iceberg's JSON."""

    content: Literal["data", "position_deletes", "equality_deletes"]
    path: str
    format: str
    spec_id: int
    partition: tuple[PartitionValue, ...]
    rows: int
    bytes: int
    sequence: int
    referenced: str | None = None
    offset: int | None = None
    size: int | None = None
    equality_ids: tuple[int, ...] = ()
    encrypted: bool = False

    @property
    def key(self) -> tuple[str, int | None, int]:
        """What tells it from any other: a vector is a part of a file, and a file may be added anew."""
        return self.path, self.offset, self.sequence

    @property
    def is_vector(self) -> bool:
        return self.format == "puffin"


@dataclass(frozen=True, slots=True)
class FileRead:
    """A data file to read with these deletes applied."""

    file: LiveFile
    deletes: tuple[LiveFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Touched:
    """A data file of both snapshots whose deletes changed."""

    file: LiveFile
    before: tuple[LiveFile, ...]
    after: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What differs between the files of two snapshots."""

    added: tuple[FileRead, ...] = ()
    removed: tuple[FileRead, ...] = ()
    touched: tuple[Touched, ...] = ()


@dataclass(frozen=True, slots=True)
class Picked:
    """Some rows of a data file, by a deletion vector (serialised) that marks all the others."""

    file: LiveFile
    vector: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class FileReads:
    """What the engine reads: whole files, and picked rows of files; with weight +1 and with weight −1."""

    plus: tuple[FileRead, ...] = ()
    minus: tuple[FileRead, ...] = ()
    picked_plus: tuple[Picked, ...] = ()
    picked_minus: tuple[Picked, ...] = ()

    @property
    def only_adds(self) -> bool:
        return not self.minus and not self.picked_minus


@dataclass(frozen=True, slots=True)
class ChangeEstimate:
    """Upper bounds from manifests alone: files and bytes to open, rows to read, and the bytes of these rows."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    row_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredChanges:
    """A plan with the files it reads. Where they turn out to be none, the plan says so: nothing changed."""

    plan: ChangePlan
    reads: FileReads = field(default_factory=FileReads)
    estimate: ChangeEstimate = field(default_factory=ChangeEstimate)
