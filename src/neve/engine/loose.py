"""Data files that Spark writes for a table and that no snapshot names yet: whoever wrote them commits or removes them.

Spark writes them as a rewrite would, under an id. Written for Iceberg 1.12.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from neve.engine.changes.staged import table_cache
from neve.engine.classes import named, only
from neve.engine.errors import translated
from neve.engine.staging import load_iceberg
from neve.model.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_loose(spark: SparkSession, table: Any, rows: DataFrame, options: Mapping[str, str]) -> list[Any]:
    """Writes rows, laid out as the Iceberg table and the options say; Iceberg's DataFiles."""
    written = f"neve-rows-{uuid.uuid4()}"
    tables = table_cache(spark)
    coordinator = only(spark._jvm, "org.apache.iceberg.spark.FileRewriteCoordinator")
    tables.add(written, table)
    try:
        rows.write.format("iceberg").mode("append").options(**options).save(written)
        found = named(spark._jvm, "java.util.ArrayList")(coordinator.fetchNewFiles(table, written))
    finally:
        coordinator.clearRewrite(table, written)
        tables.remove(written)
    return [found.get(index) for index in range(found.size())]


@contextmanager
def removing(spark: SparkSession, table: TableName) -> Iterator[list[str]]:
    """A list for the paths of such files; what is in it at the end is removed."""
    loose: list[str] = []
    try:
        yield loose
    finally:
        if loose:
            with translated():
                io = load_iceberg(spark, table).io()
                for path in loose:
                    io.deleteFile(path)
