"""Data files that this process wrote, put into a table in one commit: Iceberg's Java classes, and no Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neve.engine.classes import json_mapper
from neve.engine.data_files import NewFile, parsed_tasks
from neve.engine.errors import has_lost, translated
from neve.engine.session import use_in_thread
from neve.engine.staging import load_iceberg
from neve.model.appends import Standing
from neve.model.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Append:
    """The table as it is now, and new files for it."""

    def __init__(self, spark: SparkSession, table: TableName) -> None:
        """Raises TableNotFound."""
        self._java: Any = spark._jvm
        use_in_thread(spark)
        with translated():
            self._target = load_iceberg(spark, table)

    def standing(self) -> Standing:
        with translated():
            metadata = self._target.operations().current()
            properties = json_mapper(self._java).writeValueAsString(metadata.properties())
            return Standing(
                uuid=str(metadata.uuid()),
                schema_id=int(metadata.currentSchemaId()),
                spec_id=int(metadata.defaultSpecId()),
                properties=json.loads(properties),
            )

    def snapshot(self) -> int | None:
        with translated():
            found = self._target.currentSnapshot()
            return None if found is None else int(found.snapshotId())

    def commit(self, files: Sequence[NewFile], summary: Mapping[str, str]) -> bool:
        """One snapshot; false when it surely was not made. Who commits meanwhile does not matter: rows are only added.

        Iceberg refuses when another table has come into the place of this one. A schema that is altered in between
        reads these files as it reads older ones.
        """
        from py4j.protocol import Py4JJavaError

        with translated():
            tasks = parsed_tasks(self._java, self._target, files)
            append = self._target.newAppend()
            for index in range(len(files)):
                append.appendFile(tasks.get(index).file())
            for key, value in summary.items():
                append.set(key, value)
            try:
                append.commit()
            except Py4JJavaError as exc:
                if has_lost(exc):
                    return False
                raise
            return True


def current_manifests(spark: SparkSession, table: TableName) -> str | None:
    """Where the list of the table's manifests lies; None while it has no snapshot."""
    use_in_thread(spark)
    with translated():
        found = load_iceberg(spark, table).currentSnapshot()
        return None if found is None else str(found.manifestListLocation())
