"""Sending events beside the work, in their order: to an address by POST, to a file by a line each.

Whoever sends never waits and never fails. A receiver that does not answer costs the events of the next half minute, not
the time of the work.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

from pydantic import JsonValue

from neve.observe.alerts import post

TIMEOUT = 3.0
"""Seconds that a receiver has for one event."""
DEAF = 30.0
"""Seconds for which a receiver that failed is left alone."""
MOST_WAITING = 200
_CLOSING = 10.0

Event = Mapping[str, JsonValue]


class Sender:
    """`tell` hears of a receiver that fails, in a sentence without its address, which may hold a token."""

    def __init__(self, *, url: str | None, key: str | None, file: Path | None, tell: Callable[[str], None]) -> None:
        self._url, self._file, self._tell = url, file, tell
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="neve-events")
        self._lock, self._waiting = Lock(), 0
        self._deaf_until, self._give_up_at = 0.0, float("inf")

    def send(self, event: Event) -> None:
        with self._lock:
            if self._waiting >= MOST_WAITING:
                return
            self._waiting += 1
        self._pool.submit(self._send, event)

    def close(self) -> None:
        """Waits for what is on its way, for some seconds at most."""
        self._give_up_at = time.monotonic() + _CLOSING
        self._pool.shutdown()

    def _send(self, event: Event) -> None:
        with self._lock:
            self._waiting -= 1
        if self._file is not None:
            self._try("the file", partial(_append, self._file, event))
        now = time.monotonic()
        if self._url is not None and self._deaf_until <= now < self._give_up_at:
            sent = self._try("the address", partial(post, self._url, event, headers=self._headers, timeout=TIMEOUT))
            self._deaf_until = 0.0 if sent else now + DEAF

    def _try(self, where: str, way: Callable[[], None]) -> bool:
        try:
            way()
        except Exception as exc:  # noqa: BLE001 - nothing about an event may stop the work
            self._tell(f"an event could not be sent to {where} of openlineage: {type(exc).__name__}")
            return False
        return True


def _append(file: Path, event: Event) -> None:
    """One write for a line: several processes may share a file."""
    line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
