"""`service_keys` and `service_log`."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.records import MINUTE, NOW, read_by_hand

from neve.errors import AlreadyExists
from neve.model.keys import KeyRecord, LogRecord
from neve.store import Store
from neve.store.schema import MIGRATIONS


def make_key(key_id: str = "k", **given: object) -> KeyRecord:
    defaults = {"key_id": key_id, "digest": "d", "role": "reader", "requests_per_minute": 60, "created_at": NOW}
    return KeyRecord.model_validate(defaults | given)


def make_entry(action: str = "QUERY", **given: object) -> LogRecord:
    defaults = {
        "at": NOW,
        "key_id": "k",
        "tenant": "acme",
        "role": "reader",
        "action": action,
        "target": "acme.default.t",
        "status": 200,
        "code": None,
        "request_id": "r",
        "address": "127.0.0.1",
        "duration_ms": 3,
    }
    return LogRecord.model_validate(defaults | given)


def test_keys_are_kept_as_they_are_and_never_forgotten(store: Store) -> None:
    assert store.keys.exist() is False
    first = make_key("a", tenant="größe'; --", label="x", expires_at=NOW + MINUTE)
    store.keys.add(make_key("b", created_at=NOW + MINUTE))
    store.keys.add(first)
    assert [key.key_id for key in store.keys.list()] == ["a", "b"]
    assert store.keys.get("a") == first
    assert store.keys.get("A") is None
    with pytest.raises(AlreadyExists):
        store.keys.add(first)
    assert store.keys.revoke("a", NOW + MINUTE) is True
    assert store.keys.revoke("a", NOW + 2 * MINUTE) is False
    revoked = store.keys.get("a")
    assert revoked is not None
    assert (revoked.revoked_at, revoked.state(NOW)) == (NOW + MINUTE, "revoked")
    assert store.keys.revoke("nope", NOW) is False
    assert store.keys.exist() is True


def test_an_end_is_only_ever_brought_forward(store: Store) -> None:
    store.keys.add(make_key())
    assert store.keys.expire("k", NOW + 2 * MINUTE) is True
    assert store.keys.expire("k", NOW + 3 * MINUTE) is False
    assert store.keys.expire("k", NOW + MINUTE) is True
    found = store.keys.get("k")
    assert found is not None
    assert found.expires_at == NOW + MINUTE
    assert [found.state(NOW), found.state(NOW + MINUTE)] == ["active", "expired"]


def test_the_log_is_read_newest_first_and_chosen_from(store: Store, uri: str) -> None:
    store.service_log.add([make_entry("A"), make_entry("B", key_id="j", tenant=None), make_entry("C\0", target=None)])
    assert [row.action for row in store.service_log.list()] == ["C\ufffd", "B", "A"]
    assert [row.action for row in store.service_log.list(key_id="k", limit=1)] == ["C\ufffd"]
    assert [row.action for row in store.service_log.list(tenant="acme", key_id="j")] == []
    store.service_log.add([make_entry("D", at=NOW + timedelta(days=2))])
    assert store.service_log.forget(NOW + timedelta(days=1)) == 3
    assert read_by_hand(uri, "SELECT action, status FROM service_log") == [{"action": "D", "status": 200}]


def test_a_lake_from_before_there_were_keys_has_none(uri: str) -> None:
    has_keys = [any("service_keys" in text for text in migration.statements) for migration in MIGRATIONS]
    before = MIGRATIONS[: has_keys.index(True)]
    Store.open(uri, migrations=before).close()
    with Store.open(uri) as store:
        assert store.keys.exist() is False
