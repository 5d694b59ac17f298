"""A round of refreshes: tables in the order of their graph, those that do not need each other side by side.

A table that fails is told with its reason, those below it do not get their turn, and everybody else goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from graphlib import TopologicalSorter

from neve.errors import RefreshFailed
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt, RefreshState, RefreshTrigger
from neve.model.results import Reason
from neve.plan.graph import waves
from neve.services.context import Context
from neve.services.dynamic.deciding import Pins, Refresh, decide, is_current
from neve.services.dynamic.definitions import Definition
from neve.services.dynamic.foresight import foresee
from neve.services.dynamic.laps import Lap, RoundRequest, begin
from neve.services.dynamic.recording import conclude, record
from neve.services.dynamic.refresh import complete, nothing_to_do

_MOST = 4
"""Beyond so many refreshes at once, the jobs of a local Spark only wait for each other."""
_PAUSE = 0.2
_NOT_DONE: tuple[RefreshState, ...] = ("FAILED", "CANCELLED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What became of every table, in the order of the graph; `errors` are those of the tables that failed."""

    round_id: str
    receipts: list[RefreshReceipt]
    errors: Mapping[TableName, Exception]
    dry_run: bool = False

    def check(self) -> None:
        """Raises the error of the table, where there was one table only, and RefreshFailed for several."""
        if not self.errors:
            return
        error = next(iter(self.errors.values()))
        if len(self.receipts) == 1:
            raise error
        raise RefreshFailed(self.told(), hint="neve runs retry --failed") from error

    def told(self) -> str:
        """Which tables failed, in one sentence."""
        failed = [f"{r.table} ({r.reason.detail if r.reason else ''})" for r in self.receipts if r.state in _NOT_DONE]
        below = sum(receipt.state == "UPSTREAM_FAILED" for receipt in self.receipts)
        said = f"{len(failed)} of {len(self.receipts)} tables failed: {'; '.join(failed)}"
        return said + (f"; {below} that need them were left out" if below else "")


def run_round(context: Context, request: RoundRequest) -> Round:
    """One round; what fails is in the answer.

    Raises:
        NotFound: a selector names no dynamic table.
    """
    lap = begin(context, request)
    for name, reason in lap.plan.skipped.items():
        lap.tell(name, "SKIPPED", reason)
        record(lap, name)
    _go(lap)
    for name, reader in lap.plan.called_in.items():
        details = {**lap.receipts[name].details, "needed_by": str(reader)}
        lap.receipts[name] = lap.receipts[name].model_copy(update={"details": details})
    conclude(lap)
    order = [name for wave in waves(lap.graph) for name in wave if name in lap.receipts]
    return Round(
        round_id=lap.round_id,
        receipts=[lap.receipts[name] for name in order],
        errors=lap.errors,
        dry_run=request.dry_run,
    )


def refresh_tables(
    context: Context, selectors: Sequence[str] = (), *, trigger: RefreshTrigger = "MANUAL"
) -> list[RefreshReceipt]:
    """One round that raises when a table failed, after all had their turn."""
    done = run_round(context, RoundRequest(selectors=selectors, trigger=trigger))
    done.check()
    return done.receipts


def pins_for(context: Context, definition: Definition) -> Pins:
    """What a table that is filled apart from a round reads: all of one moment, to which parents are brought if need be.

    Raises:
        RefreshFailed: its parents cannot be brought together; the message says why.
    """
    lap = begin(context, RoundRequest(), beside=definition)
    if lap.plan.called_in:
        refresh_tables(context, [name.short for name in lap.plan.called_in])
        lap = begin(context, RoundRequest(), beside=definition)
    if (reason := lap.plan.impossible.get(definition.name)) is not None:
        raise RefreshFailed(reason.detail)
    return lap.pins(definition.name)


def _go(lap: Lap) -> None:
    """Each table as soon as those before it are done.

    What needs no Spark is done in the calling thread, and so is starting it: Ctrl-C is heard in the main thread only.
    """
    graph, members = lap.graph, {*lap.plan.visits, *lap.plan.impossible}
    sorter = TopologicalSorter({name: [source for source in graph[name] if source in members] for name in members})
    sorter.prepare()
    at_once = lap.request.parallel or _at_once(len(members))
    running: dict[Future[None], TableName] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="neve-refresh") as pool, _interruptible(lap, running):
        while sorter.is_active():
            for name in sorted(sorter.get_ready(), key=str):
                work = _decide(lap, name) if _needs_turn(lap, name) else None
                if work is not None and at_once > 1:
                    running[pool.submit(copy_context().run, _carry_out, lap, work)] = name
                    continue
                if work is not None:
                    _carry_out(lap, work)
                lap.end_turn(name)
                record(lap, name)
                sorter.done(name)
            if running:
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(ended)
                    record(lap, name)
                    sorter.done(name)


@contextmanager
def _interruptible(lap: Lap, running: dict[Future[None], TableName]) -> Iterator[None]:
    """Ctrl-C ends what runs in other threads too, and what became of it is written down.

    A refresh may be between two jobs when they are cancelled: so they are until it has ended.
    """
    try:
        yield
    except BaseException:
        while waiting := [future for future in running if not future.cancel() and not future.done()]:
            lap.context.session.cancel_jobs()
            wait(waiting, timeout=_PAUSE)
        for future, name in running.items():
            if not future.cancelled():
                record(lap, name)
        raise


def _needs_turn(lap: Lap, name: TableName) -> bool:
    """Whether a table has to be refreshed for its outcome to be known; if not, it is told."""
    definition = lap.definitions[name]
    failed = [receipt for source in definition.sources if (receipt := lap.failure(source)) is not None]
    if failed:
        culprit = failed[0].upstream or failed[0].table
        reason = Reason(code="upstream_failed", detail=f"{culprit} failed, which it needs")
        lap.tell(name, "UPSTREAM_FAILED", reason, upstream=culprit)
    elif name in lap.plan.impossible:
        lap.fail_impossible(name)
    else:
        lap.take_turn(name)
        _spare(lap, name)
    return name not in lap.receipts


def _spare(lap: Lap, name: TableName) -> None:
    """Tells a table that its frontier alone knows to have nothing to do."""
    facts, definition = lap.tables[name], lap.definitions[name]
    if any(map(lap.will_move, definition.sources)):
        return
    pins = lap.pins(name)
    if is_current(lap.context, facts, definition, pins):
        lap.receipts[name] = nothing_to_do(definition, facts, pins, dry_run=lap.request.dry_run)
        lap.spared.add(name)


def _decide(lap: Lap, name: TableName) -> Refresh | None:
    """What is left to do on Spark; None where all is done, or failed, or was only to be told."""
    definition, watch = lap.definitions[name], lap.turns[name].watch
    with _failing(lap, name):
        if lap.request.dry_run:
            moving = [source for source in definition.sources if lap.will_move(source)]
            lap.receipts[name] = foresee(lap.context, definition, lap.pins(name), moving=moving)
            return None
        refresh = decide(lap.context, definition, lap.pins(name))
        if refresh.action != "NO_DATA":
            watch.enter("queued")
            lap.context.session.spark  # noqa: B018 - starts it, in this thread
            return refresh
        watch.enter("execution")
        lap.receipts[name] = complete(lap.context, refresh)
    return None


def _carry_out(lap: Lap, refresh: Refresh) -> None:
    lap.turns[refresh.table].watch.enter("execution")
    with _failing(lap, refresh.table):
        lap.receipts[refresh.table] = complete(lap.context, refresh)
    lap.end_turn(refresh.table)


@contextmanager
def _failing(lap: Lap, name: TableName) -> Iterator[None]:
    """Whatever breaks one table, its siblings go on."""
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - it is told in the table's receipt
        lap.fail(name, exc)


def _at_once(tables: int) -> int:
    return max(1, min(tables, _MOST, os.cpu_count() or 1))
