"""What tidying a table says: expiry of snapshots, files that nobody names, manifests, deletes and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from neve.model.results import Answer, Reason, Receipt

OrphanKind = Literal["data", "metadata"]
FileKind = Literal["data", "deletes", "manifest", "manifest_list", "statistics", "metadata"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a table's, by the path that its metadata gives it."""

    path: str
    kind: FileKind
    bytes: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the storage lists it; `modified_at` is None where it does not say."""

    path: str
    bytes: int
    modified_at: datetime | None


class KindTotal(Answer):
    kind: FileKind
    files: int
    bytes: int


class KeptSnapshot(Answer):
    """A snapshot that stays, and for whom."""

    snapshot: int
    at: datetime
    reasons: list[Reason]


class ExpireReceipt(Receipt):
    """What expiry took away, and what it kept for whom. `removed` are the files by kind.

    `files_left` were not removed: they lie outside the table's folder, a reader came, or the storage refused.
    """

    snapshots_before: int
    snapshots_after: int
    expired: list[int]
    references_expired: list[str]
    kept: list[KeptSnapshot]
    removed: list[KindTotal]
    files_removed: int
    bytes_removed: int
    files_left: list[str]


class OrphanFile(Answer):
    """A file that nothing names."""

    path: str
    kind: OrphanKind
    bytes: int
    modified_at: datetime


class OrphanReceipt(Receipt):
    """Files below a table's folder that nothing names, and what was left alone.

    `young` are not old enough, `unknown_age` have no time, `others` lie in a folder of another table. `elsewhere` are
    folders outside that the table writes to, which were not looked through. `removed` counts those that were removed;
    without a `table`, the folder belongs to none and is only listed.
    """

    location: str
    older_than: str
    orphans: list[OrphanFile]
    files: int
    bytes: int
    removed: int
    young: int
    unknown_age: int
    others: int
    elsewhere: list[str]
    files_left: list[str]


class ManifestReceipt(Receipt):
    """What became of a table's manifests; of a dry run, what would about."""

    manifests_before: int
    manifests_after: int
    bytes_before: int
    bytes_after: int


class DeletesReceipt(Receipt):
    """What became of a table's delete files. Vectors are counted by the data file that each is of.

    `dangling` are deletes that no data file was left for. Equality deletes stay: `compact` folds them in.
    """

    position_files_before: int
    position_files_after: int
    vectors_before: int
    vectors_after: int
    dangling: int
    equality_files: int


class ColumnStatistics(Answer):
    """About how many distinct values a column has, NULL not counted, as of a snapshot."""

    column: str
    distinct_values: int
    snapshot: int
    at: datetime | None


class StatisticsReceipt(Receipt):
    """The distinct values of columns; `columns` says of which snapshot each is."""

    columns: list[ColumnStatistics]
