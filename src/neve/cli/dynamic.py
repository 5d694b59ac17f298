"""`neve dynamic …`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neve.cli.options import Command, confirm, group, open_lake, read_text
from neve.errors import CheckFailed, InvalidInput, RefreshFailed

if TYPE_CHECKING:
    from neve.services.dynamic.rounds import Round

app = group("Dynamic tables: declared by a query, kept equal to it.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A dynamic table.")]
File = Annotated[Path, typer.Option("-f", "--file", help="A file with one CREATE DYNAMIC TABLE statement.")]


def _emit(answer: object, *, empty: str = "nothing to show", next_step: str | None = None) -> None:
    from neve.cli.render import emit

    emit(answer, empty=empty, next_step=next_step)  # type: ignore[arg-type]


@app.command("create", cls=Command)
def create(file: File) -> None:
    """Make a dynamic table and fill it."""
    receipts = open_lake(create=True).dynamic.create(read_text(file) or "")
    _emit(receipts, next_step=f"neve dynamic refresh {receipts[0].table}")


@app.command("validate", cls=Command)
def validate(file: File) -> None:
    """Check a statement without running it: names, columns, and how the table would follow changes."""
    _emit(open_lake(create=True).dynamic.validate(read_text(file) or ""))


@app.command("list", cls=Command)
def list_() -> None:
    """Every dynamic table."""
    _emit(open_lake(create=True).dynamic.list(), empty="no dynamic tables yet")


@app.command("refresh", cls=Command)
def refresh(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="t; +t with what it needs; t+ with what needs it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every table, as without a name.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="And those that need them: t+ for each.")] = False,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, help="At most so many at once; 1 is one after the other.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why.")] = False,
) -> None:
    """Bring tables up to date, in the order of their graph, by what changed.

    A table that fails leaves out those that need it, and no others. Exits 1 when one failed.
    """
    if everything and names:
        raise InvalidInput("--all is every table: leave out the names, or --all")
    if downstream and not names:
        raise InvalidInput("--downstream needs a table to begin with", hint="neve dynamic refresh NAME --downstream")
    done = open_lake(create=True).dynamic.round(names or (), downstream=downstream, parallel=parallel, dry_run=dry_run)
    emit_round(done)


def emit_round(done: Round) -> None:
    """Every table's outcome, and then the error that some failed."""
    _emit(done.receipts, empty="no dynamic tables yet")
    if done.errors:
        raise RefreshFailed(done.told(), hint=None if done.dry_run else "neve runs retry --failed")


@app.command("explain", cls=Command)
def explain(name: Name) -> None:
    """How a table follows changes, operator by operator."""
    _emit(open_lake(create=True).dynamic.explain(name))


@app.command("verify", cls=Command)
def verify(name: Name) -> None:
    """Compute the query anew and compare. Exits 5 when the rows differ."""
    found = open_lake(create=True).dynamic.verify(name)
    _emit(found)
    if found.missing or found.surplus:
        raise CheckFailed(f"{found.table} lacks {found.missing:,} rows and has {found.surplus:,} too many")


@app.command("drop", cls=Command)
def drop(
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="With the tables that read it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a dynamic table. It can be brought back until the trash period is over."""
    confirm(f"Drop the dynamic table {name}{' and those that read it' if cascade else ''}.", yes=yes)
    _emit(open_lake(create=True).dynamic.drop(name, cascade=cascade))
