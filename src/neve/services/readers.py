"""Who reads which snapshots just now: readers say so, and expiry asks.

A reader says so first and then looks whether its snapshots are still there; expiry takes them off the table first and
then asks again before it removes a file. So at least one of the two sees the other.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from neve.errors import SnapshotNotFound
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.runs import Reader, new_run_id, run_started
from neve.plan.changes import KEEP_LONGER
from neve.services.context import Context
from neve.services.processes import is_alive

BELIEVED = timedelta(days=1)
"""How long a query, or a reader on another machine, is believed to be at it."""

QUERY = "sql"


def announce(context: Context, facts: TableFacts, snapshots: Sequence[int], *, purpose: str) -> str:
    """Says that these snapshots are being read; the id by which `store.readers.remove` ends it.

    Raises:
        SnapshotNotFound: one has expired meanwhile.
    """
    reader = _put(context, facts, snapshots, purpose)
    present = context.catalog.facts(facts.name)
    if gone := [snapshot for snapshot in snapshots if present.snapshot(snapshot) is None]:
        context.store.readers.remove(reader)
        raise SnapshotNotFound(f"snapshot {gone[0]} of {facts.name} has expired meanwhile", hint=KEEP_LONGER)
    return reader


def _put(context: Context, facts: TableFacts, snapshots: Sequence[int], purpose: str) -> str:
    now = context.clock()
    reader = Reader(
        reader_id=new_run_id(now, context.entropy),
        table_uuid=facts.uuid,
        snapshots=tuple(snapshots),
        purpose=purpose,
        started_at=now,
        host=socket.gethostname(),
        pid=os.getpid(),
    )
    context.store.readers.put(reader)
    return reader.reader_id


def hold(context: Context, snapshots: Mapping[TableName, Collection[int]]) -> None:
    """Says that a query reads snapshots. Its rows may be asked for later: this ends when the lake is closed.

    Raises:
        SnapshotNotFound: one has expired meanwhile.
    """
    now = context.clock()
    for name, wanted in snapshots.items():
        facts = context.catalog.facts(name)
        for snapshot in wanted:
            known = context.queried.get((facts.uuid, snapshot))
            if known is None or now - run_started(known) > BELIEVED / 2:
                context.queried[facts.uuid, snapshot] = announce(context, facts, [snapshot], purpose=QUERY)
                if known is not None:
                    context.store.readers.remove(known)


@contextmanager
def reading(context: Context, snapshots: Mapping[TableName, Sequence[int]], *, purpose: str) -> Iterator[None]:
    """Says that snapshots of several tables are being read, until the work inside ends.

    Raises:
        SnapshotNotFound: one has expired meanwhile.
    """
    told: list[str] = []
    try:
        for name, wanted in snapshots.items():
            told.append(announce(context, context.catalog.facts(name), wanted, purpose=purpose))
        yield
    finally:
        for reader in told:
            context.store.readers.remove(reader)


@contextmanager
def following(context: Context, names: Iterable[TableName], *, purpose: str) -> Iterator[None]:
    """Says that tables are read as they are now, whenever that is: all that is current from here on is kept until the
    work inside ends. What it reads it must look up inside."""
    told: list[str] = []
    try:
        for name in filter(context.catalog.exists, names):
            told.append(_put(context, context.catalog.facts(name), (), purpose))  # noqa: PERF401 - those before one that fails end too
        yield
    finally:
        for reader in told:
            context.store.readers.remove(reader)


def readers_of(context: Context, facts: TableFacts) -> list[Reader]:
    """Who reads the table; those of this machine whose process died are struck off."""
    here, now = socket.gethostname(), context.clock()
    found = []
    for reader in context.store.readers.of(facts.uuid):
        alive = reader.host != here or is_alive(reader.pid, reader.started_at)
        asked = reader.host == here and reader.purpose != QUERY
        if alive and (asked or now - reader.started_at < BELIEVED):
            found.append(reader)
        elif reader.host == here:
            context.store.readers.remove(reader.reader_id)
    return found
