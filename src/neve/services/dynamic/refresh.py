"""One refresh of one dynamic table: what changed, what that does to its rows, and one commit that says so.

The frontier says which snapshots of the sources the rows are the result of. It is written in the commit that changes
the rows, or, where no row changes, in a commit of metadata alone. Either is seen whole or not at all.
"""

from __future__ import annotations

from pydantic import JsonValue

from neve.engine.refresh import Applied
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt
from neve.services.context import Context
from neve.services.dynamic.carrying import CarriedOut, carry_out
from neve.services.dynamic.deciding import SAME, Pins, Refresh, decide, move_on
from neve.services.dynamic.definitions import Definition
from neve.services.dynamic.past import ESTIMATE
from neve.services.lineage import Reads
from neve.services.readers import reading
from neve.services.runs import Progress, recorded


def complete(context: Context, refresh: Refresh) -> RefreshReceipt:
    """Brings the table to its query over the pinned sources, as was decided; Spark only where rows may change.

    Raises:
        CommitConflict: another refresh was first; nothing was changed.
    """
    if refresh.action == "NO_DATA":
        move_on(context, refresh)
        return _receipt(refresh)
    plan = _plan(refresh)
    try:
        with (
            recorded(
                context, "refresh", refresh.table, plan=plan, snapshot_before=refresh.base, reads=_reads(refresh)
            ) as run,
            reading(context, _read_by(refresh), purpose=f"refresh of {refresh.table}"),
        ):
            done = carry_out(context, refresh, run)
            run.details = plan | _details(done)
            if refresh.base is not None and run.snapshot_after not in (None, refresh.base):
                run.undo = neve("table", "rollback", refresh.table.short, "--to", str(refresh.base))
    finally:
        for change in refresh.changes.values():
            change.close()
    return _receipt(refresh, run=run, done=done)


def _reads(refresh: Refresh) -> Reads:
    sources = {TableName.parse(name): pin.snapshot for name, pin in refresh.after.sources.items()}
    return Reads(tables=sources, query=refresh.definition.query)


def _read_by(refresh: Refresh) -> dict[TableName, list[int]]:
    """The snapshots of each source that a refresh reads: the last, and those between which it follows changes.

    They were pinned before the run began, so that the run alone does not tell expiry of them.
    """
    found: dict[TableName, list[int]] = {}
    for source, pin in refresh.after.sources.items():
        name = TableName.parse(source)
        followed = refresh.changes[name].snapshots if name in refresh.changes else ()
        if wanted := dict.fromkeys(snapshot for snapshot in (pin.snapshot, *followed) if snapshot is not None):
            found[name] = list(wanted)
    return found


def fill(context: Context, definition: Definition, pins: Pins, run: Progress) -> Applied:
    """Brings a table that nobody sees yet to its query, as a part of another run."""
    return carry_out(context, decide(context, definition, pins), run).applied


def nothing_to_do(definition: Definition, facts: TableFacts, pins: Pins, *, dry_run: bool = False) -> RefreshReceipt:
    """The receipt of a refresh that `is_current` spared."""
    return RefreshReceipt(
        run_id=None,
        action="refresh",
        table=str(definition.name),
        reason=SAME,
        snapshot_before=facts.current_snapshot_id,
        snapshot_after=facts.current_snapshot_id,
        dry_run=dry_run,
        round_id=pins.round_id,
        state="SCHEDULED" if dry_run else "SUCCEEDED",
        refresh="NO_DATA",
        trigger=pins.trigger,
        data_timestamp=pins.at,
    )


def _plan(refresh: Refresh) -> dict[str, JsonValue]:
    """What a run remembers of how it was decided."""
    told: dict[str, JsonValue] = {
        "refresh": refresh.action,
        "reason": refresh.reason.detail,
        "trigger": refresh.trigger,
        "round_id": refresh.round_id,
    }
    return told if refresh.estimate is None else told | {ESTIMATE: refresh.estimate.model_dump()}


def _receipt(refresh: Refresh, *, run: Progress | None = None, done: CarriedOut | None = None) -> RefreshReceipt:
    return RefreshReceipt(
        run_id=run.run_id if run else None,
        action="refresh",
        table=str(refresh.table),
        reason=refresh.reason,
        snapshot_before=refresh.base,
        snapshot_after=(run.snapshot_after if run else None) or refresh.base,
        undo=run.undo if run else None,
        refresh=refresh.action,
        rows_inserted=done.applied.inserted if done else 0,
        rows_deleted=done.applied.deleted if done else 0,
        rows_changed_in_sources=refresh.changed_rows,
        changed_sources=refresh.changed_sources,
        round_id=refresh.round_id,
        trigger=refresh.trigger,
        data_timestamp=refresh.after.at,
        strategy=done.plan.way if done and done.plan else None,
        estimates=None if refresh.estimate is None else refresh.estimate.model_dump(),
        details=_details(done) if done else {},
    )


def _details(done: CarriedOut) -> dict[str, JsonValue]:
    """What a run remembers, and a receipt tells, of how it was done."""
    told: dict[str, JsonValue] = {"rows_inserted": done.applied.inserted, "rows_deleted": done.applied.deleted}
    if done.plan is not None:
        told |= {"apply": done.plan.way, "apply_reason": done.plan.reason.detail}
    return told
