"""Writing down who did what through the service. Requests that end at the same time share a transaction."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TypedDict, Unpack

from neve.errors import StoreError
from neve.model.keys import Caller, LogRecord
from neve.services.context import Context
from neve.services.operations.grouping import Groups


class Told(TypedDict):
    """What was asked of which table, from where, and how it was answered."""

    action: str
    target: str | None
    status: int
    code: str | None
    request_id: str
    address: str
    duration_ms: int


KEPT = timedelta(days=90)
_LOG = "service_log"


class Log:
    """The log of one process. What cannot be written is not done any more: see `check`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._groups = Groups()
        self._lock = threading.Lock()
        self._unwritten: list[LogRecord] = []

    def prune(self) -> int:
        """Forgets what is older than the log is kept."""
        return self._context.store.service_log.forget(self._context.clock() - KEPT)

    def check(self) -> None:
        """Nothing is done for anybody while the log cannot be written; what was missed is written first.

        Raises:
            StoreError: it still cannot.
        """
        with self._lock:
            if self._unwritten:
                self._context.store.service_log.add(self._unwritten)
                self._unwritten = []

    def note(self, caller: Caller, **told: Unpack[Told]) -> None:
        """Returns when it is kept. Without a key there is nobody to write of.

        Raises:
            StoreError: it is not.
        """
        if caller.key_id is None:
            return
        record = LogRecord(
            at=self._context.clock(), key_id=caller.key_id, tenant=caller.tenant, role=caller.role, **told
        )
        try:
            self._groups.write(_LOG, [record.model_dump()], self._keep)
        except StoreError:
            with self._lock:
                self._unwritten.append(record)
            raise

    def _keep(self, rows: list[dict[str, object]]) -> None:
        self._context.store.service_log.add([LogRecord.model_validate(row) for row in rows])
