"""Idempotency keys: a WRITE that is sent again happens once, whatever died between its commit and its answer.

A key is given to the run that writes for it before that commits; the run's id is in the summary of its snapshot. So a
run whose process died is known to have been made or not, and with it every write that it was made for.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from neve.errors import Conflict, InvalidInput
from neve.model.names import TableName
from neve.model.operations import Operation, Write
from neve.model.runs import RunState
from neve.model.writes import WriteKey
from neve.services.context import Context
from neve.services.look import RUN_ID
from neve.services.operations.grouping import Pending

KEPT = timedelta(hours=24)
"""How long a key is known."""

_LONGEST = 255


@dataclass(frozen=True, slots=True)
class OnceKey:
    """Keys are those of a tenant; what is asked with one stays the same."""

    scope: str
    key: str
    fingerprint: str


def once_key(request: Operation, key: str) -> OnceKey:
    """Raises InvalidInput for a key that cannot be honoured."""
    if not isinstance(request, Write) or request.mode == "upsert":
        raise InvalidInput("an Idempotency-Key goes with WRITE, mode append or overwrite", hint="leave it out here")
    if not key or len(key) > _LONGEST or not key.isprintable():
        raise InvalidInput(f"an Idempotency-Key has 1 to {_LONGEST} characters that can be read")
    asked = json.dumps(request.model_dump(by_alias=True), sort_keys=True, default=str)
    return OnceKey(request.tenant_id or "", key, hashlib.sha256(asked.encode()).hexdigest())


def written_before(context: Context, table: TableName, key: OnceKey) -> bool:
    """Whether the records that came with this key are in the table.

    Raises:
        InvalidInput: the key came with another request.
        Conflict: another process is at it.
    """
    known = context.store.write_keys.get(key.scope, key.key)
    if known is None or known.made_at < context.clock() - KEPT:
        return False
    if known.fingerprint != key.fingerprint:
        raise InvalidInput(f"the Idempotency-Key {key.key} came with another request", hint="give each write its own")
    match _state(context, known.run_id):
        case "succeeded":
            return True
        case "queued" | "running":
            raise _at_it(key)
        case _:  # it failed; but perhaps only the answer to its commit was lost
            return any(each.summary.get(RUN_ID) == known.run_id for each in context.catalog.facts(table).snapshots)


def _state(context: Context, run_id: str) -> RunState:
    """How the run ended; one whose process is gone is settled first."""
    from neve.services.repair import settle_dead_runs

    found = context.store.runs.get(run_id).state
    if found != "running":
        return found
    settle_dead_runs(context)
    return context.store.runs.get(run_id).state


def claim(context: Context, run_id: str, group: Sequence[Pending]) -> list[Pending]:
    """Gives the keys of a group to its run; whose key another process took meanwhile is told so, and left out."""
    now = context.clock()
    asked = {
        (each.key.scope, each.key.key): WriteKey(
            scope=each.key.scope,
            key=each.key.key,
            fingerprint=each.key.fingerprint,
            run_id=run_id,
            made_at=now,
        )
        for each in group
        if each.key is not None
    }
    taken = context.store.write_keys.claim(list(asked.values()), kept_since=now - KEPT) if asked else []
    lost = {(key.scope, key.key) for key in taken}
    for each in group:
        if each.key is not None and (each.key.scope, each.key.key) in lost:
            each.error = _at_it(each.key)
    return [each for each in group if each.error is None]


def _at_it(key: OnceKey) -> Conflict:
    return Conflict(f"the write with the Idempotency-Key {key.key} is still on its way", hint="try again in a second")


class Turns:
    """In one process, a write waits for another of the same key, and then hears what became of it."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, key: OnceKey) -> Iterator[None]:
        name = (key.scope, key.key)
        with self._lock:
            own, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (own, waiting + 1)
        try:
            with own:
                yield
        finally:
            with self._lock:
                own, waiting = self._held.pop(name)
                if waiting > 1:
                    self._held[name] = (own, waiting - 1)
