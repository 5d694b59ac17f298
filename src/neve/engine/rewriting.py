"""Small files of an Iceberg table into few: a `replace` commit that leaves every row as it was.

Iceberg's own action does the work. It is called in Java, not through SQL: the procedure cannot name the run in the
snapshot, and its filter takes no typed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.content import Fingerprint, fingerprint
from neve.engine.errors import translated
from neve.engine.staging import load_iceberg
from neve.model.ingest import INGEST_DATE
from neve.model.names import TableName
from neve.model.periods import Period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite did. `parent` is the snapshot that its own, `snapshot`, replaced; None when nothing was done."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    parent: int | None
    snapshot: int | None


def rewrite_period(
    spark: SparkSession, table: TableName, period: Period, *, target_bytes: int, summary: Mapping[str, str]
) -> Rewritten:
    """Rewrites the files that hold days of a period to the target size, in one commit.

    Raises:
        CommitConflict: a writer deleted rows from these files meanwhile; nothing was changed.
    """
    with translated():
        iceberg = load_iceberg(spark, table)
        action = _action(spark, iceberg).filter(_between(spark, period))
        options = {
            "target-file-size-bytes": target_bytes,
            "min-input-files": 2,
            "delete-file-threshold": 1,
            "remove-dangling-deletes": "true",
        }
        for key, value in options.items():
            action = action.option(key, str(value))
        for key, value in summary.items():
            action = action.snapshotProperty(key, value)
        result = action.execute()
        before, after = result.rewrittenDataFilesCount(), result.addedDataFilesCount()
        snapshot = _snapshot_of(load_iceberg(spark, table), summary) if before or after else None
        return Rewritten(
            files_before=before,
            files_after=after,
            bytes_before=result.rewrittenBytesCount(),
            bytes_after=0 if snapshot is None else int(snapshot.summary().get("added-files-size") or 0),
            parent=None if snapshot is None else snapshot.parentId(),
            snapshot=None if snapshot is None else snapshot.snapshotId(),
        )


def fingerprint_period(spark: SparkSession, table: TableName, period: Period, snapshot: int) -> Fingerprint:
    """Of the rows of a period as a snapshot has them."""
    from pyspark.sql import functions as f

    with translated():
        rows = spark.read.option("versionAsOf", snapshot).table(table.sql)
        return fingerprint(rows.where(f.col(INGEST_DATE).between(f.lit(period.first), f.lit(period.last))))


def _action(spark: SparkSession, iceberg: Any) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).rewriteDataFiles(iceberg)


def _between(spark: SparkSession, period: Period) -> Any:
    jvm: Any = spark._jvm
    expressions = jvm.org.apache.iceberg.expressions.Expressions
    first = expressions.greaterThanOrEqual(INGEST_DATE, period.first.isoformat())
    last = expressions.lessThanOrEqual(INGEST_DATE, period.last.isoformat())
    return getattr(expressions, "and")(first, last)


def _snapshot_of(iceberg: Any, summary: Mapping[str, str]) -> Any:
    """The snapshot that carries our summary: a writer may have committed after it."""
    snapshot = iceberg.currentSnapshot()
    while snapshot is not None and any(snapshot.summary().get(key) != value for key, value in summary.items()):
        parent = snapshot.parentId()
        snapshot = None if parent is None else iceberg.snapshot(parent)
    return snapshot
