"""Keys of the service: made, used, ended; role × operation × tenant. No JVM."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from tests.lake.lakes import Cli, database_rows
from tests.lake.serving import Answered, Client, serving

from neve.errors import Conflict, InvalidInput, InvalidName, NotFound, Refused, StoreError, TooManyRequests
from neve.http import create_app, lambda_handler, lambdas
from neve.http.events import INVOCATIONS
from neve.http.rates import Rates
from neve.lake import Lake
from neve.model.keys import ROLES, NewKey
from neve.model.operations import OPERATION, Operation, Query

FIELDS = {"fields": {"name": {"type": "string"}}}
NOTHING = [{"field": "name", "operator": "eq", "value": "x"}]
WORDS: dict[str, dict[str, object]] = {
    "LIST_TABLES": {},
    "DESCRIBE_TABLE": {"table": "t"},
    "QUERY": {"table": "t"},
    "EXECUTE_SQL": {"sql": "SELECT 1"},
    "EXPORT_CSV": {"table": "t"},
    "CREATE_TABLE": {"table": "t", "schema": FIELDS},
    "WRITE": {"table": "t", "records": [{"name": "x"}]},
    "UPDATE": {"table": "t", "updates": {"name": "y"}, "filters": NOTHING},
    "UPSERT": {"table": "t", "records": [{"name": "x"}]},
    "DELETE": {"table": "t", "filters": NOTHING},
    "COMPACT": {"table": "t"},
    "HARD_DELETE": {"table": "t", "filters": NOTHING, "confirm": True},
    "DROP_TABLE": {"table": "t"},
    "DROP_NAMESPACE": {},
}
READS = ("LIST_TABLES", "DESCRIBE_TABLE", "QUERY", "EXECUTE_SQL", "EXPORT_CSV")
CHANGES = ("CREATE_TABLE", "WRITE", "UPDATE", "UPSERT", "DELETE", "COMPACT")
ALLOWED = {"reader": READS, "writer": READS + CHANGES, "admin": tuple(WORDS)}


def header(key: NewKey | str) -> str:
    return f"Bearer {key if isinstance(key, str) else key.key}"


def ask(client: Client, key: NewKey | str, operation: str, **words: object) -> Answered:
    return client.post("/database", {"operation": operation, **words}, Authorization=header(key))


def refused(found: Answered) -> tuple[int, str]:
    assert found.json["success"] is False
    return found.status, found.json["error"]["code"]


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


def test_a_key_is_shown_once_and_kept_as_a_digest(lake: Lake, cli: Cli) -> None:
    made = json.loads(cli("key", "create", "--tenant", "acme", "--role", "writer", "--label", "ci", "-o", "json").out)
    assert re.fullmatch(r"neve_[0-9a-z]{10}_[A-Za-z0-9_-]{43}", made["key"])
    assert (made["tenant"], made["role"], made["state"], made["label"]) == ("acme", "writer", "active", "ci")
    listed = json.loads(cli("key", "list", "-o", "json").out)
    assert listed == [{key: value for key, value in made.items() if key != "key"}]
    secret = made["key"].split("_", 2)[2]
    assert secret not in repr(database_rows(lake.root / ".metadata.db"))
    said = cli("key", "create", "--all-tenants", "--role", "admin")
    assert ("neve_" in said.out, "neve_" in said.err) == (True, False)  # what is talk may be logged
    assert cli("key", "revoke", made["key_id"]).code == 0
    assert lake.keys.list()[0].state == "revoked"
    assert cli("key", "revoke", "nope").code == 3


def test_keys_that_make_no_sense_are_refused(lake: Lake, cli: Cli) -> None:
    for words in (
        ["--role", "reader"],
        ["--role", "reader", "--tenant", "acme", "--all-tenants"],
        ["--role", "reader", "--tenant", "a.b"],
        ["--role", "reader", "--tenant", "lake"],
        ["--role", "reader", "--tenant", "${env:USER}"],
        ["--role", "reader", "--tenant", ""],
        ["--role", "owner", "--tenant", "acme"],
        ["--role", "reader", "--tenant", "acme", "--expires", "0"],
        ["--role", "reader", "--tenant", "acme", "--expires", "2020-01-01"],
        ["--role", "reader", "--tenant", "acme", "--expires", "soon"],
        ["--role", "reader", "--tenant", "acme", "--rate", "0"],
    ):
        assert cli("key", "create", *words).code == 2, words
    assert lake.keys.exist() is False


def test_python_says_the_same(lake: Lake) -> None:
    with pytest.raises(InvalidName):
        lake.keys.create("a/b", "reader")
    with pytest.raises(InvalidInput):
        lake.keys.create("a", "reader", requests_per_minute=0)
    with pytest.raises(NotFound):
        lake.keys.rotate("nope")


def test_without_keys_this_machine_is_answered_and_with_one_nobody_without(client: Client, lake: Lake) -> None:
    assert client.post("/database", {"operation": "LIST_TABLES"}).status == 200
    wrong = ask(client, "neve_0123456789_" + "A" * 43, "LIST_TABLES")
    assert refused(wrong) == (401, "UNAUTHORIZED")
    made = lake.keys.create(None, "reader")
    for _ in range(2):  # and after the last one was revoked
        found = client.post("/database", {"operation": "LIST_TABLES"})
        assert (refused(found), found.headers["www-authenticate"]) == ((401, "UNAUTHORIZED"), "Bearer")
        lake.keys.revoke(made.key_id)
    assert "revoked" in ask(client, made, "LIST_TABLES").json["error"]["message"]


def test_only_the_key_itself_opens(client: Client, lake: Lake) -> None:
    made, other = lake.keys.create("acme", "admin"), lake.keys.create("acme", "admin")
    assert ask(client, made, "LIST_TABLES").status == 200
    assert client.post("/database", {"operation": "LIST_TABLES"}, Authorization=f"bearer  {made.key} ").status == 200
    mixed = made.key[:16] + other.key[16:]
    last = "A" if made.key[-1] != "A" else "B"
    for wrong in (
        *("", "Bearer", "Bearer ", f"Basic {made.key}", made.key, f"Bearer {made.key}x", f"Bearer {made.key[:-1]}"),
        *(f"Bearer {made.key[:-1]}{last}", f"Bearer {mixed}", f"Bearer {made.key.upper()}", f"Bearer {made.key_id}"),
        *(f"Bearer {made.key}, Bearer {made.key}", "Bearer neve_%_%", f"Bearer {'A' * 5000}", "Bearer ' OR 1=1 --"),
    ):
        found = client.post("/database", {"operation": "LIST_TABLES"}, Authorization=wrong)
        assert refused(found) == (401, "UNAUTHORIZED"), wrong
        assert made.key not in found.text


def test_a_key_ends_when_it_should(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    monkeypatch.setattr(lake._context, "clock", lambda: now)
    made = lake.keys.create("acme", "reader", expires="1h")
    assert ask(client, made, "LIST_TABLES").status == 200
    new = lake.keys.rotate(made.key_id, grace="10m")
    assert (new.tenant, new.role, new.expires_at) == ("acme", "reader", now + timedelta(hours=1))
    assert [ask(client, key, "LIST_TABLES").status for key in (made, new)] == [200, 200]
    now += timedelta(minutes=10)
    assert [ask(client, key, "LIST_TABLES").status for key in (made, new)] == [401, 200]
    with pytest.raises(Conflict):
        lake.keys.rotate(made.key_id)
    now += timedelta(minutes=50)
    assert ask(client, new, "LIST_TABLES").status == 401
    assert [row.state for row in lake.keys.list()] == ["expired", "expired"]
    last = lake.keys.create("acme", "reader", expires="2027-01-01T00:00Z")
    assert lake.keys.rotate(last.key_id, grace="0").state == "active"
    assert ask(client, last, "LIST_TABLES").status == 401


@pytest.fixture
def done(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """Operations that were let through, instead of being done."""
    found: list[Operation] = []

    def do(_: object, __: object, operation: Operation, *, confined: bool, once: str | None) -> Any:
        found.append(operation)
        raise InvalidInput("let through")

    monkeypatch.setattr("neve.services.operations.doing.do", do)
    return found


def test_every_operation_has_its_place_in_the_matrix() -> None:
    union = get_args(get_args(Operation)[0])
    known = {get_args(kind.model_fields["operation"].annotation)[0] for kind in union}
    assert known == set(WORDS)
    for name, words in WORDS.items():
        OPERATION.validate_python({"operation": name, **words})


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tenant", ["acme", None])
@pytest.mark.slow
def test_role_operation_tenant(
    client: Client, lake: Lake, done: list[Operation], role: Any, tenant: str | None
) -> None:
    key = lake.keys.create(tenant, role)
    for operation, words in WORDS.items():
        for asked in ("acme", "globex", None, "ACME", "acme ", "acm\u0435"):
            named = {} if asked is None else {"tenant_id": asked}
            done.clear()
            found = refused(ask(client, key, operation, **words, **named))
            own = tenant is None or asked in (tenant, None)
            if operation in ALLOWED[role] and own:
                assert found == (422, "INVALID_INPUT"), (operation, asked)
                assert [each.tenant_id for each in done] == [asked if tenant is None else tenant]
            else:
                assert (found, done) == ((403, "FORBIDDEN"), []), (operation, asked)


def test_what_takes_the_past_away_is_for_an_admin(client: Client, lake: Lake, done: list[Operation]) -> None:
    writer, admin = lake.keys.create("acme", "writer"), lake.keys.create("acme", "admin")
    for words in (
        {"operation": "DELETE", "table": "t", "filters": NOTHING, "mode": "hard"},
        {"operation": "COMPACT", "table": "t", "snapshot_retention_hours": 0},
    ):
        assert refused(ask(client, writer, **words)) == (403, "FORBIDDEN")
        assert refused(ask(client, admin, **words)) == (422, "INVALID_INPUT")


def test_events_bring_their_key_too(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    acme, globex = lake.keys.create("acme", "reader"), lake.keys.create("globex", "reader")
    body = json.dumps({"operation": "LIST_TABLES", "tenant_id": "acme"})

    def send(headers: object, outer: NewKey | None = None) -> int:
        more = {} if outer is None else {"Authorization": header(outer)}
        event = {"httpMethod": "POST", "path": "/database", "body": body, "headers": headers}
        return int(client.post(INVOCATIONS, event, **more).json["statusCode"])

    assert send({}) == send(None) == send("x") == 401
    assert send({"authorization": header(acme)}) == send({"AUTHORIZATION": header(acme)}) == 200
    assert send({}, acme) == 200
    assert send({"Authorization": header(globex)}, acme) == 403
    assert send({"Authorization": header(acme), "authorization": header(acme)}) == 401
    monkeypatch.setenv("NEVE_LAKE", str(lake.root))
    lambdas._lake.cache_clear()
    lambdas._access.cache_clear()
    event = {"httpMethod": "POST", "path": "/database", "body": body}
    assert lambda_handler(event, None)["statusCode"] == 401
    assert lambda_handler(event | {"headers": {"Authorization": header(acme)}}, None)["statusCode"] == 200
    lambdas._lake().close()
    lambdas._lake.cache_clear()
    lambdas._access.cache_clear()


def test_what_the_service_says_of_itself(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tables and reasons are for the operator; a balancer may ask whether all is well."""
    lake.tables.create("globex.default.secret", "id bigint")
    operator, tenant = lake.keys.create(None, "reader"), lake.keys.create("acme", "admin")
    monkeypatch.setattr("neve.services.parts.look_at_parts", _broken)
    for key, status, told in ((None, 401, False), (tenant, 403, False), (operator, 200, True)):
        brought = {} if key is None else {"Authorization": header(key)}
        metrics = client.get("/metrics", **brought)
        assert (metrics.status, "globex" in metrics.text) == (status, told)
        health = client.get("/health", **brought)
        assert (health.status, "/secret/path" in health.text) == (503, told)
        assert client.get("/health/live", **brought).status == 200
        assert client.get("/docs", **brought).status == 200


def _broken(_: object) -> list[Any]:
    from neve.model.service import PartRow

    return [PartRow(part="catalog", state="failed", detail="cannot open /secret/path")]


def test_a_key_that_asks_too_often_waits(client: Client, lake: Lake) -> None:
    slow, quick = lake.keys.create("acme", "reader", requests_per_minute=2), lake.keys.create("acme", "reader")
    assert [ask(client, slow, "LIST_TABLES").status for _ in range(2)] == [200, 200]
    found = ask(client, slow, "LIST_TABLES")
    assert refused(found) == (429, "TOO_MANY_REQUESTS")
    assert 1 <= int(found.headers["retry-after"]) <= 30
    assert ask(client, quick, "LIST_TABLES").status == 200


def test_a_bucket_fills_as_time_goes_by() -> None:
    rates = Rates()
    for _ in range(3):
        rates.take("a", per_minute=3, now=100.0)
    with pytest.raises(TooManyRequests) as told:
        rates.take("a", per_minute=3, now=119.5)
    assert told.value.retry_after == 1
    rates.take("a", per_minute=3, now=120.5)
    rates.take("b", per_minute=1, now=120.5)
    for _ in range(3):
        rates.take("a", per_minute=3, now=10_000.0)
    with pytest.raises(TooManyRequests):
        rates.take("a", per_minute=3, now=10_000.0)


def test_who_did_what_is_written_down(client: Client, lake: Lake, cli: Cli) -> None:
    acme, operator = lake.keys.create("acme", "writer"), lake.keys.create(None, "admin")
    ask(client, acme, "CREATE_TABLE", table="users", schema=FIELDS)
    ask(client, acme, "DROP_TABLE", table="users")
    ask(client, acme, "QUERY", tenant_id="globex", table="t")
    client.post("/database", "{", Authorization=header(acme))
    ask(client, operator, "LIST_TABLES")
    ask(client, acme, "EXECUTE_SQL", sql="SHOW\n  TABLES")
    ask(client, "neve_0123456789_" + "A" * 43, "LIST_TABLES")
    rows = json.loads(cli("key", "audit", "-o", "json").out)
    told = [(row["key_id"], row["tenant"], row["action"], row["target"], row["status"], row["code"]) for row in rows]
    assert told[::-1] == [
        (acme.key_id, "acme", "CREATE_TABLE", "default.users", 200, None),
        (acme.key_id, "acme", "DROP_TABLE", "default.users", 403, "FORBIDDEN"),
        (acme.key_id, "acme", "QUERY", "globex.default.t", 403, "FORBIDDEN"),
        (acme.key_id, "acme", "invalid", None, 422, "INVALID_INPUT"),
        (operator.key_id, None, "LIST_TABLES", "default", 200, None),
        (acme.key_id, "acme", "EXECUTE_SQL", "SHOW TABLES", 403, "FORBIDDEN"),
    ]
    assert all(row["address"] == "127.0.0.1" and row["request_id"] for row in rows)
    assert len(json.loads(cli("key", "audit", "--key", operator.key_id, "-o", "json").out)) == 1
    assert len(json.loads(cli("key", "audit", "--tenant", "acme", "--limit", "2", "-o", "json").out)) == 2


def test_nothing_is_done_while_the_log_cannot_be_written(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = lake.keys.create("acme", "writer")
    log = lake._context.store.service_log
    add = log.add

    def fail(_: object) -> None:
        raise StoreError("the disk is full: /data/.metadata.db")

    monkeypatch.setattr(log, "add", fail)
    found = ask(client, key, "CREATE_TABLE", table="a", schema=FIELDS)
    assert refused(found) == (503, "NOT_LOGGED")
    assert refused(ask(client, key, "CREATE_TABLE", table="b", schema=FIELDS)) == (503, "STORE")
    assert (lake.table("acme.default.a").exists(), lake.table("acme.default.b").exists()) == (True, False)
    monkeypatch.setattr(log, "add", add)
    assert ask(client, key, "CREATE_TABLE", table="b", schema=FIELDS).status == 200
    assert [row.target for row in lake.keys.audit()] == ["default.b", "default.a"]


def test_many_requests_at_once_are_all_written_down(client: Client, lake: Lake) -> None:
    key = lake.keys.create("acme", "reader")
    threads = [threading.Thread(target=ask, args=(client, key, "LIST_TABLES")) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lake.keys.audit(limit=100)) == 24


def test_others_can_reach_it_with_keys_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with pytest.raises(Refused, match="no keys"):
        create_app(lake, anywhere=True)
    key = lake.keys.create("acme", "reader")
    with serving(create_app(lake, anywhere=True)) as client:
        body = json.dumps({"operation": "LIST_TABLES"})
        words = {"Content_Type": "application/json", "Host": "lake.example"}
        assert client.ask("POST", "/database", body, **words).status == 401
        assert client.ask("POST", "/database", body, **words, Authorization=header(key)).status == 200
        assert client.get("/health/live", Host="lake.example").status == 200
        # a body is not read before its key: this one is never sent
        for path in ("/database", "/api/v1/tables"):
            assert unsent(client, path, "Bearer wrong") == 401
            assert unsent(client, path, None) == 401
        metrics = client.get("/metrics", Host="x", Authorization=header(lake.keys.create(None, "reader"))).text
        assert 'neve_http_requests_total{operation="refused",status="401"} 5\n' in metrics


def unsent(client: Client, path: str, authorization: str | None) -> int:
    """The answer to a request that says it has a body, and does not send it."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "1000000")
    if authorization is not None:
        connection.putheader("Authorization", authorization)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_tenants_question_ends_some_time(client: Client, lake: Lake, done: list[Operation]) -> None:
    tenant, operator = lake.keys.create("acme", "reader"), lake.keys.create(None, "reader")
    for key, asked, given in ((tenant, None, 300_000), (tenant, 700, 700), (operator, None, None)):
        done.clear()
        ask(client, key, "QUERY", table="t", timeout_ms=asked)
        assert [each.timeout_ms for each in done if isinstance(each, Query)] == [given]
    found = ask(client, tenant, "EXECUTE_SQL", sql="SELECT 1", timeout_ms=300_001)
    assert (refused(found), "300,000 at most" in found.text) == ((422, "INVALID_INPUT"), True)


def test_sql_that_changes_rows_is_for_a_writer(client: Client, lake: Lake, done: list[Operation]) -> None:
    keys = {role: lake.keys.create("acme", role) for role in ROLES}
    merge = "MERGE INTO t USING t s ON t.name = s.name WHEN MATCHED THEN DELETE"
    for text in ("INSERT INTO t VALUES ('x')", "update t set name = 'y'", "/* a */ DELETE FROM t", merge):
        assert refused(ask(client, keys["reader"], "EXECUTE_SQL", sql=text)) == (403, "FORBIDDEN"), text
        assert done == []
        for role in ("writer", "admin"):
            ask(client, keys[role], "EXECUTE_SQL", sql=text)
            assert [(each.operation, each.tenant_id) for each in done] == [("EXECUTE_SQL", "acme")]
            done.clear()
