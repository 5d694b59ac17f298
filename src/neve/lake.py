"""The public Python door: `Lake()` finds the lake, `lake.table("sales")` is a table; Spark starts when it must."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.config import LoadedSettings, Settings, load_settings
from neve.errors import InvalidInput, LakeNotFound
from neve.model.batching import BatchOutcome
from neve.model.compaction import CompactionReceipt
from neve.model.delta import Step
from neve.model.dynamic import CreateDynamic
from neve.model.history import RefreshRecord
from neve.model.ingest import IngestReceipt
from neve.model.names import TableName, parse_namespace
from neve.model.refresh import Difference, DynamicDetails, DynamicGraph, DynamicRow, RecoveredRow, RefreshReceipt
from neve.model.results import (
    CheckRow,
    DateCount,
    FileRow,
    JobRow,
    NamespaceRow,
    PartitionRow,
    PropertyRow,
    Receipt,
    ReferenceRow,
    SnapshotRow,
    TableDetails,
    TableStatus,
    TableSummary,
    TrashRow,
)
from neve.model.rows import RowReceipt
from neve.model.runs import Run, RunState
from neve.model.specs import Alteration
from neve.model.units import parse_duration
from neve.services import adopt, changes, deletion, export, lakes, lifecycle, look, queries, specs, status, trash
from neve.services.context import Context
from neve.services.directory_tables import look as directory_look
from neve.services.directory_tables import tables as directory_tables
from neve.services.directory_tables.tables import DirectoryTable
from neve.services.registry import is_taken
from neve.services.row_commits import Way

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.services.dynamic.rounds import Round
    from neve.services.row_changes import RowChanges


class Lake:
    """An open lake. Without a folder, the nearest one upwards from the working directory (or NEVE_LAKE)."""

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        profile: str | None = None,
        flags: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        found = lakes.locate_lake(Path.cwd(), given=None if root is None else str(root), env=os.environ)
        if found is None:
            raise LakeNotFound("there is no lake here or above", hint="make one: neve init")
        loaded = load_settings(found, flags=flags or {}, env=os.environ, profile=profile)
        self._context = Context(loaded) if tell is None else Context(loaded, tell=tell)
        self._opened = ExitStack()

    @classmethod
    def create(cls, root: str | Path = ".") -> Lake:
        """Makes a new lake in a folder and opens it."""
        lakes.create_lake(Path(root), env=os.environ)
        return cls(root)

    @property
    def root(self) -> Path:
        return self._context.loaded.root

    @property
    def settings(self) -> Settings:
        return self._context.loaded.settings

    @property
    def loaded_settings(self) -> LoadedSettings:
        """The settings with the source of each value."""
        return self._context.loaded

    @property
    def spark(self) -> SparkSession:
        """The lake's Spark session; starts it."""
        return self._context.session.spark

    @cached_property
    def tables(self) -> Tables:
        return Tables(self._context)

    @cached_property
    def dynamic(self) -> DynamicTables:
        return DynamicTables(self._context)

    @cached_property
    def namespaces(self) -> Namespaces:
        return Namespaces(self._context)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self._context)

    def table(self, name: str) -> LakeTable:
        """A table by name or by its configuration file; that it exists is checked when it is used."""
        if specs.is_table_file(name):
            return LakeTable(self._context, specs.name_in_file(Path(name)), file=Path(name))
        return LakeTable(self._context, TableName.parse(name))

    def sql(self, text: str, *, write: bool = False, as_of: str | None = None) -> DataFrame:
        return queries.run_sql(self._context, text, write=write, as_of=as_of)

    def changes(
        self,
        table: str,
        since: str | int | None,
        until: str | int | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Net row changes between two snapshots, as rows with a weight `_w`; readable until the lake is closed.

        Snapshots go by id, tag, branch or time; `since` None is before the first row, `until` None is now.
        """
        return self._opened.enter_context(self.table(table).changes(since, until, columns=columns)).frame()

    def schedule(self) -> list[JobRow]:
        """What scheduled maintenance would do now."""
        return status.schedule(self._context)

    def doctor(self, *, repair: bool = False, spark: bool = True) -> list[CheckRow]:
        """Every check; without `spark`, only those that need no JVM."""
        from neve.services.doctor import examine

        return examine(self._context, repair=repair, spark=spark)

    def make_demo(self) -> TableStatus:
        """Adds the example table `sales`, with rows."""
        from neve.services.demo import make_demo

        return make_demo(self._context)

    def close(self) -> None:
        """Closes the databases and stops Spark, if it runs."""
        try:
            self._opened.close()
        finally:
            if "session" in self._context.__dict__:
                self._context.session.stop()
            self._context.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tables:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(self, namespace: str | None = None) -> list[TableSummary]:
        """Every table, or those in a namespace and below it, sorted by name."""
        chosen = None if namespace is None else parse_namespace(namespace)
        found = [
            *look.list_tables(self._context, chosen),
            *directory_look.list_directories(self._context, chosen),
        ]
        return sorted(found, key=lambda row: TableName.parse(row.table))

    def create(
        self,
        name: str,
        schema: str | None = None,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        row_keys: Sequence[str] = (),
        split_points: str | None = None,
        base64: bool = False,
        if_not_exists: bool = False,
    ) -> Receipt:
        """`name` is a name, or a YAML file that holds all the rest."""
        if schema is None:
            if any((partition_by, sort_by, properties, comment, row_keys, split_points)):
                raise InvalidInput(f"{name} already says what the table is", hint="change the file, or give a schema")
            if specs.load_table_file(Path(name)).storage.format != "iceberg":
                return directory_tables.create(self._context, Path(name), if_not_exists=if_not_exists)
            spec = specs.spec_from_file(Path(name), root=self._context.loaded.root)
            return changes.create_table(
                self._context, spec, if_not_exists=if_not_exists, config_path=str(Path(name).absolute())
            )
        spec = specs.spec_from_words(
            name,
            schema,
            partition_by=partition_by,
            sort_by=sort_by,
            properties=properties,
            comment=comment,
            row_keys=row_keys,
            split_points=split_points,
            encoded=base64,
        )
        return changes.create_table(self._context, spec, if_not_exists=if_not_exists)

    def register(self, name: str, metadata_location: str) -> Receipt:
        return changes.register_table(self._context, TableName.parse(name), metadata_location)

    def adopt(self, folder: str | Path, name: str, *, dry_run: bool = False) -> Receipt:
        """An existing Parquet folder becomes a table; its files stay where they are, and as they are."""
        return adopt.adopt_folder(self._context, str(folder), TableName.parse(name), dry_run=dry_run)

    def undelete(self, name: str, *, new_name: str | None = None) -> Receipt:
        target = None if new_name is None else TableName.parse(new_name)
        return trash.undelete_table(self._context, TableName.parse(name), new_name=target)

    def trash(self) -> builtins.list[TrashRow]:
        return trash.list_trash(self._context)

    def set_all_online(self, *, online: bool) -> builtins.list[Receipt]:
        return [changes.set_online(self._context, name, online=online) for name in self._context.catalog.tables()]


class LakeTable:
    def __init__(self, context: Context, name: TableName, *, file: Path | None = None) -> None:
        self._context = context
        self._file = file
        self.name = name

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
        return changes.alter_table(self._context, self.name, list(alterations), dry_run=dry_run)

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
        if table := self._directory():
            return directory_tables.forget(self._context, table, force=force, dry_run=True)
        return deletion.plan_delete(self._context, self.name, force=force, keep_data=keep_data)

    def drop(self, *, force: bool = False, keep_data: bool = False) -> Receipt:
        """Takes the table out of the lake, as `neve table delete` does; `delete` is for rows."""
        if table := self._directory():
            return directory_tables.forget(self._context, table, force=force, dry_run=False)
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
        dry_run: bool = False,
    ) -> Receipt:
        """`split_points` is the text of a split file: one point per line."""
        return lifecycle.reinitialise_table(
            self._context,
            self.name,
            delete_partitions=delete_partitions,
            split_points=split_points,
            encoded=base64,
            dry_run=dry_run,
        )

    def export_splits(self, *, base64: bool = False) -> str:
        """The split points as the text of a split file."""
        return look.export_split_points(self._context, self.name, encoded=base64)

    def export(
        self,
        folder: str | Path,
        *,
        format: str = "parquet",  # noqa: A002 - the word that users say
        where: str | None = None,
        as_of: str | None = None,
        overwrite: bool = False,
    ) -> Receipt:
        """Writes the rows, or those for which `where` holds, as Parquet or CSV files into a folder of their own."""
        return export.export_table(
            self._context, self.name, str(folder), format=format, where=where, as_of=as_of, overwrite=overwrite
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

    def compact(
        self,
        period: str,
        *,
        delete_source: bool | None = None,
        ignore_delay: bool = False,
        dry_run: bool = False,
    ) -> CompactionReceipt:
        """Makes few files of a period's many: `2024-01`, `2024-W05`, `2024`."""
        from neve.services.compaction import compact_period
        from neve.services.compaction_requests import ask

        request = ask(
            self.name,
            self._file,
            period=period,
            delete_source=delete_source,
            ignore_delay=ignore_delay,
            dry_run=dry_run,
        )
        return compact_period(self._context, request)

    def changes(
        self, since: str | int | None, until: str | int | None = None, *, columns: Sequence[str] | None = None
    ) -> RowChanges:
        """What changed between two snapshots, planned and measured; `.frame()` reads it. Close it when done."""
        from neve.services.row_changes import changes_between

        earlier, later = (None if moment is None else str(moment) for moment in (since, until))
        return changes_between(self._context, self.name, since=earlier, until=later, columns=columns)

    def query(self, text: str, *, as_of: str | None = None) -> DataFrame:
        return queries.query_table(self._context, self.name, text, as_of=as_of)


class DynamicTables:
    """Tables that are declared by a query and kept equal to it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, name: str) -> DynamicTable:
        return DynamicTable(self._context, TableName.parse(name))

    def create(self, sql: str) -> builtins.list[Receipt]:
        """Runs CREATE DYNAMIC TABLE statements: each table is made, and filled unless it waits for its schedule.

        All are read before the first is made; a table may read those before it.
        """
        from neve.services.dynamic.declaring import create_dynamic

        return [receipt for asked in _declarations(sql) for receipt in create_dynamic(self._context, asked)]

    def validate(self, sql: str) -> Step:
        """How a declared table would follow changes; raises what is wrong with it. Nothing is run."""
        from neve.services.dynamic.validation import validate
        from neve.sql.delta import explain

        return explain(validate(self._context, _declaration(sql)))

    def list(self) -> builtins.list[DynamicRow]:
        """Every dynamic table: how fresh it is, how it is refreshed, and how that went last."""
        from neve.services.dynamic.look import list_dynamic

        return list_dynamic(self._context)

    def graph(self, name: str | None = None) -> DynamicGraph:
        """Who reads whom, in the order of refreshes; of one table, what it needs and what needs it."""
        from neve.services.dynamic.look import graph_of

        return graph_of(self._context, None if name is None else TableName.parse(name))

    def history(
        self, name: str | None = None, *, failed: bool = False, limit: int = 20
    ) -> builtins.list[RefreshRecord]:
        """The latest refreshes of a table, or of all, newest first; only those that failed, if wanted."""
        from neve.services.dynamic.look import refresh_history

        table = None if name is None else TableName.parse(name)
        return refresh_history(self._context, table, failed=failed, limit=limit)

    def recover(self) -> builtins.list[RecoveredRow]:
        """Writes what the state database keeps of dynamic tables anew, from the catalog; what was missing."""
        from neve.services.dynamic.history import recover

        return recover(self._context)

    def refresh(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> builtins.list[RefreshReceipt]:
        """Refreshes the named tables, or all, in the order of their graph; `+t` and `t+` reach along it.

        Raises:
            RefreshFailed: tables failed; the others had their turn. Where one table was refreshed, its own error.
        """
        done = self.round(names, downstream=downstream, parallel=parallel, dry_run=dry_run)
        done.check()
        return done.receipts

    def round(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> Round:
        """As `refresh`, but tables that failed are told in the answer among the others."""
        from neve.services.dynamic.laps import RoundRequest
        from neve.services.dynamic.rounds import run_round

        selectors = [f"{name}+" if downstream and not name.endswith("+") else name for name in names]
        return run_round(self._context, RoundRequest(selectors=selectors, parallel=parallel, dry_run=dry_run))

    def explain(self, name: str) -> Step:
        from neve.services.dynamic.look import explain_dynamic

        return explain_dynamic(self._context, TableName.parse(name))

    def verify(self, name: str) -> Difference:
        """Computes the query anew at the table's frontier and compares."""
        return self.verify_all([name])[0]

    def verify_all(self, names: Sequence[str] = ()) -> builtins.list[Difference]:
        """As `verify`, for several tables (`t`, `+t`, `t+`) or all."""
        from neve.services.dynamic.verify import verify_tables

        return verify_tables(self._context, names)

    def drop(self, name: str, *, cascade: bool = False) -> builtins.list[Receipt]:
        from neve.services.dynamic.statements import drop_dynamic

        return drop_dynamic(self._context, TableName.parse(name), cascade=cascade)


class DynamicTable:
    """One dynamic table."""

    def __init__(self, context: Context, name: TableName) -> None:
        self._context = context
        self.name = name

    def __repr__(self) -> str:
        return f"DynamicTable({str(self.name)!r})"

    def show(self) -> DynamicDetails:
        from neve.services.dynamic.showing import show_dynamic

        return show_dynamic(self._context, self.name)

    def alter(self, options: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()) -> Receipt:
        """Gives options other values, by the names that SQL has for them, or their defaults; in one commit."""
        from neve.services.dynamic.altering import alter_options
        from neve.sql.dynamic_options import fields_from_words, options_from_words

        put = options_from_words(options or {})
        return alter_options(self._context, self.name, put=put, unset=fields_from_words(unset))

    def suspend(self) -> list[Receipt]:
        """Rounds leave it out, and the tables that read it; by name it can still be refreshed."""
        from neve.services.dynamic.altering import suspend

        return suspend(self._context, self.name)

    def resume(self) -> list[Receipt]:
        from neve.services.dynamic.altering import resume

        return resume(self._context, self.name)

    def rename(self, new_name: str) -> Receipt:
        from neve.services.dynamic.altering import rename_dynamic

        receipt = rename_dynamic(self._context, self.name, TableName.parse(new_name))
        self.name = TableName.parse(new_name)
        return receipt

    def swap(self, other: str) -> Receipt:
        """Exchanges names with another dynamic table, in one step."""
        from neve.services.dynamic.altering import swap_dynamic

        return swap_dynamic(self._context, self.name, TableName.parse(other))

    def refresh(self) -> RefreshReceipt:
        """One round of this table, and of those above it that must be brought along; its own receipt."""
        from neve.services.dynamic.rounds import refresh_tables

        return refresh_tables(self._context, [self.name.short])[-1]

    def explain(self) -> Step:
        from neve.services.dynamic.look import explain_dynamic

        return explain_dynamic(self._context, self.name)

    def verify(self) -> Difference:
        """Computes the query anew at the table's frontier and compares."""
        from neve.services.dynamic.verify import verify_tables

        return verify_tables(self._context, [self.name.short])[0]

    def drop(self, *, cascade: bool = False) -> list[Receipt]:
        from neve.services.dynamic.statements import drop_dynamic

        return drop_dynamic(self._context, self.name, cascade=cascade)


def _declarations(sql: str) -> list[CreateDynamic]:
    from neve.sql.dynamic import is_dynamic
    from neve.sql.statements import read_script

    statements = read_script(sql)
    if not statements or not all(is_dynamic(statement.text) for statement in statements):
        return [_declaration(sql)]  # a `;` too early, most likely: the whole says what is wrong
    return [_declaration(statement.placed) for statement in statements]


def _declaration(sql: str) -> CreateDynamic:
    from neve.sql.dynamic import parse_dynamic

    statement = parse_dynamic(sql)
    if not isinstance(statement, CreateDynamic):
        raise InvalidInput("this statement declares no table", hint="write CREATE DYNAMIC TABLE … AS SELECT …")
    return statement


class Namespaces:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(self) -> list[NamespaceRow]:
        return look.list_namespaces(self._context)

    def create(self, name: str, *, if_not_exists: bool = False) -> NamespaceRow:
        return changes.create_namespace(self._context, parse_namespace(name), if_not_exists=if_not_exists)

    def drop(self, name: str) -> NamespaceRow:
        return changes.drop_namespace(self._context, parse_namespace(name))


class Runs:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(
        self, *, table: str | None = None, kind: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> list[Run]:
        short = None if table is None else TableName.parse(table).short
        return list(self._context.store.runs.list(table=short, kind=kind, state=state, limit=limit))

    def show(self, run_id: str) -> Run:
        return self._context.store.runs.get(run_id)

    def retry(self, run_id: str | None = None, *, parallel: int | None = None) -> Round | None:
        """Refreshes the tables of a round that failed, and those left out; without an id, all that failed last.

        None when there is nothing to do again.
        """
        from neve.services.dynamic.retry import retry

        return retry(self._context, run_id, parallel=parallel)
