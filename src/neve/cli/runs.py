"""`neve runs …`"""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from neve.cli.options import Command, group, open_lake, say
from neve.errors import InvalidInput, nearest

app = group("What was done, when, and how it ended.")


@app.command("list", cls=Command)
def list_(
    table: Annotated[str | None, typer.Option("--table", help="Only runs of this table.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind: create, rename, delete…")] = None,
    state: Annotated[str | None, typer.Option("--state", help="Only this state: succeeded, failed…")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
) -> None:
    """The latest runs, newest first."""
    from neve.cli.render import emit
    from neve.model.runs import FinalState

    states = ("queued", "running", *get_args(FinalState))
    if state is not None and state not in states:
        raise InvalidInput(f"no such state: {state}", hint=nearest(state, states) or f"one of {', '.join(states)}")
    emit(
        open_lake().runs.list(table=table, kind=kind, state=state, limit=limit),  # type: ignore[arg-type]
        empty="no such runs" if table or kind or state else "no runs yet",
    )


@app.command("cancel", cls=Command)
def cancel(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the first characters of it.")],
) -> None:
    """End a run that goes on, in whichever process: nothing of it stays, and no failure is counted."""
    from neve.cli.render import emit

    run = open_lake().runs.cancel(run_id)
    if run.finished_at is None:
        say(f"the run {run.run_id} is asked to end; process {run.pid} on {run.host} has not heard of it yet")
    emit(run)


@app.command("retry", cls=Command)
def retry(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A round of refreshes, or the run of one of its tables.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Every table whose last refresh failed.")] = False,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, help="At most so many at once; 1 is one after the other.")
    ] = None,
) -> None:
    """Refresh again just the tables that failed and those that were left out because of them."""
    from neve.cli.dynamic import emit_round

    if (run_id is None) == (not failed):
        raise InvalidInput("give either a run or --failed", hint="neve runs retry --failed")
    done = open_lake().runs.retry(run_id, parallel=parallel)
    if done is None:
        say("nothing failed: there is nothing to do again")
    else:
        emit_round(done)


@app.command("show", cls=Command)
def show(run_id: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the first characters of it.")]) -> None:
    """Everything about one run: plan, result, snapshots, error, and the command that undoes it."""
    from neve.cli.render import emit

    emit(open_lake().runs.show(run_id))
