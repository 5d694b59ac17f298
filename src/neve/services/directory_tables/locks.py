"""Folders without locks of their own, such as prefixes of a bucket: leases in the state database keep writers apart.

A writer that overslept is stopped before its next step, because each step that changes something asks `check` first.
What no lease can rule out is a step that was begun in time and that the store carries out most of a minute later. So a
process that was killed keeps its lease for that minute, whoever sees that it is dead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

from neve.errors import LeaseHeld
from neve.model.runs import Lease
from neve.services.context import Context
from neve.services.leases import TTL, leased

TRUSTED = TTL.total_seconds() / 10
"""Seconds after which the database is asked again whether a lease is still held."""


@dataclass
class LeaseLock:
    """The lock of one folder, for all who share the state database. Who looks is not kept from anything."""

    context: Context
    location: str
    halts_readers: ClassVar[bool] = False
    _lease: Lease | None = field(default=None, init=False)
    _known_at: float = field(default=0.0, init=False)
    _asking: threading.Lock = field(default_factory=threading.Lock, init=False)

    @contextmanager
    def writing(self, *, patience: float) -> Iterator[None]:
        with leased(self.context, f"directory {self.location}", patience=patience, at_once=False) as lease:
            self._lease, self._known_at = lease, time.monotonic()
            try:
                yield
            finally:
                self._lease = None

    def check(self) -> None:
        with self._asking:
            if self._lease is None:
                raise LeaseHeld(f"{self.location} is not held by this process", hint="run the command again")
            if time.monotonic() - self._known_at >= TRUSTED:
                self.context.store.leases.renew(self._lease, TTL, self.context.clock())
                self._known_at = time.monotonic()

    def swapping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()
