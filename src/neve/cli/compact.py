"""`neve table compact`, its short form `neve compact`, and `neve table verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from neve.cli.options import Command, open_lake, options
from neve.cli.table import DryRun, Table, app
from neve.errors import CheckFailed


@app.command("compact", cls=Command)
def compact(
    table: Table,
    period: Annotated[str, typer.Option("--period", metavar="PERIOD", help="2024-01, 2024-W05, 2024-Q1 or 2024.")],
    delete_source: Annotated[
        bool | None,
        typer.Option("--delete-source/--keep-source", help="Delete day files after; else the file says."),
    ] = None,
    ignore_delay: Annotated[
        bool, typer.Option("--ignore-delay", help="Do not wait until delay_days after the period.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Make few files of a period's many. Every row is counted and compared before anything goes."""
    from neve.cli.render import emit

    target = open_lake(create=True).table(table)
    emit(target.compact(period, delete_source=delete_source, ignore_delay=ignore_delay, dry_run=dry_run))


@app.command("verify", cls=Command)
def verify(table: Table) -> None:
    """Count the rows of each date and compare them with the log. Exits 5 when they differ."""
    from neve.cli.render import emit

    rows = open_lake(create=True).table(table).verify()
    wrong = [row for row in rows if row.state != "ok"]
    emit(wrong if options.output == "table" else rows, empty=f"✓ {len(rows):,} dates hold what the log says")
    if wrong:
        raise CheckFailed(
            f"{len(wrong):,} of {len(rows):,} dates do not hold what the log says",
            hint="load them again: neve table ingest … --replace",
        )
