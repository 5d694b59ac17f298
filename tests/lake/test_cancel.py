"""Cancelling runs without a JVM: of this process and of others, of workers, of dead processes, by every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta

import pytest
from tests.lake.dynamic import declare, settle
from tests.lake.lakes import Cli, append, facts, make
from tests.lake.serving import serving

from neve.client import Client
from neve.errors import Cancelled, Conflict, JobFailed, RunNotFound
from neve.http import create_app
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.runs import REQUEST, Run, new_run_id
from neve.plan.agenda import Job
from neve.services import cancelling
from neve.services.look import RUN_ID
from neve.services.runs import Progress, recorded
from neve.services.worker import worker
from neve.services.worker.jobs import Hands


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "EVERY", 0.02)


def work_on(lake: Lake) -> None:
    """Work without Spark that looks up now and then; it ends by itself only when something is wrong."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        lake._context.watch.check()
        time.sleep(0.01)
    raise AssertionError("nobody cancelled it")


@contextmanager
def running(lake: Lake, kind: str = "compact", work: Callable[[Progress], None] | None = None) -> Iterator[Run]:
    """A run in another thread, and that it raised Cancelled."""
    begun: list[str] = []

    def do() -> None:
        with recorded(lake._context, kind, TableName.parse("t")) as progress:
            begun.append(progress.run_id)
            work_on(lake) if work is None else work(progress)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(do)
        while not begun and not future.done():
            time.sleep(0.01)
        if begun:
            yield lake.runs.show(begun[0])
        with pytest.raises(Cancelled, match="was cancelled"):
            future.result(timeout=20)


def test_a_run_of_another_process_ends_as_cancelled(lake: Lake) -> None:
    make(lake, "t", rows=1)
    before = facts(lake, "t").current_snapshot_id
    with Lake(lake.root) as other, running(lake) as run:
        assert other.runs.cancel(run.run_id[:24].lower()).state == "cancelled"
    ended = lake.runs.show(run.run_id)
    assert (ended.state, ended.error_code) == ("cancelled", "cancelled")
    assert ended.finished_at is not None
    assert facts(lake, "t").current_snapshot_id == before
    assert lake._context.store.runs.asked_to_end() == ()
    with pytest.raises(Conflict, match="already ended, as cancelled"):
        lake.runs.cancel(run.run_id)
    with pytest.raises(RunNotFound):
        lake.runs.cancel("01ZZZZZZZZ")


def test_a_run_that_was_not_asked_goes_on_and_fails_as_ever(lake: Lake) -> None:
    make(lake, "t", rows=1)
    go = threading.Event()

    def fail() -> None:
        with recorded(lake._context, "compact", TableName.parse("t")):
            go.wait(20)
            lake._context.watch.check()
            raise JobFailed("broken")

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(fail)
        with running(lake) as run:
            assert lake.runs.cancel(run.run_id).state == "cancelled"
        go.set()
        with pytest.raises(JobFailed):
            other.result()
    assert {run.state for run in lake.runs.list(kind="compact")} == {"cancelled", "failed"}


def test_what_fails_in_a_run_that_is_to_end_was_cancelled(lake: Lake) -> None:
    """As Spark's jobs do."""
    make(lake, "t", rows=1)

    def fail_once_asked(progress: Progress) -> None:
        while not lake._context.watch.is_asked(progress.run_id):
            time.sleep(0.01)
        raise JobFailed("Spark: Job 7 cancelled")

    with running(lake, work=fail_once_asked) as run:
        assert lake.runs.cancel(run.run_id).state == "cancelled"


def test_what_was_committed_before_it_heard_has_been_done(lake: Lake) -> None:
    make(lake, "t", rows=1)

    def commit(progress: Progress) -> None:
        append(lake, "t", [{"id": 5, "v": "x"}], summary={RUN_ID: progress.run_id})
        work_on(lake)

    with running(lake, work=commit) as run, pytest.raises(Conflict, match="already ended, as succeeded"):
        lake.runs.cancel(run.run_id)
    assert lake.runs.show(run.run_id).state == "succeeded"


def test_a_request_ends_with_the_runs_within_it_and_begins_no_more(lake: Lake) -> None:
    make(lake, "t", rows=1)
    ends: list[str] = []

    def part(name: str) -> None:
        try:
            with recorded(lake._context, name, TableName.parse("t")):
                work_on(lake)
        except Cancelled:
            ends.append(name)

    def parts(_: Progress) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(copy_context().run, part, "compact").result()
        part("expire")
        lake._context.watch.check()

    with running(lake, REQUEST, parts) as run:
        while not lake.runs.list(kind="compact"):
            time.sleep(0.01)
        assert lake.runs.cancel(run.run_id).state == "cancelled"
    assert ends == ["compact", "expire"]
    assert [(found.kind, found.state) for found in lake.runs.list(table="t", limit=2)] == [
        ("compact", "cancelled"),
        (REQUEST, "cancelled"),
    ]


def test_a_run_of_a_dead_process_is_settled_by_what_the_catalog_shows(lake: Lake) -> None:
    make(lake, "t", rows=1)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with recorded(lake._context, "compact", TableName.parse("t")) as progress:
        pass
    model = lake.runs.show(progress.run_id)
    for committed in (False, True):
        run_id = new_run_id(model.started_at, os.urandom)
        lake._context.store.runs.start(
            model.model_copy(update={"run_id": run_id, "state": "running", "finished_at": None, "pid": gone.pid})
        )
        if committed:
            append(lake, "t", [{"id": 5, "v": "x"}], summary={RUN_ID: run_id})
        told = "as succeeded" if committed else "as failed: process .* died before it was done"
        with pytest.raises(Conflict, match=told):
            lake.runs.cancel(run_id)


def test_a_worker_gives_a_cancelled_table_back_and_counts_no_failure(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "s", rows=1)
    declare(lake, "d", "SELECT id, v FROM s", "s", lag="1m")
    settle(lake, "d")
    append(lake, "s", [{"id": 9, "v": "x"}])
    store = lake._context.store

    def refresh(hands: Hands, job: Job) -> None:
        with recorded(hands.context, "refresh", job.table):
            work_on(lake)

    monkeypatch.setattr(worker, "JOBS", {"refresh": refresh})
    later = lake._context.clock() + timedelta(minutes=10)
    with ThreadPoolExecutor(1) as pool, Lake(lake.root) as other:
        ticking = pool.submit(lake.worker().tick, later)
        while not (found := other.runs.list(kind="refresh", state="running")):
            time.sleep(0.01)
        assert store.claims.held() != {}
        assert other.runs.cancel(found[0].run_id).state == "cancelled"
        (outcome,) = ticking.result(timeout=20)
    assert (outcome.table, outcome.state, outcome.run_id) == ("default.d", "cancelled", found[0].run_id)
    assert store.claims.held() == {}
    assert store.setbacks.list() == {}


@pytest.mark.slow
def test_every_door_cancels_and_says_the_same(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "t", rows=1)
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as http:
        url = f"http://127.0.0.1:{http.port}"
        doors: list[Callable[[str], dict[str, object]]] = [
            lambda run: json.loads(cli("runs", "cancel", run, "-o", "json").out),
            lambda run: json.loads(cli("runs", "cancel", run, "-o", "json", "--server", url).out),
            lambda run: http.post(f"/api/v1/runs/{run}/cancel", {}).json,
            lambda run: Client(url).runs.cancel(run).model_dump(mode="json"),
        ]
        ended = []
        for door in doors:
            with running(lake) as run:
                ended.append(run.run_id)
                told = door(run.run_id)
            assert told == lake.runs.show(run.run_id).model_dump(mode="json")
            assert told["state"] == "cancelled"
        last = ended[-1]
        again = cli("runs", "cancel", last)
        assert (again.code, again.err.strip()) == (
            4,
            f"✗ the run {last} has already ended, as cancelled: the run {last} was cancelled",
        )
        assert http.post(f"/api/v1/runs/{last}/cancel", {}).status == 409


def test_a_process_that_does_not_hear_is_not_waited_for(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "t", rows=1)
    monkeypatch.setattr(cancelling, "PATIENCE", 0.1)
    with recorded(lake._context, "compact", TableName.parse("t")) as progress:
        pass
    elsewhere = lake.runs.show(progress.run_id).model_copy(
        update={
            "run_id": new_run_id(lake._context.clock(), lake._context.entropy),
            "state": "running",
            "finished_at": None,
            "host": "elsewhere",
        }
    )
    lake._context.store.runs.start(elsewhere)
    said = cli("runs", "cancel", elsewhere.run_id, "-o", "json")
    assert (said.code, json.loads(said.out)["state"]) == (0, "running")
    assert f"process {elsewhere.pid} on elsewhere has not heard of it yet" in said.err
    assert lake._context.store.runs.asked_to_end() == (elsewhere.run_id,)
