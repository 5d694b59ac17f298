"""`neve dynamic …`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from neve.cli.options import Command, confirm, group, open_lake, options, pairs, read_text, say
from neve.errors import CheckFailed, InvalidInput, RefreshFailed
from neve.model.commands import neve

if TYPE_CHECKING:
    from neve.services.dynamic.rounds import Round

app = group("Dynamic tables: declared by a query, kept equal to it.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A dynamic table.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME…", help="t; +t with what it needs; t+ with what needs it.")
]
File = Annotated[Path, typer.Option("-f", "--file", help="A file with CREATE DYNAMIC TABLE statements.")]


def _emit(answer: object, *, empty: str = "nothing to show", next_step: str | None = None) -> None:
    from neve.cli.render import emit

    emit(answer, empty=empty, next_step=next_step)  # type: ignore[arg-type]


@app.command("create", cls=Command)
def create(file: File) -> None:
    """Make dynamic tables and fill them."""
    receipts = open_lake(create=True).dynamic.create(read_text(file) or "")
    _emit(receipts, next_step=neve("dynamic", "refresh", receipts[0].table))


@app.command("validate", cls=Command)
def validate(file: File) -> None:
    """Check statements without running them: names, columns, and how the tables would follow changes."""
    _emit(open_lake().dynamic.validate(read_text(file) or ""))


@app.command("list", cls=Command)
def list_() -> None:
    """Every dynamic table."""
    _emit(open_lake().dynamic.list(), empty="no dynamic tables yet")


@app.command("show", cls=Command)
def show(name: Name) -> None:
    """How a table was declared, what it reads, who reads it, and how far it has come."""
    _emit(open_lake().dynamic(name).show())


@app.command("alter", cls=Command)
def alter(
    name: Name,
    put: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="May be repeated.")] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to its default.")] = None,
) -> None:
    """Change options: TARGET_LAG, REFRESH_MODE, COMMENT, PARTITIONED_BY, CLUSTER_BY, IMMUTABLE_WHERE, FLOAT_SUMS…"""
    _emit(open_lake().dynamic(name).alter(pairs(put or []), unset=unset or ()))


@app.command("suspend", cls=Command)
def suspend(name: Name) -> None:
    """Leave a table out of rounds, and those that read it."""
    _emit(open_lake().dynamic(name).suspend())


@app.command("resume", cls=Command)
def resume(name: Name) -> None:
    """Take a table into rounds again, and those that were suspended with it."""
    _emit(open_lake().dynamic(name).resume())


@app.command("refresh", cls=Command)
def refresh(
    names: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="Every table, as without a name.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="And those that need them: t+ for each.")] = False,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, help="At most so many at once; 1 is one after the other.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="As always: it ends when all have had their turn.")] = False,  # noqa: ARG001
) -> None:
    """Bring tables up to date, in the order of their graph, by what changed.

    A table that fails leaves out those that need it, and no others. Exits 1 when one failed.
    """
    if everything and names:
        raise InvalidInput("--all is every table: leave out the names, or --all")
    if downstream and not names:
        raise InvalidInput("--downstream needs a table to begin with", hint="neve dynamic refresh NAME --downstream")
    done = open_lake().dynamic.round(names or (), downstream=downstream, parallel=parallel, dry_run=dry_run)
    emit_round(done)


def emit_round(done: Round) -> None:
    """Every table's outcome, and then the error that some failed."""
    _emit(done.receipts, empty="no dynamic tables yet")
    if done.errors:
        raise RefreshFailed(done.told(), hint=None if done.dry_run else "neve runs retry --failed")


@app.command("explain", cls=Command)
def explain(name: Name) -> None:
    """How a table follows changes, operator by operator."""
    _emit(open_lake().dynamic.explain(name))


@app.command("verify", cls=Command)
def verify(
    names: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dynamic table.")] = False,
) -> None:
    """Compute queries anew and compare; some of the rows that differ are shown. Exits 5 when there are any."""
    if everything == bool(names):
        raise InvalidInput("give tables to verify, or --all")
    found = open_lake().dynamic.verify_all(names or ())
    _emit(found, empty="no dynamic tables yet")
    if wrong := [row for row in found if row.missing or row.surplus]:
        told = "; ".join(f"{row.table} lacks {row.missing:,} rows and has {row.surplus:,} too many" for row in wrong)
        raise CheckFailed(told)


@app.command("history", cls=Command)
def history(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only of this table.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed or were left out.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
) -> None:
    """The latest refreshes, newest first: what was done, why, how many rows, and what went wrong."""
    _emit(open_lake().dynamic.history(name, failed=failed, limit=limit), empty="no refreshes yet")


@app.command("graph", cls=Command)
def graph(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only what it needs and what needs it.")] = None,
    form: Annotated[
        Literal["text", "dot", "mermaid"], typer.Option("--format", help="text: a tree; dot, mermaid: for a drawing.")
    ] = "text",
) -> None:
    """Who reads whom, and in which order tables are refreshed."""
    from neve.cli.graphs import drawn

    found = open_lake().dynamic.graph(name)
    if options.output != "table" and form == "text":
        _emit(found)
    elif not found.waves:
        say("no dynamic tables yet")
    else:
        print(drawn(found, form))  # noqa: T201


@app.command("recover", cls=Command)
def recover() -> None:
    """Write what the state database keeps of dynamic tables anew, from the catalog alone."""
    _emit(open_lake().dynamic.recover(), empty="nothing was missing")


@app.command("drop", cls=Command)
def drop(
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="With the tables that read it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a dynamic table. It can be brought back until the trash period is over."""
    confirm(f"Drop the dynamic table {name}{' and those that read it' if cascade else ''}.", yes=yes)
    _emit(open_lake().dynamic.drop(name, cascade=cascade))
