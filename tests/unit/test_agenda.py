"""The scheduler: single decisions, and a month of a thousand tables under hundreds of workers."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest

from neve.model.dynamic import Lag
from neve.model.names import TableName
from neve.model.refresh import Pin
from neve.model.results import Reason
from neve.plan.agenda import (
    FAILURES,
    Agenda,
    DynamicFact,
    Errand,
    Facts,
    Held,
    Job,
    Member,
    Setback,
    plan_agenda,
)
from neve.plan.backoff import FIRST, LONGEST, pause
from neve.plan.lag import REST, SHORTEST, Lags, due_at, period_for
from neve.plan.rounds import Standing, plan_round

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SECOND = timedelta(seconds=1)
TIGHT = 2**11 * SHORTEST + 11 * MINUTE
"""A lag that leaves a period of its own length room for short refreshes only."""


def table(name: str) -> TableName:
    return TableName.parse(name)


def member(name: str) -> Member:
    return Member(table=table(name), uuid=f"uuid of {name}")


@cache
def pin(version: int) -> Pin:
    return Pin(uuid="s", snapshot=version)


def facts(
    sources: Mapping[str, str],
    *,
    lags: Mapping[str, Lag] | None = None,
    at: Mapping[str, datetime | None] | None = None,
    moved: Mapping[str, bool | None] | None = None,
    rests: Iterable[str] = (),
    takes: Mapping[str, timedelta] | None = None,
    **more: object,
) -> Facts:
    """Dynamic tables over plain ones: `sources` says what each reads; all are moved, and an hour old with a lag of 5
    minutes, unless told otherwise."""
    graph = {table(name): tuple(map(table, text.split())) for name, text in sources.items()}
    moments = {name: (at or {}).get(name, NOW - HOUR) for name in sources}
    known = {
        table(name): DynamicFact(
            member=member(name),
            standing=Standing(base={} if moment is not None else None, at=moment, suspended=name in rests),
            moved=(moved or {}).get(name, True),
            rests=Reason(code="suspended", detail="") if name in rests else None,
        )
        for name, moment in moments.items()
    }
    plain = {source for own in graph.values() for source in own if source not in graph}
    return Facts(
        lags=Lags.of(
            graph,
            {name: (lags or {}).get(name.short, 5 * MINUTE) for name in graph},
            {table(name): length for name, length in (takes or {}).items()},
        ),
        dynamic=known,
        pins=dict.fromkeys(plain, pin(1)),
        **more,  # type: ignore[arg-type]
    )


def named(jobs: Iterable[Job]) -> list[str]:
    return [job.table.short for job in jobs]


def waits(agenda: Agenda) -> dict[str, str]:
    return {job.table.short: job.waits.code for job in agenda.waiting if job.waits is not None}


def test_work_is_called_as_people_say_it() -> None:
    kinds = (("refresh", ""), ("compact_period", "2024-01"), ("rewrite_deletes", ""))
    jobs = [Job(kind=kind, what=what, asked=(), members=(), reason=Reason(code="", detail="")) for kind, what in kinds]
    assert [job.action for job in jobs] == ["refresh", "compact 2024-01", "rewrite_deletes"]


# ------------------------------------------------------------------------------------------------------ lag and periods


@pytest.mark.parametrize("seconds", [0, 1, 7, 60, 600, 4000])
@pytest.mark.parametrize("lag", [MINUTE, 5 * MINUTE, HOUR, DAY])
def test_a_refresh_that_begins_when_due_ends_within_the_lag(lag: timedelta, seconds: int) -> None:
    cost = timedelta(seconds=seconds)
    draw = random.Random(f"{lag} {seconds}")
    for _ in range(50):
        at = NOW + timedelta(seconds=draw.randrange(10**6))
        due = due_at(lag=lag, cost=cost, at=at)
        assert due >= at, "never before the rows were right"
        assert due - at >= REST or lag - cost >= SHORTEST, "nobody spins on a lag that cannot be kept"
        if lag - cost >= SHORTEST:
            assert due + cost <= at + lag, "in time"
            assert due > at
            assert (due - datetime(1970, 1, 1, tzinfo=UTC)) % period_for(lag, cost) == timedelta(0), "at a tick"
            assert due > at + lag - cost - period_for(lag, cost), "and not sooner than it must"


def test_ticks_of_longer_periods_are_ticks_of_shorter_ones() -> None:
    periods = sorted({period_for(minutes * MINUTE, 5 * SECOND) for minutes in range(1, 3000)})
    assert periods[0] == SHORTEST
    assert all(longer == 2 * shorter for shorter, longer in pairwise(periods))


# ------------------------------------------------------------------------------------------------------------- back-off


def test_back_off_is_known_exactly() -> None:
    seconds = [23.762, 51.955, 98.302, 127.21, 396.482, 511.959, 1071.141, 3118.765, 3068.313, 2505.151]
    assert [pause(number, "sales").total_seconds() for number in range(1, 11)] == seconds
    assert pause(1, "orders").total_seconds() == 16.605
    with pytest.raises(ValueError, match="nothing has failed"):
        pause(0, "sales")


def test_back_off_doubles_within_its_bounds_and_scatters() -> None:
    for number in range(1, 15):
        whole = min(FIRST * 2 ** (number - 1), LONGEST)
        found = [pause(number, f"t{seed}") for seed in range(200)]
        assert all(whole / 2 <= each <= whole for each in found)
        assert min(found) < 0.55 * whole < 0.95 * whole < max(found)


# ----------------------------------------------------------------------------------------------------- single decisions


def test_late_tables_come_first_and_those_never_filled_before_them() -> None:
    known = facts({"a": "s", "b": "s", "c": "s", "d": "s"}, at={"a": NOW - 10 * MINUTE, "c": None, "d": NOW})
    agenda = plan_agenda(known, NOW)
    assert named(agenda.ready) == ["c", "b", "a"]
    assert [job.reason.code for job in agenda.ready] == ["never_filled", "late", "late"]
    assert waits(agenda) == {"d": "changes"}
    assert agenda.wake_at == due_at(lag=5 * MINUTE, cost=5 * SECOND, at=NOW)


def test_tables_without_changes_are_settled_together_without_spark() -> None:
    known = facts({"a": "s", "b": "s", "c": "s"}, moved={"a": False, "b": True, "c": False})
    agenda = plan_agenda(known, NOW)
    assert {(tuple(m.table.short for m in job.asked), job.needs_spark) for job in agenda.ready} == {
        (("a", "c"), False),
        (("b",), True),
    }


def test_downstream_tables_without_changes_move_on_with_their_readers() -> None:
    known = facts(
        {"p": "s", "q": "s", "t": "p q"}, lags={"p": "DOWNSTREAM", "q": "DOWNSTREAM"}, moved=dict.fromkeys("pqt", False)
    )
    (job,) = plan_agenda(known, NOW).ready
    assert (named([job]), [m.table.short for m in job.members], job.needs_spark) == (["t"], ["t", "p", "q"], False)
    held = replace(known, held={"uuid of p": Held(owner="w", job="compact", expires_at=NOW + MINUTE)})
    (job,) = plan_agenda(held, NOW).ready
    assert [m.table.short for m in job.members] == ["t", "q"]


def test_parents_that_lie_behind_are_brought_along_and_others_are_read_as_they_stand() -> None:
    tables = {"p": "s", "q": "s", "t": "p q"}
    lags: dict[str, Lag] = {"p": "DOWNSTREAM", "q": DAY}
    agenda = plan_agenda(facts(tables, lags=lags), NOW)
    assert [sorted(m.table.short for m in job.members) for job in agenda.ready] == [["p", "q", "t"]]
    assert waits(agenda) == {"p": "downstream", "q": "changes"}
    fresh = facts(tables, lags=lags, at={"p": NOW - SECOND, "q": NOW - SECOND})
    assert [[m.table.short for m in job.members] for job in plan_agenda(fresh, NOW).ready] == [["t"]]
    still = facts(tables, lags=lags, moved={"p": False})
    assert [sorted(m.table.short for m in job.members) for job in plan_agenda(still, NOW).ready] == [["q", "t"]]


def test_a_table_is_not_refreshed_in_vain_while_one_above_it_rests() -> None:
    old = {"p": NOW - HOUR, "t": NOW - HOUR}
    agenda = plan_agenda(facts({"p": "s", "t": "p"}, rests=["p"], at=old), NOW)
    assert agenda.ready == ()
    assert waits(agenda) == {"p": "suspended", "t": "upstream_rests"}
    older = facts({"p": "s", "t": "p"}, rests=["p"], at=old | {"t": NOW - 2 * HOUR})
    assert [[m.table.short for m in job.members] for job in plan_agenda(older, NOW).ready] == [["t"]]


def test_two_that_need_one_table_go_one_after_the_other() -> None:
    agenda = plan_agenda(facts({"p": "s", "t": "p", "u": "p"}, lags={"p": "DOWNSTREAM"}), NOW)
    assert named(agenda.ready) == ["t"]
    assert waits(agenda) == {"p": "downstream", "u": "after"}


def test_what_rests_failed_or_is_claimed_waits() -> None:
    soon, later = NOW + MINUTE, NOW + 2 * MINUTE
    known = facts(
        {"a": "s", "b": "s", "c": "s", "d": "c", "e": "s"},
        rests=["a"],
        setbacks={
            ("uuid of b", "refresh"): Setback(failures=2, retry_at=later),
            ("uuid of e", "refresh"): Setback(failures=2, retry_at=NOW),
        },
        held={"uuid of c": Held(owner="w1", job="refresh", expires_at=soon)},
    )
    agenda = plan_agenda(known, NOW)
    assert named(agenda.ready) == ["e"], "its time has come"
    assert waits(agenda) == {"a": "suspended", "b": "backing_off", "c": "claimed", "d": "claimed"}
    assert agenda.wake_at == soon
    assert named(plan_agenda(known, soon).ready) == ["c", "e"], "the claim was over"


def test_other_work_takes_its_turn_by_its_deadline() -> None:
    def compact(name: str, **given: object) -> Errand:
        reason = Reason(code="files", detail="")
        told: dict[str, object] = {"kind": "compact", "what": "2024-01", "due": True, "reason": reason, **given}
        return Errand(member=member(name), **told)  # type: ignore[arg-type]

    known = facts({"a": "s"}, at={"a": NOW - 10 * MINUTE})
    young = compact("x", since=NOW)
    old = compact("y", since=NOW - 2 * HOUR)
    later = compact("z", due=False, due_at=NOW + MINUTE)
    suspended = Setback(failures=5, retry_at=NOW, suspended=Reason(code="failures", detail="it broke"))
    failing = compact("f")
    known = replace(
        known,
        errands=[young, old, later, failing],
        setbacks={("uuid of f", "compact 2024-01"): suspended},
    )
    agenda = plan_agenda(known, NOW)
    assert named(agenda.ready) == ["y", "a", "x"]
    assert waits(agenda) == {"z": "files", "f": "failures"}
    assert agenda.wake_at == NOW + MINUTE
    assert named(plan_agenda(known, NOW, only={table("x"), table("z")}).ready) == ["x"]
    by_hand = replace(known, errands=[replace(compact("a", since=NOW - DAY), by_hand=True)])
    assert [job.kind for job in plan_agenda(by_hand, NOW).ready] == ["refresh"], "it keeps nobody waiting"
    assert waits(plan_agenda(by_hand, NOW)) == {"a": "by_hand"}


def test_a_downstream_table_that_nobody_reads_waits_for_ever_but_is_filled_once() -> None:
    lags: dict[str, Lag] = {"a": "DOWNSTREAM", "b": "DOWNSTREAM"}
    agenda = plan_agenda(facts({"a": "s", "b": "s"}, lags=lags, at={"b": None}), NOW)
    assert named(agenda.ready) == ["b"]
    assert waits(agenda) == {"a": "downstream"}
    assert agenda.wake_at is None


def test_nothing_to_do_is_nothing_to_wait_for() -> None:
    assert plan_agenda(facts({}), NOW) == Agenda(ready=(), waiting=(), wake_at=None)


# -------------------------------------------------------------------------------------------------------------- a month


@dataclass(order=True)
class Step:
    """A table of a job is done, or its worker has died."""

    at: datetime
    number: int
    kind: str = field(compare=False)
    worker: int = field(compare=False)
    name: TableName = field(compare=False)
    standing: Standing | None = field(compare=False)


class World:
    """A lake without rows: sources move at random, refreshes take their time, some workers die, some tables fail."""

    LEASE = 10 * MINUTE

    def __init__(self, seed: int, *, tables: int, workers: int, deaths: float = 0.0, broken: int = 0) -> None:
        self.draw = random.Random(seed)
        self.now = NOW
        self.idle = list(range(workers))
        self.steps: list[Step] = []
        self.numbers = 0
        self.deaths = deaths
        self.versions = {table(f"s{number}"): 0 for number in range(40)}
        self.graph: dict[TableName, tuple[TableName, ...]] = {}
        self.lags: dict[TableName, Lag] = {}
        self.takes: dict[TableName, timedelta] = {}
        self._declare(tables)
        self.standing = {name: Standing() for name in self.graph}
        self.below: dict[TableName, set[TableName]] = {
            source: {name for name in self.graph if source in self._reach(name)} for source in self.versions
        }
        self.pins: dict[TableName, Pin] = {}
        self.known: dict[TableName, DynamicFact] = {}
        self.changed = set(self.graph)
        self.fixed = Lags.of(self.graph, self.lags, self.takes)
        self.broken = set(list(self.graph)[:broken])
        self.setbacks: dict[tuple[str, str], Setback] = {}
        self.rests: set[TableName] = set()
        self.held: dict[str, Held] = {}
        self.running: dict[TableName, int] = {}
        self.refreshes: dict[TableName, list[tuple[datetime, datetime]]] = {name: [] for name in self.graph}
        self.died: set[TableName] = set()
        self.most = 0

    def _declare(self, tables: int) -> None:
        plain, made = list(self.versions), list[TableName]()
        for number in range(tables):
            name = table(f"t{number:04}")
            # Chains stay short, as people's are: those of the first two thirds read plain tables.
            above = made[: tables * 2 // 3] if number >= tables * 2 // 3 else []
            some = self.draw.sample(above, min(len(above), self.draw.choice([1, 1, 2])))
            self.graph[name] = tuple(some or self.draw.sample(plain, self.draw.choice([1, 2])))
            self.lags[name] = self.draw.choice([TIGHT, 2 * DAY, 3 * DAY, 7 * DAY])
            self.takes[name] = self.draw.choice([5 * MINUTE, 20 * MINUTE])
            made.append(name)
        read = {source for own in self.graph.values() for source in own}
        for name in [name for name in made if name in read][::3]:
            self.lags[name] = "DOWNSTREAM"

    def facts(self) -> Facts:
        pins = self.pins = {name: pin(version) for name, version in self.versions.items()}
        for name in self.changed:
            standing = self.standing[name]
            self.known[name] = DynamicFact(
                member=Member(table=name, uuid=str(name)),
                standing=standing,
                moved=None
                if standing.base is None
                else any(pins[source] != found for source, found in standing.base.items()),
                rests=Reason(code="suspended", detail="") if name in self.rests else None,
            )
        self.changed.clear()
        return Facts(lags=self.fixed, dynamic=self.known, pins=pins, setbacks=self.setbacks, held=self.held)

    def _reach(self, name: TableName) -> set[TableName]:
        return {source for other in self._closure({name}) for source in self.graph[other]}

    def _are_related(self, one: TableName, other: TableName) -> bool:
        return one in self._closure({other}) or other in self._closure({one})

    def run(self, length: timedelta) -> None:
        end = self.now + length
        while self.now < end:
            while self.steps and self.steps[0].at <= self.now:
                self._end(heapq.heappop(self.steps))
            agenda = plan_agenda(self.facts(), self.now, in_full=False)
            for job in agenda.ready[: len(self.idle)]:
                self._begin(job)
            busy = len(self.running)
            self.most = max(self.most, busy)
            moments = [step.at for step in self.steps[:1]]
            moments += [agenda.wake_at] if agenda.wake_at is not None and self.idle else []
            before, self.now = self.now, min(moments, default=end)
            assert self.now > before, "time goes on"
            self._move_sources(self.now - before)

    def _move_sources(self, passed: timedelta) -> None:
        for name in self.versions:
            if self.draw.random() < passed / (3 * HOUR):
                self.versions[name] += 1
                self.changed |= self.below[name]

    def _begin(self, job: Job) -> None:
        for each in job.members:
            assert each.table not in self.running, f"{each.table} would be worked on twice"
            rival = self.held.get(each.uuid)
            assert rival is None or rival.expires_at <= self.now, f"{each.table} is claimed"
        worker = self.idle.pop()
        names = {each.table for each in job.members}
        plan = plan_round(
            {name: self.graph[name] for name in self._closure(names)},
            chosen=names,
            named=names,
            pins=self.pins,
            at=self.now,
            standing=self.standing,
        )
        assert set(plan.visits) == names, "the round needs just what was claimed"
        dies = self.draw.random() < self.deaths
        moment = self.now
        for number, (name, visit) in enumerate(plan.visits.items()):
            self.running[name] = worker
            self.held[str(name)] = Held(owner=str(worker), job=job.action, expires_at=datetime.max.replace(tzinfo=UTC))
            if job.needs_spark:
                moment += self.takes[name]
            kept = name not in self.broken and self._closure({name}) & self.broken & names  # upstream failed
            self.numbers += 1
            step = Step(
                at=max(moment, self.now + SECOND),
                number=self.numbers,
                kind="die" if dies else "last" if number == len(plan.visits) - 1 else "done",
                worker=worker,
                name=name,
                standing=None if kept else Standing(base=visit.base, at=visit.at),
            )
            heapq.heappush(self.steps, step)

    def _closure(self, names: set[TableName]) -> set[TableName]:
        found, left = set(names), list(names)
        while left:
            for source in self.graph[left.pop()]:
                if source in self.graph and source not in found:
                    found.add(source)
                    left.append(source)
        return found

    def _end(self, step: Step) -> None:
        name = step.name
        if step.kind == "die":  # nothing was committed; the lease runs out, and another worker comes in its place
            if step.worker not in self.idle:
                self.idle.append(step.worker)
            self.held[str(name)] = replace(self.held[str(name)], expires_at=self.now + self.LEASE)
            self.died.add(name)
        else:
            del self.held[str(name)]
            if step.standing is not None:
                self._conclude(name, step.standing)
            if step.kind == "last":
                self.idle.append(step.worker)
        del self.running[name]

    def _conclude(self, name: TableName, standing: Standing) -> None:
        self.changed.add(name)
        if name in self.broken:
            failures = (
                self.setbacks[str(name), "refresh"].failures + 1 if (str(name), "refresh") in self.setbacks else 1
            )
            retry_at = self.now + pause(failures, str(name))
            self.setbacks[str(name), "refresh"] = Setback(failures=failures, retry_at=retry_at)
            if failures == FAILURES:
                self._suspend(name)
            return
        before = self.standing[name].at
        if before is not None:
            self.refreshes[name].append((before, self.now))
        assert standing.at is not None
        assert before is None or standing.at >= before
        self.standing[name] = replace(standing, suspended=self.standing[name].suspended)

    def _suspend(self, name: TableName) -> None:
        """With all that read it."""
        for other in self.graph:
            if name in self._closure({other}):
                self.rests.add(other)
                self.changed.add(other)
                self.standing[other] = replace(self.standing[other], suspended=True)

    def lateness(self) -> dict[TableName, timedelta]:
        """The most by which each table was beyond its lag."""
        found = {}
        for name, own in self.refreshes.items():
            target = self.fixed.targets[name]
            if target is not None:
                found[name] = max((end - at - target for at, end in own), default=timedelta(0))
        return found


@pytest.mark.slow
def test_a_month_of_a_thousand_tables_and_hundreds_of_workers() -> None:
    world = World(1, tables=1000, workers=300)
    world.run(30 * DAY)
    wanted = [name for name, target in world.fixed.targets.items() if target is not None]
    assert len(wanted) > 900
    for name in wanted:
        target = world.fixed.targets[name]
        assert target is not None
        assert len(world.refreshes[name]) >= 30 * DAY / target - 1, f"{name} was left alone"
    late = {name: by for name, by in world.lateness().items() if by > timedelta(0)}
    assert late == {}, "there were workers enough"
    assert world.most > 50, "they did work side by side"


@pytest.mark.slow
def test_workers_that_die_and_tables_that_fail_do_not_keep_others() -> None:
    world = World(2, tables=200, workers=100, deaths=0.005, broken=15)
    world.run(30 * DAY)
    assert world.died, "some did die"
    kept = {name for name in world.graph if world._closure({name}) & world.broken}
    assert {name for name in kept - world.rests if world.lags[name] != "DOWNSTREAM"} == set(), "all were suspended"
    assert world.rests <= kept
    assert max(setback.failures for setback in world.setbacks.values()) == FAILURES, "and not tried again"
    related = {name for name in world.graph for dead in world.died if world._are_related(name, dead)}
    assert len(related | kept) < len(world.graph)
    for name, by in world.lateness().items():
        if name not in kept:
            assert by <= (world.LEASE + 3 * HOUR if name in related else timedelta(0)), name


@pytest.mark.slow
def test_too_few_workers_leave_nobody_out() -> None:
    world = World(3, tables=150, workers=1)
    world.run(15 * DAY)
    late = [by for by in world.lateness().values() if by > timedelta(0)]
    assert len(late) > 30, "there is more to do than two can"
    counts = [len(world.refreshes[name]) for name, target in world.fixed.targets.items() if target is not None]
    assert min(counts) >= 2, "each had its turn, again and again"
