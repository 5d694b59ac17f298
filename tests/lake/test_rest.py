"""`/api/v1` without a JVM: the same bodies as the command line, one error tree, keys, long work as runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lake.dynamic import declare, fill
from tests.lake.lakes import Cli, append, make
from tests.lake.serving import Answered, Client, serving

from neve.errors import InvalidInput, JobFailed
from neve.http import create_app
from neve.http.rest.adding import ROUTES
from neve.http.rest.uploads import UPLOAD
from neve.http.service import AT_LENGTH
from neve.lake import Lake, LakeTable
from neve.model.keys import ROLES, NewKey
from neve.model.results import Receipt
from neve.model.runs import REQUEST, Run, new_run_id

API = "/api/v1"


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """A lake with something to look at."""
    make(lake, "t", rows=2)
    make(lake, "raw.größe", rows=1)
    append(lake, "t", [{"id": 7, "v": None}])
    lake.table("t").tag("v1")
    lake.tables.create("keyed", "k int not null", row_keys=["k"], split_points="5\n")
    declare(lake, "totals", "SELECT id, v FROM t", "t")
    fill(lake, "totals")
    make(lake, "gone")
    lake.table("gone").drop()
    return lake


def problem(found: Answered) -> tuple[int, str]:
    assert found.headers["content-type"] == "application/problem+json"
    body = found.json
    assert (body["status"], body["type"], body["detail"]) == (found.status, "about:blank", body["message"])
    return found.status, body["code"]


SAME = {
    "/status": ["status"],
    "/status?late=true": ["status", "--late"],
    "/schedule?at=2030-01-01T00:00:00Z": ["schedule", "--at", "2030-01-01T00:00:00Z"],
    "/doctor": ["doctor", "--no-spark"],
    "/namespaces": ["namespace", "list"],
    "/tables": ["table", "list"],
    "/tables?namespace=raw": ["table", "list", "raw"],
    "/tables/t": ["table", "show", "t"],
    f"/tables/{quote('raw.`größe`')}": ["table", "show", "raw.`größe`"],
    "/tables/t/snapshots": ["table", "history", "t"],
    "/tables/t/status": ["table", "status", "t"],
    "/tables/t/health": ["table", "health", "t"],
    "/tables/t/files": ["table", "files", "t"],
    "/tables/t/partitions": ["table", "partitions", "t"],
    "/tables/keyed/ranges": ["table", "partitions", "keyed"],
    "/tables/t/properties": ["table", "properties", "t"],
    "/trash": ["table", "trash"],
    "/dynamic": ["dynamic", "list"],
    "/dynamic/graph": ["dynamic", "graph"],
    "/dynamic/graph?name=totals": ["dynamic", "graph", "totals"],
    "/dynamic/history?limit=5": ["dynamic", "history", "--limit", "5"],
    "/dynamic/totals": ["dynamic", "show", "totals"],
    "/dynamic/totals/explain": ["dynamic", "explain", "totals"],
    "/dynamic/totals/history?failed=true": ["dynamic", "history", "totals", "--failed"],
    "/runs": ["runs", "list"],
    "/runs?kind=create&limit=2": ["runs", "list", "--kind", "create", "--limit", "2"],
    "/tables/nope": ["table", "show", "nope"],
    "/runs/0000": ["runs", "show", "0000"],
    "/dynamic/t": ["dynamic", "show", "t"],
    "/tables?namespace=..": ["table", "list", ".."],
}


def test_bodies_are_those_of_the_command_line(client: Client, filled: Lake, cli: Cli) -> None:
    """Answers and errors, word for word; what depends on the moment of asking is left out."""

    def steady(value: Any) -> Any:
        moving = ("current_lag", "detail_at", "age", "free")
        if isinstance(value, dict):
            return {key: steady(inner) for key, inner in value.items() if key not in moving}
        return [steady(inner) for inner in value] if isinstance(value, list) else value

    for path, words in SAME.items():
        found, said = client.get(API + path), cli(*words, "-o", "json")
        if said.code == 0:
            assert found.status == 200, (path, found.text)
            assert steady(found.json) == steady(json.loads(said.out)), path
        else:
            error = json.loads(said.err.strip().splitlines()[-1])
            assert {key: found.json[key] for key in error} == error, path
            assert problem(found)[1] == error["code"]
    run = filled.runs.list(limit=1)[0].run_id
    assert client.get(f"{API}/runs/{run}").json == json.loads(cli("runs", "show", run, "-o", "json").out)


def test_changes_answer_with_the_receipts_of_the_command_line(client: Client, lake: Lake) -> None:
    def post(path: str, verb: str = "POST", **body: object) -> Answered:
        return client.ask(verb, API + path, json.dumps(body), Content_Type="application/json")

    assert post("/namespaces", namespace="raw.eu").json == {"namespace": "raw.eu", "tables": 0}
    made = post("/tables", table="raw.t", schema="id bigint not null, v string", partition_by=["bucket(4, id)"])
    assert (made.status, Receipt.model_validate(made.json).action) == (200, "create")
    assert lake.runs.show(made.json["run_id"]).state == "succeeded"
    assert problem(post("/tables", table="raw.t", schema="id bigint")) == (409, "already_exists")
    assert post("/tables", table="raw.t", schema="id bigint", if_not_exists=True).json["reason"] is not None
    assert post("/tables/raw.t/rename", to="raw.u").json["details"]
    assert [row["action"] for row in post("/tables/raw.u/properties", "PATCH", set={"a": "1"}, unset=["a"]).json] == [
        "set",
        "unset",
    ]
    assert post("/tables/raw.u/offline").json["action"] == "offline"
    assert client.get(f"{API}/tables/raw.u").json["online"] is False
    assert post("/tables/raw.u/online").json["action"] == "online"
    assert client.ask("DELETE", f"{API}/tables/raw.u?dry_run=true").json["dry_run"] is True
    assert lake.table("raw.u").exists()
    assert client.ask("DELETE", f"{API}/tables/raw.u").json["undo"] == "neve table undelete raw.u"
    assert post("/tables/raw.u/undelete", new_name="raw.w").json["table"] == "raw.w"
    assert client.ask("DELETE", f"{API}/tables/raw.w?purge=true").status == 200
    assert problem(client.ask("DELETE", f"{API}/namespaces/raw")) == (412, "not_empty")
    assert client.ask("DELETE", f"{API}/namespaces/raw.eu").status == 200
    make(lake, "t", rows=2)
    assert post("/tables/t/tags", name="v1").json["action"] == "tag"
    append(lake, "t", [{"id": 3, "v": "c"}])
    assert post("/tables/t/rollback", to="v1", dry_run=True).json["dry_run"] is True
    assert post("/tables/t/rollback", to="v1").json["undo"]
    assert [row["name"] for row in client.get(f"{API}/tables/t/references").json] == ["main", "v1"]
    assert client.ask("DELETE", f"{API}/tables/t/tags/v1").json["action"] == "delete_tag"
    declare(lake, "d", "SELECT id, v FROM t", "t")
    assert [row["action"] for row in post("/dynamic/d/suspend").json] == ["suspend"]
    assert [row["action"] for row in post("/dynamic/d/resume").json] == ["resume"]
    assert post("/dynamic/d", "PATCH", set={"TARGET_LAG": "10 minutes"}).json["action"] == "alter"
    assert client.get(f"{API}/dynamic/d").json["target_lag"] == "10m"
    assert (
        post("/dynamic/validate", sql="CREATE DYNAMIC TABLE e TARGET_LAG='1 minute' AS SELECT id FROM t").status == 200
    )
    assert [row["action"] for row in client.ask("DELETE", f"{API}/dynamic/d").json] == ["delete"]


WRONG: list[tuple[str, str, str | None, int, str]] = [  # verb, path, body, status, code
    ("POST", "/tables", '{"table": "t"}', 422, "invalid_input"),
    ("POST", "/tables", '{"table": "t", "schema": "id bigint", "locatoin": "/x"}', 422, "invalid_input"),
    ("POST", "/tables", '{"table": "t", "schema": "/etc/x.yaml"}', 422, "invalid_schema"),
    ("POST", "/tables", '{"table": "x.yaml", "schema": "nope.yml"}', 422, "invalid_schema"),
    ("POST", "/tables", '{"table": "t", "table": "u", "schema": "id bigint"}', 422, "invalid_input"),
    ("POST", "/tables", "[]", 422, "invalid_input"),
    ("POST", "/tables", "{", 422, "invalid_input"),
    ("GET", "/tables?nmespace=x", None, 422, "invalid_input"),
    ("POST", "/tables/t/online", '{"all": true}', 422, "invalid_input"),
    ("GET", "/runs?limit=0", None, 422, "invalid_input"),
    ("GET", "/runs?limit=1&limit=2", None, 422, "invalid_input"),
    ("GET", "/runs?state=lost", None, 422, "invalid_input"),
    ("GET", "/tables/t%2Eyaml", None, 404, "table_not_found"),
    ("GET", "/tables/..%2F..%2Fetc", None, 404, "not_found"),
    ("GET", "/nothing", None, 404, "not_found"),
    ("DELETE", "/tables", None, 405, "method_not_allowed"),
    ("POST", "/tables/t/compact", '{"ignore_delay": true}', 422, "invalid_input"),
    ("POST", "/sql", '{"sql": "DELETE FROM t"}', 412, "needs_write"),
    ("POST", "/sql", '{"sql": "SET"}', 412, "needs_write"),
    ("POST", "/sql", '{"sql": "SELECT 1; SELECT 2"}', 422, "invalid_input"),
    ("POST", "/sql", '{"sql": "SELECT \'${env:HOME}\'"}', 422, "invalid_input"),
    ("GET", "/tables/nope/changes?since=1", None, 404, "table_not_found"),
]


def test_what_is_wrong_is_a_problem(client: Client) -> None:
    for verb, path, body, status, code in WRONG:
        headers = {} if body is None else {"Content_Type": "application/json"}
        found = client.ask(verb, API + path, body, **headers)
        assert problem(found) == (status, code), (verb, path, body)


def test_only_json_changes_anything(client: Client, lake: Lake) -> None:
    """What a page of another site can send without asking first."""
    make(lake, "t")
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert problem(client.ask("POST", f"{API}/tables/t/offline", "", Content_Type=kind))[0] == 415
    assert problem(client.ask("POST", f"{API}/tables/t/offline"))[0] == 415
    assert lake.table("t").show().online is True


def wait(client: Client, found: Answered, **headers: str) -> Any:
    assert (found.status, found.json["state"], found.json["kind"]) == (202, "running", "request"), found.text
    assert found.headers["location"] == f"{API}/runs/{found.json['run_id']}"
    for _ in range(500):
        run = client.get(found.headers["location"], **headers).json
        if run["state"] != "running":
            return run
        time.sleep(0.02)
    raise AssertionError("it goes on and on")


def test_long_work_goes_on_as_a_run(client: Client, lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "t", rows=1)
    found = client.post(f"{API}/tables/t/compact", {})
    run = wait(client, found)
    assert (run["state"], run["table_name"], run["plan"]["request"]) == (
        "succeeded",
        "t",
        "POST /tables/{table}/compact",
    )
    said = json.loads(cli("compact", "t", "-o", "json").out)
    times = {"duration_ms": 0, "compaction_time_ms": 0}
    assert run["result"]["answer"] | times == said | times
    dry = client.post(f"{API}/tables/t/compact", {"dry_run": True})
    assert (dry.status, dry.json["action"]) == (200, "compact")
    missing = wait(client, client.post(f"{API}/tables/nope/compact", {}))
    assert (missing["state"], missing["error_code"]) == ("failed", "table_not_found")

    going = threading.Event()

    def compact(*_: object, **__: object) -> Any:
        assert going.wait(60)
        raise JobFailed("lost")

    monkeypatch.setattr(LakeTable, "compact", compact)
    begun = [client.post(f"{API}/tables/t/compact", {}) for _ in range(AT_LENGTH)]
    assert [each.status for each in begun] == [202] * AT_LENGTH
    assert problem(client.post(f"{API}/tables/t/compact", {})) == (429, "too_many_requests")
    told: list[Answered] = []
    listening = threading.Thread(target=lambda: told.append(client.get(begun[0].headers["location"] + "/events")))
    listening.start()
    time.sleep(0.1)
    going.set()
    listening.join()
    events = [line.removeprefix("event: ") for line in told[0].text.splitlines() if line.startswith("event: ")]
    assert (told[0].headers["content-type"], events) == ("text/event-stream; charset=utf-8", ["running", "failed"])
    last = json.loads([line for line in told[0].text.splitlines() if line.startswith("data: ")][-1][6:])
    assert (last["error_code"], last["error_message"]) == ("job_failed", "lost")
    assert problem(client.get(f"{API}/runs/00000/events")) == (404, "run_not_found")


def header(key: NewKey) -> str:
    return f"Bearer {key.key}"


@pytest.mark.slow
def test_role_and_tenant_of_every_route(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's key has no place here; the others reach what their role may."""
    keys: dict[Any, NewKey] = {role: lake.keys.create(None, role) for role in ROLES}
    tenant = lake.keys.create("acme", "admin")

    def let_through(*_: object) -> Any:
        raise InvalidInput("let through")

    monkeypatch.setattr("neve.http.rest.answering._read", let_through)
    for route in ROUTES:
        path = API + route.path.replace("{", "").replace("}", "")
        more = {"Content_Type": "application/json"} if route.verb in ("POST", "PATCH") else {}
        assert problem(client.ask(route.verb, path, **more)) == (401, "unauthorized")
        assert problem(client.ask(route.verb, path, **more, Authorization=header(tenant))) == (403, "forbidden")
        for role, key in keys.items():
            may = ROLES.index(role) >= ROLES.index(route.role)
            found = problem(client.ask(route.verb, path, **more, Authorization=header(key)))
            assert found == ((422, "invalid_input") if may else (403, "forbidden")), (role, path)
    changing = [route for route in ROUTES if route.verb != "GET" and route.role == "reader"]
    reading = {"/sql", "/dynamic/validate", "/tables/{table}/get", "/tables/{table}/get/explain"}
    assert {route.path for route in changing} == reading
    row = lake.keys.audit(limit=1)[0]
    assert (row.action, row.target, row.status, row.code) == (
        "POST /runs/{run}/cancel",
        "run",
        422,
        "invalid_input",
    )
    assert problem(client.get(f"{API}/runs/x/events")) == (401, "unauthorized")


def test_every_route_is_described(client: Client) -> None:
    found = client.get("/openapi.json").json
    known = found["components"]["schemas"]
    for route in ROUTES:
        told = found["paths"][API + route.path][route.verb.lower()]
        assert told["summary"]
        query = UPLOAD.query if route.path == UPLOAD.path else route.query
        assert {each["name"] for each in told["parameters"] if each["in"] == "query"} == {
            field.alias or name for name, field in query.model_fields.items()
        }
        assert ("requestBody" in told) == (route.body is not None)
        if route.example is not None:
            assert route.body is not None
            route.body.model_validate(route.example)
    spoken = {part.partition('"')[0] for part in json.dumps(found).split("#/components/schemas/")[1:]}
    assert spoken <= set(known)
    assert len({told["operationId"] for path in found["paths"].values() for told in path.values()}) == sum(
        len(path) for path in found["paths"].values()
    )


def test_long_work_whose_process_died_has_ended(lake: Lake) -> None:
    """The runs within it are settled by what they left; of itself nothing tells."""
    make(lake, "t")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    now = datetime.now(UTC)
    run = Run(
        run_id=new_run_id(now, os.urandom),
        kind=REQUEST,
        table_name="t",
        plan={"request": "POST /tables/{table}/compact"},
        started_at=now,
        host=socket.gethostname(),
        pid=dead.pid,
    )
    lake._context.store.runs.start(run)
    lake.table("t").offline()  # the next change settles
    found = lake.runs.show(run.run_id)
    assert (found.state, found.error_code) == ("failed", "died")
    assert "look at the table" in str(found.error_message)


WORDS = st.text("abt.`/'\"%\\ é0{}", max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_that_is_sent_breaks_it(client: Client, data: st.DataObject) -> None:
    """Whatever the words are, the answer is one that was foreseen."""
    route = data.draw(
        st.sampled_from([route for route in ROUTES if route.way != "as rows" and route.path != "/doctor"])
    )
    path = API + "/".join(
        quote(data.draw(WORDS), safe="") or "x" if part.startswith("{") else part for part in route.path.split("/")
    )
    fields = [] if route.body is None else [field.alias or name for name, field in route.body.model_fields.items()]
    body = {name: data.draw(VALUES) for name in fields if data.draw(st.booleans())}
    query = urlencode({name: data.draw(WORDS) for name in route.query.model_fields if data.draw(st.booleans())})
    more = {"Content_Type": "application/json"} if route.verb in ("POST", "PATCH") else {}
    found = client.ask(route.verb, f"{path}?{query}", json.dumps(body) if more else None, **more)
    assert found.status < 500, (route.verb, path, query, body, found.text)
    if found.status >= 400:
        problem(found)


def test_what_cannot_be_loaded_is_refused_and_not_kept(
    client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake)
    monkeypatch.setattr("neve.http.rest.uploads.MOST_BYTES", 8)

    def sent(body: str, query: str = "date=2026-11-16", media: str = "text/csv", **headers: str) -> Any:
        found = client.ask("POST", f"{API}/tables/t/ingest?{query}", body, Content_Type=media, **headers)
        assert list((lake.root / ".neve" / "uploads").glob("*")) == []
        return found.status, found.json["code"]

    assert sent("id\n1\n", "") == (422, "invalid_input")
    assert sent("id\n1\n", "date=2026-11-16&sources=/etc/passwd") == (422, "invalid_input")
    assert sent("id\n1\n", "date=soon&dry_run=true") == (422, "invalid_input")
    assert sent("") == (422, "invalid_input")
    assert sent("id\n123456789\n") == (413, "too_large")
    assert sent("id\n1\n", Content_Encoding="gzip") == (422, "invalid_input")
    assert sent("id\n1\n", media="text/plain") == (415, "unsupported_media_type")
    keys = {role: lake.keys.create(None, role).key for role in ("reader", "writer")}
    tenants = lake.keys.create("acme", "admin").key
    for key in (keys["reader"], tenants):
        assert sent("id\n1\n", Authorization=f"Bearer {key}") == (403, "forbidden")
    known = sent("id\n1\n", "date=soon&dry_run=true", Authorization=f"Bearer {keys['writer']}")
    assert known == (422, "invalid_input")
    by_path = client.post(f"{API}/tables/t/ingest", {"sources": ["/x.csv"]}, Authorization=f"Bearer {keys['writer']}")
    assert by_path.status == 403
