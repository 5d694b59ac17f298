"""`lake.runs`: what was done, and doing again what failed, and ending what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.model.names import TableName
from neve.model.runs import REQUEST, Run, RunState
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.services.dynamic.rounds import Round


class Runs:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(
        self, *, table: str | None = None, kind: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> list[Run]:
        short = None if table is None else TableName.parse(table).short
        return list(self._context.store.runs.list(table=short, kind=kind, state=state, limit=limit))

    def show(self, run_id: str) -> Run:
        return self._context.store.runs.get(run_id)

    def cancel(self, run_id: str) -> Run:
        """Ends a run, of whichever process; the run as it then is, which says `running` where it has not heard yet.

        Raises:
            RunNotFound: there is none.
            Conflict: it has ended already, or ended otherwise before it heard.
        """
        from neve.services.cancelling import cancel_run

        return cancel_run(self._context, run_id)

    def carry(
        self,
        plan: Mapping[str, JsonValue],
        table: str | None,
        work: Callable[[], JsonValue],
        begun: Callable[[Run], None],
    ) -> None:
        """Does a piece of work as a run of its own, which `begun` hears of first; the runs within are its own."""
        from neve.services.runs import recorded

        name = None if table is None else TableName.parse(table)
        with recorded(self._context, REQUEST, name, plan=plan) as progress:
            begun(self._context.store.runs.get(progress.run_id))
            progress.details["answer"] = work()

    def retry(self, run_id: str | None = None, *, parallel: int | None = None) -> Round | None:
        """Refreshes the tables of a round that failed, and those left out; without an id, all that failed last.

        None when there is nothing to do again.
        """
        from neve.services.dynamic.retry import retry

        return retry(self._context, run_id, parallel=parallel)
