"""`neve table submit`, `neve table batch` and `neve table watch`: files that arrive by and by."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from neve.cli.options import Command, open_lake, options, say
from neve.cli.table import DryRun, Table, app
from neve.errors import CheckFailed, InvalidInput
from neve.model.commands import neve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.model.batching import BatchOutcome


@app.command("submit", cls=Command)
def submit(
    table: Table,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Files, folders, patterns.")],
    date: Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The date of the files.")] = None,
    date_from_name: Annotated[
        str | None, typer.Option("--date-from-name", metavar="PATTERN", help='Such as "sales_{date}.csv".')
    ] = None,
) -> None:
    """Hand files over to be loaded with others, when `ingestion.batch` of the table's file says so."""
    from neve.cli.render import emit

    target = open_lake(create=True).table(table)
    receipt = target.submit(*sources, date=date, date_from_name=date_from_name)
    emit(receipt, next_step=neve("table", "batch", table))


@app.command("batch", cls=Command)
def batch(
    table: Table,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for more files.")] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Forget files that are gone; load their dates without them.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Load the submitted files that are ready, all files of a date together. Exits 5 when a date could not be."""
    from neve.cli.render import emit

    outcomes = open_lake().table(table).ingest_batches(force=force, drop_missing=drop_missing, dry_run=dry_run)
    emit(outcomes)
    _fail_if_any_failed(outcomes)


@app.command("watch", cls=Command)
def watch(
    table: Table,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that files arrive in.")],
    date_from_name: Annotated[
        str, typer.Option("--date-from-name", metavar="PATTERN", help='Such as "sales_{date}.csv".')
    ],
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Between two looks.")] = "5s",
    settle: Annotated[str, typer.Option("--settle", metavar="TIME", help="A file unchanged for so long is whole.")] = (
        "5s"
    ),
    once: Annotated[bool, typer.Option("--once", help="End when all that lies there is loaded.")] = False,
) -> None:
    """Load files as they arrive in a folder, once each, until Ctrl-C. A file that changes is loaded again."""
    from neve.cli.render import emit

    if options.output in ("json", "csv"):
        raise InvalidInput(f"-o {options.output} cannot show what has no end", hint="use -o jsonl")
    target = open_lake(create=True).table(table)
    outcomes: list[BatchOutcome] = []
    try:
        for outcome in target.watch(folder, date_from_name=date_from_name, every=every, settle=settle, once=once):
            emit([outcome])
            sys.stdout.flush()
            if once:
                outcomes.append(outcome)
    except KeyboardInterrupt:
        say("stopped watching; what was not loaded yet is loaded next time")
    _fail_if_any_failed(outcomes)


def _fail_if_any_failed(outcomes: Sequence[BatchOutcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        raise CheckFailed(f"{len(failed):,} of {len(outcomes):,} could not be loaded; they stay submitted")
