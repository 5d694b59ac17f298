"""`neve table compact`, its short form `neve compact`, and `neve table verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from neve.cli.options import Command, confirm, open_lake, options, pairs
from neve.cli.table import DryRun, Table, Yes, app
from neve.errors import CheckFailed, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake import Lake
    from neve.model.rewrites import RewriteReceipt


@app.command("compact", cls=Command)
def compact(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table's name, or its YAML file.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All tables that are online.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even few small files, and all files with deletes.")] = False,
    target_file_size: Annotated[
        str | None, typer.Option("--target-file-size", metavar="SIZE", help="128MB; else the table's own.")
    ] = None,
    max_files: Annotated[
        int | None, typer.Option("--max-files", metavar="N", help="Take so many files at most, the best first.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="EXPR", help="Only files that may hold such rows.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", metavar="K=V", help="Only files of this partition.")
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="WAY", help="binpack, size-ratio, sort, zorder or hilbert.")
    ] = "binpack",
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMNS", help="For sort, zorder and hilbert: a,b or 'a,b desc'.")
    ] = None,
    expire_snapshots: Annotated[
        bool, typer.Option("--expire-snapshots", help="Then remove snapshots that nobody needs.")
    ] = False,
    snapshot_retention_hours: Annotated[
        float | None,
        typer.Option("--snapshot-retention-hours", metavar="N", help="With it: keep those of the last N hours."),
    ] = None,
    period: Annotated[
        str | None, typer.Option("--period", metavar="PERIOD", help="The days of 2024-01, 2024-W05, 2024-Q1 or 2024.")
    ] = None,
    delete_source: Annotated[
        bool | None,
        typer.Option("--delete-source/--keep-source", help="With --period: delete day files after."),
    ] = None,
    ignore_delay: Annotated[
        bool, typer.Option("--ignore-delay", help="With --period: do not wait until delay_days after it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make few large files of many small ones. Every row stays, and nobody has to wait."""
    how: dict[str, Any] = {
        "force": force,
        "target_file_size": target_file_size,
        "max_files": max_files,
        "where": where,
        "partition": pairs(partition or []),
        "strategy": strategy,
        "by": [] if by is None else [word.strip() for word in by.split(",")],
        "expire_snapshots": expire_snapshots,
        "snapshot_retention_hours": snapshot_retention_hours,
        "dry_run": dry_run,
    }
    if period is not None:
        if everything:
            raise InvalidInput("--period is for one table", hint="neve schedule shows the periods that are due")
        how |= {"period": period, "delete_source": delete_source, "ignore_delay": ignore_delay}
    elif delete_source is not None or ignore_delay:
        raise InvalidInput("--delete-source and --ignore-delay are for the days of a --period")
    if everything == (table is not None):
        raise InvalidInput("name one table, or give --all")
    lake = open_lake()
    compacted: Any = lake.compact_each if table is None else lake.table(table).compact  # a service does not do all
    if snapshot_retention_hours is not None and expire_snapshots and period is None and not dry_run and not yes:
        _ask_to_keep_less(lake, table, snapshot_retention_hours)
    if table is None:
        _emit_all(compacted(**how))
        return
    from neve.cli.render import emit

    emit(compacted(**how))


def _ask_to_keep_less(lake: Lake, table: str | None, hours: float) -> None:
    """As `neve expire` asks."""
    if table is None:
        less = lake.expiry_keeps_less(retention_hours=hours)
    else:
        less = [table] if lake.table(table).expiry_keeps_less(retention_hours=hours) else []
    if less:
        confirm(f"Remove snapshots of {', '.join(less[:3])} for ever: less is kept than the policy says.", yes=False)


def _emit_all(receipts: Iterator[RewriteReceipt]) -> None:
    """A receipt as soon as a table is done; one JSON array or one CSV of all, those before a failure too."""
    from neve.cli.render import emit

    if options.output in ("table", "jsonl"):
        for receipt in receipts:
            emit(receipt)
        return
    done: list[RewriteReceipt] = []
    try:
        for receipt in receipts:
            done.append(receipt)  # noqa: PERF402 - those before a failure stay
    finally:
        emit(done)


@app.command("verify", cls=Command)
def verify(table: Table) -> None:
    """Count the rows of each date and compare them with the log. Exits 5 when they differ."""
    from neve.cli.render import emit

    rows = open_lake().table(table).verify()
    wrong = [row for row in rows if row.state != "ok"]
    emit(wrong if options.output == "table" else rows, empty=f"✓ {len(rows):,} dates hold what the log says")
    if wrong:
        raise CheckFailed(
            f"{len(wrong):,} of {len(rows):,} dates do not hold what the log says",
            hint="load them again: neve table ingest … --replace",
        )
