"""`neve expire`, `orphans`, `manifests`, `rewrite-deletes` and `stats`, also as `neve table …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from neve.cli.options import Command, confirm, open_lake, options, say
from neve.cli.table import DryRun, Table, Yes, app
from neve.errors import InvalidInput
from neve.model.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from neve.model.retention import OrphanReceipt


@app.command("expire", cls=Command)
def expire(
    table: Table,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Keep snapshots younger than this, such as 5d.")
    ] = None,
    retention_hours: Annotated[
        float | None, typer.Option("--retention-hours", metavar="N", min=0, help="The same in hours.")
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", metavar="N", help="Keep the newest N of each branch, however old.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove snapshots that nobody needs any more, and the files that only they hold. It cannot be undone."""
    from neve.cli.render import emit

    target = open_lake().table(table)
    asked = {
        "older_than": None if older_than is None else parse_duration(older_than),
        "retention_hours": retention_hours,
        "keep_last": keep_last,
    }
    if not dry_run and target.expiry_keeps_less(**asked) and not yes:  # type: ignore[arg-type]
        plan = target.expire(**asked, dry_run=True)  # type: ignore[arg-type]
        if plan.reason is not None:
            emit(plan)
            return
        confirm(
            f"Remove {len(plan.expired):,} snapshots of {plan.table} for ever: less is kept than its policy says.",
            yes=False,
        )
    emit(target.expire(**asked, dry_run=dry_run))  # type: ignore[arg-type]


@app.command("orphans", cls=Command)
def orphans(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="A table's name, or its YAML file.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every table, and folders of the warehouse that belong to none.")
    ] = False,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Only files of this age and over; 24h at least.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what is found; else it is only listed.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """List files below a table's folder that nothing names, and with --delete remove them."""
    from neve.cli.render import emit

    if (table is None) != everything:
        raise InvalidInput("give a table, or --all")
    lake = open_lake()
    age = None if older_than is None else parse_duration(older_than)

    def look(*, delete: bool) -> list[OrphanReceipt]:
        if table is None:
            return lake.orphans(older_than=age, delete=delete)
        return [lake.table(table).orphans(older_than=age, delete=delete)]

    answers = look(delete=False)
    found = [answer for answer in answers if answer.table and answer.files]
    if delete and not dry_run and found:
        _confirm_removal(found, yes=yes)
        answers = look(delete=True)
    emit(answers if table is None else answers[0], empty="no tables yet")


def _confirm_removal(found: list[OrphanReceipt], *, yes: bool) -> None:
    """Lists what would go, unless a person said beforehand that it may."""
    from neve.cli.tidying import orphan_table

    files, size = sum(answer.files for answer in found), format_bytes(sum(answer.bytes for answer in found))
    if not yes and options.output == "table":
        say("\n".join(orphan_table(answer) for answer in found))
    confirm(f"Remove {files:,} files ({size}) that nothing names, for ever.", yes=yes)


@app.command("manifests", cls=Command)
def manifests(table: Table, dry_run: DryRun = False) -> None:
    """Make few manifests of many, in the order of partitions. Rows and files stay as they are."""
    from neve.cli.render import emit

    emit(open_lake().table(table).manifests(dry_run=dry_run))


@app.command("rewrite-deletes", cls=Command)
def rewrite_deletes(table: Table, dry_run: DryRun = False) -> None:
    """Make few files of position deletes, or deletion vectors, and remove those that no data file is left for."""
    from neve.cli.render import emit

    emit(open_lake().table(table).rewrite_deletes(dry_run=dry_run))


@app.command("stats", cls=Command)
def stats(
    table: Table,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these; else all of plain types.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Count the distinct values of columns, for the optimiser and for you. What is known is not counted again."""
    from neve.cli.parquet import words
    from neve.cli.render import emit

    chosen = None if columns is None else words(columns)
    emit(open_lake().table(table).stats(columns=chosen, dry_run=dry_run))
