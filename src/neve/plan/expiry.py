"""Which snapshots of a table go, and for whom the others are kept. Pure.

Iceberg's own rules, so that whoever else expires decides the same: a branch keeps its newest snapshots by number and
age, a reference keeps its snapshot until it is too old itself, and what no reference leads to is kept by age. On top of
these come claims: what dynamic tables, running work and readers still need, whether a reference says so or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeVar

from neve.errors import InvalidInput, Refused
from neve.model.changes import REPLACE
from neve.model.commands import neve
from neve.model.facts import Reference, Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier
from neve.model.results import Reason
from neve.model.runs import Reader, Run
from neve.model.units import format_duration
from neve.plan.freshness import MAX_SNAPSHOT_AGE

MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REFERENCE_AGE = "history.expire.max-ref-age-ms"
GC_ENABLED = "gc.enabled"
MAIN = "main"
_UNDO = "undo_"
_COMMITTING = timedelta(minutes=5)
"""A snapshot says when it was made, and is current some time later: by this much at most, other clocks included."""

_LONGEST = timedelta(days=365_000)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPolicy:
    """How long snapshots are kept. `reader_grace` is how long one is kept after it was the current one."""

    max_age: timedelta
    min_snapshots: int
    reader_grace: timedelta
    max_reference_age: timedelta | None = None

    def keeps_less_than(self, other: ExpiryPolicy) -> bool:
        return self.max_age < other.max_age or self.min_snapshots < other.min_snapshots


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody needs a snapshot."""

    snapshot: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that stays, and for whom."""

    snapshot: Snapshot
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What goes, in the order it came, and what stays. `base` is the metadata that this was decided on."""

    table: TableName
    base: str
    gone: tuple[Snapshot, ...]
    kept: tuple[Kept, ...]
    references_gone: tuple[Reference, ...]

    @property
    def nothing(self) -> bool:
        return not self.gone and not self.references_gone


def resolve_policy(
    facts: TableFacts,
    *,
    default: ExpiryPolicy,
    older_than: timedelta | None = None,
    keep_last: int | None = None,
) -> ExpiryPolicy:
    """What was asked for, else what the table's properties say, else the default."""
    max_age = _first(older_than, _duration_property(facts, MAX_SNAPSHOT_AGE), default.max_age)
    least = _first(keep_last, _number_property(facts, MIN_SNAPSHOTS), default.min_snapshots)
    if least < 1:
        raise InvalidInput("a table keeps one snapshot at least: the current one", hint="--keep-last 1 or more")
    if max_age < timedelta(0):
        raise InvalidInput("an age cannot be negative", hint="--older-than 5d, or --retention-hours 120")
    grace = default.reader_grace if older_than is None else min(default.reader_grace, older_than)
    return ExpiryPolicy(
        max_age=max_age,
        min_snapshots=least,
        reader_grace=grace,
        max_reference_age=_duration_property(facts, MAX_REFERENCE_AGE),
    )


def owns_files(facts: TableFacts) -> bool:
    """Whether the table's files are its own, as far as it says."""
    return facts.properties.get(GC_ENABLED, "true").lower() != "false"


def refuse_without_gc(facts: TableFacts, *, verb: str) -> None:
    """A table that says so shares its files with others, or was made over files that are not its own."""
    if not owns_files(facts):
        raise Refused(
            f"cannot {verb} {facts.name}: its property {GC_ENABLED} is false, so its files may not be its own",
            hint=f"if they are: {neve('table', 'set', facts.name.short, f'{GC_ENABLED}=true')}",
        )


def plan_expiry(
    facts: TableFacts,
    policy: ExpiryPolicy,
    claims: Iterable[Claim],
    *,
    now: datetime,
    purposes: Mapping[str, str] | None = None,
) -> ExpiryPlan:
    """What goes and what stays. `purposes` say in words what the tags of dynamic tables are for."""
    by_id = {snapshot.id: snapshot for snapshot in facts.snapshots}
    references = [item for item in facts.references if _lives(item, by_id, policy, now)]
    reasons: dict[int, list[Reason]] = defaultdict(list)
    told = purposes or {}
    held = (Claim(item.snapshot_id, _reason_of(item, told)) for item in references)
    branches = (claim for item in references if item.kind == "branch" for claim in _branch(item, by_id, policy, now))
    for claim in (*held, *claims, *branches, *_unreferenced(facts, references, policy, now)):
        if claim.snapshot in by_id and claim.reason not in reasons[claim.snapshot]:
            reasons[claim.snapshot].append(claim.reason)
    for claim in _recently_current(facts, policy, now):
        if not reasons[claim.snapshot]:
            reasons[claim.snapshot].append(claim.reason)
    ordered = sorted(facts.snapshots, key=lambda item: (item.sequence_number, item.at, item.id))
    return ExpiryPlan(
        table=facts.name,
        base=facts.metadata_location,
        gone=tuple(item for item in ordered if not reasons[item.id]),
        kept=tuple(Kept(item, tuple(reasons[item.id])) for item in ordered if reasons[item.id]),
        references_gone=tuple(item for item in facts.references if item not in references),
    )


def frontier_claims(source: TableFacts, consumed: Mapping[TableName, Frontier]) -> Iterator[Claim]:
    """What dynamic tables go on from, whether their tag is there or not."""
    for name, frontier in consumed.items():
        pin = frontier.sources.get(str(source.name))
        if pin is not None and pin.uuid == source.uuid and pin.snapshot is not None:
            yield Claim(pin.snapshot, _reason("dynamic_table", f"the next refresh of {name} goes on from here"))


def own_frontier_claims(facts: TableFacts, key: str) -> Iterator[Claim]:
    """The snapshot of a dynamic table that says in its summary, under `key`, how far it has come, and the way there.

    Rewrites of files come between; anybody else's rows end the search, as they do for a refresh.
    """
    way: list[int] = []
    for snapshot in facts.ancestors():
        way.append(snapshot.id)
        if key in snapshot.summary:
            reason = _reason("frontier", "it says how far this dynamic table has come")
            yield from (Claim(step, reason) for step in way)
        if key in snapshot.summary or snapshot.operation != REPLACE:
            return


def run_claims(facts: TableFacts, runs: Iterable[Run]) -> Iterator[Claim]:
    """What work that has not ended may read: each snapshot that was current at some time since it began."""
    spans = list(_current_spans(facts))
    for run in runs:
        what = f"{run.kind} of {run.table_name}" if run.table_name else run.kind
        reason = _reason("run", f"run {run.run_id} ({what}) has not ended")
        for snapshot, until in spans:
            if until is None or until >= run.started_at:
                yield Claim(snapshot, reason)
        if run.snapshot_before is not None and run.table_name == facts.name.short:
            yield Claim(run.snapshot_before, reason)


def reader_claims(facts: TableFacts, readers: Iterable[Reader]) -> Iterator[Claim]:
    """What is being read: the snapshots that a reader names, or, where it names none, each that was current since."""
    spans = list(_current_spans(facts))
    for reader in readers:
        began = reader.started_at - _COMMITTING
        since = (snapshot for snapshot, until in spans if until is None or until >= began)
        reason = _reason("reader", f"process {reader.pid} on {reader.host} reads {reader.purpose}")
        yield from (Claim(snapshot, reason) for snapshot in reader.snapshots or since)


def _lives(reference: Reference, by_id: Mapping[int, Snapshot], policy: ExpiryPolicy, now: datetime) -> bool:
    """Whether a reference stays: the main branch always, others until their snapshot is older than they are kept."""
    if reference.name == MAIN:
        return True
    snapshot = by_id.get(reference.snapshot_id)
    limit = reference.max_age if reference.max_age is not None else policy.max_reference_age
    return snapshot is not None and (limit is None or now - snapshot.at <= limit)


def _branch(
    reference: Reference, by_id: Mapping[int, Snapshot], policy: ExpiryPolicy, now: datetime
) -> Iterator[Claim]:
    """The newest snapshots of a branch: so many, and all that are young enough, up to the first that is neither."""
    limit = policy.max_age if reference.max_snapshot_age is None else reference.max_snapshot_age
    least = policy.min_snapshots if reference.min_snapshots is None else reference.min_snapshots
    step, count = by_id.get(reference.snapshot_id), 0
    while step is not None and (count < least or now - step.at <= limit):
        if now - step.at <= limit:
            yield Claim(step.id, _young(limit))
        elif count:
            yield Claim(step.id, _reason("last", f"one of the last {least} of {reference.name}"))
        count += 1
        step = None if step.parent_id is None else by_id.get(step.parent_id)


def _unreferenced(
    facts: TableFacts, references: Iterable[Reference], policy: ExpiryPolicy, now: datetime
) -> Iterator[Claim]:
    """Snapshots that no branch leads to, such as those that were rolled back, are kept by age alone."""
    on_the_way = _referenced(facts, references)
    for snapshot in facts.snapshots:
        if snapshot.id not in on_the_way and now - snapshot.at <= policy.max_age:
            yield Claim(snapshot.id, _young(policy.max_age))


def _referenced(facts: TableFacts, references: Iterable[Reference]) -> set[int]:
    parents = {snapshot.id: snapshot.parent_id for snapshot in facts.snapshots}
    found: set[int] = set()
    for reference in references:
        step: int | None = reference.snapshot_id
        while step is not None and step not in found and step in parents:
            found.add(step)
            step = parents[step] if reference.kind == "branch" else None
    return found


def _recently_current(facts: TableFacts, policy: ExpiryPolicy, now: datetime) -> Iterator[Claim]:
    grace = format_duration(policy.reader_grace)
    reason = _reason("readers", f"it was current less than {grace} ago, and queries may still read it")
    known = {snapshot.id for snapshot in facts.snapshots}
    for snapshot, until in _current_spans(facts):
        if until is not None and now - until < policy.reader_grace and snapshot in known:
            yield Claim(snapshot, reason)


def _current_spans(facts: TableFacts) -> Iterator[tuple[int, datetime | None]]:
    """Which snapshots were current, and until when; None for the one that still is."""
    for (_, snapshot), (until, _) in pairwise(facts.made_current):
        yield snapshot, until
    if facts.made_current:
        yield facts.made_current[-1][1], None


def _reason_of(reference: Reference, purposes: Mapping[str, str]) -> Reason:
    if reference.name == MAIN:
        return _reason("current", "what readers see now")
    if reference.name in purposes:
        return _reason("dynamic_table", purposes[reference.name])
    if reference.kind == "tag" and reference.name.startswith(_UNDO):
        return _reason("undo", f"tag {reference.name}: the change after it can be taken back")
    return _reason(reference.kind, f"{reference.kind} {reference.name}")


def _young(limit: timedelta) -> Reason:
    return _reason("young", f"not older than {format_duration(limit)}")


def _reason(code: str, detail: str) -> Reason:
    return Reason(code=code, detail=detail)


def _first(asked: T | None, own: T | None, default: T) -> T:
    if asked is not None:
        return asked
    return default if own is None else own


def _duration_property(facts: TableFacts, key: str) -> timedelta | None:
    number = _number_property(facts, key)
    return None if number is None else min(timedelta(milliseconds=min(number, 10**15)), _LONGEST)


def _number_property(facts: TableFacts, key: str) -> int | None:
    """A property that is a number; nonsense is refused, as what it should keep is unknown."""
    text = facts.properties.get(key)
    if text is None:
        return None
    if not text.isdecimal():
        raise InvalidInput(
            f"the property {key} of {facts.name} is no number: {text!r}",
            hint=f"mend it: {neve('table', 'set', facts.name.short, f'{key}=NUMBER')}",
        )
    return int(text)
