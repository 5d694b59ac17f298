"""A round of refreshes: tables in the order of their graph, those that do not need each other side by side.

A table that fails is told with its reason, those below it do not get their turn, and everybody else goes on.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter

from neve.errors import NeveError, NotFound, RefreshFailed
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.refresh import Pin, RefreshReceipt, RefreshState, RefreshTrigger
from neve.model.results import Reason
from neve.model.runs import new_run_id
from neve.plan.graph import Graph, choose, waves
from neve.plan.rounds import RoundPlan, Standing, plan_round
from neve.services.context import Context
from neve.services.dynamic.definitions import Definition, definitions_in, is_suspended
from neve.services.dynamic.foresight import foresee
from neve.services.dynamic.refresh import Pins, frontier_of, is_unchanged, nothing_to_do, refresh_table
from neve.services.look import all_facts

_MOST = 4
"""Beyond so many refreshes at once, the jobs of a local Spark only wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRequest:
    """Which tables (`t`, `+t`, `t+`; all without any), how many at once, and who asks."""

    selectors: Sequence[str] = ()
    trigger: RefreshTrigger = "MANUAL"
    parallel: int | None = None
    dry_run: bool = False


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
    return _Running(context, request).all()


def refresh_tables(
    context: Context, selectors: Sequence[str] = (), *, trigger: RefreshTrigger = "MANUAL"
) -> list[RefreshReceipt]:
    """One round that raises when a table failed, after all had their turn."""
    done = run_round(context, RoundRequest(selectors=selectors, trigger=trigger))
    done.check()
    return done.receipts


@dataclass
class _Running:
    """A round under way. Every table was looked at once, before it began."""

    context: Context
    request: RoundRequest
    round_id: str = ""
    plan: RoundPlan = field(default_factory=lambda: RoundPlan(visits={}))
    receipts: dict[TableName, RefreshReceipt] = field(default_factory=dict)
    errors: dict[TableName, Exception] = field(default_factory=dict)

    @cached_property
    def tables(self) -> dict[TableName, TableFacts]:
        return {facts.name: facts for facts in all_facts(self.context)}

    @cached_property
    def definitions(self) -> dict[TableName, Definition]:
        return definitions_in(self.tables.values())

    @cached_property
    def graph(self) -> Graph:
        return {name: definition.sources for name, definition in self.definitions.items()}

    def all(self) -> Round:
        at = self.context.clock()
        self.round_id = new_run_id(at, self.context.entropy)
        chosen = choose(self.graph, self.request.selectors)
        self.plan = plan_round(
            self.graph,
            chosen=chosen,
            named={TableName.parse(word.strip("+")) for word in self.request.selectors},
            pins={name: _pin(facts) for name, facts in self.tables.items() if name not in self.graph},
            at=at,
            standing={name: _standing(self.tables[name]) for name in self.graph},
        )
        for name, reason in self.plan.skipped.items():
            self.receipts[name] = self._told(name, "SKIPPED", reason)
        members = {*self.plan.visits, *self.plan.impossible}
        self._go({name: [source for source in self.graph[name] if source in members] for name in members})
        order = [name for wave in waves(self.graph) for name in wave if name in self.receipts]
        return Round(
            round_id=self.round_id,
            receipts=[self.receipts[name] for name in order],
            errors=self.errors,
            dry_run=self.request.dry_run,
        )

    def _go(self, order: Mapping[TableName, Collection[TableName]]) -> None:
        """Each table as soon as those before it are done; in this thread where one is to run at a time."""
        sorter = TopologicalSorter(order)
        sorter.prepare()
        at_once = 1 if self.request.dry_run else self.request.parallel or _at_once(len(order))
        running: dict[Future[None], TableName] = {}
        with ThreadPoolExecutor(at_once, thread_name_prefix="neve-refresh") as pool:
            while sorter.is_active():
                for name in sorted(sorter.get_ready(), key=str):
                    if self._is_settled(name):
                        sorter.done(name)
                    elif at_once == 1:
                        self._visit(name)
                        sorter.done(name)
                    else:
                        running[pool.submit(self._visit, name)] = name
                if running:
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        sorter.done(running.pop(done))
                        done.result()

    def _is_settled(self, name: TableName) -> bool:
        """Whether a table's outcome is known without a refresh."""
        if failed := [receipt for source in self.graph[name] if (receipt := self._failed(source))]:
            culprit = failed[0].upstream or failed[0].table
            detail = f"{culprit} failed, which it needs"
            self.receipts[name] = self._told(
                name, "UPSTREAM_FAILED", Reason(code="upstream_failed", detail=detail)
            ).model_copy(update={"upstream": culprit, "error_code": "upstream_failed"})
        elif name in self.plan.impossible:
            reason = self.plan.impossible[name]
            error = NotFound if reason.code == "table_not_found" else RefreshFailed
            self._fail(name, error(reason.detail), code=reason.code)
        elif not any(map(self._will_move, self.graph[name])):
            definition, facts, pins = self.definitions[name], self.tables[name], self._pins(name)
            if is_unchanged(definition, facts, pins):
                self.receipts[name] = nothing_to_do(definition, facts, pins, dry_run=self.request.dry_run)
        return name in self.receipts

    def _failed(self, source: TableName) -> RefreshReceipt | None:
        receipt = self.receipts.get(source)
        return receipt if receipt is not None and receipt.state in ("FAILED", "UPSTREAM_FAILED") else None

    def _visit(self, name: TableName) -> None:
        try:
            self.receipts[name] = self._refresh(name)
        except Exception as exc:  # noqa: BLE001 - whatever breaks one table, its siblings go on
            self._fail(name, exc)

    def _refresh(self, name: TableName) -> RefreshReceipt:
        definition, pins = self.definitions[name], self._pins(name)
        if not self.request.dry_run:
            return refresh_table(self.context, definition, pins)
        moving = [source for source in definition.sources if self._will_move(source)]
        return foresee(self.context, definition, pins, moving=moving)

    def _will_move(self, source: TableName) -> bool:
        receipt = self.receipts.get(source)
        return receipt is not None and receipt.refresh != "NO_DATA" and receipt.state == "SCHEDULED"

    def _pins(self, name: TableName) -> Pins:
        """The sources of a table: plain ones as its part of the round says, parents as the round left them."""
        visit = self.plan.visits[name]
        sources = {
            source: self._parent(source) if source in self.graph else visit.base[source]
            for source in self.definitions[name].sources
        }
        return Pins(at=visit.at, sources=sources, base=visit.base, round_id=self.round_id, trigger=self.request.trigger)

    def _parent(self, name: TableName) -> Pin:
        receipt = self.receipts.get(name)
        pin = _pin(self.tables[name])
        return pin if receipt is None else Pin(uuid=pin.uuid, snapshot=receipt.snapshot_after)

    def _fail(self, name: TableName, error: Exception, *, code: str | None = None) -> None:
        self.errors[name] = error
        known = error.code if isinstance(error, NeveError) else type(error).__name__
        said = error.message if isinstance(error, NeveError) else str(error)
        told = self._told(name, "FAILED", Reason(code=code or known, detail=said))
        self.receipts[name] = told.model_copy(update={"error_code": code or known})

    def _told(self, name: TableName, state: RefreshState, reason: Reason) -> RefreshReceipt:
        """The receipt of a table that was not refreshed."""
        snapshot = self.tables[name].current_snapshot_id
        return RefreshReceipt(
            run_id=None,
            action="refresh",
            table=str(name),
            reason=reason,
            snapshot_before=snapshot,
            snapshot_after=snapshot,
            dry_run=self.request.dry_run,
            round_id=self.round_id,
            state=state,
            refresh=None,
            trigger=self.request.trigger,
        )


def _pin(facts: TableFacts) -> Pin:
    return Pin(uuid=facts.uuid, snapshot=facts.current_snapshot_id)


def _standing(facts: TableFacts) -> Standing:
    frontier = frontier_of(facts)
    if frontier is None:
        return Standing(suspended=is_suspended(facts))
    base = {TableName.parse(name): pin for name, pin in frontier.base.items()}
    return Standing(base=base or None, at=frontier.at, suspended=is_suspended(facts))


def _at_once(tables: int) -> int:
    return max(1, min(tables, _MOST, os.cpu_count() or 1))
