"""OpenLineage events: what runs and the worker's jobs tell, to whom, and that nobody has to listen."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import pytest
from tests.lake.dynamic import declare, settle
from tests.lake.lakes import append, facts, make
from tests.lake.receivers import Receiver
from tests.lake.schemas import check_event

from neve.errors import ConfigError, JobFailed
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.runs import run_uuid
from neve.observe import sending
from neve.plan.agenda import Job
from neve.services.lineage import Reads
from neve.services.repair import settle_dead_runs
from neve.services.runs import recorded
from neve.services.worker import jobs, worker
from neve.services.worker.jobs import Done, Hands

S, D = TableName.parse("s"), TableName.parse("d")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["eventType"], event["job"]["name"]) for event in events]


def test_runs_are_told_as_the_specification_says(lake: Lake, receiver: Receiver, tmp_path: Path) -> None:
    make(lake, "s", rows=1)
    append(lake, "s", [{"id": 9, "v": "x"}])
    lake.tables.create("d", "id bigint, v string")
    file = tmp_path / "events.jsonl"
    flags = {"openlineage.url": receiver.url, "openlineage.file": str(file), "openlineage.api_key": "secret"}
    with Lake(lake.root, flags={**flags, "openlineage.namespace": "acme"}) as heard:
        context = heard._context
        current = facts(lake, "s").current_snapshot_id
        reads = Reads(tables={S: current}, query="SELECT id, v FROM s")
        with recorded(context, "refresh", D, reads=reads) as refresh:
            pass
        with (
            pytest.raises(JobFailed),
            recorded(context, "ingest", S, reads=Reads(files=["file:///in/a.csv"])) as ingest,
        ):
            raise JobFailed("it broke")
        with pytest.raises(KeyboardInterrupt), recorded(context, "compact", S, snapshot_before=current):
            raise KeyboardInterrupt
        with recorded(context, "compact", S, snapshot_before=current) as compact:
            compact.snapshot_after = current
        expired = heard.table("s").expire(older_than="0", keep_last=1)
        heard.table("s").set({"a": "b"})
    events = receiver.heard
    assert [json.loads(line) for line in file.read_text().splitlines()] == events
    assert set(receiver.tokens) == {"Bearer secret"}
    for event in events:
        check_event(event)
    for broken in ({"runId": "01M7GZH7380000000000000000"}, {}):
        with pytest.raises((KeyError, ValueError)):
            check_event({**events[0], "run": broken})
    assert told(events) == [
        ("START", "refresh.default.d"),
        ("COMPLETE", "refresh.default.d"),
        ("START", "ingest.default.s"),
        ("FAIL", "ingest.default.s"),
        ("START", "compact.default.s"),
        ("ABORT", "compact.default.s"),
        ("START", "compact.default.s"),
        ("COMPLETE", "compact.default.s"),
        ("START", "expire.default.s"),
        ("COMPLETE", "expire.default.s"),
    ], "settings of a table are nobody's lineage"
    first, done, _, failed, *_, last, _, gone = events
    assert gone["run"]["runId"] == run_uuid(str(expired.run_id))
    assert first["run"]["runId"] == done["run"]["runId"] == run_uuid(refresh.run_id)
    assert first["run"]["facets"]["neve_run"]["runId"] == refresh.run_id
    assert failed["run"]["runId"] == run_uuid(ingest.run_id)
    assert failed["run"]["facets"]["errorMessage"]["message"] == "it broke"
    assert done["job"]["facets"]["sql"]["query"] == "SELECT id, v FROM s"
    (source,), (target,) = done["inputs"], done["outputs"]
    assert (source["namespace"], source["name"]) == ("acme", "default.s")
    assert source["facets"]["version"]["datasetVersion"] == str(current)
    assert [(each["name"], each["type"]) for each in target["facets"]["schema"]["fields"]] == [
        ("id", "bigint"),
        ("v", "string"),
    ]
    folder = target["facets"]["symlinks"]["identifiers"][0]
    assert (folder["namespace"], Path(folder["name"]).is_dir()) == ("file", True)
    assert (failed["inputs"][0]["namespace"], failed["inputs"][0]["name"]) == ("file", "/in/a.csv")
    assert last["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1


def test_a_run_whose_process_died_is_told_when_it_is_settled(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "s", rows=1)
    file = tmp_path / "events.jsonl"
    with Lake(lake.root, flags={"openlineage.file": str(file)}) as heard:
        begun = recorded(heard._context, "compact", S)
        begun.__enter__()
        with monkeypatch.context() as patched:
            patched.setattr("neve.services.repair.is_alive", lambda *_: False)
            assert len(settle_dead_runs(heard._context)) == 1
        begun.__exit__(None, None, None)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert told(events) == [("START", "compact.default.s"), ("FAIL", "compact.default.s")], "and never twice"
    assert "died" in events[1]["run"]["facets"]["errorMessage"]["message"]


def test_jobs_of_the_worker_are_told_and_runs_are_parts_of_them(
    lake: Lake, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "s", rows=1)
    declare(lake, "d", "SELECT id, v FROM s", "s")
    settle(lake, "d")
    append(lake, "s", [{"id": 9, "v": "x"}])
    fails: list[bool] = [False, True]

    def do(hands: Hands, job: Job) -> None:
        with recorded(hands.context, "refresh", job.table) as run:
            if fails.pop(0):
                raise JobFailed("it broke")
        hands.tell(Done(table=job.table, state="succeeded", run_id=run.run_id))

    monkeypatch.setattr(worker, "JOBS", {**{k: v for k, v in jobs.JOBS.items() if k != "compact"}, "refresh": do})
    with Lake(lake.root, flags={"openlineage.url": receiver.url}) as heard:
        now = heard._context.clock() + timedelta(minutes=6)
        outcomes = []
        for late in (timedelta(0), timedelta(minutes=6)):
            monkeypatch.setattr(heard._context, "clock", partial(add, now, late))
            outcomes += heard.worker().tick()
    events = receiver.heard
    for event in events:
        check_event(event)
    names = ["worker.refresh.default.d", "refresh.default.d", "refresh.default.d", "worker.refresh.default.d"]
    assert told(events) == [
        *zip(["START", "START", "COMPLETE", "COMPLETE"], names, strict=True),
        *zip(["START", "START", "FAIL", "FAIL"], names, strict=True),
    ]
    assert [events[0]["run"]["runId"], events[4]["run"]["runId"]] == [run_uuid(each.job_id) for each in outcomes]
    assert events[1]["run"]["facets"]["parent"]["run"]["runId"] == events[0]["run"]["runId"]
    assert events[1]["run"]["facets"]["parent"]["job"]["name"] == names[0]
    assert "parent" not in events[0]["run"]["facets"]
    assert events[7]["run"]["facets"]["errorMessage"]["message"] == "it broke"


def test_nobody_has_to_listen(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "s", rows=1)
    assert lake._context.events is None, "off unless asked for"
    monkeypatch.setattr(sending, "TIMEOUT", 0.3)
    deaf, refusing = socket.create_server(("127.0.0.1", 0)), Receiver(status=500)
    for address in (f"http://127.0.0.1:{deaf.getsockname()[1]}", refusing.url):
        flags = {"openlineage.url": address, "openlineage.file": str(tmp_path / "no" / "folder")}
        heard = Lake(lake.root, flags=flags)
        said: list[str] = []
        heard._context.tell = said.append
        began = time.monotonic()
        for _ in range(20):
            with recorded(heard._context, "compact", S):
                pass
        worked = time.monotonic() - began
        heard.close()
        assert time.monotonic() - began - worked < 5, "what is left to send is given up"
        assert len([line for line in said if "the address" in line]) == 1, "then it is left alone for a while"
        assert len([line for line in said if "the file" in line]) == 40
        assert address not in "".join(said)
        assert [run.state for run in lake.runs.list(kind="compact")][:20] == ["succeeded"] * 20
    assert len(refusing.heard) == 1
    refusing.close()
    deaf.close()


def test_an_address_that_is_none_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="http"):
        Lake(lake.root, flags={"openlineage.url": "ftp://somewhere"})
