"""What the worker does now, what keeps the rest waiting, and when to look again. Pure; time is an argument.

A job names every table that it works on, and whoever does it claims them all: no two jobs work on one table at once.
A dynamic table brings those above it along when they lie too far behind for it; one that was refreshed lately is read
as it stands, so that tables of one tick agree even where several workers refresh them. Jobs go by their deadline,
whatever their kind: nothing that is due can be overtaken for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.units import format_duration
from neve.plan.graph import upstream
from neve.plan.lag import Lags
from neve.plan.rounds import Base, Standing, plan_round

REFRESH = "refresh"
FAILURES = 5
"""So many scheduled failures in a row suspend a job until somebody resumes it."""
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


_BY_HAND = Reason(code="by_hand", detail="no worker does this yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A table by its name, and by the id that a rename does not change."""

    table: TableName
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicFact:
    """A dynamic table. `moved` says whether a source has changed, None when one cannot be read; `rests` why it is left
    alone."""

    member: Member
    standing: Standing
    moved: bool | None
    rests: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Work on one table that its planner has judged: due, or not before `due_at`, and why.

    `since` is when it was first seen to be due; it should be done within `patience` from then. What is done `by_hand`
    is only told of, and keeps nothing else waiting.
    """

    member: Member
    kind: str
    what: str = ""
    due: bool
    reason: Reason
    due_at: datetime | None = None
    since: datetime | None = None
    patience: timedelta = timedelta(hours=1)
    by_hand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A job that failed so often in a row; left alone until `retry_at`, or until somebody resumes it.

    Without a failure it only rests for a moment, so that nobody spins on work that is never done with.
    """

    failures: int
    retry_at: datetime
    suspended: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A table that somebody works on."""

    owner: str
    job: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is known of a lake's work at one moment. Setbacks go by table and action, claims by table (uuids)."""

    lags: Lags
    dynamic: Mapping[TableName, DynamicFact] = field(default_factory=dict)
    pins: Base = field(default_factory=dict)
    errands: Sequence[Errand] = ()
    setbacks: Mapping[tuple[str, str], Setback] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work. `asked` are the tables that are due, `members` all that it works on.

    `reason` says why it is due; `waits` what keeps it from being done now. `parts` are the jobs that were made one.
    """

    kind: str
    what: str = ""
    asked: tuple[Member, ...]
    members: tuple[Member, ...]
    reason: Reason
    due_at: datetime | None = None
    deadline: datetime = _FIRST
    needs_spark: bool = True
    waits: Reason | None = None
    parts: tuple[Job, ...] = ()

    @property
    def action(self) -> str:
        """As people say it: `refresh`, or `compact 2024-01` for the kind compact_period."""
        return f"{self.kind.partition('_')[0]} {self.what}" if self.what else self.kind

    @property
    def table(self) -> TableName:
        return self.asked[0].table

    @property
    def is_due(self) -> bool:
        """Whether it would be done now if nothing else kept it waiting."""
        return self.waits != self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """`ready` in the order to be begun; `wake_at` is when the first of the others may be."""

    ready: tuple[Job, ...]
    waiting: tuple[Job, ...]
    wake_at: datetime | None

    @property
    def due(self) -> frozenset[tuple[str, str]]:
        """Tables (uuids) with the actions that are due on them, or wanted of them by others."""
        jobs = [*self.ready, *(job for job in self.waiting if job.is_due)]
        return frozenset((member.uuid, job.action) for job in jobs for member in job.members)


def plan_agenda(
    facts: Facts, now: datetime, *, only: Collection[TableName] | None = None, in_full: bool = True
) -> Agenda:
    """The jobs of a lake at one moment; `only` limits them to those that these tables ask for.

    Not `in_full`, dynamic tables whose time has not come are left out of those that wait: a worker need not hear why.
    """
    planner = _Planner(facts, now, only=only, in_full=in_full)
    ready, waiting = planner.share_out(list(planner.jobs()))
    return Agenda(ready=tuple(ready), waiting=tuple(waiting), wake_at=min(planner.moments, default=None))


class _Planner:
    def __init__(self, facts: Facts, now: datetime, *, only: Collection[TableName] | None, in_full: bool) -> None:
        self._facts, self._now, self._only, self._in_full = facts, now, only, in_full
        self.moments: list[datetime] = []
        """When something ends that keeps a job waiting."""

    @cached_property
    def _readers(self) -> Mapping[TableName, list[TableName]]:
        found: dict[TableName, list[TableName]] = {}
        for name, sources in self._facts.lags.graph.items():
            for source in sources:
                found.setdefault(source, []).append(name)
        return found

    def jobs(self) -> Iterator[Job]:
        unmoved: list[Job] = []
        for name, fact in self._facts.dynamic.items():
            if self._only is not None and name not in self._only:
                continue
            due_at = self._now if fact.standing.at is None else self._facts.lags.due_at(name, fact.standing.at)
            if due_at is not None and self._now < due_at and fact.rests is None:
                self.moments.append(due_at)
            if not self._in_full and (due_at is None or self._now < due_at):
                continue
            job = self._refresh(name, fact, due_at)
            if job.waits is None and not job.needs_spark:
                unmoved.append(job)
            else:
                yield job
        if unmoved:
            yield _together(unmoved)
        for errand in self._facts.errands:
            if self._only is None or errand.member.table in self._only:
                yield self._run_errand(errand)

    def share_out(self, jobs: Sequence[Job]) -> tuple[list[Job], list[Job]]:
        """Those that can be begun, and the others; of two that want one table, the earlier deadline goes first."""
        ready: list[Job] = []
        waiting = [job for job in jobs if job.waits is not None]
        taken: dict[str, Job] = {}
        for job in sorted((job for job in jobs if job.waits is None), key=lambda job: (job.deadline, job.table)):
            first = next((taken[member.uuid] for member in job.members if member.uuid in taken), None)
            if first is None:
                taken |= dict.fromkeys((member.uuid for member in job.members), job)
                ready.append(job)
            else:
                waiting.append(replace(job, waits=_after(first)))
        return ready, waiting

    def _refresh(self, name: TableName, fact: DynamicFact, due_at: datetime | None) -> Job:
        at = fact.standing.at
        job = Job(
            kind=REFRESH,
            asked=(fact.member,),
            members=(fact.member,),
            reason=self._why(name, fact),
            due_at=due_at,
            deadline=self._deadline(name, at),
            needs_spark=fact.moved is not False or at is None,
        )
        if fact.rests is not None:
            return replace(job, waits=fact.rests, due_at=None)
        if isinstance(self._facts.lags.declared[name], str) and self._is_for_readers(name, at):
            return replace(job, waits=self._downstream(name), due_at=None)
        if due_at is None or self._now < due_at:
            return replace(job, waits=job.reason)
        if job.needs_spark and (held_back := self._held_back(name, at)) is not None:
            return replace(job, waits=held_back, due_at=None)
        members = self._with_parents(name, fact) if job.needs_spark else self._with_unmoved(name, fact)
        return self._unless_kept(replace(job, members=members))

    def _deadline(self, name: TableName, at: datetime | None) -> datetime:
        target = self._facts.lags.targets[name]
        return _FIRST if at is None else _LAST if target is None else at + target

    def _is_for_readers(self, name: TableName, at: datetime | None) -> bool:
        """A DOWNSTREAM table that was never filled and that nobody reads would never be."""
        return at is not None or self._facts.lags.targets[name] is not None

    def _run_errand(self, errand: Errand) -> Job:
        job = Job(
            kind=errand.kind,
            what=errand.what,
            asked=(errand.member,),
            members=(errand.member,),
            reason=errand.reason,
            due_at=errand.due_at,
            deadline=(errand.since or errand.due_at or self._now) + errand.patience,
        )
        if errand.due:
            job = self._unless_kept(job)
            return replace(job, waits=_BY_HAND) if errand.by_hand and job.waits is None else job
        if errand.due_at is not None and self._now < errand.due_at:
            self.moments.append(errand.due_at)
        return replace(job, waits=errand.reason)

    def _unless_kept(self, job: Job) -> Job:
        """The job, with what keeps it waiting: a failure of its own or of a table it brings along, or a claim."""
        for member in job.members:
            setback = self._facts.setbacks.get((member.uuid, job.action))
            if setback is not None and setback.suspended is not None:
                return replace(job, waits=setback.suspended, due_at=None)
            if setback is not None and self._now < setback.retry_at:
                self.moments.append(setback.retry_at)
                return replace(job, waits=_backing_off(job, member, setback), due_at=setback.retry_at)
        for member in job.members:
            held = self._facts.held.get(member.uuid)
            if held is not None and self._now < held.expires_at:
                self.moments.append(held.expires_at)
                return replace(job, waits=_held(member, held))
        return job

    def _with_parents(self, name: TableName, fact: DynamicFact) -> tuple[Member, ...]:
        """The table, and those above it without which it would still be due, or would not be of one moment."""
        graph, known = self._facts.lags.graph, self._facts.dynamic
        above = upstream(graph, name)
        if not above:
            return (fact.member,)
        behind = {other for other in above if known[other].rests is None and self._is_behind(name, known[other])}
        behind |= {other for other in above - behind if known[other].rests is None and upstream(graph, other) & behind}
        if behind == above:
            return (fact.member, *(known[other].member for other in sorted(above)))
        if len(above) == 1:
            return (fact.member,)
        plan = plan_round(
            {other: graph[other] for other in (name, *above)},
            chosen={name, *behind},
            named={name, *behind},
            pins=self._facts.pins,
            at=self._now,
            standing={other: known[other].standing for other in (name, *above)},
        )
        others = sorted({*plan.visits, *plan.impossible, *behind} - {name})
        return (fact.member, *(known[other].member for other in others))

    def _held_back(self, name: TableName, at: datetime | None) -> Reason | None:
        """Why a refresh would change nothing: a table above is at rest, and this one is as fresh as that lets it be."""
        for other in sorted(upstream(self._facts.lags.graph, name)):
            fact = self._facts.dynamic[other]
            if fact.rests is None or fact.moved is False or fact.standing.at is None or at is None:
                continue
            if at >= fact.standing.at:
                detail = f"it can be no fresher than {other}, which is left alone: {fact.rests.detail}"
                return Reason(code="upstream_rests", detail=detail)
        return None

    def _with_unmoved(self, name: TableName, fact: DynamicFact) -> tuple[Member, ...]:
        """The table, and those above it that nothing changed in: DOWNSTREAM tables move on with their readers."""
        above = [self._facts.dynamic[other] for other in sorted(upstream(self._facts.lags.graph, name))]
        free = [
            other for other in above if other.moved is False and other.rests is None and self._is_free(other.member)
        ]
        return (fact.member, *(other.member for other in free))

    def _is_free(self, member: Member) -> bool:
        held = self._facts.held.get(member.uuid)
        return (held is None or held.expires_at <= self._now) and (member.uuid, REFRESH) not in self._facts.setbacks

    def _is_behind(self, name: TableName, parent: DynamicFact) -> bool:
        at = parent.standing.at
        if at is None:
            return True
        due_at = self._facts.lags.due_at(name, at)
        return parent.moved is not False and due_at is not None and due_at <= self._now

    def _why(self, name: TableName, fact: DynamicFact) -> Reason:
        at, target = fact.standing.at, self._facts.lags.targets[name]
        if at is None:
            return Reason(code="never_filled", detail="it was never refreshed")
        if fact.moved is None:
            return Reason(code="source_unreadable", detail="a source cannot be read")
        if not fact.moved:
            return Reason(code="no_changes", detail="no source has changed: only its data timestamp moves on")
        behind, within = format_duration(_seconds(self._now - at)), "" if target is None else format_duration(target)
        if target is not None and self._now - at > target:
            return Reason(code="late", detail=f"{behind} behind, for a target of {within}")
        cost = format_duration(_seconds(self._facts.lags.costs[name]))
        return Reason(code="changes", detail=f"{behind} behind, for a target of {within}; a refresh is given {cost}")

    def _downstream(self, name: TableName) -> Reason:
        readers = self._readers.get(name, [])
        if self._facts.lags.targets[name] is None:
            return Reason(code="downstream", detail="DOWNSTREAM, and no table with a lag reads it")
        return Reason(code="downstream", detail=f"when {', '.join(map(str, sorted(readers)))} needs it")


def _together(jobs: Sequence[Job]) -> Job:
    """Tables in which nothing changed: one look settles them all."""
    asked = tuple(job.asked[0] for job in jobs)
    members = dict.fromkeys(member for job in jobs for member in job.members)
    first = min(jobs, key=lambda job: job.deadline)
    return replace(first, asked=asked, members=tuple(members), parts=tuple(jobs))


def _after(first: Job) -> Reason:
    return Reason(code="after", detail=f"after {first.action} of {first.table}, which needs the same table")


def _backing_off(job: Job, member: Member, setback: Setback) -> Reason:
    if not setback.failures:
        return Reason(code="resting", detail=f"left alone until {setback.retry_at:%H:%M:%S} UTC")
    who = "it" if member == job.asked[0] else f"{member.table}, which it needs,"
    times = "once" if setback.failures == 1 else f"{setback.failures} times in a row"
    return Reason(code="backing_off", detail=f"{who} failed {times}; tried again at {setback.retry_at:%H:%M:%S} UTC")


def _held(member: Member, held: Held) -> Reason:
    detail = f"{held.owner} does {held.job} on {member.table}, and has until {held.expires_at:%H:%M:%S} UTC"
    return Reason(code="claimed", detail=detail)


def _seconds(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))
