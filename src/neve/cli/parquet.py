"""`neve parquet …`: plain folders of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neve.cli.options import Command, assignments, confirm, group, open_lake, options, say, tell, warn

if TYPE_CHECKING:
    from neve.services.directories import Workplace

app = group("Plain folders of Parquet files: look, compact, repartition, repair, restore.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder of Parquet files.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Partition = Annotated[
    list[str] | None, typer.Option("--partition", metavar="KEY=VALUE", help="Only this partition; may be repeated.")
]
Compression = Annotated[str, typer.Option("--compression", help="zstd, snappy, gzip, lz4 or uncompressed.")]
BackupDir = Annotated[Path | None, typer.Option("--backup-dir", help="Where backups lie; else in DIR/_backups.")]
SortBy = Annotated[list[str] | None, typer.Option("--sort-by", metavar="COLUMN", help='"at desc"; may be repeated.')]
By = Annotated[str, typer.Option("--by", metavar="A,B", help="The new partition columns, outermost first.")]
_NULL = "__HIVE_DEFAULT_PARTITION__"


def workplace(folder: Path) -> Workplace:
    """Where the work runs: in the lake that --lake names, else in the one that the folder lies in, if any."""
    from neve.services.directories import workplace_for

    context = None if options.lake is None else open_lake()._context
    return workplace_for(location(folder), context=context, tell=tell, speak=warn)


def location(folder: Path) -> str:
    """The whole path. An address such as s3://bucket/x has lost a slash by becoming a path, and gets it back."""
    scheme, found, rest = str(folder).partition(":/")
    if found and scheme.isalnum():
        return f"{scheme}://{rest}"
    return str(folder.expanduser().absolute())


def words(text: str | None) -> tuple[str, ...]:
    """Names between commas."""
    from neve.model.layout import split_list

    return () if text is None else tuple(name.strip("`") for name in split_list(text))


def partition_filter(texts: list[str] | None) -> dict[str, object] | None:
    """`key=value` words; Hive's word for NULL is NULL."""
    if not texts:
        return None
    return {key: None if value == _NULL else value for key, value in assignments(texts).items()}


def emit(answer: Any, *, done: str) -> None:
    """The figures to stdout, and a word about them to people."""
    from neve.cli.render import emit as show

    if answer.dry_run:
        say(f"would have {done}; nothing was changed")
    else:
        say(f"✓ {done}" if answer.run_id else "= nothing to do")
    show(answer)


@app.command("fragmentation", cls=Command)
def fragmentation(
    folder: Folder,
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, help="The size that files should have.")] = 100,
    worst: Annotated[int, typer.Option("--worst", min=1, help="How many partitions to list.")] = 10,
) -> None:
    """Files per partition, the worst first; from footers alone."""
    from neve.cli.render import emit as show
    from neve.services.directory_compaction import fragmentation as look

    found = look(location(folder), target_file_size_mb=target_mb, worst=worst)
    if options.output != "table":
        show(found)
        return
    say(f"{found.files:,} files in {found.partitions:,} partitions, {found.small_files:,} of them small")
    show(found.worst, empty="no files")


@app.command("compact", cls=Command)
def compact(
    folder: Folder,
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, help="The size of the new files.")] = 100,
    min_file_count: Annotated[int, typer.Option("--min-file-count", min=1, help="Fewer files are left alone.")] = 2,
    max_file_size_mb: Annotated[
        float | None, typer.Option("--max-file-size-mb", help="Larger files are left alone.")
    ] = None,
    target_file_count: Annotated[
        int | None, typer.Option("--target-file-count", min=1, help="So many files per partition.")
    ] = None,
    sort_by: SortBy = None,
    partition: Partition = None,
    compression: Compression = "zstd",
    keep_source_files: Annotated[
        bool, typer.Option("--keep-source-files", help="Keep the sources as a backup, for `neve parquet restore`.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare the rows before anything goes.")] = True,
    dry_run: DryRun = False,
) -> None:
    """Merge small files within their partitions. Row groups are copied as they are where that is possible."""
    from neve.services.directory_compaction import CompactRequest, compact_files

    request = CompactRequest(
        target_file_size_mb=target_mb,
        compression=compression,
        min_file_count=min_file_count,
        max_file_size_mb=max_file_size_mb,
        target_file_count=target_file_count,
        sort_by=sort_by or (),
        partition_filter=partition_filter(partition),
        delete_source_files=not keep_source_files,
        dry_run=dry_run,
        verify=verify,
    )
    stats = compact_files(workplace(folder), location(folder), request)
    emit(stats, done=f"compacted {stats.files_before:,} → {stats.files_after:,} files")


@app.command("estimate", cls=Command)
def estimate(folder: Folder, by: By) -> None:
    """How many partitions other columns would give, and how much they would hold."""
    from neve.cli.render import emit as show
    from neve.services.repartition import RepartitionRequest
    from neve.services.repartition import estimate as look

    request = RepartitionRequest(source=location(folder), target=f"{location(folder)}.new", columns=words(by))
    show(look(workplace(folder), request))


@app.command("repartition", cls=Command)
def repartition(
    folder: Folder,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new folder.")],
    by: By,
    target_mb: Annotated[int, typer.Option("--target-mb", min=1, help="The size of the new files.")] = 128,
    sort_by: SortBy = None,
    compression: Compression = "zstd",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Rows per row group, at most.")] = 1_000_000,
    validate: Annotated[bool, typer.Option("--validate/--no-validate", help="Read back and compare.")] = True,
    resume: Annotated[bool, typer.Option("--resume/--start-over", help="Go on with an unfinished run.")] = True,
    swap: Annotated[bool, typer.Option("--swap", help="Let the new files take the place of the old ones.")] = False,
    delete_source: Annotated[bool, typer.Option("--delete-source", help="The old files go.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Write the rows under other partition columns into a new folder, or in place of the old ones."""
    from neve.services.repartition import RepartitionRequest
    from neve.services.repartition import repartition as write

    if (delete_source or swap) and not dry_run:
        confirm(f"The files of {folder} will {'be removed' if delete_source else 'move to a backup'}.", yes=yes)
    request = RepartitionRequest(
        source=location(folder),
        target=location(target),
        columns=words(by),
        compression=compression,
        batch_size=batch_size,
        target_file_size_mb=target_mb,
        sort_by=sort_by or (),
        delete_source=delete_source,
        validate=validate,
        dry_run=dry_run,
        resume=resume,
        swap_with_source=swap,
    )
    stats = write(workplace(folder), request)
    emit(stats, done=f"written {stats.records_written:,} rows into {stats.partitions_created:,} partitions")


@app.command("repair", cls=Command)
def repair(folder: Folder, backup_dir: BackupDir = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Move rows that lie in a folder of another value to where they belong."""
    from neve.services.directory_rows import How, repair_rows

    if not dry_run:
        confirm(f"Rows of {folder} that lie in the wrong folder will move.", yes=yes)
    how = How(backup_dir=None if backup_dir is None else location(backup_dir), dry_run=dry_run)
    stats = repair_rows(workplace(folder), location(folder), how=how)
    emit(stats, done=f"moved {stats.rows_updated:,} rows")


@app.command("restore", cls=Command)
def restore(
    folder: Folder,
    backup: Annotated[
        str, typer.Argument(metavar="BACKUP", help="Its id, the first characters of it, or last.")
    ] = "last",
    backup_dir: BackupDir = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take a change back: the very files that it replaced return."""
    from neve.services.directory_rows import How, restore_backup

    if not dry_run:
        confirm(f"{folder} will be as it was before run {backup}.", yes=yes)
    how = How(backup_dir=None if backup_dir is None else location(backup_dir), dry_run=dry_run)
    stats = restore_backup(workplace(folder), location(folder), backup, how=how)
    emit(stats, done=f"restored: {stats.rows_before:,} → {stats.rows_after:,} rows")


@app.command("to-iceberg", cls=Command)
def to_iceberg(
    folder: Folder,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The new table's name.")],
    dry_run: DryRun = False,
) -> None:
    """Make a table of the folder's files, which stay where they are."""
    from neve.cli.render import emit as show

    show(open_lake(create=True).tables.adopt(folder, table, dry_run=dry_run))


@app.command("from-iceberg", cls=Command)
def from_iceberg(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table's name.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    where: Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only these rows.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Write a table's rows as plain Parquet files into a folder of their own."""
    from neve.cli.render import emit as show

    show(open_lake().table(table).export(folder, where=where, dry_run=dry_run))
