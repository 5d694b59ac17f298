"""What past refreshes of a table took, as their runs tell it."""

from __future__ import annotations

from pydantic import JsonValue

from neve.model.names import TableName
from neve.model.runs import Run
from neve.plan.refresh import PastRefresh
from neve.services.context import Context

ESTIMATE = "estimate"
_LATEST = 10


def past_refreshes(context: Context, table: TableName) -> list[PastRefresh]:
    """Those that succeeded and were estimated before, newest first."""
    runs = context.store.runs.list(table=table.short, kind="refresh", state="succeeded", limit=_LATEST)
    return [past for run in runs if (past := _past(run)) is not None]


def _past(run: Run) -> PastRefresh | None:
    told = run.plan or {}
    estimate, action = told.get(ESTIMATE), told.get("refresh")
    if run.finished_at is None or not isinstance(estimate, dict) or action not in ("INCREMENTAL", "FULL"):
        return None
    plain = estimate.get("plain_incremental" if action == "INCREMENTAL" else "plain_full")
    if not isinstance(plain, int | float):
        return None
    return PastRefresh(
        incremental=action == "INCREMENTAL",
        seconds=(run.finished_at - run.started_at).total_seconds(),
        estimated=plain,
        changed_rows=_whole(estimate.get("changed_rows")),
        touched_rows=sum(_whole((run.result or {}).get(key)) for key in ("rows_inserted", "rows_deleted")),
    )


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0
