"""What a refresh would do, decided without Spark and without a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt
from neve.model.results import Reason
from neve.services.context import Context
from neve.services.dynamic.deciding import Pins, Refresh, decide
from neve.services.dynamic.definitions import Definition


def foresee(context: Context, definition: Definition, pins: Pins, *, moving: Sequence[TableName]) -> RefreshReceipt:
    """The receipt that a refresh would leave, as far as it can be known; `moving` are parents to be refreshed first.

    Action and reason are those of the refresh itself, because the same function decides. Only what a parent's refresh
    will change is not there yet: then the table follows it, unless none of the parent's rows change.
    """
    refresh = decide(context, definition, pins)
    for change in refresh.changes.values():
        change.close()
    if moving and refresh.action == "NO_DATA":
        refresh = _after_parents(refresh, moving)
    return RefreshReceipt(
        run_id=None,
        action="refresh",
        table=str(refresh.table),
        reason=refresh.reason,
        snapshot_before=refresh.base,
        snapshot_after=refresh.base,
        dry_run=True,
        round_id=refresh.round_id,
        state="SCHEDULED",
        refresh=refresh.action,
        trigger=refresh.trigger,
        data_timestamp=refresh.after.at,
        rows_changed_in_sources=refresh.changed_rows,
        changed_sources=refresh.changed_sources,
    )


def _after_parents(refresh: Refresh, moving: Sequence[TableName]) -> Refresh:
    if refresh.definition.options.refresh_mode == "FULL":
        return replace(refresh, action="FULL", reason=Reason(code="asked", detail="REFRESH_MODE is FULL"))
    names = ", ".join(name.short for name in moving)
    reason = Reason(code="parents_first", detail=f"follows what the refresh of {names} changes, if it changes a row")
    return replace(refresh, action="INCREMENTAL", reason=reason)
