"""What a failure of scheduled work leads to: a pause that grows, and in the end suspension, with its reason."""

from __future__ import annotations

from datetime import datetime

from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.work import Claim, SetbackRecord
from neve.plan.agenda import FAILURES, REFRESH
from neve.plan.backoff import pause
from neve.services.context import Context
from neve.services.dynamic.altering import suspend_failing


def note_failure(context: Context, claim: Claim, reason: Reason | None, *, now: datetime) -> SetbackRecord:
    """Counts one more failure in a row. Only who holds the claim may, in the transaction that shows it."""
    before = context.store.setbacks.get(claim.table_uuid, claim.action)
    failures = (before.failures if before else 0) + 1
    told = reason or Reason(code="error", detail="nobody knows why")
    setback = SetbackRecord(
        table_uuid=claim.table_uuid,
        action=claim.action,
        table_name=claim.table_name,
        failures=failures,
        failed_at=(*(before.failed_at if before else ()), now.isoformat())[-2 * FAILURES :],
        retry_at=now + pause(failures, f"{claim.table_uuid} {claim.action}"),
        error_code=told.code,
        error_message=told.detail,
        suspended_at=now if failures >= FAILURES else None,
    )
    context.store.setbacks.put(setback)
    return setback


def suspend_for(context: Context, setback: SetbackRecord) -> str:
    """Suspends what failed too often, a dynamic table by its own property and with its readers; how to resume it."""
    why = f"{setback.failures} scheduled failures in a row; the last: {setback.error_message}"
    name = TableName.parse(setback.table_name)
    if setback.action != REFRESH:
        return f"{why}. Resume: neve table online {name.short}"
    suspend_failing(context, name, why)
    return f"{why}. Resume: neve dynamic resume {name.short}"
