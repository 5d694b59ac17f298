"""When somebody should know: a table late beyond twice its lag, three failures in 15 minutes, a refresh turned full.

Each event is told once, by whichever worker sees it first. Telling happens beside the work and never holds it up; what
cannot be told is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from pydantic import JsonValue

from neve.model.history import RefreshRecord
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt
from neve.model.units import format_duration
from neve.model.work import SetbackRecord
from neve.observe.alerts import call, post
from neve.plan.agenda import Facts
from neve.services.context import Context

LATE, OFTEN, WITHIN = 2, 3, timedelta(minutes=15)


class Alarm:
    def __init__(self, context: Context, log: Callable[..., None]) -> None:
        self._context, self._log = context, log
        self._settings = context.loaded.settings.alerts
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="neve-alert")

    def look(self, facts: Facts, now: datetime, *, only: Collection[TableName] | None = None) -> None:
        """Tables that are late beyond twice their lag; once for each moment that one is stuck at."""
        for name, fact in facts.dynamic.items():
            if only is not None and name not in only:
                continue
            at, target = fact.standing.at, facts.lags.targets[name]
            if fact.rests is not None or fact.moved is False or at is None or target is None:
                continue
            if now - at > LATE * target:
                behind = format_duration(timedelta(seconds=round((now - at).total_seconds())))
                detail = f"{behind} behind, for a target of {format_duration(target)}"
                self._tell("late", f"late {fact.member.uuid} {at.isoformat()}", str(name), detail)

    def failed(self, setback: SetbackRecord) -> None:
        """The third failure within a quarter of an hour, once for each row of failures."""
        times = [datetime.fromisoformat(text) for text in setback.failed_at]
        if len(times) < OFTEN or times[-1] - times[-OFTEN] > WITHIN:
            return
        key = f"failures {setback.table_uuid} {setback.action} {setback.failed_at[0]}"
        detail = f"{setback.action} failed {setback.failures} times in a row: {setback.error_message}"
        self._tell("failures", key, setback.table_name, detail)

    def refreshed(self, receipt: RefreshReceipt, table_uuid: str, recent: Sequence[RefreshRecord]) -> None:
        """A refresh in full of a table that followed changes before."""
        if receipt.refresh != "FULL" or receipt.state != "SUCCEEDED":
            return
        before = next((record for record in recent if record.run_id != receipt.run_id), None)
        if before is not None and before.refresh_action == "INCREMENTAL":
            detail = f"refreshed in full: {receipt.reason.detail if receipt.reason else ''}"
            self._tell("full", f"full {table_uuid} {receipt.run_id}", receipt.table, detail, run_id=receipt.run_id)

    def close(self) -> None:
        """Waits for what is being told; each receiver has some seconds only."""
        self._teller.shutdown()

    def _tell(self, event: str, key: str, table: str, detail: str, *, run_id: str | None = None) -> None:
        now = self._context.clock()
        if not self._context.store.alerts.note(key, now):
            return
        self._log("alert", level="warning", alert=event, table=table, run_id=run_id, detail=detail)
        alert: dict[str, JsonValue] = {
            "event": event,
            "table": table,
            "detail": detail,
            "at": now.isoformat(),
            "run_id": run_id,
            "lake": str(self._context.loaded.root),
        }
        if self._settings.webhook is not None:
            self._teller.submit(self._send, post, self._settings.webhook.get_secret_value(), alert)
        if self._settings.command is not None:
            self._teller.submit(self._send, call, self._settings.command, alert)

    def _send(self, way: Callable[..., None], where: str, alert: dict[str, JsonValue]) -> None:
        try:
            way(where, alert)
        except Exception as exc:  # noqa: BLE001 - nothing about an alert may stop the worker
            told = f"{type(exc).__name__}: {exc}" if way is call else type(exc).__name__  # the address may hold a token
            self._log("alert_failed", level="error", alert=alert["event"], table=alert["table"], detail=told)
