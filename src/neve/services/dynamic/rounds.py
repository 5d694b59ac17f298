"""A round of refreshes: tables in the order of their graph, those that do not need each other side by side.

A table that fails is told with its reason, those below it do not get their turn, and everybody else goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter

from neve.errors import RefreshFailed
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt, RefreshTrigger
from neve.model.results import Reason
from neve.plan.graph import waves
from neve.services.context import Context
from neve.services.dynamic.foresight import foresee
from neve.services.dynamic.laps import Lap, RoundRequest, begin
from neve.services.dynamic.recording import conclude, record
from neve.services.dynamic.refresh import is_unchanged, nothing_to_do, refresh_table

_MOST = 4
"""Beyond so many refreshes at once, the jobs of a local Spark only wait for each other."""


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
        failed = [f"{r.table} ({r.reason.detail if r.reason else ''})" for r in self.receipts if r.state == "FAILED"]
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


def _go(lap: Lap) -> None:
    """Each table as soon as those before it are done; in this thread where one is to run at a time."""
    members = {*lap.plan.visits, *lap.plan.impossible}
    sorter = TopologicalSorter({name: [s for s in lap.graph[name] if s in members] for name in members})
    sorter.prepare()
    at_once = 1 if lap.request.dry_run else lap.request.parallel or _at_once(len(members))
    running: dict[Future[None], TableName] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="neve-refresh") as pool:
        while sorter.is_active():
            for name in sorted(sorter.get_ready(), key=str):
                if _needs_turn(lap, name) and at_once > 1:
                    running[pool.submit(_turn, lap, name)] = name
                    continue
                if name not in lap.receipts:
                    _turn(lap, name)
                record(lap, name)
                sorter.done(name)
            if running:
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(ended)
                    record(lap, name)
                    sorter.done(name)


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
    elif not any(map(lap.will_move, definition.sources)):
        facts, pins = lap.tables[name], lap.pins(name)
        if is_unchanged(definition, facts, pins):
            lap.receipts[name] = nothing_to_do(definition, facts, pins, dry_run=lap.request.dry_run)
            lap.spared.add(name)
    return name not in lap.receipts


def _turn(lap: Lap, name: TableName) -> None:
    definition, began = lap.definitions[name], time.monotonic()
    try:
        if lap.request.dry_run:
            moving = [source for source in definition.sources if lap.will_move(source)]
            lap.receipts[name] = foresee(lap.context, definition, lap.pins(name), moving=moving)
        else:
            lap.receipts[name] = refresh_table(lap.context, definition, lap.pins(name))
    except Exception as exc:  # noqa: BLE001 - whatever breaks one table, its siblings go on
        lap.fail(name, exc, duration_ms=round((time.monotonic() - began) * 1000))


def _at_once(tables: int) -> int:
    return max(1, min(tables, _MOST, os.cpu_count() or 1))
