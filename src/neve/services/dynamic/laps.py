"""A round of refreshes as it was asked for, looked at once and planned; and what has become of its tables so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from neve.errors import Cancelled, NeveError, NotFound, RefreshFailed, StalePlan
from neve.model.facts import TableFacts
from neve.model.history import Dependency
from neve.model.names import TableName
from neve.model.refresh import Pin, RefreshReceipt, RefreshState, RefreshTrigger
from neve.model.results import Reason
from neve.model.runs import new_run_id
from neve.plan.graph import Graph, choose
from neve.plan.rounds import RoundPlan, Standing, plan_round
from neve.plan.tables import is_suspended
from neve.services.context import Context
from neve.services.dynamic.deciding import Pins, frontier_of
from neve.services.dynamic.definitions import Definition, definitions_in
from neve.services.dynamic.turns import Stopwatch, Turn
from neve.services.look import all_facts

UNDONE = frozenset[RefreshState](("FAILED", "UPSTREAM_FAILED", "CANCELLED"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRequest:
    """Which tables (`t`, `+t`, `t+`; all without any), how many at once, and who asks.

    No table is called in that is not `within` these, where they are given; `told` hears of each as soon as it is done.
    """

    selectors: Sequence[str] = ()
    trigger: RefreshTrigger = "MANUAL"
    parallel: int | None = None
    dry_run: bool = False
    within: frozenset[TableName] | None = None
    told: Callable[[RefreshReceipt], None] | None = None


@dataclass(slots=True, kw_only=True)
class Lap:
    """A round under way, which began `at` a moment, and by the clock that only counts when it `began`.

    `spared` are the tables that their frontier alone told to have nothing to do; `turns` are of those that had one.
    """

    context: Context
    request: RoundRequest
    round_id: str
    at: datetime
    began: float
    tables: Mapping[TableName, TableFacts]
    definitions: Mapping[TableName, Definition]
    plan: RoundPlan
    receipts: dict[TableName, RefreshReceipt] = field(default_factory=dict)
    errors: dict[TableName, Exception] = field(default_factory=dict)
    spared: set[TableName] = field(default_factory=set)
    turns: dict[TableName, Turn] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return {name: definition.sources for name, definition in self.definitions.items()}

    def pins(self, name: TableName) -> Pins:
        """The sources of a table: plain ones as its part of the round says, parents as the round left them."""
        visit = self.plan.visits[name]
        sources = {
            source: self._parent(source) if source in self.definitions else visit.base[source]
            for source in self.definitions[name].sources
        }
        return Pins(at=visit.at, sources=sources, base=visit.base, round_id=self.round_id, trigger=self.request.trigger)

    def failure(self, name: TableName) -> RefreshReceipt | None:
        """The receipt of a table that failed or was cancelled, or did not get its turn because another did not."""
        receipt = self.receipts.get(name)
        return receipt if receipt is not None and receipt.state in UNDONE else None

    def will_move(self, name: TableName) -> bool:
        """Whether a table that was only decided about would change."""
        receipt = self.receipts.get(name)
        return receipt is not None and receipt.state == "SCHEDULED" and receipt.refresh != "NO_DATA"

    def take_turn(self, name: TableName) -> None:
        """It is planned from now on. It could have been since the round began, or the last that it reads was done."""
        ends = [self.turns[source].ended for source in self.definitions[name].sources if source in self.turns]
        turn = Turn(
            watch=Stopwatch(since=max(ends, default=self.began)),
            started_at=self.context.clock(),
            after=None if self.request.dry_run else self._last_done(name),
        )
        turn.watch.enter("compilation")
        self.turns[name] = turn

    def end_turn(self, name: TableName) -> None:
        """Its receipt is there, and says how long was worked on it."""
        if (turn := self.turns.get(name)) is not None and turn.ended_at is None:
            turn.end(self.context.clock())
            self.receipts[name] = self.receipts[name].model_copy(update={"duration_ms": turn.worked_ms})

    def fail(self, name: TableName, error: Exception, *, code: str | None = None) -> None:
        self.errors[name] = error
        known = error if isinstance(error, NeveError) else NeveError(_first_line(error))
        state: RefreshState = "CANCELLED" if isinstance(error, Cancelled) else "FAILED"
        self.tell(name, state, Reason(code=code or known.code, detail=known.message))
        self.receipts[name] = self.receipts[name].model_copy(update={"run_id": known.run_id})

    def fail_impossible(self, name: TableName) -> None:
        """The plan knows that it cannot be done."""
        reason = self.plan.impossible[name]
        error = NotFound if reason.code == "table_not_found" else RefreshFailed
        self.fail(name, error(reason.detail), code=reason.code)

    def tell(self, name: TableName, state: RefreshState, reason: Reason, *, upstream: str | None = None) -> None:
        """The receipt of a table that was not refreshed."""
        snapshot = self.tables[name].current_snapshot_id
        self.receipts[name] = RefreshReceipt(
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
            error_code=None if state == "SKIPPED" else reason.code,
            upstream=upstream,
        )

    def _last_done(self, name: TableName) -> Dependency | None:
        """Of the dynamic tables that a table reads, the one whose refresh ended last: in this round, or before it."""
        parents = [source for source in self.definitions[name].sources if source in self.definitions]
        here = [parent for parent in parents if parent in self.turns]
        if here:
            last = max(here, key=lambda parent: self.turns[parent].ended)
            return Dependency(qualified_name=str(last), data_timestamp=self.receipts[last].data_timestamp)
        done = self.context.store.refreshes.last_done([self.tables[parent].uuid for parent in parents], until=self.at)
        return None if done is None else Dependency(qualified_name=done.name, data_timestamp=done.data_timestamp)

    def _parent(self, name: TableName) -> Pin:
        receipt, pin = self.receipts.get(name), pin_of(self.tables[name])
        return pin if receipt is None else Pin(uuid=pin.uuid, snapshot=receipt.snapshot_after)


def begin(context: Context, request: RoundRequest, *, beside: Definition | None = None) -> Lap:
    """Looks at every table once and plans the round. One that is built aside is then the only one in it.

    Raises:
        NotFound: a selector names no dynamic table.
        StalePlan: a table would have to be called in that is not `within` those of the request.
    """
    at, began = context.clock(), time.monotonic()
    tables = {facts.name: facts for facts in all_facts(context)}
    definitions = definitions_in(tables.values())
    named = {TableName.parse(word.strip("+")) for word in request.selectors}
    if beside is not None:
        definitions[beside.name], tables[beside.name] = beside, context.catalog.facts(beside.name)
        named = {beside.name}
    graph = {name: definition.sources for name, definition in definitions.items()}
    plan = plan_round(
        graph,
        chosen=choose(graph, request.selectors) if beside is None else named,
        named=named,
        pins={name: pin_of(facts) for name, facts in tables.items() if name not in graph},
        at=at,
        standing={name: _standing(tables[name]) for name in graph},
    )
    if request.within is not None and (more := sorted(set(plan.called_in) - request.within)):
        raise StalePlan(f"{more[0]} has to be refreshed too: its sources have changed meanwhile")
    return Lap(
        context=context,
        request=request,
        round_id=new_run_id(at, context.entropy),
        at=at,
        began=began,
        tables=tables,
        definitions=definitions,
        plan=plan,
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def pin_of(facts: TableFacts) -> Pin:
    return Pin(uuid=facts.uuid, snapshot=facts.current_snapshot_id)


def _standing(facts: TableFacts) -> Standing:
    frontier = frontier_of(facts)
    if frontier is None:
        return Standing(suspended=is_suspended(facts))
    base = {TableName.parse(name): pin for name, pin in frontier.base.items()}
    return Standing(base=base or None, at=frontier.at, suspended=is_suspended(facts))
