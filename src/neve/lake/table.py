"""`lake.table("sales")`: one table, its looks and its changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from neve.errors import InvalidInput
from neve.lake.ranged import KeyRanges
from neve.model.batching import BatchOutcome
from neve.model.compaction import CompactionReceipt
from neve.model.health import TableHealth
from neve.model.ingest import IngestReceipt
from neve.model.names import TableName
from neve.model.results import (
    DateCount,
    FileRow,
    PartitionRow,
    PropertyRow,
    Receipt,
    ReferenceRow,
    SnapshotRow,
    TableDetails,
    TableStatus,
)
from neve.model.retention import (
    DeletesReceipt,
    ExpireReceipt,
    ManifestReceipt,
    OrphanReceipt,
    StatisticsReceipt,
)
from neve.model.rewrites import CompactOptions, RewriteReceipt
from neve.model.rows import RowReceipt
from neve.model.specs import Alteration
from neve.model.units import parse_duration
from neve.services import changes, deletion, export, lifecycle, look, queries, status
from neve.services.context import Context
from neve.services.directory_tables import look as directory_look
from neve.services.directory_tables import tables as directory_tables
from neve.services.directory_tables.tables import DirectoryTable
from neve.services.registry import is_directory, is_taken
from neve.services.row_commits import Way

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from neve.services.row_changes import RowChanges


class LakeTable(KeyRanges):
    def __init__(self, context: Context, name: TableName, *, file: Path | None = None) -> None:
        super().__init__(context, name)
        self._file = file

    def __repr__(self) -> str:
        return f"LakeTable({str(self.name)!r})"

    def _directory(self) -> DirectoryTable | None:
        """Itself as a directory table, when it is one."""
        return directory_tables.find(self._context, self.name, self._file)

    def exists(self) -> bool:
        return is_taken(self._context, self.name)

    def show(self) -> TableDetails:
        if table := self._directory():
            return directory_look.show(self._context, table)
        return look.show_table(self._context, self.name)

    def status(self) -> TableStatus:
        return status.table_status(self._context, self.name, self._file)

    def health(self) -> TableHealth:
        """How its files and metadata are laid out, what that costs, and what helps most."""
        from neve.services.health import table_health

        return table_health(self._context, self.name, self._file)

    def verify(self) -> list[DateCount]:
        """Counts the rows of each date and compares with the log."""
        from neve.services.verification import verify_table

        if table := self._directory():
            return directory_look.verify(self._context, table)
        return verify_table(self._context, self.name)

    def history(self) -> list[SnapshotRow]:
        return look.table_history(self._context, self.name)

    def files(self) -> list[FileRow]:
        if table := self._directory():
            return directory_look.files(self._context, table)
        return look.table_files(self._context, self.name)

    def partitions(self) -> list[PartitionRow]:
        """Files, rows and bytes per partition; `ranges` tells more of a key-range table."""
        return look.table_partitions(self._context, self.name)

    def references(self) -> list[ReferenceRow]:
        return look.table_references(self._context, self.name)

    def properties(self) -> list[PropertyRow]:
        return look.table_properties(self._context, self.name)

    def set(self, properties: Mapping[str, str]) -> Receipt:
        return changes.set_properties(self._context, self.name, properties)

    def unset(self, keys: Sequence[str]) -> Receipt:
        return changes.unset_properties(self._context, self.name, keys)

    def alter(self, alterations: Iterable[Alteration], *, dry_run: bool = False) -> Receipt:
        """Alterations of `neve.model.specs`, such as `RenameColumn("a", "b")`; all in one commit, or none."""
        given = list(alterations)
        every: Sequence[object] = given
        if wrong := [each for each in every if not isinstance(each, Alteration)]:
            hint = 'neve.model.specs has them: RenameColumn("a", "b")'
            raise InvalidInput(f"not an alteration: {wrong[0]!r}", hint=hint)
        return changes.alter_table(self._context, self.name, given, dry_run=dry_run)

    def online(self) -> Receipt:
        return changes.set_online(self._context, self.name, online=True)

    def offline(self) -> Receipt:
        return changes.set_online(self._context, self.name, online=False)

    def tag(self, label: str, *, at: str | None = None) -> Receipt:
        return changes.create_tag(self._context, self.name, label, at=at)

    def branch(self, label: str, *, at: str | None = None) -> Receipt:
        return changes.create_branch(self._context, self.name, label, at=at)

    def delete_tag(self, label: str) -> Receipt:
        return changes.delete_reference(self._context, self.name, label, kind="tag")

    def delete_branch(self, label: str) -> Receipt:
        return changes.delete_reference(self._context, self.name, label, kind="branch")

    def rollback(self, to: str | int, *, dry_run: bool = False) -> Receipt:
        return changes.rollback(self._context, self.name, str(to), dry_run=dry_run)

    def rename(self, new_name: str) -> Receipt:
        receipt = lifecycle.rename_table(self._context, self.name, TableName.parse(new_name))
        self.name = TableName.parse(new_name)
        return receipt

    def plan_drop(self, *, force: bool = False, keep_data: bool = False) -> Receipt:
        if is_directory(self._context, self.name):
            return directory_tables.forget(self._context, self.name, force=force, dry_run=True)
        return deletion.plan_delete(self._context, self.name, force=force, keep_data=keep_data)

    def drop(self, *, force: bool = False, keep_data: bool = False) -> Receipt:
        """Takes the table out of the lake, as `neve table delete` does; `delete` is for rows."""
        if is_directory(self._context, self.name):
            return directory_tables.forget(self._context, self.name, force=force, dry_run=False)
        return deletion.delete_table(self._context, self.name, force=force, keep_data=keep_data)

    def delete(
        self,
        where: str | Column,
        *,
        partition_filter: Mapping[str, object] | None = None,
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> RowReceipt:
        """Removes the rows for which a condition, SQL text or a Column, is true."""
        from neve.services.table_rows import delete_rows

        way = Way(dry_run=dry_run, create_backup=create_backup)
        return delete_rows(self._context, self.name, where, partition_filter=partition_filter, way=way)

    def update(
        self,
        set: Mapping[str, object],  # noqa: A002 - SQL's word
        where: str | Column,
        *,
        partition_filter: Mapping[str, object] | None = None,
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> RowReceipt:
        """Gives columns new values: a literal, `neve.parquet.expr("…")` or a Column, all of them seeing the old row."""
        from neve.services.table_rows import update_rows

        way = Way(dry_run=dry_run, create_backup=create_backup)
        return update_rows(self._context, self.name, set, where, partition_filter=partition_filter, way=way)

    def upsert(
        self,
        data: Any,
        key_cols: Sequence[str],
        *,
        update_cols: Sequence[str] | None = None,
        on_duplicate: str = "refuse",
        order_by: Sequence[str] = (),
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> RowReceipt:
        """Updates rows by key, and inserts those that are not there yet; `data` is as for `ParquetCRUD.upsert`."""
        from neve.services.table_rows import upsert_rows

        return upsert_rows(
            self._context,
            self.name,
            data,
            key_cols=key_cols,
            update_cols=update_cols,
            on_duplicate=on_duplicate,
            order_by=order_by,
            way=Way(dry_run=dry_run, create_backup=create_backup),
        )

    def dedupe(
        self,
        key_cols: Sequence[str],
        keep: str = "first",
        order_by: Sequence[str] = (),
        *,
        dry_run: bool = False,
        create_backup: bool = True,
    ) -> RowReceipt:
        """Keeps the first or last row of each key, by `order_by` or as they came. NULL equals NULL."""
        from neve.services.table_rows import dedupe_rows

        way = Way(dry_run=dry_run, create_backup=create_backup)
        return dedupe_rows(self._context, self.name, key_cols, keep=keep, order_by=order_by, way=way)

    def reinitialise(
        self,
        *,
        delete_partitions: bool = False,
        split_points: str | None = None,
        base64: bool = False,
        partitions: str | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """`split_points` is the text of a split file: one point per line; `partitions` JSON lines of an export."""
        return lifecycle.reinitialise_table(
            self._context,
            self.name,
            delete_partitions=delete_partitions,
            split_points=split_points,
            encoded=base64,
            ranges=partitions,
            dry_run=dry_run,
        )

    def export(
        self,
        folder: str | Path,
        *,
        format: str = "parquet",  # noqa: A002 - the word that users say
        where: str | None = None,
        as_of: str | None = None,
        overwrite: bool = False,
        dry_run: bool = False,
    ) -> Receipt:
        """Writes the rows, or those for which `where` holds, as Parquet or CSV files into a folder of their own."""
        return export.export_table(
            self._context,
            self.name,
            str(folder),
            format=format,
            where=where,
            as_of=as_of,
            overwrite=overwrite,
            dry_run=dry_run,
        )

    def ingest(
        self,
        *sources: str | Path,
        date: date | str | None = None,
        date_from_name: str | None = None,
        dataset_config: str | Path | None = None,
        replace: bool = False,
        max_rejected: str | int | None = None,
        dry_run: bool = False,
    ) -> IngestReceipt:
        """Loads files for a date, or for the dates in their names; the same content is never loaded twice."""
        from neve.services.deliveries import ask
        from neve.services.ingest import ingest

        request = ask(
            self._context,
            self.name,
            self._file,
            sources=[str(source) for source in sources],
            day=date,
            name_pattern=date_from_name,
            dataset_config=None if dataset_config is None else Path(dataset_config),
            replace=replace,
            max_rejected=max_rejected,
            dry_run=dry_run,
        )
        return ingest(self._context, request)

    def submit(
        self, *sources: str | Path, date: date | str | None = None, date_from_name: str | None = None
    ) -> Receipt:
        """Records files to be loaded by `ingest_batches` or `watch`; a path that is submitted again is loaded again."""
        from neve.services.batching import submit

        words = [str(source) for source in sources]
        return submit(self._context, self.name, self._file, sources=words, day=date, name_pattern=date_from_name)

    def ingest_batches(
        self, *, force: bool = False, drop_missing: bool = False, dry_run: bool = False
    ) -> list[BatchOutcome]:
        """Loads the submitted files that are ready, or all of them: each batch in one commit, each date whole."""
        from neve.services.batching import BatchRequest, load_batches

        request = BatchRequest(
            table=self.name, file=self._file, force=force, drop_missing=drop_missing, dry_run=dry_run
        )
        return list(load_batches(self._context, request))

    def watch(
        self,
        folder: str | Path,
        *,
        date_from_name: str,
        every: str = "5s",
        settle: str = "5s",
        once: bool = False,
    ) -> Iterator[BatchOutcome]:
        """Loads files as they arrive in a folder, and tells what became of them; without `once`, for ever."""
        from neve.services.watching import WatchRequest, watch

        request = WatchRequest(
            table=self.name,
            file=self._file,
            folder=str(folder),
            name_pattern=date_from_name,
            every=parse_duration(every),
            settle=parse_duration(settle),
            once=once,
        )
        return watch(self._context, request)

    @overload
    def compact(
        self,
        period: str,
        *,
        delete_source: bool | None = None,
        ignore_delay: bool = False,
        dry_run: bool = False,
        **how: Unpack[CompactOptions],
    ) -> CompactionReceipt: ...

    @overload
    def compact(
        self, period: None = None, *, dry_run: bool = False, **how: Unpack[CompactOptions]
    ) -> RewriteReceipt: ...

    def compact(
        self,
        period: str | None = None,
        *,
        delete_source: bool | None = None,
        ignore_delay: bool = False,
        dry_run: bool = False,
        **how: Unpack[CompactOptions],
    ) -> CompactionReceipt | RewriteReceipt:
        """Makes few files of many: of the whole table, or of the days of a period (`2024-01`, `2024-W05`, `2024`)."""
        from neve.services.compaction import compact_period
        from neve.services.compaction_requests import ask
        from neve.services.rewrites.asking import ask_to_compact, refuse_for_periods
        from neve.services.rewrites.compaction import compact_table

        if period is None:
            if self._directory() is not None:
                raise InvalidInput(
                    f"{self.name} is a folder of files by day, which are compacted by period",
                    hint=f"give one: neve compact {self.name.short} --period 2024-01",
                )
            return compact_table(self._context, ask_to_compact(self.name, dry_run=dry_run, **how))
        refuse_for_periods(how)
        request = ask(
            self.name,
            self._file,
            period=period,
            delete_source=delete_source,
            ignore_delay=ignore_delay,
            dry_run=dry_run,
        )
        return compact_period(self._context, request)

    def expire(
        self,
        *,
        older_than: timedelta | str | None = None,
        retention_hours: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
    ) -> ExpireReceipt:
        """Removes snapshots that nobody needs any more, and the files that only they hold; says for whom others stay.

        Without an age, the table's property `history.expire.max-snapshot-age-ms` decides, else the setting.
        """
        from neve.services.expiry import ask, expire_snapshots

        age = parse_duration(older_than) if isinstance(older_than, str) else older_than
        request = ask(self.name, older_than=age, retention_hours=retention_hours, keep_last=keep_last, dry_run=dry_run)
        return expire_snapshots(self._context, request)

    def expiry_keeps_less(
        self,
        *,
        older_than: timedelta | str | None = None,
        retention_hours: float | None = None,
        keep_last: int | None = None,
    ) -> bool:
        """Whether `expire` with these would keep less than the table and the settings say."""
        from neve.services.expiry import ask, keeps_less

        age = parse_duration(older_than) if isinstance(older_than, str) else older_than
        request = ask(self.name, older_than=age, retention_hours=retention_hours, keep_last=keep_last)
        return keeps_less(self._context, request)

    def orphans(
        self, *, older_than: timedelta | str | None = None, delete: bool = False, dry_run: bool = False
    ) -> OrphanReceipt:
        """Files below the table's folder that nothing names; with `delete` they go, unless it is a dry run."""
        from neve.services.orphans import ask, table_orphans

        age = parse_duration(older_than) if isinstance(older_than, str) else older_than
        request = ask(self._context, older_than=age, delete=delete and not dry_run)
        return table_orphans(self._context, self.name, request)

    def manifests(self, *, dry_run: bool = False) -> ManifestReceipt:
        """Makes few manifests of many, in the order of partitions."""
        from neve.services.tidying import tidy_manifests

        return tidy_manifests(self._context, self.name, dry_run=dry_run)

    def rewrite_deletes(self, *, dry_run: bool = False) -> DeletesReceipt:
        """Makes few files of position deletes, or vectors, and removes those that no data file is left for."""
        from neve.services.tidying import tidy_deletes

        return tidy_deletes(self._context, self.name, dry_run=dry_run)

    def stats(self, *, columns: Sequence[str] | None = None, dry_run: bool = False) -> StatisticsReceipt:
        """Counts the distinct values of columns, all plain ones unless named, where they are not counted yet."""
        from neve.services.tidying import table_statistics

        return table_statistics(self._context, self.name, columns=columns, dry_run=dry_run)

    def changes(
        self, since: str | int | None, until: str | int | None = None, *, columns: Sequence[str] | None = None
    ) -> RowChanges:
        """What changed between two snapshots, planned and measured; `.frame()` reads it. Close it when done."""
        from neve.services.row_changes import changes_between

        earlier, later = (None if moment is None else str(moment) for moment in (since, until))
        return changes_between(self._context, self.name, since=earlier, until=later, columns=columns)

    def query(self, text: str, *, as_of: str | None = None) -> DataFrame:
        return queries.query_table(self._context, self.name, text, as_of=as_of)
