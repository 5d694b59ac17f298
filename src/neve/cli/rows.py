"""`neve delete`, `update`, `upsert` and `dedupe`: rows of a table or of a plain folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neve.cli.options import assignments, confirm, open_lake, options
from neve.cli.parquet import BackupDir, DryRun, Partition, Yes, emit, location, partition_filter, words, workplace
from neve.errors import InvalidInput, NotFound, Refused

if TYPE_CHECKING:
    from neve.lake import LakeTable
    from neve.model.directories import RowStats
    from neve.model.rows import RowReceipt
    from neve.services.directory_rows import How

Target = Annotated[str, typer.Argument(metavar="TARGET", help="A table's name, or a folder of Parquet files.")]
Where = Annotated[str, typer.Option("--where", metavar="SQL", help="The rows that are meant; NULL is not true.")]
Key = Annotated[str, typer.Option("--key", metavar="A,B", help="The columns that tell rows apart.")]
Compression = Annotated[
    str | None,
    typer.Option("--compression", help="Of a folder's new files: zstd, snappy, gzip, lz4 or uncompressed."),
]
NoBackup = Annotated[bool, typer.Option("--no-backup", help="Keep nothing to restore.")]


def delete(
    target: Target,
    where: Where,
    partition: Partition = None,
    compression: Compression = None,
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove rows."""
    from neve.services.directory_rows import delete_rows

    found, how = _find(target), _how(compression, backup_dir, no_backup)
    only = partition_filter(partition)

    def run(how: How) -> RowStats | RowReceipt:
        if isinstance(found, Path):
            return delete_rows(workplace(found), location(found), where, partition_filter=only, how=how)
        return found.delete(where, partition_filter=only, dry_run=how.dry_run, create_backup=how.create_backup)

    stats = _with_preview(run, _fit(found, how, compression), "{0.rows_deleted:,} rows will go", dry_run, yes)
    _emit(stats, f"deleted {stats.rows_deleted:,} rows")


def update(
    target: Target,
    where: Where,
    values: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=SQL", help="A new value; all see the old row. May be repeated."),
    ],
    partition: Partition = None,
    compression: Compression = None,
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give columns new values."""
    from neve.model.directories import Expression
    from neve.services.directory_rows import update_rows

    found, how = _find(target), _how(compression, backup_dir, no_backup)
    new = {name: Expression(text) for name, text in assignments(values).items()}
    only = partition_filter(partition)

    def run(how: How) -> RowStats | RowReceipt:
        if isinstance(found, Path):
            return update_rows(workplace(found), location(found), where, new, partition_filter=only, how=how)
        return found.update(new, where, partition_filter=only, dry_run=how.dry_run, create_backup=how.create_backup)

    stats = _with_preview(run, _fit(found, how, compression), "{0.rows_updated:,} rows will change", dry_run, yes)
    _emit(stats, f"updated {stats.rows_updated:,} rows")


def upsert(
    target: Target,
    key: Key,
    source: Annotated[Path, typer.Option("--from", metavar="FILE", help="The new rows: parquet, csv or json lines.")],
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="For a new folder; else those that it has.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--update", metavar="A,B", help="Columns that known rows get; else all of the file.")
    ] = None,
    on_duplicate: Annotated[
        str, typer.Option("--on-duplicate", help="A key that is there twice in the file: refuse, or take the last.")
    ] = "refuse",
    order_by: Annotated[list[str] | None, typer.Option("--order-by", help="Which row is the last.")] = None,
    compression: Compression = None,
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Update rows by key, and insert those that are not there yet."""
    from neve.engine.row_input import read_input_file
    from neve.services.directory_upsert import upsert_rows

    found, how = _find(target, create=partition_by is not None), _how(compression, backup_dir, no_backup)
    empty = isinstance(found, Path) and not _holds_files(found)
    rows = read_input_file(source, as_text=not empty)
    keys, update = words(key), None if columns is None else words(columns)
    order = order_by or ()

    def run(how: How) -> RowStats | RowReceipt:
        if isinstance(found, Path):
            return upsert_rows(
                workplace(found),
                location(found),
                rows,
                key_cols=keys,
                partition_cols=None if partition_by is None else words(partition_by),
                update_cols=update,
                on_duplicate=on_duplicate,
                order_by=order,
                how=how,
            )
        return found.upsert(
            rows,
            keys,
            update_cols=update,
            on_duplicate=on_duplicate,
            order_by=order,
            dry_run=how.dry_run,
            create_backup=how.create_backup,
        )

    question = "{0.rows_updated:,} rows will change and {0.rows_inserted:,} come"
    stats = _with_preview(run, _fit(found, how, compression, partition_by), question, dry_run, yes or empty)
    _emit(stats, f"inserted {stats.rows_inserted:,} and updated {stats.rows_updated:,} rows")


def dedupe(
    target: Target,
    key: Key,
    keep: Annotated[str, typer.Option("--keep", help="first or last.")] = "first",
    order_by: Annotated[
        list[str] | None,
        typer.Option("--order-by", help='"at desc"; else as they came (a table) or by file and place.'),
    ] = None,
    compression: Compression = None,
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Keep one row of each key."""
    from neve.services.directory_rows import deduplicate_rows

    found, how = _find(target), _how(compression, backup_dir, no_backup)
    keys, order = words(key), order_by or ()

    def run(how: How) -> RowStats | RowReceipt:
        if isinstance(found, Path):
            return deduplicate_rows(workplace(found), location(found), keys, keep=keep, order_by=order, how=how)
        return found.dedupe(keys, keep, order, dry_run=how.dry_run, create_backup=how.create_backup)

    stats = _with_preview(run, _fit(found, how, compression), "{0.rows_deleted:,} rows will go", dry_run, yes)
    _emit(stats, f"deleted {stats.rows_deleted:,} rows")


def _holds_files(folder: Path) -> bool:
    from neve.services.directories import open_parquet

    return folder.is_dir() and bool(open_parquet(location(folder)).files())


def _how(compression: str | None, backup_dir: Path | None, no_backup: bool) -> How:
    from neve.services.directory_rows import How

    place = None if backup_dir is None else location(backup_dir)
    return How(compression=compression or "zstd", backup_dir=place, create_backup=not no_backup)


def _fit(found: Path | LakeTable, how: How, compression: str | None, partition_by: str | None = None) -> How:
    """The same, if the target knows what to do with it: a table has its own files, partitions and past."""
    given = {"--compression": compression, "--backup-dir": how.backup_dir, "--partition-by": partition_by}
    if not isinstance(found, Path) and (wrong := [option for option, value in given.items() if value is not None]):
        raise InvalidInput(f"{wrong[0]} is for folders, and {found.name} is a table", hint="leave it out")
    return how


def _with_preview(
    run: Callable[[How], RowStats | RowReceipt], how: How, question: str, dry_run: bool, yes: bool
) -> RowStats | RowReceipt:
    """Dry, or after a person has seen what would happen, or has said yes beforehand."""
    from dataclasses import replace

    if dry_run:
        return run(replace(how, dry_run=True))
    if not yes:
        asked = question.format(run(replace(how, dry_run=True))) if sys.stdin.isatty() else "Rows will change"
        confirm(f"{asked}.", yes=False)
    return run(how)


def _emit(stats: RowStats | RowReceipt, done: str) -> None:
    from neve.cli.render import emit as show
    from neve.model.rows import RowReceipt

    if isinstance(stats, RowReceipt):
        show(stats)
    else:
        emit(stats, done=done)


def _find(target: str, *, create: bool = False) -> Path | LakeTable:
    """A folder or a table. What looks like a path is a folder; a name that could be both is refused."""
    folder = Path(target).expanduser()
    if "://" in target:
        return folder  # refused with a reason where the folder is opened
    if "/" in target or target in (".", ".."):
        if not create and not folder.is_dir():
            raise NotFound(f"no folder {target}", hint="a table goes by its name: namespace.table")
        return folder
    table, is_folder = _table(target), folder.is_dir()
    is_table = table is not None and table.exists()
    if is_table and is_folder and table is not None:
        raise Refused(
            f"{target} is a table and a folder here",
            hint=f"write ./{target} for the folder, {table.name} for the table",
        )
    if is_folder or (create and not is_table):
        return folder
    if table is None:
        raise NotFound(f"no folder {target}, and no lake here that could have such a table", hint="neve init makes one")
    return table


def _table(target: str) -> LakeTable | None:
    """The table of this name, there or not, if there is a lake."""
    from neve.services.lakes import locate_lake

    if locate_lake(Path.cwd(), given=options.lake, env=os.environ) is None:
        return None
    return open_lake().table(target)
