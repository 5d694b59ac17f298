"""`lake.runs`: what was done, and doing again what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.model.names import TableName
from neve.model.runs import Run, RunState
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

    def retry(self, run_id: str | None = None, *, parallel: int | None = None) -> Round | None:
        """Refreshes the tables of a round that failed, and those left out; without an id, all that failed last.

        None when there is nothing to do again.
        """
        from neve.services.dynamic.retry import retry

        return retry(self._context, run_id, parallel=parallel)
