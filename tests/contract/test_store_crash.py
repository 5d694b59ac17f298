"""kill -9 leaves whole transactions, and a database that opens."""

from __future__ import annotations

import time

import pytest
from tests.contract.records import make_table, read_by_hand
from tests.contract.rivals import BATCH, started

from neve.store import Store

pytestmark = pytest.mark.faults


def test_a_process_killed_while_it_writes_leaves_only_whole_transactions(uri: str) -> None:
    acknowledged = 0
    for round_number in range(3):
        with started(("write_forever", uri)) as (rival,):
            for _ in range(3 + round_number):
                assert rival.hear().startswith("wrote ")
            time.sleep(0.004 * round_number)  # each time at another point of the next transaction
            rival.kill()
            acknowledged += 3 + round_number
        with Store.open(uri) as store:
            store.registry.put(make_table(f"after kill {round_number}"))
        if uri.startswith("sqlite"):
            assert read_by_hand(uri, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    batches = read_by_hand(uri, "SELECT kind, COUNT(*) AS n FROM runs GROUP BY kind")
    assert {row["n"] for row in batches} == {BATCH}
    assert len(batches) >= acknowledged
    assert read_by_hand(uri, "SELECT COUNT(*) AS n FROM trash") == [{"n": BATCH * len(batches)}]


def test_a_process_killed_within_a_transaction_leaves_nothing_and_no_lock(uri: str) -> None:
    with started(("write_half", uri)) as (rival,):
        assert rival.hear() == "half"
        rival.kill()
    with Store.open(uri) as store:
        before = time.monotonic()
        store.registry.put(make_table("half"))
        assert time.monotonic() - before < 5
        assert store.registry.list() == (make_table("half"),)
        assert store.runs.list() == ()
