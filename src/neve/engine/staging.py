"""Writes that nobody sees until they are published: a branch of the table, then one commit that makes it the table.

Publishing is compare-and-swap: it fails when the table is no longer where the branch began, so whoever staged can look
again and start anew. Iceberg's Java classes are touched here only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from neve.engine.classes import static
from neve.engine.errors import has_lost, translated
from neve.errors import CommitConflict
from neve.model.names import TableName, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAIN = "main"
_ATTEMPTS = 10
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a table that carries one piece of work."""

    table: TableName
    name: str

    @property
    def sql(self) -> str:
        return f"{self.table.sql}.{quote(f'branch_{self.name}')}"


@dataclass(frozen=True, slots=True)
class Backup:
    """A tag for the rows before a change, which expiry drops once its snapshot is older than `max_age`."""

    tag: str
    max_age: timedelta


def load_iceberg(spark: SparkSession, name: TableName) -> Any:
    """Iceberg's own Table object."""
    load = static(spark._jvm, "org.apache.iceberg.spark.Spark3Util", "loadIcebergTable")
    return load(spark._jsparkSession, name.sql)


@contextmanager
def staged(spark: SparkSession, table: TableName, name: str, *, base: int | None) -> Iterator[Branch]:
    """A branch from snapshot `base`, gone again at the end whether it was published or not."""

    def made(iceberg: Any) -> None:
        snapshots = iceberg.manageSnapshots()
        (snapshots.createBranch(name) if base is None else snapshots.createBranch(name, base)).commit()

    def removed(iceberg: Any) -> None:
        if iceberg.refs().containsKey(name):
            iceberg.manageSnapshots().removeBranch(name).commit()

    _until_won(spark, table, made)
    try:
        yield Branch(table, name)
    finally:
        _until_won(spark, table, removed)


def publish(spark: SparkSession, branch: Branch, *, base: int | None, backup: Backup | None = None) -> int:
    """Makes the branch the table, in one commit; the snapshot that is current now.

    The same commit tags `base` with the backup's name: the tag is there exactly when the branch was published.

    Raises:
        CommitConflict: the table has moved since `base`; nothing was published.
    """
    from pyspark.errors import IllegalArgumentException

    def published(iceberg: Any) -> int:
        current = iceberg.currentSnapshot()
        if (None if current is None else current.snapshotId()) != base:
            raise CommitConflict(f"{branch.table} was written to meanwhile")
        snapshot: int = iceberg.snapshot(branch.name).snapshotId()
        try:  # it looks at the table once more, and nothing is committed yet
            change = iceberg.manageSnapshots().fastForwardBranch(_MAIN, branch.name).removeBranch(branch.name)
        except IllegalArgumentException as exc:
            raise CommitConflict(f"{branch.table} was written to meanwhile") from exc
        if backup is not None and base is not None:
            change = change.createTag(backup.tag, base)
            change = change.setMaxRefAgeMs(backup.tag, int(backup.max_age.total_seconds() * 1000))
        change.commit()
        return snapshot

    return _until_won(spark, branch.table, published)


def pick(spark: SparkSession, branch: Branch) -> None:
    """Appends to the table, as it is now, what was appended to the branch last; the branch goes in the same commit."""

    def picked(iceberg: Any) -> None:
        snapshot = iceberg.snapshot(branch.name).snapshotId()
        iceberg.manageSnapshots().cherrypick(snapshot).removeBranch(branch.name).commit()

    _until_won(spark, branch.table, picked)


def _until_won(spark: SparkSession, table: TableName, commit: Callable[[Any], T]) -> T:
    """Commits on the table as it is now; again when something else of it was changed in between."""
    from py4j.protocol import Py4JJavaError

    with translated():
        for _ in range(_ATTEMPTS):
            try:
                return commit(load_iceberg(spark, table))
            except Py4JJavaError as exc:
                if not has_lost(exc):
                    raise
    raise CommitConflict(f"{table} was changed {_ATTEMPTS} times while this was to be committed")
