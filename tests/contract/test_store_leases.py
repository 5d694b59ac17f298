"""Leases: one holder at a time, and a fence that only grows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.records import MINUTE, NOW, make_table
from tests.contract.rivals import count, started

from neve.errors import LeaseHeld
from neve.store import Store

MOMENT = timedelta(microseconds=1)


def test_a_held_lease_is_refused_with_holder_and_time(store: Store) -> None:
    lease = store.leases.acquire("sales", owner="worker-1@host", ttl=MINUTE, now=NOW)
    assert (lease.name, lease.owner, lease.acquired_at, lease.expires_at) == (
        "sales",
        "worker-1@host",
        NOW,
        NOW + MINUTE,
    )
    for owner in ("worker-2@host", "worker-1@host"):
        with pytest.raises(LeaseHeld) as caught:
            store.leases.acquire("sales", owner=owner, ttl=MINUTE, now=NOW + MINUTE - MOMENT)
        assert "worker-1@host until 2026-11-16T01:29:49.123456Z" in str(caught.value)
    assert store.leases.acquire("orders", owner="worker-2@host", ttl=MINUTE, now=NOW).owner == "worker-2@host"


def test_a_refusal_leaves_the_callers_transaction_whole(store: Store) -> None:
    store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW)
    with store.transaction():
        store.registry.put(make_table())
        with pytest.raises(LeaseHeld):
            store.leases.acquire("sales", owner="b", ttl=MINUTE, now=NOW)
    assert store.registry.get("sales") is not None


def test_an_expired_lease_is_taken_over_and_the_old_holder_is_told(store: Store) -> None:
    old = store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW)
    new = store.leases.acquire("sales", owner="b", ttl=MINUTE, now=NOW + MINUTE)
    assert new.fence > old.fence
    with pytest.raises(LeaseHeld, match="by b until"):
        store.leases.renew(old, MINUTE, NOW + MINUTE)
    assert store.leases.release(old) is False
    with pytest.raises(LeaseHeld, match="by b until"):
        store.leases.acquire("sales", owner="c", ttl=MINUTE, now=NOW + MINUTE)


def test_a_lease_whose_holder_has_ended_is_taken_over_once(store: Store) -> None:
    """Two see at the same time that it is dead: the second would take over from the first, who is alive."""
    store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW, process="boot 1 2")
    dead = store.leases.held("sales")
    assert dead is not None
    assert (dead.owner, dead.process) == ("a", "boot 1 2")
    new = store.leases.acquire("sales", owner="b", ttl=MINUTE, now=NOW, ended=dead)
    assert (new.fence, new.process) == (dead.fence + 1, None)
    with pytest.raises(LeaseHeld, match="by b until"):
        store.leases.acquire("sales", owner="c", ttl=MINUTE, now=NOW, ended=dead)
    with pytest.raises(LeaseHeld, match="by b until"):
        store.leases.renew(dead, MINUTE, NOW)
    store.leases.release(new)
    assert store.leases.held("sales") is None


def test_the_same_owner_who_lost_a_lease_does_not_keep_it(store: Store) -> None:
    old = store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW)
    new = store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW + MINUTE)
    with pytest.raises(LeaseHeld):
        store.leases.renew(old, MINUTE, NOW + MINUTE)
    assert store.leases.release(old) is False
    assert store.leases.release(new) is True


def test_renew_holds_on(store: Store) -> None:
    lease = store.leases.acquire("sales", owner="a", ttl=MINUTE, now=NOW)
    renewed = store.leases.renew(lease, MINUTE, NOW + 2 * MINUTE)  # late, but nobody came
    assert renewed == lease.model_copy(update={"expires_at": NOW + 3 * MINUTE})
    with pytest.raises(LeaseHeld):
        store.leases.acquire("sales", owner="b", ttl=MINUTE, now=NOW + 3 * MINUTE - MOMENT)
    assert store.leases.release(lease) is True


def test_the_fence_grows_through_releases(store: Store) -> None:
    fences = []
    for number in range(4):
        lease = store.leases.acquire("sales", owner=f"w{number}", ttl=MINUTE, now=NOW)
        fences.append(lease.fence)
        assert store.leases.release(lease) is True
        assert store.leases.release(lease) is False
        with pytest.raises(LeaseHeld, match="no longer held"):
            store.leases.renew(lease, MINUTE, NOW)
    assert fences == sorted(set(fences))


def test_a_lease_for_no_time_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="never"):
        store.leases.acquire("sales", owner="a", ttl=timedelta(0), now=NOW)


@pytest.mark.faults
def test_of_several_processes_exactly_one_wins(store: Store, uri: str) -> None:
    rounds, takeovers = 40, 20
    for number in range(takeovers):
        store.leases.acquire(f"lease {number}", owner="dead", ttl=MINUTE, now=NOW - MINUTE)
    with started(*[("acquire", uri, f"rival-{number}", str(rounds)) for number in range(3)]) as rivals:
        heard = [rival.hear_all() for rival in rivals]
    for number, attempts in enumerate(zip(*heard, strict=True)):
        (winner,) = (rival for rival, said in enumerate(attempts) if said.startswith("done "))
        assert f" fence={2 if number < takeovers else 1} " in attempts[winner]
        losers = [said for said in attempts if said.startswith(f"LeaseHeld lease {number} ")]
        assert len(losers) == 2
        assert all(f"by rival-{winner} until" in said for said in losers)


@pytest.mark.faults
def test_work_under_a_lease_is_never_lost(store: Store, uri: str) -> None:
    store.registry.put(make_table("counter", config={"n": 0}))
    with started(*[("read_then_put", uri, "30")] * 2) as rivals:
        for rival in rivals:
            rival.hear_all()
    counter = store.registry.get("counter")
    assert counter is not None
    assert count(counter) == 60
