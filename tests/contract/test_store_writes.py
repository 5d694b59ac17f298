"""`write_counts` and `write_keys`: counted together, and a key belongs to one run until that fails."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from tests.contract.records import MINUTE, NOW, make_run

from neve.model.runs import new_run_id
from neve.model.writes import WriteKey
from neve.store import Store

LONG_AGO = NOW - timedelta(days=9)


def key(run_id: str, name: str = "k", **given: object) -> WriteKey:
    words = {"scope": "acme", "key": name, "fingerprint": "f", "run_id": run_id, "made_at": NOW}
    return WriteKey.model_validate(words | given)


def started(store: Store) -> str:
    run = make_run(run_id=new_run_id(NOW, os.urandom))
    store.runs.start(run)
    return run.run_id


def test_writes_are_counted_by_table_and_by_all(uri: str) -> None:
    with Store.open(uri) as one, Store.open(uri) as other:
        assert [one.write_counts.add("u", 3), other.write_counts.add("u", 1), one.write_counts.add("v", 1)] == [3, 4, 1]
        with ThreadPoolExecutor(4) as pool:
            totals = list(pool.map(lambda turn: (one, other)[turn % 2].write_counts.add("u", 1), range(40)))
        assert sorted(totals) == list(range(5, 45))


def test_a_key_belongs_to_one_run_until_that_has_failed(store: Store) -> None:
    one, other, third = started(store), started(store), started(store)
    assert store.write_keys.get("acme", "k") is None
    assert store.write_keys.claim([key(one), key(one, "l")], kept_since=LONG_AGO) == []
    assert store.write_keys.claim([key(other), key(other, "m")], kept_since=LONG_AGO) == [key(other)]
    assert store.write_keys.get("acme", "k") == key(one)
    assert store.write_keys.get("acme", "m") == key(other, "m")
    assert store.write_keys.claim([key(other, scope="")], kept_since=LONG_AGO) == []
    store.runs.finish(one, state="failed", finished_at=NOW)
    again = key(third, fingerprint="g", made_at=NOW + MINUTE)
    assert store.write_keys.claim([again], kept_since=LONG_AGO) == []
    assert store.write_keys.get("acme", "k") == again
    store.runs.finish(third, state="succeeded", finished_at=NOW)
    assert store.write_keys.claim([key(other)], kept_since=LONG_AGO) == [key(other)]


def test_old_keys_are_forgotten(store: Store) -> None:
    one = started(store)
    assert store.write_keys.claim([key(one), key(one, "late", made_at=NOW + MINUTE)], kept_since=LONG_AGO) == []
    assert store.write_keys.claim([key(one, "x", made_at=NOW + MINUTE)], kept_since=NOW + MINUTE) == []
    assert [store.write_keys.get("acme", name) is not None for name in ("k", "late", "x")] == [False, True, True]
