"""Holding a lease around a piece of work for as long as the work takes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from neve.errors import LeaseHeld, StoreError
from neve.model.runs import Lease
from neve.services.context import Context

TTL = timedelta(minutes=1)
"""How long others wait for a holder that died."""


_PAUSE = 0.25


@contextmanager
def leased(context: Context, name: str, *, patience: float = 0.0) -> Iterator[Lease]:
    """Takes a lease, renews it in the background, and gives it back; waits for it `patience` seconds.

    Whoever must know that nobody took over meanwhile, after a long sleep of the machine say, renews it once more.

    Raises:
        LeaseHeld: somebody else is at it.
    """
    lease = _acquire(context, name, until=time.monotonic() + patience)
    done = threading.Event()
    renewing = threading.Thread(target=_renew, args=(context, lease, done), name="neve-lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        done.set()
        renewing.join()
        context.store.leases.release(lease)


def _acquire(context: Context, name: str, *, until: float) -> Lease:
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    while True:
        try:
            return context.store.leases.acquire(name, owner=owner, ttl=TTL, now=context.clock())
        except LeaseHeld:
            if time.monotonic() >= until:
                raise
        time.sleep(_PAUSE)


def _renew(context: Context, lease: Lease, done: threading.Event) -> None:
    while not done.wait(TTL.total_seconds() / 4):
        with suppress(StoreError):  # the database may come back before the lease is over
            try:
                context.store.leases.renew(lease, TTL, context.clock())
            except LeaseHeld:
                return
