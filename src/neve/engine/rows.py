"""Row-level work on Iceberg tables: one piece of work, one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.model.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_all_rows(spark: SparkSession, name: TableName, *, summary: Mapping[str, str]) -> None:
    """Empties a table; a metadata-only commit, however large the table, that carries `summary` in its snapshot.

    Through Iceberg's own API: SQL's DELETE of all rows leaves `snapshot-property` settings out of the summary.
    """
    with translated():
        java: Any = spark._jvm
        table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name.sql)
        everything = java.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        deletion = table.newDelete().deleteFromRowFilter(everything)
        for key, value in summary.items():
            deletion = deletion.set(key, value)
        deletion.commit()
