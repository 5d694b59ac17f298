"""A tenant sees its own alone: names, errors, metadata, over HTTP. No JVM; SQL that runs is in tests/spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake.dynamic import declare
from tests.lake.lakes import make
from tests.lake.serving import Answered, Client, serving

from neve.errors import StorageError
from neve.http import create_app
from neve.lake import Lake
from neve.model.keys import NewKey

FIELDS = {"fields": {"name": {"type": "string"}}, "primary_key": ["name"]}


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


def ask(client: Client, key: NewKey, operation: str, **words: object) -> Answered:
    return client.post("/database", {"operation": operation, **words}, Authorization=f"Bearer {key.key}")


def private(lake: Lake, found: Answered) -> list[str]:
    """What an answer tells that it should not."""
    secrets = ("globex", "secret", str(lake.root), str(Path.home()), "file:", ".metadata.db", "catalog.db", "Traceback")
    return [word for word in secrets if word in found.text]


def test_each_key_has_tables_of_its_own_under_the_same_names(client: Client, lake: Lake) -> None:
    """Three tables, and what the origin of document 003 made one of them."""
    places = [("acme-eu", "default"), ("acme_eu", "default"), ("acme", "eu_default")]
    keys = {tenant: lake.keys.create(tenant, "admin") for tenant, _ in places}
    for tenant, namespace in places:
        made = ask(client, keys[tenant], "CREATE_TABLE", namespace=namespace, table=f"t_{len(tenant)}", schema=FIELDS)
        assert made.json["table_created"] is True
    for tenant, namespace in places:
        assert ask(client, keys[tenant], "LIST_TABLES", namespace=namespace).json["tables"] == [f"t_{len(tenant)}"]
    assert sorted(str(name) for name in lake._context.catalog.tables()) == [
        "`acme-eu`.default.t_7",
        "acme.eu_default.t_4",
        "acme_eu.default.t_7",
    ]
    dropped = ask(client, keys["acme_eu"], "DROP_TABLE", table="t_7", purge=True)
    assert dropped.json["table_dropped"] is True
    assert ask(client, keys["acme-eu"], "LIST_TABLES").json["tables"] == ["t_7"]


ATTEMPTS: list[tuple[int, str, dict[str, Any]]] = [
    (403, "QUERY", {"tenant_id": "globex", "table": "secret"}),
    (403, "LIST_TABLES", {"tenant_id": "globex"}),
    (403, "DESCRIBE_TABLE", {"tenant_id": "globex", "table": "nope"}),
    (403, "DROP_NAMESPACE", {"tenant_id": "globex"}),
    (422, "LIST_TABLES", {"tenant_id": ""}),
    (404, "QUERY", {"table": "secrets"}),
    (404, "QUERY", {"namespace": "globex", "table": "secret"}),
    (404, "DESCRIBE_TABLE", {"namespace": "defaults", "table": "secret"}),
    (404, "DROP_TABLE", {"table": "secret"}),
    (404, "COMPACT", {"table": "secret"}),
    (404, "DROP_NAMESPACE", {"namespace": "secre"}),
    (422, "QUERY", {"namespace": "..", "table": "secret"}),
    (422, "QUERY", {"namespace": "globex.default", "table": "x"}),
    (422, "QUERY", {"namespace": "x`.`y", "table": "x"}),
    (422, "QUERY", {"table": "../../globex"}),
    (422, "QUERY", {"table": "users.files"}),
    (422, "QUERY", {"table": "${env:HOME}"}),
    (422, "QUERY", {"table": "users", "tenant": "globex"}),
    (404, "QUERY", {"table": "users", "filters": [{"field": "_file", "operator": "eq", "value": "x"}]}),
    (404, "QUERY", {"table": "users", "as_of": "globex"}),
    (403, "EXECUTE_SQL", {"sql": "SELECT * FROM globex.default.secret"}),
    (403, "EXECUTE_SQL", {"sql": "SELECT * FROM lake.globex.default.secret", "namespace": "globex"}),
    (403, "EXECUTE_SQL", {"sql": "SHOW TABLES"}),
    (412, "EXECUTE_SQL", {"sql": "SET"}),
    (422, "EXECUTE_SQL", {"sql": "SELECT * FROM users; SELECT * FROM globex.default.secret"}),
    (422, "EXECUTE_SQL", {"sql": "SELECT * FROM users WHERE ''='${env:HOME}'"}),
]


@pytest.mark.slow
def test_nothing_of_others_is_told(client: Client, lake: Lake) -> None:
    lake.tables.create("globex.default.secret", "id bigint")
    key = lake.keys.create("acme", "admin")
    ask(client, key, "CREATE_TABLE", table="users", schema=FIELDS)
    for status, operation, words in ATTEMPTS:
        found = ask(client, key, operation, **words)
        assert found.status == status, found.text
        said = json.dumps(words)  # what they said themselves may be said back
        assert [word for word in private(lake, found) if word not in said] == [], (operation, words)


def test_what_is_told_is_the_same_whether_others_have_such_a_table(client: Client, lake: Lake) -> None:
    """No hint names the nearest table of all tenants, nor is silent only when there is one."""
    key = lake.keys.create("acme", "reader")
    ask(client, key, "LIST_TABLES")

    def error() -> Any:
        return ask(client, key, "QUERY", table="invoices").json["error"]

    before = error()
    lake.tables.create("globex.default.invoices", "id bigint")
    lake.tables.create("acme.default.invoice", "id bigint")
    assert error() == before
    assert before["message"] == "no table acme.default.invoices"


def test_who_depends_on_a_table_is_not_named(client: Client, lake: Lake) -> None:
    make(lake, "acme.default.users")
    declare(lake, "globex.default.secret", "SELECT id, v FROM acme.default.users", "acme.default.users")
    key = lake.keys.create("acme", "admin")
    found = ask(client, key, "DROP_TABLE", table="users")
    assert (found.status, found.json["error"]["code"], private(lake, found)) == (412, "DEPENDENTS_EXIST", [])
    operator = lake.keys.create(None, "admin")
    assert "globex" in ask(client, operator, "DROP_TABLE", tenant_id="acme", table="users").text


def test_broken_storage_says_nothing_of_the_machine(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, operator = lake.keys.create("acme", "admin"), lake.keys.create(None, "admin")
    ask(client, key, "CREATE_TABLE", table="users", schema=FIELDS)
    for error in (StorageError(f"cannot read {lake.root}/warehouse"), OSError(f"{lake.root}: no space")):

        def fail(*_: object, told: Exception = error, **__: object) -> None:
            raise told

        monkeypatch.setattr("neve.services.operations.tables.describe", fail)
        found = ask(client, key, "DESCRIBE_TABLE", table="users")
        assert (found.status in (500, 503), private(lake, found)) == (True, [])
        whole = ask(client, operator, "DESCRIBE_TABLE", tenant_id="acme", table="users")
        assert str(lake.root) in whole.text


def test_properties_that_name_folders_or_sources_stay_inside(client: Client, lake: Lake) -> None:
    key = lake.keys.create("acme", "admin")
    ask(client, key, "CREATE_TABLE", table="users", schema=FIELDS)
    lake.table("acme.default.users").set({"write.data.path": f"file:{lake.root}/x", "write.note": str(lake.root)})
    found = ask(client, key, "DESCRIBE_TABLE", table="users")
    assert private(lake, found) == []
    assert found.json["properties"]["write.delete.mode"] == "merge-on-read"
    assert found.json["schema"]["primary_key"] == ["name"]
