"""`orphan_scans` and `readers`, and a lake of the schema before them."""

from __future__ import annotations

import os

from tests.contract.records import MINUTE, NOW

from neve.model.runs import OrphanScan, Reader, new_run_id
from neve.store import Store
from neve.store.schema import MIGRATIONS

RUN = new_run_id(NOW, os.urandom)
SCAN = OrphanScan(
    table_uuid="u1", table_name="größe", scanned_at=NOW, older_than_seconds=604_800, files=2, bytes=5_000_000_000
)


def make_reader(reader_id: str, **given: object) -> Reader:
    defaults = {
        "reader_id": reader_id,
        "table_uuid": "u1",
        "snapshots": (2**62, -5),
        "purpose": "changes",
        "started_at": NOW,
        "host": "here",
        "pid": 2**22,
    }
    return Reader.model_validate(defaults | given)


def test_the_last_scan_of_a_table_counts(store: Store) -> None:
    assert store.scans.get("u1") is None
    store.scans.put(SCAN)
    other = SCAN.model_copy(update={"table_uuid": "u2"})
    store.scans.put(other)
    later = SCAN.model_copy(update={"scanned_at": NOW + MINUTE, "files": 0, "bytes": 0, "run_id": RUN})
    store.scans.put(later)
    assert (store.scans.get("u1"), store.scans.get("u2")) == (later, other)
    store.scans.forget("u1")
    assert (store.scans.get("u1"), store.scans.get("u2")) == (None, other)


def test_readers_of_a_table_come_and_go(store: Store) -> None:
    young, old = make_reader("b", started_at=NOW + MINUTE), make_reader("a")
    for reader in (young, old, make_reader("c", table_uuid="u2")):
        store.readers.put(reader)
    assert store.readers.of("u1") == (old, young)
    store.readers.remove("a")
    store.readers.remove("a")
    assert store.readers.of("u1") == (young,)


def test_an_older_lake_gets_both(uri: str) -> None:
    Store.open(uri, migrations=MIGRATIONS[:3]).close()
    with Store.open(uri) as store:
        store.scans.put(SCAN)
        store.readers.put(make_reader("a"))
        assert store.scans.get("u1") == SCAN
