"""Data files in the place of others, in one `replace` commit: the one module that knows the Java classes behind it.

What Spark rewrites goes through Iceberg's own runners, which keep row lineage and fold deletes in. The commit is
checked against every snapshot since `base`: a row that was deleted meanwhile never comes back.
Written for Iceberg 1.12.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.engine.changes.staged import table_cache
from neve.engine.data_files import NewFile, parsed_tasks
from neve.engine.errors import translated
from neve.engine.session import use_in_thread
from neve.engine.staging import load_iceberg
from neve.errors import CommitConflict
from neve.model.changes import LiveFile
from neve.model.names import TableName, quote
from neve.model.ranges import RANGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOST = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
)
_RUNNERS = "org.apache.iceberg.spark.actions.Spark{}FileRewriteRunner"
_SLACK, _AT_MOST = 5 << 10, 1.5
"""As Iceberg's planner has it: what is read fills the outputs evenly, and none is cut for being a little too large."""

_NAMES = {"binpack": "BinPack", "sort": "Sort", "zorder": "ZOrder", "hilbert": "Hilbert"}


@dataclass(frozen=True, slots=True)
class Swap:
    """Files that were written in the place of others."""

    old: tuple[LiveFile, ...]
    new: NewFile


@dataclass(frozen=True, slots=True)
class SparkSwap:
    """As `Swap`, by Spark: Java holds both sides."""

    group: Any
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How Spark lays rows out: a kind of runner, and the columns where it takes some."""

    kind: str = "binpack"
    columns: tuple[str, ...] = ()
    terms: tuple[tuple[str, bool, bool], ...] = ()
    """For a sort: the column or transform, whether it descends, and whether NULLs come first."""
    placing: str = ""
    """For `keys`: an expression of the range that a row belongs to; it is sorted there as the table says."""
    merge: Callable[[str], str] | None = None
    """For `keys`: a query that makes of the rows in a relation those that are to stay, where not all do."""


@dataclass
class Rewrite:
    """Rewrites of one table from one snapshot on. Threads may call `by_spark` at once."""

    spark: SparkSession
    table: TableName
    base: int
    _tasks: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        java: Any = self.spark._jvm
        self._java, self._iceberg = java, java.org.apache.iceberg
        with translated():
            self._target = load_iceberg(self.spark, self.table)

    def find(self, paths: Sequence[str]) -> None:
        """Has Iceberg plan the scan of these files, for `by_spark`: their deletes and their row ids come with it."""
        with translated():
            planned = _planned(self.spark, self._target.newScan().useSnapshot(self.base).ignoreResiduals())
            self._tasks |= {path: planned[path] for path in paths}

    def by_spark(self, paths: Sequence[str], *, order: Order, target_bytes: int, outputs: int) -> SparkSwap:
        """Has Spark write the rows of these files anew."""
        use_in_thread(self.spark)
        with translated():
            tasks = self._java.java.util.ArrayList()
            for path in paths:
                tasks.add(self._tasks[path])
            size = sum(self._tasks[path].sizeBytes() for path in paths)
            split = size // max(outputs, 1) + _SLACK
            group = self._group(tasks, target_bytes=round(target_bytes * _AT_MOST), split=split, outputs=outputs)
            group.setOutputFiles(self._placed(group, order) if order.placing else self._runner(order).rewrite(group))
            files = _listed(self._java, group.addedFiles())
            return SparkSwap(
                group,
                files=len(files),
                bytes=sum(file.fileSizeInBytes() for file in files),
                rows=sum(file.recordCount() for file in files),
            )

    def commit(
        self, swaps: Sequence[Swap], jobs: Sequence[SparkSwap], summary: Mapping[str, str], *, changes_rows: bool
    ) -> int:
        """The one commit; its snapshot: `replace`, or where rows were dropped or made one `overwrite`.

        Raises:
            CommitConflict: a file was replaced, or rows of it were deleted, since `base`; nothing was changed.
        """
        from py4j.protocol import Py4JJavaError

        with translated():
            groups = self._java.java.util.HashSet()
            if swaps:
                groups.add(self._swapped(swaps))
            for job in jobs:
                groups.add(job.group)
            words = self._java.java.util.HashMap()
            for key, value in summary.items():
                words.put(key, value)
            table = load_iceberg(self.spark, self.table)
            try:
                if changes_rows:
                    self._overwrite(table, jobs, summary)
                else:
                    manager = self._iceberg.actions.RewriteDataFilesCommitManager(table, self.base, True, words)
                    manager.commitFileGroups(groups)
            except Py4JJavaError as exc:
                if exc.java_exception.getClass().getName() in _LOST:
                    raise CommitConflict(f"files of {self.table} were changed meanwhile") from exc
                raise
            return self._snapshot(summary)

    def _overwrite(self, table: Any, jobs: Sequence[SparkSwap], summary: Mapping[str, str]) -> None:
        """Fails when a file is gone, or rows of it were deleted, since `base`; rows that came meanwhile stay."""
        change = table.newOverwrite().validateFromSnapshot(self.base).validateNoConflictingDeletes()
        for job in jobs:
            for file in _listed(self._java, job.group.rewrittenFiles()):
                change.deleteFile(file)
            for file in _listed(self._java, job.group.addedFiles()):
                change.addFile(file)
        for key, value in summary.items():
            change.set(key, value)
        change.commit()

    def discard(self, jobs: Sequence[SparkSwap]) -> None:
        """Removes what Spark wrote and nobody committed."""
        with translated():
            manager = self._iceberg.actions.RewriteDataFilesCommitManager(self._target, self.base)
            for job in jobs:
                manager.abortFileGroup(job.group)

    def _swapped(self, swaps: Sequence[Swap]) -> Any:
        old = parsed_tasks(self._java, self._target, [file for swap in swaps for file in swap.old])
        new = parsed_tasks(self._java, self._target, [swap.new for swap in swaps])
        group = self._group(old)
        group.setOutputFiles(self._group(new).rewrittenFiles())
        return group

    def _group(self, tasks: Any, *, target_bytes: int = 0, split: int = 0, outputs: int = 0) -> Any:
        spec = self._target.spec().specId()
        return self._iceberg.actions.RewriteFileGroup(None, tasks, spec, target_bytes, split, outputs)

    def _placed(self, group: Any, order: Order) -> Any:
        """As Iceberg's runners do it, with each row going to the range of its keys. Row ids stay."""
        from pyspark.sql import functions as f

        staged, tables = f"neve-ranges-{uuid.uuid4()}", table_cache(self.spark)
        tasks = self._iceberg.spark.ScanTaskSetManager.get()
        coordinator = self._iceberg.spark.FileRewriteCoordinator.get()
        try:
            tables.add(staged, self._target)
            tasks.stageTasks(self._target, staged, group.fileScanTasks())
            rows = self._merged(self.spark.read.format("iceberg").load(staged), order)
            rows = rows.withColumn(RANGE, f.expr(order.placing))
            writer = rows.write.format("iceberg").option("target-file-size-bytes", group.maxOutputFileSize())
            writer.option("distribution-mode", "hash").mode("append").save(staged)
            return coordinator.fetchNewFiles(self._target, staged)
        finally:
            tables.remove(staged)
            tasks.removeTasks(self._target, staged)
            coordinator.clearRewrite(self._target, staged)

    def _merged(self, rows: DataFrame, order: Order) -> DataFrame:
        """Rows that were made of others are new ones: they have no row id yet."""
        from pyspark.sql import functions as f

        if order.merge is None:
            return rows
        view = f"_neve_rows_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            made = self.spark.sql(order.merge(view))
        finally:
            self.spark.catalog.dropTempView(view)
        new = {name: f.lit(None).cast(kind) for name, kind in _columns(rows) if name not in made.columns}
        return made.withColumns(new).select(*map(quote, rows.columns))

    def _runner(self, order: Order) -> Any:
        """Iceberg keeps its runners to itself: only reflection can make one."""
        java: Any = self._java.java
        values = [self.spark._jsparkSession, self._target]
        if order.columns:
            columns = java.util.ArrayList()
            for column in order.columns:
                columns.add(column)
            values.append(columns)
        if order.terms:
            values.append(self._sort_order(order.terms))
        loader = java.lang.Thread.currentThread().getContextClassLoader()
        kind = java.lang.Class.forName(_RUNNERS.format(_NAMES[order.kind]), True, loader)
        constructor = next(item for item in kind.getDeclaredConstructors() if item.getParameterCount() == len(values))
        constructor.setAccessible(True)
        gateway: Any = self.spark.sparkContext._gateway
        given = gateway.new_array(java.lang.Object, len(values))
        for index, value in enumerate(values):
            given[index] = value
        runner = constructor.newInstance(given)
        runner.init(java.util.HashMap())
        return runner

    def _sort_order(self, terms: Sequence[tuple[str, bool, bool]]) -> Any:
        builder = self._iceberg.SortOrder.builderFor(self._target.schema())
        nulls = self._iceberg.NullOrder
        for column, descending, nulls_first in terms:
            place = nulls.NULLS_FIRST if nulls_first else nulls.NULLS_LAST
            builder = builder.desc(column, place) if descending else builder.asc(column, place)
        return builder.build()

    def _snapshot(self, summary: Mapping[str, str]) -> int:
        """The snapshot that carries our summary: a writer may have committed after it."""
        iceberg = load_iceberg(self.spark, self.table)
        snapshot = iceberg.currentSnapshot()
        while any(snapshot.summary().get(key) != value for key, value in summary.items()):
            snapshot = iceberg.snapshot(snapshot.parentId())
        found: int = snapshot.snapshotId()
        return found


def _columns(rows: DataFrame) -> Iterator[tuple[str, Any]]:
    return ((field.name, field.dataType) for field in rows.schema.fields)


def _listed(java: Any, files: Any) -> list[Any]:
    held = java.java.util.ArrayList(files)
    return [held.get(index) for index in range(held.size())]


def matching_files(spark: SparkSession, table: TableName, where: str) -> set[str]:
    """The data files that may hold rows for which a condition is true, by the ranges that the metadata knows.

    Raises:
        InvalidQuery: Iceberg cannot look for the condition in metadata.
    """
    java: Any = spark._jvm
    with translated():
        iceberg = load_iceberg(spark, table)
        converter = java.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
        resolved = converter.collectResolvedSparkExpression(spark._jsparkSession, table.sql, where)
        condition = converter.convertToIcebergExpression(resolved)
        return set(_planned(spark, iceberg.newScan().filter(condition)))


def _planned(spark: SparkSession, scan: Any) -> dict[str, Any]:
    """The tasks of a scan, by the path of their file."""
    java: Any = spark._jvm
    files = scan.planFiles()
    try:
        tasks = java.org.apache.iceberg.relocated.com.google.common.collect.Lists.newArrayList(files)
    finally:
        files.close()
    return {(task := tasks.get(index)).file().location(): task for index in range(tasks.size())}
