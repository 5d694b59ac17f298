"""Claims: all tables of a job or none, one holder at a time, taken over after their time. Setbacks, workers, alerts."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from tests.contract.records import MINUTE, NOW, make_table, read_by_hand
from tests.contract.rivals import count, started

from neve.model.work import Claim, SetbackRecord, WorkerRecord
from neve.store import Store
from neve.store.claims import Claimed

TABLES = "abcde"


def take(store: Store, names: str, owner: str = "w1", *, now: datetime = NOW) -> Claimed | None:
    tables = {name: f"table {name}" for name in names}
    return store.claims.claim(tables, action="refresh", owner=owner, ttl=MINUTE, now=now)


@pytest.mark.slow
def test_a_job_claims_all_its_tables_or_none(store: Store) -> None:
    first = take(store, "ab")
    assert first is not None
    assert first.lapsed == ()
    assert {(claim.table_uuid, claim.table_name, claim.owner, claim.expires_at) for claim in first.claims} == {
        ("a", "table a", "w1", NOW + MINUTE),
        ("b", "table b", "w1", NOW + MINUTE),
    }
    assert take(store, "bc", "w2") is None
    assert take(store, "ab", "w1") is None, "nor twice by one worker"
    assert take(store, "c", "w2") is not None, "what was claimed in vain is free"
    assert {key: claim.owner for key, claim in store.claims.held().items()} == {"a": "w1", "b": "w1", "c": "w2"}


def test_a_claim_is_taken_over_after_its_time_and_its_old_holder_can_do_nothing(store: Store) -> None:
    old = take(store, "ab")
    assert old is not None
    assert take(store, "b", "w2", now=NOW + MINUTE - timedelta(microseconds=1)) is None
    new = take(store, "b", "w2", now=NOW + MINUTE)
    assert new is not None
    assert [(claim.table_uuid, claim.owner) for claim in new.lapsed] == [("b", "w1")]
    lost = store.claims.renew(old.claims, MINUTE, NOW + MINUTE)
    assert [claim.table_uuid for claim in lost] == ["b"]
    assert {claim.table_uuid: store.claims.release(claim) for claim in old.claims} == {"a": True, "b": False}
    assert {key: claim.owner for key, claim in store.claims.held().items()} == {"b": "w2"}
    with pytest.raises(ValueError, match="never"):
        store.claims.claim({"a": "a"}, action="x", owner="w", ttl=timedelta(0), now=NOW)


@dataclass
class Model:
    """Who holds what, in the plainest words."""

    held: dict[str, tuple[str, datetime, int]]
    fences: Counter[str]

    def claim(self, names: str, owner: str, now: datetime) -> bool:
        if any(name in self.held and self.held[name][1] > now for name in names):
            return False
        for name in names:
            self.fences[name] += 1
            self.held[name] = (owner, now + MINUTE, self.fences[name])
        return True

    def is_mine(self, claim: Claim) -> bool:
        known = self.held.get(claim.table_uuid)
        return known is not None and (known[0], known[2]) == (claim.owner, claim.fence)


def test_any_order_of_claims_renewals_and_releases_is_as_the_model_says(store: Store) -> None:
    draw, model, now = random.Random(7), Model({}, Counter()), NOW
    known: list[Claim] = []
    for _ in range(250):
        now += timedelta(seconds=draw.choice([0, 1, 20, 45]))
        match draw.choice(["claim", "claim", "renew", "release"]):
            case "claim":
                names, owner = "".join(draw.sample(TABLES, draw.choice([1, 2, 3]))), draw.choice(["w1", "w2"])
                got = take(store, names, owner, now=now)
                assert (got is not None) == model.claim(names, owner, now)
                known += got.claims if got is not None else ()
            case "renew" if known:
                some = draw.sample(known, min(len(known), 3))
                lost = store.claims.renew(some, MINUTE, now)
                assert [claim in lost for claim in some] == [not model.is_mine(claim) for claim in some]
                for claim in some:
                    if model.is_mine(claim):
                        model.held[claim.table_uuid] = (claim.owner, now + MINUTE, claim.fence)
            case "release" if known:
                claim = draw.choice(known)
                assert store.claims.release(claim) == model.is_mine(claim)
                if model.is_mine(claim):
                    del model.held[claim.table_uuid]
        found = {key: (claim.owner, claim.expires_at, claim.fence) for key, claim in store.claims.held().items()}
        assert found == model.held


@pytest.mark.faults
def test_several_processes_never_hold_one_table_at_once(store: Store, uri: str) -> None:
    for name in "abcdef":
        store.registry.put(make_table(name, config={"n": 0}))
    with started(*[("claim_and_count", uri, f"rival-{number}", "60") for number in range(3)]) as rivals:
        counted = [Counter[str](json.loads(rival.hear_all()[-1])) for rival in rivals]
    wanted = sum(counted, Counter[str]())
    assert wanted.total() >= 180
    for name in "abcdef":
        table = store.registry.get(name)
        assert table is not None
        assert count(table) == wanted[name], "a count was lost: two held it at once"


def test_setbacks_are_kept_by_job_and_go_with_success(store: Store) -> None:
    def setback(action: str, failures: int) -> SetbackRecord:
        return SetbackRecord(
            table_uuid="a",
            action=action,
            table_name="sales",
            failures=failures,
            failed_at=("2026-11-16T01:28:49Z",) * failures,
            retry_at=NOW + MINUTE,
            error_code="job_failed",
            error_message="no\0 good",
            suspended_at=NOW if failures == 5 else None,
        )

    store.setbacks.put(setback("refresh", 1))
    store.setbacks.put(setback("refresh", 2))
    store.setbacks.put(setback("compact 2024-01", 5))
    found = store.setbacks.get("a", "refresh")
    assert found is not None
    assert (found.failures, len(found.failed_at), found.suspended_at) == (2, 2, None)
    assert set(store.setbacks.list()) == {("a", "refresh"), ("a", "compact 2024-01")}
    assert store.setbacks.clear("a", "refresh") == 1
    assert store.setbacks.get("a", "refresh") is None
    assert store.setbacks.clear("a") == 1
    assert store.setbacks.list() == {}


def test_workers_and_alerts(store: Store, uri: str) -> None:
    worker = WorkerRecord(name="w1", host="h", pid=1, slots=2, started_at=NOW, seen_at=NOW)
    store.workers.put(worker)
    store.workers.put(worker.model_copy(update={"seen_at": NOW + MINUTE}))
    assert [each.seen_at for each in store.workers.list()] == [NOW + MINUTE]
    assert store.workers.forget(NOW + MINUTE) == 0
    assert store.workers.forget(NOW + 2 * MINUTE) == 1
    assert [store.alerts.note(event, NOW) for event in ("late a", "late a", "late b")] == [True, False, True]
    assert store.alerts.note("late a", NOW + timedelta(days=91)) is True, "so old an event is another one"
    assert len(read_by_hand(uri, "SELECT event FROM alerts")) == 1
