"""Expiry beside a second statement of Iceberg's rules, on random histories; and the claims that come on top of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput, Refused
from neve.model.facts import Reference, Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier, Pin
from neve.model.results import Reason
from neve.model.runs import Run
from neve.plan.expiry import (
    MAX_REFERENCE_AGE,
    MIN_SNAPSHOTS,
    Claim,
    ExpiryPolicy,
    frontier_claims,
    own_frontier_claims,
    plan_expiry,
    refuse_without_gc,
    resolve_policy,
    run_claims,
)
from neve.plan.freshness import MAX_SNAPSHOT_AGE

NOW = datetime(2026, 11, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEFAULT = ExpiryPolicy(max_age=168 * HOUR, min_snapshots=1, reader_grace=HOUR)


def hours_ago(number: float) -> datetime:
    return NOW - number * HOUR


def snapshot(number: int, parent: int | None, age: float, **more: object) -> Snapshot:
    return Snapshot(
        id=number,
        parent_id=parent,
        sequence_number=number,
        at=hours_ago(age),
        operation=str(more.get("operation", "append")),
        summary=more.get("summary", {}),  # type: ignore[arg-type]
        manifest_list=f"{number}.avro",
    )


def table(
    snapshots: list[Snapshot],
    references: list[Reference] | None = None,
    *,
    current: int | None = None,
    properties: dict[str, str] | None = None,
    made_current: list[tuple[datetime, int]] | None = None,
) -> TableFacts:
    main = [Reference(name="main", kind="branch", snapshot_id=current)] if current is not None else []
    return TableFacts(
        name=TableName.parse("s.t"),
        uuid="u",
        location="/w/t",
        metadata_location="/w/t/metadata/1.json",
        format_version=3,
        updated_at=NOW,
        columns=(),
        partition_by=(),
        sort_by=(),
        properties=properties or {},
        snapshots=tuple(snapshots),
        current_snapshot_id=current,
        made_current=tuple(made_current or ()),
        references=(*main, *(references or ())),
    )


def line(count: int, *, age: float = 24) -> list[Snapshot]:
    """One after the other, `age` hours apart, the newest `age` hours old."""
    return [snapshot(n, n - 1 or None, age * (count + 1 - n)) for n in range(1, count + 1)]


def gone(facts: TableFacts, policy: ExpiryPolicy = DEFAULT, claims: tuple[Claim, ...] = ()) -> set[int]:
    return {item.id for item in plan_expiry(facts, policy, claims, now=NOW).gone}


# ------------------------------------------------------------------------------------------------ Iceberg's rules again


def survivors(facts: TableFacts, policy: ExpiryPolicy) -> tuple[set[int], set[str]]:
    """Which snapshots and references Iceberg keeps: stated by asking of each, not by walking."""
    found = {item.id: item for item in facts.snapshots}

    def age(number: int) -> timedelta:
        return NOW - found[number].at

    def chain(head: int) -> list[int]:
        return [head, *(chain(parent) if (parent := found[head].parent_id) in found else [])]

    def lives(item: Reference) -> bool:
        limits = [limit for limit in (item.max_age, policy.max_reference_age) if limit is not None]
        return item.name == "main" or (item.snapshot_id in found and (not limits or age(item.snapshot_id) <= limits[0]))

    living = [item for item in facts.references if lives(item)]
    kept = {item.snapshot_id for item in living}
    for item in living:
        if item.kind == "branch":
            least = policy.min_snapshots if item.min_snapshots is None else item.min_snapshots
            limit = policy.max_age if item.max_snapshot_age is None else item.max_snapshot_age
            ancestors = chain(item.snapshot_id)
            old = [place for place, number in enumerate(ancestors) if place >= least and age(number) > limit]
            kept |= set(ancestors[: min(old, default=len(ancestors))])
    named = {item.snapshot_id for item in living}
    named |= {number for item in living if item.kind == "branch" for number in chain(item.snapshot_id)}
    kept |= {number for number in found if number not in named and age(number) <= policy.max_age}
    return kept, {item.name for item in living}


ages = st.none() | st.integers(0, 30).map(lambda hours: hours * HOUR)


@st.composite
def histories(draw: st.DrawFn) -> TableFacts:
    """Trees of snapshots whose clocks may run backwards, with branches and tags on any of them."""
    count = draw(st.integers(1, 10))
    made = []
    for number in range(1, count + 1):
        parent = draw(st.none() | st.integers(1, number - 1)) if number > 1 else None
        made.append(snapshot(number, parent, draw(st.integers(0, 30))))
    missing = draw(st.sets(st.integers(1, count - 1), max_size=3)) if count > 1 else set()
    present = [item for item in made if item.id not in missing]
    numbers = st.sampled_from([item.id for item in present])
    references = [
        Reference(
            name=f"r{n}",
            kind=draw(st.sampled_from(["branch", "tag"])),
            snapshot_id=draw(numbers),
            max_age=draw(ages),
            max_snapshot_age=draw(ages),
            min_snapshots=draw(st.none() | st.integers(1, 4)),
        )
        for n in range(draw(st.integers(0, 3)))
    ]
    return table(present, references, current=draw(numbers))


@given(histories(), st.integers(0, 30), st.integers(1, 4), ages)
def test_decides_as_iceberg_does(facts: TableFacts, hours: int, least: int, reference_age: timedelta | None) -> None:
    policy = ExpiryPolicy(
        max_age=hours * HOUR, min_snapshots=least, reader_grace=timedelta(0), max_reference_age=reference_age
    )
    plan = plan_expiry(facts, policy, (), now=NOW)
    kept, references = survivors(facts, policy)
    assert {item.snapshot.id for item in plan.kept} == kept
    assert {item.id for item in plan.gone} == {item.id for item in facts.snapshots} - kept
    assert {item.name for item in plan.references_gone} == {item.name for item in facts.references} - references
    assert all(item.reasons for item in plan.kept)


@given(histories(), st.sets(st.integers(1, 12)))
def test_a_claim_keeps_its_snapshot_and_no_other(facts: TableFacts, wanted: set[int]) -> None:
    policy = ExpiryPolicy(max_age=timedelta(0), min_snapshots=1, reader_grace=timedelta(0))
    reason = Reason(code="x", detail="somebody")
    plan = plan_expiry(facts, policy, [Claim(number, reason) for number in wanted], now=NOW)
    known = {item.id for item in facts.snapshots}
    assert {item.id for item in plan.gone} == gone(facts, policy) - wanted
    assert all(reason in item.reasons for item in plan.kept if item.snapshot.id in wanted & known)


# ------------------------------------------------------------------------------------------------------- who needs what


def test_dynamic_tables_keep_what_they_go_on_from_even_without_their_tag() -> None:
    facts = table(line(20), current=20)
    assert 3 in gone(facts)
    pins = {"s.t": Pin(uuid="u", snapshot=3)}
    frontier = Frontier(fingerprint="f", at=NOW, sources=pins)
    claims = tuple(frontier_claims(facts, {TableName.parse("s.d"): frontier}))
    plan = plan_expiry(facts, DEFAULT, claims, now=NOW)
    assert next(item.reasons for item in plan.kept if item.snapshot.id == 3) == (
        Reason(code="dynamic_table", detail="the next refresh of s.d goes on from here"),
    )
    other = frontier.model_copy(update={"sources": {"s.t": Pin(uuid="another", snapshot=3)}})
    assert not list(frontier_claims(facts, {TableName.parse("s.d"): other})), "a table that had the name before"


def test_the_way_to_a_dynamic_tables_own_frontier_is_kept() -> None:
    told = {"frontier": "{}"}
    snapshots = [
        snapshot(1, None, 900, summary=told),
        snapshot(2, 1, 800, summary=told),
        snapshot(3, 2, 700, operation="replace"),
        snapshot(4, 3, 600, operation="replace"),
    ]
    facts = table(snapshots, current=4)
    assert gone(facts) == {1, 2, 3}
    assert gone(facts, claims=tuple(own_frontier_claims(facts, "frontier"))) == {1}
    foreign = table([*snapshots, snapshot(5, 4, 500)], current=5)
    assert not list(own_frontier_claims(foreign, "frontier")), "somebody else wrote: there is no frontier any more"


def run_since(age: float, **more: object) -> Run:
    return Run(run_id="0" * 26, kind="export", started_at=hours_ago(age), host="h", pid=1, **more)  # type: ignore[arg-type]


def test_work_keeps_what_was_current_since_it_began() -> None:
    snapshots = line(6, age=200)
    log = [(item.at, item.id) for item in snapshots]
    facts = table(snapshots, current=6, made_current=log)
    assert gone(facts) == {1, 2, 3, 4, 5}
    claims = tuple(run_claims(facts, [run_since(700, table_name="s.t")]))
    assert gone(facts, claims=claims) == {1, 2}, "3 was made 800 hours ago, and was current until 600 hours ago"
    early = tuple(run_claims(facts, [run_since(0, table_name="s.t", snapshot_before=1)]))
    assert gone(facts, claims=early) == {2, 3, 4, 5}


def test_queries_are_given_time_after_a_snapshot_was_current() -> None:
    """A table that is written once a month: the last snapshot is old the moment that a new one comes."""
    snapshots = [snapshot(1, None, 720), snapshot(2, 1, 0.5)]
    log = [(item.at, item.id) for item in snapshots]
    facts = table(snapshots, current=2, made_current=log)
    plan = plan_expiry(facts, DEFAULT, (), now=NOW)
    assert [(item.snapshot.id, item.reasons[0].code) for item in plan.kept] == [(1, "readers"), (2, "current")]
    assert not gone(facts)
    assert {item.id for item in plan_expiry(facts, DEFAULT, (), now=NOW + HOUR).gone} == {1}


# --------------------------------------------------------------------------------------------------------------- policy


def test_an_option_wins_over_the_table_and_the_table_over_the_settings() -> None:
    plain = table([])
    own = table([], properties={MAX_SNAPSHOT_AGE: str(3_600_000), MIN_SNAPSHOTS: "4", MAX_REFERENCE_AGE: "60000"})
    assert resolve_policy(plain, default=DEFAULT) == DEFAULT
    found = resolve_policy(own, default=DEFAULT)
    assert (found.max_age, found.min_snapshots, found.max_reference_age) == (HOUR, 4, timedelta(minutes=1))
    asked = resolve_policy(own, default=DEFAULT, older_than=timedelta(0), keep_last=2)
    assert (asked.max_age, asked.min_snapshots, asked.reader_grace) == (timedelta(0), 2, timedelta(0))
    assert asked.keeps_less_than(found)
    assert not found.keeps_less_than(found)
    assert resolve_policy(table([], properties={MAX_SNAPSHOT_AGE: "0"}), default=DEFAULT).max_age == timedelta(0)
    ever = str(2**63 - 1)
    assert resolve_policy(table([], properties={MAX_SNAPSHOT_AGE: ever}), default=DEFAULT).max_age > 1000 * HOUR


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="keeps one snapshot"):
        resolve_policy(table([]), default=DEFAULT, keep_last=0)
    with pytest.raises(InvalidInput, match="negative"):
        resolve_policy(table([]), default=DEFAULT, older_than=-HOUR)
    with pytest.raises(InvalidInput, match="is no number: '7d'"):
        resolve_policy(table([], properties={MAX_SNAPSHOT_AGE: "7d"}), default=DEFAULT)
    with pytest.raises(Refused, match="its property gc"):
        refuse_without_gc(table([], properties={"gc.enabled": "False"}), verb="expire snapshots of")
    refuse_without_gc(table([], properties={"gc.enabled": "true"}), verb="expire snapshots of")
