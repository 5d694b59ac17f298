"""`neve namespace …`"""

from __future__ import annotations

from typing import Annotated

import typer

from neve.cli.options import Command, group, open_lake

app = group("Namespaces that tables live in.")
Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="A name, nested by dots.")]


@app.command("create", cls=Command)
def create(
    name: Name,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="No error when it is there.")] = False,
) -> None:
    """Make a namespace, and those above it."""
    from neve.cli.render import emit

    emit(open_lake(create=True).namespaces.create(name, if_not_exists=if_not_exists))


@app.command("list", cls=Command)
def list_() -> None:
    """List namespaces and how many tables each holds."""
    from neve.cli.render import emit

    emit(open_lake().namespaces.list(), empty="no namespaces")


@app.command("drop", cls=Command)
def drop(name: Name) -> None:
    """Drop an empty namespace."""
    from neve.cli.render import emit

    emit(open_lake().namespaces.drop(name))
