"""Holding a lease around a piece of work for as long as the work takes.

A holder that died loses it at once to others on its machine, who see that it runs no more, and to all after `TTL`.
"""

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
from neve.services.processes import has_ended, this_process

TTL = timedelta(minutes=1)
"""How long other machines wait for a holder that died."""

_PAUSE = 0.25


@contextmanager
def leased(context: Context, name: str, *, patience: float = 0.0, at_once: bool = True) -> Iterator[Lease]:
    """Takes a lease, renews it in the background, and gives it back; waits for it `patience` seconds.

    A holder that died is waited for unless `at_once`: where what it had asked of others may still come to pass.

    Whoever must know that nobody took over meanwhile, after a long sleep of the machine say, renews it once more.

    Raises:
        LeaseHeld: somebody else is at it.
    """
    lease = _acquire(context, name, until=time.monotonic() + patience, at_once=at_once)
    done = threading.Event()
    renewing = threading.Thread(target=_renew, args=(context, lease, done), name="neve-lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        done.set()
        renewing.join()
        context.store.leases.release(lease)


def _acquire(context: Context, name: str, *, until: float, at_once: bool) -> Lease:
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    leases, ended = context.store.leases, None
    while True:
        try:
            return leases.acquire(name, owner=owner, ttl=TTL, now=context.clock(), process=this_process(), ended=ended)
        except LeaseHeld:
            ended = _ended(leases.held(name)) if at_once else None
            if ended is None and time.monotonic() >= until:
                raise
        if ended is None:
            time.sleep(_PAUSE)
        else:
            context.tell(f"{ended.owner} died while it held {name}: taken over")


def _ended(lease: Lease | None) -> Lease | None:
    return lease if lease is not None and has_ended(lease.process) else None


def _renew(context: Context, lease: Lease, done: threading.Event) -> None:
    while not done.wait(TTL.total_seconds() / 4):
        with suppress(StoreError):  # the database may come back before the lease is over
            try:
                context.store.leases.renew(lease, TTL, context.clock())
            except LeaseHeld:
                return
