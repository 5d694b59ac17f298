"""Iceberg's own actions that tidy a table's metadata and deletes: manifests, position deletes, statistics.

They are called in Java, not through SQL: procedures cannot name the run in the snapshot. Written for Iceberg 1.12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.staging import load_iceberg
from neve.model.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewrite_manifests(spark: SparkSession, table: TableName, *, spec_id: int, summary: Mapping[str, str]) -> None:
    """Makes few manifests of many, for files of one partition spec, ordered by partition; one `replace` commit.

    Raises:
        CommitConflict: a writer replaced these manifests meanwhile; nothing was changed.
    """
    with translated():
        action = _actions(spark).rewriteManifests(load_iceberg(spark, table)).specId(spec_id)
        _labelled(action, summary).execute()


def rewrite_position_deletes(
    spark: SparkSession, table: TableName, *, everything: bool, summary: Mapping[str, str]
) -> None:
    """Makes few files of position deletes, or deletion vectors where the format has them; one `replace` commit.

    Without `everything`, only partitions that have several.

    Raises:
        CommitConflict: a writer deleted rows of the same files meanwhile; nothing was changed.
    """
    option = ("rewrite-all", "true") if everything else ("min-input-files", "2")
    with translated():
        action = _actions(spark).rewritePositionDeletes(load_iceberg(spark, table)).option(*option)
        _labelled(action, summary).execute()


def remove_dangling_deletes(spark: SparkSession, table: TableName) -> None:
    """Takes away deletes that no data file is left for, in one commit, if there are any."""
    with translated():
        _actions(spark).removeDanglingDeleteFiles(load_iceberg(spark, table)).execute()


def compute_statistics(spark: SparkSession, table: TableName, columns: Sequence[str], *, snapshot: int) -> None:
    """Counts the distinct values of columns, by theta sketches, and puts them beside a snapshot."""
    with translated():
        java: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        names = gateway.new_array(java.java.lang.String, len(columns))
        for index, column in enumerate(columns):
            names[index] = column
        _actions(spark).computeTableStats(load_iceberg(spark, table)).columns(names).snapshot(snapshot).execute()


def _actions(spark: SparkSession) -> Any:
    java: Any = spark._jvm
    return java.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)


def _labelled(action: Any, summary: Mapping[str, str]) -> Any:
    for key, value in summary.items():
        action = action.snapshotProperty(key, value)
    return action
