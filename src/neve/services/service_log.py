"""Writing down who did what through the service. Requests that end at the same time share a transaction."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TypedDict, Unpack

from neve.model.keys import Caller, LogRecord
from neve.services.context import Context

KEPT = timedelta(days=90)


class Told(TypedDict):
    """What was asked of which table, from where, and how it was answered."""

    action: str
    target: str | None
    status: int
    code: str | None
    request_id: str
    address: str
    duration_ms: int


class Log:
    """The log of one process. What cannot be written waits, and while it does nothing more is done: see `check`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._writing = threading.Lock()
        self._adding = threading.Lock()
        self._waiting: list[LogRecord] = []
        self._failed = False

    def prune(self) -> int:
        """Forgets what is older than the log is kept."""
        return self._context.store.service_log.forget(self._context.clock() - KEPT)

    def check(self) -> None:
        """Nothing is done for anybody while the log cannot be written; what was missed is written first.

        Raises:
            StoreError: it still cannot.
        """
        if self._failed:
            self._flush()

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
        with self._adding:
            self._waiting.append(record)
        self._flush()

    def _flush(self) -> None:
        """Writes all that waits. Whoever finds nothing left has had it written by the one before."""
        with self._writing:
            with self._adding:
                batch, self._waiting = self._waiting, []
            if not batch:
                return
            try:
                self._context.store.service_log.add(batch)
            except BaseException:
                with self._adding:
                    self._waiting = batch + self._waiting
                self._failed = True
                raise
            self._failed = False
