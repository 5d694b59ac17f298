"""`neve table ingest`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neve.cli.options import Command, open_lake
from neve.cli.table import DryRun, Table, app


@app.command("ingest", cls=Command)
def ingest(
    table: Table,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Files, folders, patterns.")],
    date: Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The date of the delivery.")] = None,
    date_from_name: Annotated[
        str | None, typer.Option("--date-from-name", metavar="PATTERN", help='Such as "sales_{date}.csv".')
    ] = None,
    dataset_config: Annotated[Path | None, typer.Option("--dataset-config", help="How rows are cleaned.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Load again what the table already holds.")] = False,
    max_rejected: Annotated[
        str | None, typer.Option("--max-rejected", metavar="N|P%", help="Load nothing when more rows are rejected.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Load files by date, cleaned. The same content is never loaded twice; new content replaces its date."""
    from neve.cli.render import emit

    receipt = (
        open_lake(create=True)
        .table(table)
        .ingest(
            *sources,
            date=date,
            date_from_name=date_from_name,
            dataset_config=dataset_config,
            replace=replace,
            max_rejected=max_rejected,
            dry_run=dry_run,
        )
    )
    emit(receipt)
