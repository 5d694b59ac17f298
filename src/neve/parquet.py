"""Plain Parquet folders from Python: `ParquetCRUD`, `ParquetCompactor` and `Repartitioner`, thin doors to services.

Every change is written beside the data, recorded in a journal and then swapped in: a process that dies leaves the old
rows or the new ones, never a mix. Numbers come back as plain dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.directory.backups import Backup, Backups
from neve.model.directories import Expression
from neve.services import directory_rows as rows
from neve.services.directories import Workplace, check_codec, open_parquet, workplace_for
from neve.services.directory_compaction import CompactRequest, compact_files, fragmentation
from neve.services.directory_rows import How
from neve.services.directory_upsert import upsert_rows
from neve.services.repartition import RepartitionRequest, estimate, repartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.lake import Lake

Stats = dict[str, Any]


def expr(text: str) -> Expression:
    """SQL for a new value: `update_expr={"spread": expr("best_ask - best_bid")}`. Plain text is a literal."""
    return Expression(text)


def _place(folder: str | Path) -> str:
    return str(folder) if "://" in str(folder) else str(Path(folder).expanduser().absolute())


class _Folder:
    def __init__(self, folder: str | Path, *, compression: str, lake: Lake | None, spark: SparkSession | None) -> None:
        check_codec(compression)
        self._location = _place(folder)
        self._compression = compression
        context = None if lake is None else lake._context
        self._work: Workplace = workplace_for(self._location, context=context, spark=spark)


class ParquetCRUD(_Folder):
    """Rows of a folder: delete, update, upsert, deduplicate, and back again.

    `filter_expr` is a condition as SQL text or as a PySpark Column; a row for which it is NULL is not meant.
    """

    def __init__(
        self,
        dataset_dir: str | Path,
        compression: str = "zstd",
        backup_dir: str | Path | None = None,
        *,
        lake: Lake | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """Without `backup_dir`, backups lie in `_backups` inside the folder, where no reader looks."""
        super().__init__(dataset_dir, compression=compression, lake=lake, spark=spark)
        self._backup_dir = None if backup_dir is None else str(backup_dir)

    def delete(
        self,
        filter_expr: str | Column,
        partition_filter: Mapping[str, object] | None = None,
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> Stats:
        """Removes rows. `partition_filter` names values of partition columns: the same answer, sooner."""
        how = self._how(dry_run, create_backup)
        return rows.delete_rows(
            self._work, self._location, filter_expr, partition_filter=partition_filter, how=how
        ).model_dump()

    def update(
        self,
        filter_expr: str | Column,
        update_expr: Mapping[str, object],
        partition_filter: Mapping[str, object] | None = None,
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> Stats:
        """Gives columns new values: a literal, `expr("…")` or a Column, all of them seeing the old row."""
        how = self._how(dry_run, create_backup)
        return rows.update_rows(
            self._work, self._location, filter_expr, update_expr, partition_filter=partition_filter, how=how
        ).model_dump()

    def upsert(  # noqa: PLR0917 - the order of document 002
        self,
        new_data: Any,
        key_cols: Sequence[str],
        partition_cols: Sequence[str],
        update_cols: Sequence[str] | None = None,
        dry_run: bool = False,
        create_backup: bool = True,
        *,
        on_duplicate: str = "refuse",
        order_by: Sequence[str] = (),
    ) -> Stats:
        """Updates rows by key, and inserts those that are not there yet.

        `new_data` is a Spark, pandas, polars or pyarrow frame; columns that it lacks keep their value, or are NULL in
        a new row. After it, each of its keys is there once. `on_duplicate="last"` takes the last row of a key that the
        input holds several times, by `order_by` or by the order of the rows.
        """
        stats = upsert_rows(
            self._work,
            self._location,
            new_data,
            key_cols=key_cols,
            partition_cols=partition_cols,
            update_cols=update_cols,
            on_duplicate=on_duplicate,
            order_by=order_by,
            how=self._how(dry_run, create_backup),
        )
        return stats.model_dump()

    def deduplicate(
        self,
        key_cols: Sequence[str],
        keep: str = "first",
        order_by: Sequence[str] = (),
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> Stats:
        """Keeps the first or last row of each key, by `order_by` or by file name and place. NULL equals NULL."""
        how = self._how(dry_run, create_backup)
        return rows.deduplicate_rows(
            self._work, self._location, key_cols, keep=keep, order_by=order_by, how=how
        ).model_dump()

    def repair(self, dry_run: bool = False, create_backup: bool = True) -> Stats:
        """Moves rows that lie in a folder of another value to where they belong."""
        return rows.repair_rows(self._work, self._location, how=self._how(dry_run, create_backup)).model_dump()

    def backups(self) -> list[Backup]:
        """What can be restored, oldest first."""
        return Backups(open_parquet(self._location), self._backup_dir).list()

    def restore(self, backup: str | Backup = "last", dry_run: bool = False) -> Stats:
        """Brings back the very rows that a change replaced; the backup is used up."""
        name = backup if isinstance(backup, str) else backup.run_id
        how = self._how(dry_run, create_backup=False)
        return rows.restore_backup(self._work, self._location, name, how=how).model_dump()

    def drop_backup(self, backup: str | Backup) -> None:
        """Frees the space of a backup that nobody needs any more."""
        backups = Backups(open_parquet(self._location), self._backup_dir)
        backups.discard(backups.find(backup if isinstance(backup, str) else backup.run_id).run_id)

    def _how(self, dry_run: bool, create_backup: bool) -> How:
        return How(
            compression=self._compression, backup_dir=self._backup_dir, create_backup=create_backup, dry_run=dry_run
        )


class ParquetCompactor(_Folder):
    """Many small files become few large ones, within their partitions."""

    def __init__(
        self,
        dataset_dir: str | Path,
        target_file_size_mb: int = 100,
        compression: str = "zstd",
        *,
        lake: Lake | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(dataset_dir, compression=compression, lake=lake, spark=spark)
        self._target = target_file_size_mb

    def compact(
        self,
        min_file_count: int = 2,
        max_file_size_mb: float | None = None,
        delete_source_files: bool = True,
        dry_run: bool = False,
        *,
        target_file_count: int | None = None,
        sort_by: Sequence[str] = (),
        partition_filter: Mapping[str, object] | None = None,
        verify: bool = True,
    ) -> Stats:
        """Merges files of partitions that have at least `min_file_count` of them (below `max_file_size_mb`, if given).

        Sources that are not deleted become a backup, which `restore` brings back, and of which no reader counts the
        rows. `verify` compares the rows of each new file with those that it is made of, before anything is removed.
        """
        request = CompactRequest(
            target_file_size_mb=self._target,
            compression=self._compression,
            min_file_count=min_file_count,
            max_file_size_mb=max_file_size_mb,
            target_file_count=target_file_count,
            sort_by=sort_by,
            partition_filter=partition_filter,
            delete_source_files=delete_source_files,
            dry_run=dry_run,
            verify=verify,
        )
        return compact_files(self._work, self._location, request).model_dump()

    def fragmentation(self, worst: int = 10) -> Stats:
        """Files per partition, their sizes, the worst partitions and a histogram; from footers alone."""
        return fragmentation(self._location, target_file_size_mb=self._target, worst=worst).model_dump()


class Repartitioner(_Folder):
    """A folder's rows under other partition columns, in a folder of their own or in the source's place."""

    def __init__(
        self,
        source_dir: str | Path,
        target_dir: str | Path,
        new_partition_cols: Sequence[str],
        compression: str = "zstd",
        batch_size: int = 1_000_000,
        *,
        chunk_mb: int = 4096,
        lake: Lake | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """A writer holds at most `batch_size` rows, which is also the largest row group.

        Source files are read in parts of about `chunk_mb`; each is one commit, after which a run that died resumes.
        """
        super().__init__(source_dir, compression=compression, lake=lake, spark=spark)
        self._request = RepartitionRequest(
            source=self._location,
            target=_place(target_dir),
            columns=(new_partition_cols,) if isinstance(new_partition_cols, str) else tuple(new_partition_cols),
            compression=compression,
            batch_size=batch_size,
            chunk_mb=chunk_mb,
        )

    def repartition(
        self,
        delete_source: bool = False,
        validate: bool = True,
        dry_run: bool = False,
        transform_fn: Callable[[DataFrame], DataFrame] | None = None,
        *,
        target_file_size_mb: int = 128,
        sort_by: Sequence[str] = (),
        resume: bool = True,
        swap_with_source: bool = False,
    ) -> Stats:
        """Writes all rows to the target. Partition columns stay in the files, and may be made by `transform_fn`.

        `validate` compares the number of rows, and the content of each partition with what was read. A target that is
        not empty is refused, unless it is this very run, unfinished: `resume` goes on with it, or starts over.
        `swap_with_source` lets the new files take the place of the old ones in the source folder, in one change that
        `ParquetCRUD.restore` takes back.
        """
        request = replace(
            self._request,
            delete_source=delete_source,
            validate=validate,
            dry_run=dry_run,
            transform=transform_fn,
            target_file_size_mb=target_file_size_mb,
            sort_by=sort_by,
            resume=resume,
            swap_with_source=swap_with_source,
        )
        return repartition(self._work, request).model_dump()

    def estimate_size(self, transform_fn: Callable[[DataFrame], DataFrame] | None = None) -> Stats:
        """How many partitions there would be, and how much they would hold."""
        return estimate(self._work, replace(self._request, transform=transform_fn)).model_dump()
