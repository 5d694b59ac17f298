"""`neve table changes`"""

from __future__ import annotations

from typing import Annotated

import typer

from neve.cli.options import Command, open_lake, say
from neve.cli.table import Table, app


@app.command("changes", cls=Command)
def changes(
    table: Table,
    since: Annotated[str, typer.Option("--since", metavar="WHEN", help="Snapshot id, tag, branch or time.")],
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Snapshot id, tag, branch or time; else now.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", metavar="A,B", help="Only these; changes in others do not count.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
) -> None:
    """Net row changes between two snapshots: _w is +n for rows that came, -n for rows that went."""
    from neve.cli.commands import emit_frame
    from neve.cli.render import emit_stream
    from neve.model.changes import WEIGHT
    from neve.model.layout import split_list

    names = None if columns is None else [name for text in columns for name in split_list(text)]
    with open_lake().table(table).changes(since, until, columns=names) as found:
        say(found.plan.reason.detail)
        if found.nothing:
            emit_stream([*(column.name for column in found.plan.columns), WEIGHT], iter(()), shown=None)
        else:
            emit_frame(found.frame(), limit=limit)
