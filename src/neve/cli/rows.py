"""`neve delete`, `update`, `upsert` and `dedupe`: rows of a plain folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neve.cli.options import confirm, pairs
from neve.cli.parquet import (
    BackupDir,
    Compression,
    DryRun,
    Partition,
    Yes,
    emit,
    location,
    partition_filter,
    words,
    workplace,
)
from neve.errors import NotFound

if TYPE_CHECKING:
    from neve.model.directories import RowStats
    from neve.services.directory_rows import How

Target = Annotated[str, typer.Argument(metavar="DIR", help="A folder of Parquet files.")]
Where = Annotated[str, typer.Option("--where", metavar="SQL", help="The rows that are meant; NULL is not true.")]
Key = Annotated[str, typer.Option("--key", metavar="A,B", help="The columns that tell rows apart.")]
NoBackup = Annotated[bool, typer.Option("--no-backup", help="Keep nothing to restore.")]


def delete(
    target: Target,
    where: Where,
    partition: Partition = None,
    compression: Compression = "zstd",
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove rows."""
    from neve.services.directory_rows import delete_rows

    folder = _folder(target)

    def run(how: How) -> RowStats:
        only = partition_filter(partition)
        return delete_rows(workplace(folder), location(folder), where, partition_filter=only, how=how)

    stats = _with_preview(
        run, _how(compression, backup_dir, no_backup), "{0.rows_deleted:,} rows will go", dry_run, yes
    )
    emit(stats, done=f"deleted {stats.rows_deleted:,} rows")


def update(
    target: Target,
    where: Where,
    values: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=SQL", help="A new value; all see the old row. May be repeated."),
    ],
    partition: Partition = None,
    compression: Compression = "zstd",
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Give columns new values."""
    from neve.model.directories import Expression
    from neve.services.directory_rows import update_rows

    folder = _folder(target)
    new = {name: Expression(text) for name, text in pairs(values).items()}

    def run(how: How) -> RowStats:
        only = partition_filter(partition)
        return update_rows(workplace(folder), location(folder), where, new, partition_filter=only, how=how)

    stats = _with_preview(
        run, _how(compression, backup_dir, no_backup), "{0.rows_updated:,} rows will change", dry_run, yes
    )
    emit(stats, done=f"updated {stats.rows_updated:,} rows")


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
    compression: Compression = "zstd",
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Update rows by key, and insert those that are not there yet."""
    from neve.engine.upserts import read_input_file
    from neve.services.directory_upsert import upsert_rows

    folder = _folder(target, create=partition_by is not None)
    rows = read_input_file(source)

    def run(how: How) -> RowStats:
        return upsert_rows(
            workplace(folder),
            location(folder),
            rows,
            key_cols=words(key),
            partition_cols=None if partition_by is None else words(partition_by),
            update_cols=None if columns is None else words(columns),
            on_duplicate=on_duplicate,
            order_by=order_by or (),
            how=how,
        )

    question = "{0.rows_updated:,} rows will change and {0.rows_inserted:,} come"
    stats = _with_preview(run, _how(compression, backup_dir, no_backup), question, dry_run, yes or not folder.exists())
    emit(stats, done=f"inserted {stats.rows_inserted:,} and updated {stats.rows_updated:,} rows")


def dedupe(
    target: Target,
    key: Key,
    keep: Annotated[str, typer.Option("--keep", help="first or last.")] = "first",
    order_by: Annotated[list[str] | None, typer.Option("--order-by", help='"at desc"; else by file and place.')] = None,
    compression: Compression = "zstd",
    backup_dir: BackupDir = None,
    no_backup: NoBackup = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Keep one row of each key."""
    from neve.services.directory_rows import deduplicate_rows

    folder = _folder(target)

    def run(how: How) -> RowStats:
        return deduplicate_rows(
            workplace(folder), location(folder), words(key), keep=keep, order_by=order_by or (), how=how
        )

    stats = _with_preview(
        run, _how(compression, backup_dir, no_backup), "{0.rows_deleted:,} rows will go", dry_run, yes
    )
    emit(stats, done=f"deleted {stats.rows_deleted:,} rows")


def _how(compression: str, backup_dir: Path | None, no_backup: bool) -> How:
    from neve.services.directory_rows import How

    place = None if backup_dir is None else str(backup_dir)
    return How(compression=compression, backup_dir=place, create_backup=not no_backup)


def _with_preview(run: Callable[[How], RowStats], how: How, question: str, dry_run: bool, yes: bool) -> RowStats:
    """Dry, or after a person has seen what would happen, or has said yes beforehand."""
    from dataclasses import replace

    if dry_run:
        return run(replace(how, dry_run=True))
    if not yes:
        asked = question.format(run(replace(how, dry_run=True))) if sys.stdin.isatty() else "Rows will change"
        confirm(f"{asked}.", yes=False)
    return run(how)


def _folder(target: str, *, create: bool = False) -> Path:
    folder = Path(target).expanduser()
    if not create and not folder.is_dir():
        raise NotFound(f"no folder {target}", hint='rows of tables are changed with SQL: neve sql --write "…"')
    return folder
