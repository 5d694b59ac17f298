"""Recording operations: each is a row in `runs` from before it begins until it is done or has failed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import JsonValue

from neve.errors import Cancelled, Conflict, NeveError
from neve.model.names import TableName
from neve.model.results import Reason, Receipt
from neve.model.runs import FinalState, Run, new_run_id
from neve.services.cancelling import cancelled, was_committed
from neve.services.context import Context
from neve.services.lineage import Reads, tell_run


@dataclass(slots=True)
class Progress:
    """What an operation has to say for its receipt; filled while it runs."""

    run_id: str
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    details: dict[str, JsonValue] = field(default_factory=dict)
    reason: Reason | None = None
    undo: str | None = None
    receipt: Receipt | None = None


@contextmanager
def recorded(
    context: Context,
    action: str,
    table: TableName | None,
    *,
    plan: Mapping[str, JsonValue] | None = None,
    snapshot_before: int | None = None,
    reads: Reads | None = None,
) -> Iterator[Progress]:
    """Records a run around a piece of work, and leaves its receipt in `receipt`.

    `reads` is for lineage: what the work reads beside the table. A failure is recorded and raised on; a process that
    dies leaves the run `running`, for the next one to settle.

    Raises:
        Cancelled: somebody ended the run, or one that it is a part of.
    """
    from neve.services.repair import settle_dead_runs

    context.watch.check()
    settle_dead_runs(context)
    started = context.clock()
    began = time.monotonic()
    progress = Progress(new_run_id(started, context.entropy), snapshot_before)
    run = Run(
        run_id=progress.run_id,
        kind=action,
        table_name=None if table is None else table.short,
        plan=dict(plan or {}),
        snapshot_before=snapshot_before,
        started_at=started,
        host=socket.gethostname(),
        pid=os.getpid(),
    )
    context.store.runs.start(run)
    tell_run(context, run, reads)
    end = partial(_finish, context, progress, run, reads)
    try:
        with context.watch.over(progress.run_id), _cancellable(context, progress):
            yield progress
    except Cancelled as exc:
        exc.run_id = progress.run_id
        if was_committed(context, run):
            end("succeeded")
        else:
            end("cancelled", error_code=exc.code, error_message=exc.message)
        raise
    except NeveError as exc:
        exc.run_id = progress.run_id
        end("failed", error_code=exc.code, error_message=exc.message)
        raise
    except BaseException as exc:
        state: FinalState = "cancelled" if isinstance(exc, KeyboardInterrupt) else "failed"
        end(state, error_code=type(exc).__name__, error_message=str(exc))
        raise
    progress.receipt = Receipt(
        run_id=progress.run_id,
        action=action,
        table="" if table is None else str(table),
        reason=progress.reason,
        details=progress.details,
        snapshot_before=progress.snapshot_before,
        snapshot_after=progress.snapshot_after,
        duration_ms=round((time.monotonic() - began) * 1000),
        undo=progress.undo,
    )
    end("succeeded")


@contextmanager
def _cancellable(context: Context, progress: Progress) -> Iterator[None]:
    """What fails in a run that is to end, such as its Spark jobs, fails because it is."""
    try:
        yield
    except Exception as exc:
        if context.watch.is_asked(progress.run_id):
            raise cancelled(progress.run_id) from exc
        raise


def receipt_of(progress: Progress) -> Receipt:
    """The receipt of a run that has ended well."""
    if progress.receipt is None:
        raise RuntimeError("the run has not ended")
    return progress.receipt


def _finish(
    context: Context,
    progress: Progress,
    run: Run,
    reads: Reads | None,
    state: FinalState,
    **error: str | None,
) -> None:
    ended: dict[str, Any] = {
        "state": state,
        "finished_at": context.clock(),
        "result": progress.details,
        "snapshot_after": progress.snapshot_after,
        "undo": progress.undo,
        **error,
    }
    with suppress(Conflict):  # taken for dead, and settled, by a process that cannot see ours
        context.store.runs.finish(progress.run_id, **ended)
        tell_run(context, run.model_copy(update=ended), reads)
