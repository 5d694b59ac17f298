"""Document 003's operations that need no JVM, by HTTP and as events of Lambda: envelope, refusals, tenants' names."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lake.serving import Answered, Client, serving

from neve.http import create_app, lambda_handler, lambdas
from neve.http.events import INVOCATIONS
from neve.http.service import AT_ONCE, WAITING
from neve.lake import Lake
from neve.services.operations import writing

FIELDS: dict[str, Any] = {
    "fields": {"name": {"type": "string", "required": True}, "age": {"type": "integer"}},
    "primary_key": ["name"],
}


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


def refused(found: Answered) -> tuple[int, str, str | None]:
    assert found.json["success"] is False
    assert set(found.json) == {"success", "error", "metadata"}
    assert set(found.json["error"]) == {"code", "message", "field", "details", "suggestion"}
    assert set(found.json["metadata"]) == {"request_id", "execution_time_ms"}
    return found.status, found.json["error"]["code"], found.json["error"]["field"]


def ask(client: Client, operation: str, **words: object) -> Answered:
    return client.post("/database", {"operation": operation, **words})


def test_tables_are_made_listed_described_and_dropped(client: Client, lake: Lake) -> None:
    made = client.do("CREATE_TABLE", tenant_id="acme", table="users", schema=FIELDS)
    assert {key: made[key] for key in ("success", "table_created", "table_existed")} == {
        "success": True,
        "table_created": True,
        "table_existed": False,
    }
    assert client.do("CREATE_TABLE", tenant_id="acme", table="users", schema=FIELDS)["table_existed"] is True
    again = ask(client, "CREATE_TABLE", tenant_id="acme", table="users", schema=FIELDS, if_not_exists=False)
    assert refused(again) == (409, "TABLE_EXISTS", None)

    told = client.do("DESCRIBE_TABLE", tenant_id="acme", table="users")
    assert (told["rows"], told["files"], told["snapshot"]) == (0, 0, None)
    copy = {key: told[key] for key in ("schema", "partition")}
    assert client.do("CREATE_TABLE", tenant_id="acme", table="copy", **copy)["table_created"] is True
    described = client.do("DESCRIBE_TABLE", tenant_id="acme", table="copy")
    assert {key: described[key] for key in copy} == copy

    assert client.do("LIST_TABLES", tenant_id="acme")["tables"] == ["copy", "users"]
    assert client.do("DROP_TABLE", tenant_id="acme", table="copy", purge=True)["purged"] is True
    kept = client.do("DROP_TABLE", tenant_id="acme", table="users")
    assert kept["undo"] == "neve table undelete acme.default.users"
    assert lake.tables.undelete("acme.default.users").table == "acme.default.users"
    full = ask(client, "DROP_NAMESPACE", tenant_id="acme")
    assert refused(full) == (412, "NOT_EMPTY", None)
    client.do("DROP_TABLE", tenant_id="acme", table="users", purge=True)
    assert client.do("DROP_NAMESPACE", tenant_id="acme")["namespace_dropped"] is True
    assert 'neve_http_requests_total{operation="DROP_NAMESPACE",status="412"} 1\n' in client.get("/metrics").text


def test_names_of_tenants_never_meet(client: Client) -> None:
    places = [("acme_eu", "default"), ("acme-eu", "default"), ("acme", "eu_default"), ("acme", "eu"), (None, "acme")]
    for number, (tenant, namespace) in enumerate(places):
        words = {} if tenant is None else {"tenant_id": tenant}
        made = client.do("CREATE_TABLE", namespace=namespace, table=f"t{number}", schema=FIELDS, **words)
        assert made["table_created"] is True
    for number, (tenant, namespace) in enumerate(places):
        words = {} if tenant is None else {"tenant_id": tenant}
        assert client.do("LIST_TABLES", namespace=namespace, **words)["tables"] == [f"t{number}"]


@pytest.mark.parametrize(
    "words",
    [
        {"tenant_id": "a.b"},
        {"namespace": "a.b"},
        {"tenant_id": "a`.`b"},
        {"namespace": "../x"},
        {"tenant_id": "lake"},
        {"tenant_id": "${env:USER}"},
        {"table": "${env:USER}"},
        {"table": "a.b"},
        {"table": " t"},
    ],
)
@pytest.mark.slow
def test_names_that_could_lead_elsewhere_are_refused(client: Client, words: dict[str, str]) -> None:
    named = {"table": "t", **words}
    assert refused(ask(client, "CREATE_TABLE", schema=FIELDS, **named)) == (422, "INVALID_NAME", None)


@pytest.mark.slow
def test_what_is_wrong_is_named(client: Client) -> None:
    assert refused(ask(client, "QUERY", table="nope"))[:2] == (404, "TABLE_NOT_FOUND")
    for limit in (0, 100_001):
        assert refused(ask(client, "QUERY", table="t", limit=limit)) == (422, "VALIDATION_ERROR", "limit")
    having = ask(client, "QUERY", table="t", having=[{"field": "a", "operator": "eq", "value": 1}])
    assert refused(having) == (422, "VALIDATION_ERROR", None)
    assert having.json["error"]["message"] == "having needs group_by"
    operator = ask(client, "QUERY", table="t", filters=[{"field": "a", "operator": "foo", "value": 1}])
    assert refused(operator) == (422, "VALIDATION_ERROR", "filters[0].operator")
    versions = ask(client, "QUERY", table="t", skip_versioning=True)
    assert refused(versions) == (422, "VALIDATION_ERROR", "skip_versioning")
    told = "skip_versioning: not taken here; rows have no hidden versions: as_of reads earlier ones"
    assert versions.json["error"]["message"] == told
    made = ask(client, "CREATE_TABLE", table="j", schema=FIELDS)
    assert made.status == 200
    on = [{"left_field": "name", "right_field": "name"}]
    for field, join in (
        ("nope", {"table": "nope", "on": on}),
        ("age", {"table": "j", "alias": "age", "on": on}),
        ("other", {"table": "j", "on": [{"left_field": "other", "right_field": "name"}]}),
        ("other", {"table": "j", "on": [{"left_field": "name", "right_field": "other"}]}),
    ):
        found = ask(client, "QUERY", table="j", join=[join])
        assert (found.status in (404, 422), field in found.json["error"]["message"]) == (True, True), join
    unknown = ask(client, "QUERY", table="t", fliters=[])
    assert refused(unknown) == (422, "VALIDATION_ERROR", "fliters")
    value = ask(client, "QUERY", table="t", filters=[{"field": "a", "operator": "like", "value": 1}])
    assert refused(value) == (422, "VALIDATION_ERROR", "filters[0]")
    assert refused(ask(client, "HARD_DELETE", table="t", filters=[{"field": "a", "operator": "eq", "value": 1}])) == (
        412,
        "CONFIRMATION_REQUIRED",
        None,
    )
    for operation in ("GET_UPLOAD_URL", "GET_DOWNLOAD_URL", "FEDERATED_QUERY", "VECTOR_SEARCH", "INSERT", 7, None):
        found = client.post("/database", {"operation": operation, "table": "t"})
        assert refused(found)[:2] == (422, "VALIDATION_ERROR")
        assert "'CREATE_TABLE'" in found.json["error"]["message"]
    for text in ("", "{", "[]", "7", '{"operation": "QUERY", "operation": "WRITE"}'):
        assert refused(client.post("/database", text))[:2] == (422, "INVALID_INPUT")
    assert client.get("/database").status == 405


def test_the_first_write_makes_the_table(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its schema; a later one may say the same again, and nothing else. Rows are for tests/spark."""
    written: list[int] = []
    monkeypatch.setattr(writing, "append_rows", lambda _, batch: written.append(batch.most))
    partition = {"partitions": [{"field": "age", "transform": "bucket", "num_buckets": 2}]}
    words: dict[str, Any] = {"tenant_id": "acme", "table": "users", "records": [{"name": "a"}]}
    made = {"schema": FIELDS, "partition": partition, "properties": {"compression": "gzip", "description": "people"}}
    assert refused(ask(client, "WRITE", **words))[:2] == (404, "TABLE_NOT_FOUND")
    for more in (made, {"schema": FIELDS}, made, {}):
        assert client.do("WRITE", **words, **more)["records_written"] == 1
    told = client.do("DESCRIBE_TABLE", tenant_id="acme", table="users")
    fields = {name: {"required": False, **kind} for name, kind in FIELDS["fields"].items()}
    assert (told["schema"], told["partition"]) == ({**FIELDS, "fields": fields}, partition)
    assert [told["properties"][key] for key in ("write.parquet.compression-codec", "comment")] == ["gzip", "people"]
    others: list[dict[str, Any]] = [
        {"schema": {**FIELDS, "fields": {**FIELDS["fields"], "age": {"type": "long"}}}},
        {"schema": {**FIELDS, "fields": {**FIELDS["fields"], "more": {"type": "long"}}}},
        {"schema": {**FIELDS, "fields": {"name": FIELDS["fields"]["name"]}}},
        {"schema": {**FIELDS, "primary_key": []}},
        {"schema": FIELDS, "partition": {"partitions": []}},
        {"schema": FIELDS, "properties": {"compression": "zstd"}},
        {"schema": FIELDS, "properties": {"description": "others"}},
    ]
    for other in others:
        assert refused(ask(client, "WRITE", **words, **other))[:2] == (422, "INVALID_INPUT"), other
    assert refused(ask(client, "WRITE", **words, partition=partition))[:2] == (422, "VALIDATION_ERROR")
    assert written == [1] * 4


def test_only_json_is_taken(client: Client) -> None:
    """What a page of another site can send without asking first."""
    body = json.dumps({"operation": "LIST_TABLES"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert refused(client.ask("POST", "/database", body, Content_Type=kind))[:2] == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert client.ask("POST", INVOCATIONS, body, Content_Type=kind).status == 415
    assert client.ask("POST", "/database", body, Content_Type="application/json; charset=utf-8").status == 200


def test_who_finds_no_place_is_told_to_come_again(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def wait(*_: object, **__: object) -> Any:
        going.wait()
        raise RuntimeError("gone")

    monkeypatch.setattr(lake.database, "do", wait)
    found: list[Answered] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(client, "LIST_TABLES"))) for _ in range(AT_ONCE + WAITING + 3)
    ]
    for thread in threads:
        thread.start()
    while len(found) < 3:
        assert any(thread.is_alive() for thread in threads)
    going.set()
    for thread in threads:
        thread.join()
    statuses = sorted(each.status for each in found)
    assert statuses == [429] * 3 + [500] * (AT_ONCE + WAITING)
    assert all(each.headers["retry-after"] == "1" for each in found if each.status == 429)
    failed = next(each for each in found if each.status == 500)
    assert failed.json["error"]["message"] == "RuntimeError: gone"


def event(body: object, **more: object) -> dict[str, Any]:
    return {"httpMethod": "POST", "path": "/database", "body": body, **more}


LIST = json.dumps({"operation": "LIST_TABLES"})


@pytest.mark.parametrize(
    "words",
    [
        event(LIST),
        event(base64.b64encode(LIST.encode()).decode(), isBase64Encoded=True),
        {"rawPath": "/database", "requestContext": {"http": {"method": "POST"}}, "body": LIST},
    ],
)
def test_events_are_answered_as_lambda_wants_it(client: Client, words: dict[str, Any]) -> None:
    found = client.post(INVOCATIONS, words)
    assert (found.status, set(found.json)) == (200, {"statusCode", "headers", "body"})
    assert (found.json["statusCode"], found.json["headers"]) == (200, {"Content-Type": "application/json"})
    assert json.loads(found.json["body"])["tables"] == []


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (event(None), 422, "INVALID_INPUT"),
        (event({"operation": "LIST_TABLES"}), 422, "INVALID_EVENT"),
        (event("%", isBase64Encoded=True), 422, "INVALID_EVENT"),
        (event(LIST, path="/other"), 404, "NOT_FOUND"),
        (event(LIST, httpMethod="GET"), 404, "NOT_FOUND"),
        ({"operation": "LIST_TABLES"}, 422, "INVALID_EVENT"),
        ([], 422, "INVALID_EVENT"),
        (event(json.dumps({"operation": "QUERY", "table": "nope"})), 404, "TABLE_NOT_FOUND"),
    ],
)
@pytest.mark.slow
def test_events_that_say_nothing_are_refused(client: Client, words: Any, status: int, code: str) -> None:
    found = client.post(INVOCATIONS, words)
    assert (found.status, found.json["statusCode"]) == (200, status)
    assert json.loads(found.json["body"])["error"]["code"] == code


def test_a_real_lambda_answers_the_same(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEVE_LAKE", str(lake.root))
    lambdas._lake.cache_clear()

    class Asked:
        aws_request_id = "r-1"

    made = lambda_handler(event(json.dumps({"operation": "CREATE_TABLE", "table": "t", "schema": FIELDS})), Asked())
    body = json.loads(made["body"])
    assert (made["statusCode"], body["table_created"], body["metadata"]["request_id"]) == (200, True, "r-1")
    assert lake.table("t").exists()
    well = lambda_handler({"httpMethod": "GET", "path": "/health"}, None)
    assert (well["statusCode"], json.loads(well["body"])["ready"]) == (200, True)
    lambdas._lake().close()
    lambdas._lake.cache_clear()


def test_the_interface_is_described_whole(client: Client) -> None:
    """Every word that the description speaks of is in it."""
    text = client.get("/openapi.json").text
    known = json.loads(text)["components"]["schemas"]
    spoken = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert spoken
    assert spoken <= set(known)
    page = client.get("/docs").text
    assert "POST /database" in page
    assert "CREATE_TABLE" in page
