"""`neve dynamic …`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neve.cli.options import Command, confirm, group, open_lake, read_text
from neve.errors import CheckFailed

app = group("Dynamic tables: declared by a query, kept equal to it.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A dynamic table.")]
File = Annotated[Path, typer.Option("-f", "--file", help="A file with one CREATE DYNAMIC TABLE statement.")]


def _emit(answer: object, *, empty: str = "nothing to show", next_step: str | None = None) -> None:
    from neve.cli.render import emit

    emit(answer, empty=empty, next_step=next_step)  # type: ignore[arg-type]


@app.command("create", cls=Command)
def create(
    file: Annotated[Path, typer.Option("-f", "--file", help="A file with CREATE DYNAMIC TABLE statements.")],
) -> None:
    """Make dynamic tables and fill them."""
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
) -> None:
    """Bring tables up to date, in the order of their graph, by what changed."""
    _emit(open_lake(create=True).dynamic.refresh(names or ()), empty="no dynamic tables yet")


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
