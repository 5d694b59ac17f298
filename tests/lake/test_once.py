"""Writes with an Idempotency-Key: sent again they happen once, whatever became of the first. Spark stands aside."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from tests.lake.lakes import append, facts, make
from tests.lake.serving import Answered, Client, serving

from neve.errors import JobFailed
from neve.http import create_app
from neve.http.events import INVOCATIONS
from neve.lake import Lake
from neve.services import repair
from neve.services.context import Context
from neve.services.look import RUN_ID
from neve.services.operations import writing
from neve.services.operations.appending import Batch
from neve.services.operations.once import KEPT
from neve.services.runs import recorded


class Table:
    """A table of format 2, which PyIceberg writes where Spark would; something may go wrong before or after."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.before: Exception | None = None
        self.after: BaseException | None = None
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        make(lake, "t")

    def write(self, context: Context, batch: Batch) -> None:
        with recorded(context, "write", batch.target.facts.name) as run:
            rows = batch.claim(run.run_id)
            self.begun.set()
            assert self.go_on.wait(30)
            if self.before is not None:
                raise self.before
            if rows:
                append(self.lake, "t", rows, summary={RUN_ID: run.run_id})
            if self.after is not None:
                raise self.after

    @property
    def ids(self) -> list[int]:
        metadata = facts(self.lake, "t").metadata_location
        return sorted(StaticTable.from_metadata(metadata).scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table(lake)
    monkeypatch.setattr(writing, "append_rows", made.write)
    return made


@pytest.fixture
def client(lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


def write(client: Client, number: int, key: str | None = "k", **words: Any) -> Answered:
    body = {"operation": "WRITE", "table": "t", "records": [{"id": number}], **words}
    return client.post("/database", body, **({} if key is None else {"Idempotency_Key": key}))


def told(found: Answered) -> tuple[int, object]:
    return found.status, found.json.get("records_written", found.json.get("error", {}).get("code"))


def test_a_write_that_is_sent_again_happens_once(client: Client, table: Table) -> None:
    assert [told(write(client, 1)) for _ in range(3)] == [(200, 1)] * 3
    assert [told(write(client, 1, None)) for _ in range(2)] == [(200, 1)] * 2
    assert told(write(client, 2, "other")) == (200, 1)
    assert table.ids == [1, 1, 1, 2]


def test_a_key_means_one_request_of_one_tenant(client: Client, table: Table) -> None:
    assert told(write(client, 1)) == (200, 1)
    for other in ({"records": [{"id": 2}]}, {"table": "u"}, {"mode": "overwrite"}):
        assert told(write(client, 1, **other)) == (422, "INVALID_INPUT")
    elsewhere = write(client, 1, tenant_id="acme")  # its own keys, and no such table
    assert told(elsewhere) == (404, "TABLE_NOT_FOUND")
    assert table.ids == [1]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("QUERY", {"table": "t"}),
        ("WRITE", {"table": "t", "records": [{"id": 1}], "mode": "upsert"}),
        ("UPDATE", {"table": "t", "updates": {"v": "x"}, "filters": [{"field": "id", "operator": "eq", "value": 1}]}),
        ("LIST_TABLES", {}),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_done_once_refuses_the_key(client: Client, operation: str, words: dict[str, Any]) -> None:
    found = client.post("/database", {"operation": operation, **words}, Idempotency_Key="k")
    assert told(found) == (422, "INVALID_INPUT")
    assert "Idempotency-Key" in found.json["error"]["message"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
@pytest.mark.slow
def test_keys_that_nobody_could_read_are_refused(client: Client, table: Table, key: str) -> None:
    assert told(write(client, 1, key)) == (422, "INVALID_INPUT")
    assert table.ids == []


def test_a_write_that_failed_can_be_sent_again(client: Client, table: Table) -> None:
    table.before = JobFailed("no disk")
    assert told(write(client, 1)) == (502, "JOB_FAILED")
    table.before = None
    assert [told(write(client, 1)) for _ in range(2)] == [(200, 1)] * 2
    assert table.ids == [1]


def test_a_commit_whose_answer_was_lost_is_not_made_again(client: Client, table: Table) -> None:
    table.after = JobFailed("the line went dead")
    assert told(write(client, 1)) == (502, "JOB_FAILED")
    table.after = None
    assert told(write(client, 1)) == (200, 1)
    assert table.ids == [1]


@pytest.mark.parametrize("committed", [True, False])
def test_a_process_that_died_is_settled_by_what_the_table_shows(
    client: Client, table: Table, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    class Died(BaseException):
        pass

    monkeypatch.setattr("neve.services.runs._finish", lambda *_, **__: None)  # dead processes end no run
    setattr(table, "after" if committed else "before", Died())
    assert write(client, 1).status == 500
    table.before = table.after = None
    monkeypatch.undo()
    monkeypatch.setattr(writing, "append_rows", table.write)
    assert told(write(client, 1)) == (409, "CONFLICT")  # as long as that process lives
    monkeypatch.setattr(repair, "is_alive", lambda *_: False)
    assert told(write(client, 1)) == (200, 1)
    assert table.ids == [1]


def test_who_comes_while_the_first_is_at_it_waits_for_it(client: Client, table: Table) -> None:
    table.go_on.clear()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(write, client, 1) for _ in range(4)]
        assert table.begun.wait(30)
        table.go_on.set()
        assert [told(each.result(30)) for each in asked] == [(200, 1)] * 4
    assert table.ids == [1]


def test_a_key_is_forgotten_after_a_day(client: Client, table: Table, lake: Lake) -> None:
    assert told(write(client, 1)) == (200, 1)
    clock = lake._context.clock
    lake._context.clock = lambda: clock() + KEPT - timedelta(minutes=1)
    assert told(write(client, 1)) == (200, 1)
    assert table.ids == [1]
    lake._context.clock = lambda: clock() + KEPT + timedelta(minutes=1)
    assert told(write(client, 2)) == (200, 1)
    assert table.ids == [1, 2]


def test_events_have_the_header_too(client: Client, table: Table) -> None:
    body = json.dumps({"operation": "WRITE", "table": "t", "records": [{"id": 1}]})
    event = {"httpMethod": "POST", "path": "/database", "body": body}
    for name in ("Idempotency-Key", "idempotency-key"):
        assert client.post(INVOCATIONS, {**event, "headers": {name: "k"}}).json["statusCode"] == 200
    assert table.ids == [1]
    wrong = client.post(INVOCATIONS, {**event, "headers": {"Idempotency-Key": 7}}).json
    assert (wrong["statusCode"], json.loads(wrong["body"])["error"]["code"]) == (422, "INVALID_EVENT")


def test_writes_are_counted_over_restarts(client: Client, table: Table, lake: Lake) -> None:
    """Every fifth is told of small files, by whichever process; those that are there already count no more."""
    asked: list[int] = []

    def at(_: object, __: object, ___: object, number: int) -> int | None:
        asked.append(number)
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neve.services.operations.counting.SmallFiles.at", at)
        for number in range(3):
            write(client, number, f"k{number % 2}" if number else None)
        del lake.__dict__["database"]
        write(client, 9, None)
    assert asked == [1, 2, 3, 4]
