"""Spark reading just these files, with just these deletes: the one module that knows the Java classes behind it.

Iceberg's own compaction stages scan tasks under an id and lets Spark read that id; so do we. Tasks are handed over as
JSON, in the form of Iceberg's REST scan planning, so a thousand files cost the same few calls into Java as one.
Written for Iceberg 1.12.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from neve.engine.classes import json_mapper, named, only, static
from neve.engine.staging import load_iceberg
from neve.model.changes import ChangePlan, FileRead, LiveFile, Picked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ICEBERG = "org.apache.iceberg"
_TABLES = f"{_ICEBERG}.spark.SparkTableCache"
_TASKS = f"{_ICEBERG}.spark.ScanTaskSetManager"


@dataclass
class StagedFiles:
    """The files of one plan, as long as somebody may read them. `close` forgets the tasks and removes the vectors."""

    spark: SparkSession
    plan: ChangePlan
    _ids: list[str] = field(default_factory=list)
    _written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._java: Any = self.spark._jvm
        self._table = self._pinned()

    def read(self, whole: Sequence[FileRead], picked: Sequence[Picked]) -> DataFrame:
        """The rows of whole files less their deletes, and the picked rows of others."""
        staged_id = f"neve-changes-{uuid.uuid4()}"
        tasks = self._tasks(_scan([*whole, *self._inverted(picked, staged_id)]))
        table_cache(self.spark).add(staged_id, self._table)
        only(self._java, _TASKS).stageTasks(self._table, staged_id, tasks)
        self._ids.append(staged_id)
        return self.spark.read.format("iceberg").load(staged_id)

    def close(self) -> None:
        tasks, tables = only(self._java, _TASKS), table_cache(self.spark)
        while self._ids:
            staged_id = self._ids.pop()
            tasks.removeTasks(self._table, staged_id)
            tables.remove(staged_id)
        while self._written:
            self._table.io().deleteFile(self._written.pop())

    def _pinned(self) -> Any:
        """The table as the plan saw it, in the plan's schema, whatever is committed meanwhile."""
        table = load_iceberg(self.spark, self.plan.table)
        metadata = table.operations().current()
        if metadata.metadataFileLocation() != self.plan.metadata_location:
            metadata = self._static("TableMetadataParser", "read")(table.io(), self.plan.metadata_location)
        if metadata.currentSchemaId() != self.plan.schema_id:
            # How the table would be written now may need columns that this schema lacks; nothing is written here.
            builder = self._static("TableMetadata", "buildFrom")(metadata).setCurrentSchema(self.plan.schema_id)
            builder = builder.setDefaultPartitionSpec(self._static("PartitionSpec", "unpartitioned")())
            metadata = builder.setDefaultSortOrder(self._static("SortOrder", "unsorted")()).discardChanges().build()
        operations = named(self._java, f"{_ICEBERG}.StaticTableOperations")(metadata, table.io())
        return named(self._java, f"{_ICEBERG}.BaseTable")(operations, str(self.plan.table))

    def _tasks(self, scan: str) -> Any:
        node, specs = json_mapper(self._java).readTree(scan), self._table.specs()
        deletes = self._static("rest.TableScanResponseParser", "parseDeleteFiles")(node, specs)
        return self._static("rest.TableScanResponseParser", "parseFileScanTasks")(node, deletes, specs, True)

    def _static(self, name: str, method: str) -> Any:
        return static(self._java, f"{_ICEBERG}.{name}", method)

    def _inverted(self, picked: Sequence[Picked], name: str) -> Iterator[FileRead]:
        """Files to be read through vectors that delete all rows but the picked; the vectors lie in one file."""
        if not picked:
            return
        location = f"{self._table.location()}/metadata/{name}.puffin"
        self._written.append(location)
        output: Any = self._table.io().newOutputFile(location).create()
        try:
            output.write(b"".join(item.vector for item in picked))
        finally:
            output.close()
        total, offset = sum(len(item.vector) for item in picked), 0
        for item in picked:
            vector = LiveFile(
                content="position_deletes",
                path=location,
                format="puffin",
                spec_id=item.file.spec_id,
                partition=item.file.partition,
                rows=item.file.rows - item.rows,
                bytes=total,
                sequence=item.file.sequence,
                referenced=item.file.path,
                offset=offset,
                size=len(item.vector),
            )
            offset += len(item.vector)
            yield FileRead(item.file, (vector,))


def table_cache(spark: SparkSession) -> Any:
    """The tables that Spark knows by an id."""
    return _table_cache(spark._jvm, spark.sparkContext._gateway)


@lru_cache(maxsize=2)
def _table_cache(java: Any, gateway: Any) -> Any:
    """Its static `get()` and its `get(name)` go by one name, which only reflection can tell apart from here."""
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    get = java.java.lang.Class.forName(_TABLES, True, loader).getMethod(
        "get", gateway.new_array(java.java.lang.Class, 0)
    )
    return get.invoke(None, gateway.new_array(java.java.lang.Object, 0))


def _scan(reads: Sequence[FileRead]) -> str:
    """Tasks as Iceberg's REST scan planning writes them: each delete file once, named by its place."""
    places: dict[tuple[str, int | None, int], int] = {}
    deletes: list[LiveFile] = []
    tasks = []
    for read in reads:
        for delete in read.deletes:
            if delete.key not in places:
                places[delete.key] = len(deletes)
                deletes.append(delete)
        tasks.append(
            {
                "data-file": file_json(read.file),
                "delete-file-references": [places[delete.key] for delete in read.deletes],
                "residual-filter": True,
            }
        )
    return json.dumps({"delete-files": [file_json(delete) for delete in deletes], "file-scan-tasks": tasks})


def file_json(file: LiveFile) -> dict[str, Any]:
    """A file as Iceberg's REST protocol writes it."""
    optional = {
        "referenced-data-file": file.referenced,
        "content-offset": file.offset,
        "content-size-in-bytes": file.size,
        "equality-ids": list(file.equality_ids) or None,
    }
    return {
        "spec-id": file.spec_id,
        "content": file.content.replace("_", "-"),
        "file-path": file.path,
        "file-format": file.format,
        "partition": list(file.partition),
        "file-size-in-bytes": file.bytes,
        "record-count": file.rows,
        **{key: value for key, value in optional.items() if value is not None},
    }
