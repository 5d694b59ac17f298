"""Ending a run from elsewhere: it is asked to in the state database, and its own process watches for that.

One thread of a process looks for all its runs, once a second while there are any, and cancels the Spark jobs of those
that are to end until they have. Compaction without Spark looks up between two files (`Watch.check`); what takes a few
seconds only is let be. What was not committed is cleared up as after any other failure, by the code that would have
gone on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from neve.engine.marks import current_marks, marked
from neve.errors import Cancelled, Conflict, NeveError
from neve.model.runs import Run

if TYPE_CHECKING:
    from neve.services.context import Context

EVERY = 1.0
"""Seconds between two looks: a run that is shorter is not looked after at all."""
_AGAIN = 0.2
_LINGER = 5.0
"""So long the watching thread waits for another run before it ends."""
PATIENCE = 20.0
"""Seconds in which a run has usually heard."""
_PAUSE = 0.1


class Watch:
    """The runs of this process, and which of them are to end."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changed = threading.Condition()
        self._runs: set[str] = set()
        self._asked: set[str] = set()
        self._watching = False

    @contextmanager
    def over(self, run_id: str) -> Iterator[None]:
        """Looks after a run while it works."""
        with self._changed:
            self._runs.add(run_id)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="neve-watch", daemon=True).start()
            self._changed.notify_all()
        try:
            with marked(run_id):
                yield
        finally:
            with self._changed:
                self._runs.discard(run_id)
                self._asked.discard(run_id)

    def is_asked(self, run_id: str) -> bool:
        """Whether this run, or one that it is a part of, is to end."""
        return not self._asked.isdisjoint((run_id, *current_marks()))

    def check(self) -> None:
        """Raises Cancelled when what this thread works at is to end."""
        if self._asked and (asked := self._asked.intersection(current_marks())):
            raise cancelled(min(asked))

    def _watch(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: bool(self._runs), _LINGER):
                    self._watching = False
                    return
            time.sleep(_AGAIN if self._asked else EVERY)
            with suppress(Exception):  # whatever a look fails of, the next one may see what it did not
                self._look()

    def _look(self) -> None:
        with self._changed:
            runs = set(self._runs)
        asked = runs & set(self._context.store.runs.asked_to_end()) if runs else set()
        with self._changed:
            self._asked |= asked & self._runs
        for run_id in asked:
            self._context.session.cancel_jobs(run_id)


def cancelled(run_id: str) -> Cancelled:
    error = Cancelled(f"the run {run_id} was cancelled")
    error.run_id = run_id
    return error


def cancel_run(context: Context, run_id: str) -> Run:
    """Ends a run, of whichever process; the run as it then is. One that has not heard in time still says `running`.

    Raises:
        RunNotFound: there is none.
        Conflict: it has ended already, or ended otherwise before it heard.
    """
    from neve.services.repair import settle_dead_runs

    settle_dead_runs(context)
    store = context.store
    run = store.runs.get(run_id)
    _refuse_ended(run)
    with suppress(Conflict):  # it has ended meanwhile, which is told below
        store.runs.ask_to_end(run.run_id, context.clock())
    until = time.monotonic() + PATIENCE
    while (run := store.runs.get(run.run_id)).state in ("queued", "running") and time.monotonic() < until:
        time.sleep(_PAUSE)
    if run.state not in ("queued", "running", "cancelled"):
        _refuse_ended(run)
    return run


def _refuse_ended(run: Run) -> None:
    if run.finished_at is None:
        return
    told = f": {run.error_message}" if run.error_message else ""
    hint = f"take it back: {run.undo}" if run.undo and run.state == "succeeded" else None
    raise Conflict(f"the run {run.run_id} has already ended, as {run.state}{told}", hint=hint)


def was_committed(context: Context, run: Run) -> bool:
    """Whether the table shows the run's own commit: whoever cancels too late has cancelled nothing."""
    from neve.model.names import TableName
    from neve.services.look import RUN_ID

    if run.table_name is None:
        return False
    try:
        facts = context.catalog.facts(TableName.parse(run.table_name))
    except NeveError:
        return False
    return any(snapshot.summary.get(RUN_ID) == run.run_id for snapshot in facts.ancestors())
