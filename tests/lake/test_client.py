"""`neve.client` and `--server`: what a service answers is what the lake would have said. No JVM."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.lake.lakes import Cli, append, make
from tests.lake.serving import Client as Plain
from tests.lake.serving import serving
from tests.lake.test_rest import SAME, filled

from neve.cli.options import REMOTE
from neve.client import Client
from neve.client.client import RemoteRuns
from neve.client.dynamic import RemoteDynamicTable, RemoteDynamicTables
from neve.client.tables import RemoteNamespaces, RemoteTable, RemoteTables
from neve.client.wire import Wire
from neve.errors import (
    AlreadyExists,
    Forbidden,
    InvalidInput,
    JobFailed,
    NeveError,
    TableNotFound,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from neve.http import create_app
from neve.lake import Lake, LakeTable
from neve.lake.runs import Runs
from neve.model.rest import Compact, KeyWords, NewTable
from neve.model.runs import Run

__all__ = ["filled"]


@pytest.fixture
def url(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield f"http://127.0.0.1:{opened.port}"


@pytest.mark.slow
def test_every_look_is_the_same_with_and_without_a_server(url: str, filled: Lake, cli: Cli) -> None:
    for words in SAME.values():
        if words[0] == "doctor":
            continue
        for form in ("table", "json"):
            near, far = cli(*words, "-o", form), cli(*words, "-o", form, "--server", url)
            assert (far.code, far.err) == (near.code, near.err), words
            if "current_lag" not in near.out and "lag" not in near.out:
                assert far.out == near.out, words


def test_a_lake_can_be_worked_on_from_elsewhere(url: str, lake: Lake, cli: Cli) -> None:
    def far(*words: str) -> Any:
        said = cli(*words, "--server", url, "-o", "json")
        assert said.code == 0, said
        return json.loads(said.out)

    assert far("table", "create", "raw.t", "--schema", "id bigint, v string", "--partition-by", "bucket(4, id)")[
        "run_id"
    ]
    assert far("table", "set", "raw.t", "a=1")["action"] == "set"
    assert far("table", "unset", "raw.t", "a")["action"] == "unset"
    assert far("table", "offline", "raw.t")["action"] == "offline"
    assert far("table", "rename", "raw.t", "raw.u")["table"]
    assert far("compact", "raw.u")["reason"]["code"]
    assert far("compact", "raw.u", "--dry-run")["action"] == "compact"
    assert far("table", "delete", "raw.u", "--yes")["undo"] == "neve table undelete raw.u"
    assert [row["table"] for row in far("table", "trash")] == ["raw.u"]
    assert far("table", "undelete", "raw.u", "--as", "raw.w")["table"] == "raw.w"
    assert far("namespace", "create", "x.y")["namespace"] == "x.y"
    assert far("namespace", "drop", "x.y")["tables"] == 0
    assert [row.table for row in lake.tables.list()] == ["raw.w"]


def test_what_a_service_does_not_do_is_refused_by_its_name(url: str, cli: Cli, lake: Lake) -> None:
    for words in (
        ["init", "x"],
        ["worker", "--once"],
        ["serve"],
        ["key", "list"],
        ["config", "show"],
        ["doctor"],
        ["parquet", "fragmentation", "."],
        ["delete", "t", "--where", "id = 1"],
        ["table", "export", "t", "x"],
        ["table", "ingest", "t", "x.csv", "--date", "2026-01-01"],
        ["compact", "--all"],
        ["table", "online", "--all"],
        ["sql", "DELETE FROM t", "--write"],
        ["sql", "DELETE FROM t"],
    ):
        assert cli(*words, "--server", url).code == 6, words
    assert cli("table", "list", "--server", url, "--lake", str(lake.root)).code == 2
    assert cli("table", "create", "t.yaml", "--server", url).code == 2
    assert not (lake.root / "x").exists()


def test_remote_commands_are_commands() -> None:
    import typer

    from neve.cli.app import app

    tree = typer.main.get_command(app)
    for command in REMOTE:
        found: Any = tree
        for word in command.split():
            found = found.commands[word]


def test_errors_are_those_of_the_lake(url: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(url)
    client.tables.create("t", "id bigint")
    with pytest.raises(AlreadyExists):
        client.tables.create("t", "id bigint")
    with pytest.raises(TableNotFound) as near:
        lake.table("tt").show()
    with pytest.raises(TableNotFound) as far:
        client.table("tt").show()
    assert (far.value.message, far.value.hint) == (near.value.message, near.value.hint)
    with pytest.raises(TableNotFound):
        client.operate({"operation": "QUERY", "table": "nope"})
    assert client.operate({"operation": "LIST_TABLES"})["tables"] == ["t"]
    with pytest.raises(Unsupported, match="export"):
        client.table("t").export("x")
    with pytest.raises(Unsupported, match="worker"):
        client.worker()
    with pytest.raises(NeveError, match="begins with"):
        list(client.rows("DROP TABLE t"))

    def fail(*_: object, **__: object) -> None:
        raise JobFailed("lost", hint="look")

    monkeypatch.setattr(LakeTable, "compact", fail)
    with pytest.raises(JobFailed, match="lost") as told:
        client.table("t").compact()
    assert lake.runs.show(str(told.value.run_id)).state == "failed"


class Heard(Exception):
    """What a service would have been told."""


class Deaf(Wire):
    """Sends nothing."""

    def __init__(self) -> None:
        super().__init__("http://nobody", None)

    def _open(self, verb: str, path: str, body: Any, query: Mapping[str, object]) -> Any:
        raise Heard({**(body or {}), **query})


_NO: dict[str, Any] = {"force": False, "expire_snapshots": False, "ignore_delay": False, "delete_source": False}
_ZERO: dict[str, Any] = {"max_files": 0, "target_file_size": 0, "snapshot_retention_hours": 0}
_ROUND: dict[str, Any] = {"downstream": False, "parallel": 0, "dry_run": False}
_EXPIRE: dict[str, Any] = {"retention_hours": 0, "keep_last": 0, "dry_run": False}
SAID: list[tuple[Callable[[Wire], object], dict[str, object]]] = [
    (lambda wire: RemoteTable(wire, "t").compact(**_NO, **_ZERO, dry_run=False), {**_NO, **_ZERO, "dry_run": False}),
    (lambda wire: RemoteTable(wire, "t").compact("2024", delete_source=False), {"delete_source": False}),
    (lambda wire: RemoteTable(wire, "t").expire(**_EXPIRE), _EXPIRE),
    (lambda wire: RemoteTable(wire, "t").read(KeyWords(), limit=0), {"limit": 0}),
    (lambda wire: RemoteTable(wire, "t").split(0, at="", dry_run=False), {"range": 0, "at": "", "dry_run": False}),
    (lambda wire: RemoteTable(wire, "t").rollback(0, dry_run=False), {"to": "0", "dry_run": False}),
    (lambda wire: RemoteTable(wire, "t").drop(force=False), {"purge": False, "dry_run": False}),
    (
        lambda wire: RemoteTables(wire).create("t", "id int", base64=False, if_not_exists=False),
        {"base64": False, "if_not_exists": False},
    ),
    (lambda wire: RemoteNamespaces(wire).create("n", if_not_exists=False), {"if_not_exists": False}),
    (lambda wire: RemoteRuns(wire).list(limit=0), {"limit": 0}),
    (lambda wire: RemoteDynamicTables(wire).history(failed=False, limit=0), {"failed": False, "limit": 0}),
    (lambda wire: RemoteDynamicTables(wire).round(**_ROUND), _ROUND),
    (lambda wire: RemoteDynamicTable(wire, "t").drop(cascade=False), {"cascade": False}),
]


@pytest.mark.parametrize(("say", "said"), SAID)
def test_no_and_zero_arrive(say: Callable[[Wire], Any], said: dict[str, object]) -> None:
    """Else a table's own file, or a default, would decide against what was said."""
    with pytest.raises(Heard) as heard:
        list(say(Deaf()))
    (told,) = heard.value.args
    assert {word: told.get(word) for word in said} == said


def test_every_yes_and_number_is_tried() -> None:
    """Of the methods that take words as they are."""
    for model, tried in ((Compact, {*_NO, *_ZERO, "dry_run"}), (NewTable, {"base64", "if_not_exists"})):
        kinds = {name: str(field.annotation) for name, field in model.model_fields.items()}
        assert {name for name, kind in kinds.items() if re.search("bool|int|float", kind)} == tried


def test_a_service_says_whether_less_would_be_kept(url: str, lake: Lake, cli: Cli) -> None:
    make(lake, "t", rows=1)
    append(lake, "t", [{"id": 2, "v": "x"}])
    words = ["compact", "t", "--expire-snapshots", "--snapshot-retention-hours", "0", "--server", url]
    assert cli(*words[:-3], "200", *words[-2:]).code == 0
    at = lake._context.clock() + timedelta(hours=2)
    lake._context.clock = lambda: at
    said = cli(*words)
    assert (said.code, "snapshots of t for ever" in said.err) == (6, True)
    assert cli(*words, "--yes").code == 0
    assert len(lake.table("t").history()) == 1
    said = cli("compact", "--all", *words[2:])
    assert (said.code, "a service does not do this: compact" in said.err) == (6, True)


def test_zero_hours_are_not_for_a_period(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="snapshot-retention-hours is not for a --period"):
        lake.table("t").compact("2024-01", snapshot_retention_hours=0)


def test_who_waits_no_longer_ends_the_run(url: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C ends what it waited for, as it does without a service."""
    lake.tables.create("t", "id bigint")
    ended = threading.Event()
    asked: list[str] = []

    def compact(*_: object, **__: object) -> None:
        assert ended.wait(60)
        raise JobFailed("it was ended")

    def cancel(_: Runs, run_id: str) -> Run:
        asked.append(run_id)
        ended.set()
        return lake.runs.show(run_id)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LakeTable, "compact", compact)
    monkeypatch.setattr(Runs, "cancel", cancel)
    monkeypatch.setattr(Wire, "_awaited", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Client(url).table("t").compact()
    assert [lake.runs.show(run_id).kind for run_id in asked] == ["request"]


def test_a_key_comes_from_the_environment_alone(
    url: str, lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, tenant = lake.keys.create(None, "reader"), lake.keys.create("acme", "admin")
    with pytest.raises(Unauthorized):
        Client(url).status()
    with pytest.raises(Forbidden):
        Client(url, tenant.key).status()
    assert Client(url, operator.key).status() == []
    assert Client(url, tenant.key).operate({"operation": "LIST_TABLES"})["tables"] == []
    assert cli("status", "--server", url).code == 6
    monkeypatch.setenv("NEVE_KEY", operator.key)
    assert cli("status", "--server", url).code == 0
    assert cli("table", "create", "t", "--schema", "id bigint", "--server", url).code == 6


@pytest.mark.parametrize("address", ["", "localhost:8080", "ftp://x", "file:///etc/passwd", "http://x/y", "http://"])
def test_only_addresses_of_services_are_taken(address: str) -> None:
    with pytest.raises(InvalidInput):
        Client(address)


def test_nobody_there(cli: Cli) -> None:
    said = cli("status", "--server", "http://127.0.0.1:9")
    assert (said.code, "does not answer" in said.err) == (1, True)
    with pytest.raises(Unreachable):
        Client("http://127.0.0.1:9").status()


def test_a_key_goes_nowhere_else() -> None:
    """An answer that leads elsewhere is an error; nobody else sees the key."""
    seen: list[str | None] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{server.server_port}/other")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(NeveError, match="307"):
            Client(f"http://127.0.0.1:{server.server_port}", "k").status()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert seen == ["Bearer k"]


def test_the_plain_client_of_the_tests_agrees(url: str, filled: Lake) -> None:
    """The models that the client reads are the bodies, whole."""
    plain = Plain(int(url.rpartition(":")[2]))
    client = Client(url)
    assert [row.model_dump(mode="json") for row in client.tables.list()] == plain.get("/api/v1/tables").json
    assert client.table("t").show().model_dump(mode="json") == plain.get("/api/v1/tables/t").json
    assert client.dynamic("totals").show().model_dump(mode="json")["table"] == "default.totals"
