"""What tidying a table says: expiry of snapshots, files that nobody names, manifests, deletes and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from neve.model.results import Answer, Reason, Receipt

FileKind = Literal["data", "deletes", "manifest", "manifest_list", "statistics", "metadata"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a table's, by the path that its metadata gives it."""

    path: str
    kind: FileKind
    bytes: int


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
