"""Writes that nobody sees until they are published: a branch of the table, then one commit that makes it the table.

Publishing is compare-and-swap: it fails when the table is no longer where the branch began, so whoever staged can look
again and start anew. Iceberg's Java classes are touched here only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.errors import CommitConflict
from neve.model.names import TableName, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAIN = "main"


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
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name.sql)


@contextmanager
def staged(spark: SparkSession, table: TableName, name: str, *, base: int | None) -> Iterator[Branch]:
    """A branch from snapshot `base`, gone again at the end whether it was published or not."""
    branch = Branch(table, name)
    with translated():
        snapshots = load_iceberg(spark, table).manageSnapshots()
        (snapshots.createBranch(name) if base is None else snapshots.createBranch(name, base)).commit()
    try:
        yield branch
    finally:
        with translated():
            iceberg = load_iceberg(spark, table)
            if iceberg.refs().containsKey(name):
                iceberg.manageSnapshots().removeBranch(name).commit()


def publish(spark: SparkSession, branch: Branch, *, base: int | None, backup: Backup | None = None) -> int:
    """Makes the branch the table, in one commit; the snapshot that is current now.

    The same commit tags `base` with the backup's name: the tag is there exactly when the branch was published.

    Raises:
        CommitConflict: the table has moved since `base`; nothing was published.
    """
    with translated():
        iceberg = load_iceberg(spark, branch.table)
        current = iceberg.currentSnapshot()
        if (None if current is None else current.snapshotId()) != base:
            raise CommitConflict(f"{branch.table} was written to meanwhile")
        snapshot: int = iceberg.snapshot(branch.name).snapshotId()
        change = iceberg.manageSnapshots().fastForwardBranch(_MAIN, branch.name).removeBranch(branch.name)
        if backup is not None and base is not None:
            change = change.createTag(backup.tag, base)
            change = change.setMaxRefAgeMs(backup.tag, int(backup.max_age.total_seconds() * 1000))
        change.commit()
        return snapshot
