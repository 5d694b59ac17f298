"""Rows that go and rows that come, in one commit: the one module that knows the Java classes behind it.

Spark writes the new rows as a rewrite would, to files that no snapshot names yet; deletion vectors mark the rows that
go; one row delta names both. It is committed by compare-and-swap on the snapshot that the rows were looked up in.
Written for Iceberg 1.12.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.engine.changes.staged import file_json
from neve.engine.classes import json_mapper, named, static
from neve.engine.errors import has_lost, translated
from neve.engine.loose import write_loose
from neve.engine.staging import load_iceberg
from neve.errors import CommitConflict
from neve.files.puffin import vectors_file
from neve.model.changes import LiveFile
from neve.model.names import TableName, quote

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_ICEBERG = "org.apache.iceberg"
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Marked:
    """A data file whose rows at these positions are to be gone; `before` is the vector that says so until now."""

    file: LiveFile
    positions: BitMap64
    before: LiveFile | None = None


@dataclass
class RowDelta:
    """What one commit is to hold. Files are written at once; those that no commit names are removed at the end."""

    spark: SparkSession
    table: TableName
    base: int
    _rows: list[Any] = field(default_factory=list)
    _loose: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._java: Any = self.spark._jvm
        self._target = load_iceberg(self.spark, self.table)

    def write(self, rows: DataFrame, *, few: bool) -> int:
        """Writes the table's columns of new rows, laid out and sorted as the table says; how many rows.

        Few are sorted and written by one task; otherwise Spark may compute them twice, to divide them by their order.
        """
        chosen = rows.select(*map(quote, self._columns()))
        options = {"distribution-mode": "none"} if few else {}
        with translated():
            files = write_loose(self.spark, self._target, chosen.coalesce(1) if few else chosen, options)
            self._loose += [file.location() for file in files]
            self._rows += files
            return sum(file.recordCount() for file in files)

    def commit(self, marked: Sequence[Marked], summary: Mapping[str, str]) -> int:
        """The one commit; its snapshot.

        Raises:
            CommitConflict: the table's snapshot is no longer `base`; nothing was changed.
        """
        with translated():
            vectors = self._written(marked) if marked else []
            for _ in range(_ATTEMPTS):
                snapshot = self._attempt(vectors, marked, summary)
                if snapshot is not None:
                    return snapshot
        raise CommitConflict(f"{self.table} was changed {_ATTEMPTS} times while this was to be committed")

    def discard(self) -> None:
        """Removes what was written and not committed."""
        with translated():
            while self._loose:
                self._target.io().deleteFile(self._loose.pop())

    def _columns(self) -> list[str]:
        fields = self._target.schema().columns()
        return [fields.get(index).name() for index in range(fields.size())]

    def _written(self, marked: Sequence[Marked]) -> list[LiveFile]:
        """The vectors in one new file."""
        content, places = vectors_file([(item.file.path, item.positions) for item in marked])
        location = self._target.locationProvider().newDataLocation(f"{uuid.uuid4()}-deletes.puffin")
        self._loose.append(location)
        output: Any = self._target.io().newOutputFile(location).create()
        try:
            output.write(content)
        finally:
            output.close()
        return [
            LiveFile(
                content="position_deletes",
                path=location,
                format="puffin",
                spec_id=item.file.spec_id,
                partition=item.file.partition,
                rows=len(item.positions),
                bytes=len(content),
                sequence=0,
                referenced=item.file.path,
                offset=place.offset,
                size=place.size,
            )
            for item, place in zip(marked, places, strict=True)
        ]

    def _attempt(self, vectors: Sequence[LiveFile], marked: Sequence[Marked], summary: Mapping[str, str]) -> int | None:
        """One try on the table as it is now; None when something else than its rows was changed meanwhile."""
        from py4j.protocol import Py4JJavaError

        table = load_iceberg(self.spark, self.table)
        begin = static(self._java, f"{_ICEBERG}.Transactions", "newTransaction")
        change = begin(str(self.table), table.operations())
        now = change.startMetadata().currentSnapshot()
        if now is None or now.snapshotId() != self.base:
            raise CommitConflict(f"{self.table} was written to meanwhile")
        self._row_delta(change.newRowDelta(), table, vectors, marked, summary).commit()
        snapshot = change.currentMetadata().currentSnapshot()
        # From here on the files may be the table's, whatever interrupts us: only a commit that surely failed gives them
        # back.
        written, self._loose = self._loose, []
        try:
            table.operations().commit(change.startMetadata(), change.currentMetadata())
        except Py4JJavaError as exc:
            if not has_lost(exc):
                raise
            self._loose = written
            self._forget(snapshot)
            return None
        found: int = snapshot.snapshotId()
        return found

    def _row_delta(
        self, delta: Any, table: Any, vectors: Sequence[LiveFile], marked: Sequence[Marked], summary: Mapping[str, str]
    ) -> Any:
        for file in self._rows:
            delta.addRows(file)
        for vector in self._delete_files(table, vectors):
            delta.addDeletes(vector)
        for vector in self._delete_files(table, [item.before for item in marked if item.before is not None]):
            delta.removeDeletes(vector)
        touched = named(self._java, "java.util.ArrayList")()
        for item in marked:
            touched.add(item.file.path)
        delta.validateFromSnapshot(self.base).validateDataFilesExist(touched).validateDeletedFiles()
        delta.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
        for key, value in summary.items():
            delta.set(key, value)
        return delta

    def _delete_files(self, table: Any, files: Sequence[LiveFile]) -> Iterator[Any]:
        scan = json.dumps({"delete-files": [file_json(file) for file in files]})
        parse = static(self._java, f"{_ICEBERG}.rest.TableScanResponseParser", "parseDeleteFiles")
        found = parse(json_mapper(self._java).readTree(scan), table.specs())
        return (found.get(index) for index in range(found.size()))

    def _forget(self, snapshot: Any) -> None:
        """Removes the manifests of a snapshot that was not committed."""
        io = self._target.io()
        manifests = snapshot.allManifests(io)
        every = [manifests.get(index) for index in range(manifests.size())]
        for manifest in every:
            if manifest.snapshotId() == snapshot.snapshotId():
                io.deleteFile(manifest.path())
        io.deleteFile(snapshot.manifestListLocation())


@contextmanager
def row_delta(spark: SparkSession, table: TableName, *, base: int) -> Iterator[RowDelta]:
    """Changes to come in one commit on snapshot `base`; what was written and not committed is removed at the end."""
    with translated():
        delta = RowDelta(spark, table, base)
    try:
        yield delta
    finally:
        delta.discard()
