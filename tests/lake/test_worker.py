"""The worker and the schedule without a JVM: what is due, claims, failures, landing, alerts, metrics, log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark import SparkContext
from tests.lake.dynamic import commit_refresh, declare, settle
from tests.lake.lakes import Cli, append, append_files, current, facts, make, put_statistics
from tests.lake.receivers import Receiver

from neve.errors import JobFailed, LeaseHeld, NotFound, SparkUnavailable, StorageError
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt
from neve.model.results import Reason
from neve.model.runs import new_run_id
from neve.model.work import JobOutcome, SetbackRecord
from neve.observe.log import Event
from neve.plan.agenda import FAILURES, Job
from neve.plan.backoff import pause
from neve.plan.lag import REST
from neve.services.dynamic.definitions import FRONTIER
from neve.services.worker import jobs, worker
from neve.services.worker.alerting import Alarm
from neve.services.worker.failures import note_failure
from neve.services.worker.jobs import Done, Hands

MINUTE = timedelta(minutes=1)


class Clock:
    """Time that moves when told; a lake's clock."""

    def __init__(self, lake: Lake) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)
        lake._context.clock = lambda: self.now

    def go(self, length: timedelta) -> None:
        self.now += length


@pytest.fixture
def clock(lake: Lake) -> Clock:
    return Clock(lake)


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    yield
    assert SparkContext._active_spark_context is None


def table_with(lake: Lake, name: str = "d", *, lag: str = "5m", moved: bool = False) -> str:
    """A dynamic table over `s`, filled now; its uuid."""
    if not lake._context.catalog.exists(TableName.parse("s")):
        make(lake, "s", rows=1)
    declare(lake, name, "SELECT id, v FROM s", "s", lag=lag)
    settle(lake, name)
    if moved:
        append(lake, "s", [{"id": 9, "v": "x"}])
    return facts(lake, name).uuid


def deed(monkeypatch: pytest.MonkeyPatch, do: object, kind: str = "refresh") -> None:
    """Another deed in place of a kind's own, which would need Spark; so would compaction, which nobody does then."""
    others = {key: value for key, value in jobs.JOBS.items() if key != "compact"}
    monkeypatch.setattr(worker, "JOBS", {**others, kind: do})


def states(outcomes: list[JobOutcome]) -> dict[str, str]:
    return {outcome.table: outcome.state for outcome in outcomes}


# ----------------------------------------------------------------------------------------------------------- schedule


def test_the_schedule_says_what_is_due_when_and_why(lake: Lake, cli: Cli, clock: Clock) -> None:
    table_with(lake, "still")
    table_with(lake, "never", lag="DOWNSTREAM")
    table_with(lake, "moved", moved=True)
    declare(lake, "empty", "SELECT id, v FROM s", "s")
    lake.dynamic("still").suspend()
    rows = {row["table"]: row for row in json.loads(cli("schedule", "-o", "json").out) if row["action"] == "refresh"}
    assert rows["default.empty"]["due"] is True
    assert rows["default.empty"]["reason"]["code"] == "never_filled"
    assert rows["default.still"]["reason"] == {"code": "suspended", "detail": "suspended by user"}
    assert rows["default.never"]["reason"]["code"] == "downstream"
    assert rows["default.moved"]["due"] is False
    due_at = datetime.fromisoformat(rows["default.moved"]["due_at"])
    assert clock.now < due_at <= clock.now + 5 * MINUTE
    later = {row.table: row for row in lake.schedule(due_at) if row.action == "refresh"}
    assert later["default.moved"].due is True
    assert later["default.moved"].reason.code == "changes"
    said = cli("schedule", "--at", due_at.isoformat())
    assert said.code == 0
    assert "DUE AT" in said.out
    assert cli("schedule", "--at", "soon").code == 2


def test_upkeep_is_in_the_schedule_and_is_done(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 11 of Sleeper's: an offline table gets no jobs, and one once it is online."""
    done: list[str] = []

    def compact(hands: Hands, job: Job) -> None:
        done.append(job.table.short)
        hands.tell(Done(table=job.table, state="succeeded", what="4 → 1 files"))

    deed(monkeypatch, compact, kind="compact")
    make(lake, "t", rows=1)
    assert [(row.table, row.action, row.due) for row in lake.schedule()] == [("default.t", "compact", False)]
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    assert [(row.action, row.due) for row in lake.schedule()] == [("compact", True)]
    lake.table("t").offline()
    assert [row.reason.code for row in lake.schedule()] == ["offline"]
    assert (lake.worker().tick(), done) == ([], [])
    lake.table("t").online()
    assert states(lake.worker().tick()) == {"default.t": "succeeded"}
    assert set(done) == {"t"}


def test_a_folder_is_looked_through_once_by_whichever_worker(lake: Lake, clock: Clock) -> None:
    """A look changes no metadata, by which another worker would know of it."""
    make(lake, "t", rows=1)
    assert [(row.action, row.due) for row in lake.schedule()] == [("compact", False)]
    clock.go(timedelta(days=8))
    (row,) = [row for row in lake.schedule() if row.due]
    assert (row.action, row.reason.code, lake.status()[0].due) == ("orphans", "unscanned", ["orphans"])
    one, two = lake.worker(), lake.worker()
    assert [job.action for job in two._look(clock.now, patient=False).ready] == ["orphans"]
    assert [(outcome.state, outcome.what) for outcome in one.tick()] == [("succeeded", "nothing found")]
    assert states(two.tick()) == {"default.t": "conflict"}
    assert (one.tick(), [row for row in lake.schedule() if row.due]) == ([], [])
    assert lake._context.store.setbacks.list() == {}


def test_a_folder_that_may_be_anybodys_is_left_alone(lake: Lake, clock: Clock) -> None:
    make(lake, "t", rows=1).set({"gc.enabled": "false"})
    clock.go(timedelta(days=8))
    found = {row.action: (row.due, row.reason.code) for row in lake.schedule()}
    assert found == {"compact": (False, "few_small_files"), "orphans": (False, "foreign_files")}
    assert lake.worker().tick() == []


def test_values_are_counted_again_before_their_snapshot_goes(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expiry takes the statistics along, and nobody would know that they were asked for."""
    order = []

    def note(hands: Hands, job: Job) -> None:
        order.append(job.action)
        hands.tell(Done(table=job.table, state="succeeded"))

    monkeypatch.setattr(worker, "JOBS", dict.fromkeys(("compact", "stats", "expire", "orphans"), note))
    make(lake)
    append_files(lake, "t", [{}], rows=1000)
    first = current(lake, "t")
    for _ in range(21):
        append_files(lake, "t", [{}])
    put_statistics(lake, "t", first)
    clock.go(timedelta(days=6))
    assert not {"stats", "expire"} & {row.action for row in lake.schedule()}
    clock.go(timedelta(days=2))
    rows = {row.action: row.reason.code for row in lake.schedule() if row.due}
    assert rows["stats"] == "expiring_statistics"
    lake.worker().tick()
    assert order == ["compact", "stats", "expire", "orphans"]
    put_statistics(lake, "t", current(lake, "t"))
    assert "stats" not in {row.action for row in lake.schedule()}


def test_statistics_that_cannot_be_read_keep_nothing_from_its_turn(lake: Lake) -> None:
    make(lake, "t", rows=1)
    put_statistics(lake, "t", current(lake, "t"))
    place = Path(facts(lake, "t").metadata_location)
    place.write_text(place.read_text().replace('"blob-metadata": [{', '"blob-metadata": [{"no": 1}, {'))
    assert [row.reason.code for row in lake.schedule()] == ["few_small_files"]
    with pytest.raises(StorageError, match="statistics that Névé cannot read"):
        lake.table("t").stats()


# --------------------------------------------------------------------------------------------------------------- work


def test_tables_in_which_nothing_changed_move_on_without_spark(lake: Lake, cli: Cli, clock: Clock) -> None:
    for name in ("a", "b"):
        table_with(lake, name)
    assert json.loads(cli("worker", "--once", "-o", "json").out) == [], "nothing is due yet"
    clock.go(4 * MINUTE)  # another tick of their period, which is 192 seconds
    table_with(lake, "c")
    clock.go(6 * MINUTE)
    due = {row.table: row.due_at for row in lake.schedule() if row.action == "refresh" and row.due}
    assert due["default.a"] == due["default.b"] != due["default.c"], "each with its own time"
    outcomes = lake.worker().tick()
    assert states(outcomes) == dict.fromkeys(("default.a", "default.b", "default.c"), "succeeded")
    assert {outcome.what for outcome in outcomes} == {"NO_DATA"}
    assert {row.data_timestamp for row in lake.dynamic.list()} == {clock.now}
    assert lake.worker().tick() == []
    assert lake._context.store.claims.held() == {}


def test_offline_and_suspended_tables_are_left_alone(lake: Lake, clock: Clock) -> None:
    for name in ("a", "b", "c"):
        table_with(lake, name)
    lake.dynamic("a").suspend()
    lake.table("b").offline()
    clock.go(6 * MINUTE)
    assert states(lake.worker().tick()) == {"default.c": "succeeded"}


def test_only_the_tables_that_were_named(lake: Lake, cli: Cli, clock: Clock) -> None:
    for name in ("a", "orders", "order_lines"):
        table_with(lake, name)
    clock.go(6 * MINUTE)
    with pytest.raises(NotFound, match=r"no table default\.ordersz") as caught:
        lake.worker(tables=["ordersz"]).tick()
    assert "did you mean orders" in str(caught.value.hint)
    assert set(states(lake.worker(tables=["order*"]).tick())) == {"default.orders", "default.order_lines"}
    assert set(states(lake.worker(tables=["default.a"]).tick())) == {"default.a"}
    (lake.root / "days.yaml").write_text("name: days\nstorage: {format: csv, base_path: days}\ncolumns: {id: bigint}\n")
    lake.tables.create(str(lake.root / "days.yaml"))
    assert lake.worker(tables=["days"]).tick() == [], "a folder that has no schedule is a table too"
    assert cli("worker", "--once", "--slots", "0").code == 2
    assert cli("worker", "--once", "--metrics-file", "nowhere/m.prom").code == 2
    assert cli("worker", "-o", "json").code == 2


def test_a_named_table_that_goes_ends_no_worker(lake: Lake, clock: Clock) -> None:
    for name in ("a", "b"):
        table_with(lake, name)
    said: list[Event] = []
    worker = lake.worker(tables=["a", "b"], log=said.append)
    worker.tick()
    lake.dynamic.drop("a")
    clock.go(6 * MINUTE)
    assert states(worker.tick()) == {"default.b": "succeeded"}
    clock.go(6 * MINUTE)
    worker.tick()
    assert [event.fields["table"] for event in said if event.name == "table_gone"] == ["default.a"]


def test_a_folder_cannot_be_offline_and_is_told_why(lake: Lake, cli: Cli) -> None:
    (lake.root / "days.yaml").write_text("name: days\nstorage: {format: csv, base_path: days}\ncolumns: {id: bigint}\n")
    lake.tables.create(str(lake.root / "days.yaml"))
    for verb in ("offline", "online"):
        said = cli("table", verb, "days")
        assert (said.code, "keeps no mark" in said.err, "--tables" in said.err) == (6, True, True)


def test_slots_work_side_by_side_and_never_twice_on_one_table(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c", "d"):
        table_with(lake, name, moved=True)
    clock.go(6 * MINUTE)
    together = threading.Barrier(2, timeout=10)
    now: list[str] = []
    most = 0

    def do(hands: Hands, job: Job) -> None:
        nonlocal most
        assert job.table.short not in now
        now.append(job.table.short)
        most = max(most, len(now))
        together.wait()
        settle(lake, job.table.short)
        now.remove(job.table.short)
        hands.tell(Done(table=job.table, state="succeeded", what="INCREMENTAL"))

    deed(monkeypatch, do)
    assert len(states(lake.worker(slots=2).tick())) == 4
    assert most == 2


def test_work_that_is_never_done_with_makes_nobody_spin(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_with(lake, "d", moved=True)
    clock.go(6 * MINUTE)
    times: list[datetime] = []

    def do(hands: Hands, job: Job) -> None:
        times.append(clock.now)
        hands.tell(Done(table=job.table, state="succeeded"))  # and yet it stays due

    def sleep(seconds: float) -> None:
        clock.go(timedelta(seconds=seconds))
        if len(times) == 4:
            one.drain()

    deed(monkeypatch, do)
    monkeypatch.setattr(time, "sleep", sleep)
    one = lake.worker()
    assert len(list(one.run())) == 4
    assert all(later - sooner >= REST for sooner, later in pairwise(times))


def test_a_claimed_table_waits_and_is_taken_over_after_the_lease(lake: Lake, clock: Clock) -> None:
    uuid = table_with(lake, "a")
    clock.go(6 * MINUTE)
    claims = lake._context.store.claims
    dead = claims.claim({uuid: "default.a"}, action="refresh", owner="dead", ttl=MINUTE, now=clock.now)
    assert dead is not None
    assert lake.worker().tick() == []
    (row,) = [row for row in lake.schedule() if row.action == "refresh"]
    assert row.waits is not None
    assert "dead does refresh on default.a" in row.waits.detail
    clock.go(MINUTE)
    events: list[Event] = []
    outcomes = lake.worker(log=events.append).tick()
    assert states(outcomes) == {"default.a": "succeeded"}
    assert "claim_taken_over" in [event.name for event in events]
    assert claims.release(dead.claims[0]) is False
    assert lake._context.store.setbacks.list() == {}, "the success made good for the death"


def test_what_a_dead_worker_held_is_freed_when_its_work_has_ended_all_the_same(lake: Lake, clock: Clock) -> None:
    """Java ends a commit that the dead process had asked for. Files that land are due only when they are complete."""
    uuid, claims, events = table_with(lake, "a"), lake._context.store.claims, list[Event]()
    source = next(name for name in lake._context.catalog.tables() if name.name != "a")
    work = {uuid: "refresh", lake._context.catalog.facts(source).uuid: "compact", "gone": "expire", "x": "landing"}
    for key, action in work.items():
        assert claims.claim({key: "default.t"}, action=action, owner="dead", ttl=MINUTE, now=clock.now)
    worker = lake.worker(log=events.append)
    assert worker.tick() == []
    assert len(claims.held()) == len(work), "its time is not over"
    clock.go(MINUTE)
    assert lake.worker(tables=["default.elsewhere*"], log=events.append).tick() == []
    assert len(claims.held()) == len(work), "others' tables"
    assert worker.tick() == []
    assert [claim.action for claim in claims.held().values()] == ["landing"]
    freed = [event.fields["action"] for event in events if event.name == "claim_freed"]
    assert sorted(map(str, freed)) == ["compact", "expire", "refresh"]
    assert lake._context.store.setbacks.list() == {}


def test_what_kills_its_workers_is_suspended(lake: Lake, clock: Clock) -> None:
    uuid = table_with(lake, "a", moved=True)
    clock.go(6 * MINUTE)
    store = lake._context.store
    ran: list[str] = []
    for number in range(FAILURES):
        clock.go(timedelta(hours=2))
        assert store.claims.claim({uuid: "default.a"}, action="refresh", owner="x", ttl=MINUTE, now=clock.now)
        clock.go(MINUTE)
        if number == FAILURES - 1:
            ran += [outcome.table for outcome in lake.worker().tick()]
            break
        claimed = store.claims.claim({uuid: "default.a"}, action="refresh", owner="y", ttl=MINUTE, now=clock.now)
        assert claimed is not None
        note_failure(lake._context, claimed.lapsed[0], None, now=clock.now)
        store.claims.release(claimed.claims[0])
    assert ran == [], "it was not begun again"
    (row,) = lake.dynamic.list()
    assert row.scheduling_state == "SUSPENDED"
    assert store.claims.held() == {}


@pytest.mark.parametrize("well", [False, True])
def test_a_worker_that_overslept_its_claim_changes_nothing(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, well: bool
) -> None:
    uuid = table_with(lake, "a", moved=True)
    clock.go(6 * MINUTE)

    def do(hands: Hands, job: Job) -> None:
        clock.go(2 * MINUTE)
        rival = lake._context.store.claims.claim(
            {uuid: "default.a"}, action="refresh", owner="rival", ttl=MINUTE, now=clock.now
        )
        assert rival is not None
        note_failure(lake._context, rival.claims[0], None, now=clock.now)
        if not well:
            raise JobFailed("too late")
        hands.tell(Done(table=job.table, state="succeeded"))

    deed(monkeypatch, do)
    assert states(lake.worker().tick()) == {"default.a": "lost"}
    assert {claim.owner for claim in lake._context.store.claims.held().values()} == {"rival"}
    assert [setback.failures for setback in lake._context.store.setbacks.list().values()] == [1], "the rival's own"


# ----------------------------------------------------------------------------------------------------------- failures


def test_failures_back_off_exactly_and_the_fifth_suspends_with_its_reason(
    lake: Lake, cli: Cli, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = table_with(lake, "d", moved=True)
    declare(lake, "below", "SELECT id, v FROM d", "d")
    settle(lake, "below")
    tries: list[datetime] = []

    def do(hands: Hands, job: Job) -> None:
        tries.append(clock.now)
        raise JobFailed(f"it broke at {len(tries)}")

    deed(monkeypatch, do)
    clock.go(6 * MINUTE)
    only = lake.worker(tables=["d"])
    for number in range(1, FAILURES + 1):
        assert states(only.tick()) == {"default.d": "failed"}
        assert only.tick() == [], "not at once again"
        if number < FAILURES:
            (row,) = [row for row in lake.schedule() if (row.table, row.action) == ("default.d", "refresh")]
            assert row.reason.code == "backing_off"
            assert row.due_at == clock.now + pause(number, f"{uuid} refresh")
            clock.go(pause(number, f"{uuid} refresh"))
    assert [later - sooner for sooner, later in pairwise(tries)] == [
        pause(number, f"{uuid} refresh") for number in range(1, FAILURES)
    ]
    why = "5 scheduled failures in a row; the last: it broke at 5"
    told = {row.table: row.reason.detail for row in lake.schedule() if row.action == "refresh"}
    assert told == {"default.d": f"suspended: {why}", "default.below": "suspended by default.d"}
    assert lake.dynamic("d").show().suspended_by == "failures"
    clock.go(timedelta(days=1))
    assert only.tick() == []
    assert cli("dynamic", "resume", "d").code == 0
    assert lake._context.store.setbacks.list() == {}
    assert states(only.tick()) == {"default.d": "failed"}, "it begins to count anew"
    assert lake._context.store.setbacks.list()[uuid, "refresh"].failures == 1


def test_success_ends_the_row_of_failures(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table_with(lake, "d", moved=True)
    clock.go(6 * MINUTE)
    left = FAILURES - 1

    def do(hands: Hands, job: Job) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise JobFailed("not yet")
        settle(lake, "d")
        hands.tell(Done(table=job.table, state="succeeded"))

    deed(monkeypatch, do)
    found = []
    for _ in range(FAILURES):
        found += [outcome.state for outcome in lake.worker().tick()]
        clock.go(timedelta(hours=1))
    assert found == ["failed"] * (FAILURES - 1) + ["succeeded"]
    assert lake._context.store.setbacks.list() == {}


@pytest.mark.parametrize("error", [LeaseHeld("somebody else"), SparkUnavailable("no Java")])
def test_what_is_not_the_tables_fault_does_not_count(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    table_with(lake, "d", moved=True)
    clock.go(6 * MINUTE)

    def do(hands: Hands, job: Job) -> None:
        raise error

    deed(monkeypatch, do)
    one = lake.worker()
    (outcome,) = one.tick()
    assert outcome.state == ("conflict" if isinstance(error, LeaseHeld) else "failed")
    assert one.tick() == [], "it is left alone for a while"
    clock.go(MINUTE)
    assert len(one.tick()) == 1
    assert lake._context.store.setbacks.list() == {}


def test_a_source_that_is_gone_fails_without_spark(lake: Lake, cli: Cli, clock: Clock) -> None:
    declare(lake, "d", "SELECT id, v FROM gone", "gone")
    said = cli("worker", "--once", "-o", "json")
    assert said.code == 1
    (outcome,) = json.loads(said.out)
    assert (outcome["state"], outcome["reason"]["code"]) == ("failed", "table_not_found")
    assert "neve schedule says when each is tried again" in said.err
    (row,) = lake._context.store.refreshes.of_all()
    assert (row.state, row.refresh_trigger) == ("FAILED", "SCHEDULED")


def test_other_work_is_suspended_too_and_resumed_by_online(
    lake: Lake, cli: Cli, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "t", rows=1)
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])

    def do(hands: Hands, job: Job) -> None:
        raise JobFailed("no space left")

    deed(monkeypatch, do, "compact")
    for _ in range(FAILURES):
        assert states(lake.worker().tick()) == {"default.t": "failed"}
        clock.go(timedelta(hours=1))
    assert lake.worker().tick() == []
    (row,) = lake.schedule()
    assert row.reason.detail == "after 5 failures: no space left"
    assert "tried again" in cli("table", "online", "t").out
    assert states(lake.worker().tick()) == {"default.t": "failed"}


# ------------------------------------------------------------------------------------------------------------ landing


def test_landing_folders_are_watched_and_their_files_loaded_once_complete(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake.root / "landing").mkdir()
    file = lake.root / "sales.yaml"
    file.write_text(
        "name: sales\ncolumns: {id: bigint, v: string}\ningestion:\n"
        '  landing: {folder: landing, date_from_name: "s_{date}.csv", settle: 5s}\n'
    )
    lake.tables.create(str(file))
    (lake.root / "landing" / "s_2024-01-01.csv").write_text("id,v\n1,a\n")
    (lake.root / "landing" / "other.csv").write_text("id,v\n1,a\n")
    loaded: list[str] = []

    def do(hands: Hands, job: Job) -> None:
        rows = lake._context.store.submissions.for_table("sales")
        loaded.extend(Path(row.path).name for row in rows if row.run_id is None)
        for row in rows:
            lake._context.store.submissions.mark(row, "01M7GZH7380000000000000000")
        hands.tell(Done(table=job.table, state="succeeded"))

    deed(monkeypatch, do, "landing")
    (row,) = [row for row in lake.schedule() if row.action == "landing"]
    assert row.reason.code == "landed"
    assert lake._context.store.submissions.for_table("sales") == (), "a look submits nothing"
    events: list[Event] = []
    one = lake.worker(log=events.append)
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.go(timedelta(seconds=max(seconds, 1))))
    assert states(one.tick()) == {"default.sales": "succeeded"}
    assert loaded == ["s_2024-01-01.csv"]
    assert [event.fields["table"] for event in events if event.name == "file_refused"] == ["default.sales"]
    assert one.tick() == []


def test_submitted_files_are_due_as_their_limits_say(lake: Lake, clock: Clock) -> None:
    file = lake.root / "sales.yaml"
    file.write_text("name: sales\ncolumns: {id: bigint, v: string}\ningestion: {batch: {min_files: 2, max_age: 10m}}\n")
    lake.tables.create(str(file))
    (lake.root / "one.csv").write_text("id,v\n1,a\n")
    lake.table("sales").submit(str(lake.root / "one.csv"), date="2024-01-01")
    (row,) = [row for row in lake.schedule() if row.action == "landing"]
    assert (row.due, row.reason.code, row.due_at) == (False, "min_files", clock.now + 10 * MINUTE)
    clock.go(10 * MINUTE)
    (row,) = [row for row in lake.schedule() if row.action == "landing"]
    assert (row.due, row.reason.detail) == (True, "1 files wait to be loaded")


# ------------------------------------------------------------------------------------------ alerts, metrics and the log


def test_alerts_are_told_once_by_webhook_and_command(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table_with(lake, "d", moved=True)

    def do(hands: Hands, job: Job) -> None:
        raise JobFailed("it broke")

    deed(monkeypatch, do)
    receiver = Receiver()
    note = tmp_path / "notes.jsonl"
    script = tmp_path / "note.py"
    script.write_text(f"import sys; open({str(note)!r}, 'a').write(sys.stdin.read())")
    told = {
        "alerts.webhook": f"http://127.0.0.1:{receiver.server_port}/hook",
        "alerts.command": f"{sys.executable} {script}",
    }
    try:
        with Lake(lake.root, flags=told) as watched:
            watched._context.clock = lambda: clock.now
            for _ in range(4):
                clock.go(6 * MINUTE)
                for _ in range(2):
                    watched.worker().tick()
    finally:
        receiver.close()
    heard = [(alert["event"], alert["table"]) for alert in receiver.heard]
    assert sorted(heard) == [("failures", "default.d"), ("late", "default.d")]
    assert "it broke" in str(next(alert["detail"] for alert in receiver.heard if alert["event"] == "failures"))
    noted = [json.loads(line)["event"] for line in note.read_text().splitlines()]
    assert sorted(noted) == ["failures", "late"]


@pytest.mark.parametrize(
    ("minutes", "told"),
    [((0, 7), False), ((0, 7, 15), True), ((0, 7, 15.1), False), ((0, 7, 15.1, 22), True), ((0, 20, 40, 60), False)],
)
def test_three_failures_in_a_quarter_of_an_hour_are_told(
    lake: Lake, clock: Clock, minutes: tuple[float, ...], told: bool
) -> None:
    heard: list[str] = []
    alarm = Alarm(lake._context, lambda name, **_: heard.append(name))
    setback = SetbackRecord(
        table_uuid="u",
        action="refresh",
        table_name="default.d",
        failures=len(minutes),
        failed_at=tuple((clock.now + minute * MINUTE).isoformat() for minute in minutes),
        retry_at=clock.now,
        error_code="job_failed",
        error_message="it broke",
    )
    alarm.failed(setback)
    alarm.failed(setback)
    alarm.close()
    assert heard == (["alert"] if told else [])


def test_late_is_beyond_twice_the_lag(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table_with(lake, "d", lag="5m", moved=True)
    deed(monkeypatch, lambda hands, job: hands.tell(Done(table=job.table, state="conflict")))
    at = lake.dynamic.list()[0].data_timestamp
    assert at is not None
    events: list[Event] = []
    for moment, told in ((at + 10 * MINUTE, 0), (at + 10 * MINUTE + timedelta(seconds=1), 1)):
        clock.now = moment
        lake.worker(log=events.append).tick()
        assert len([event for event in events if event.name == "alert"]) == told


def test_a_refresh_that_turns_full_is_told(lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = table_with(lake, "d")
    commit_refresh(lake, "d")
    lake.dynamic.recover()
    append(lake, "s", [{"id": 9, "v": "x"}])
    clock.go(6 * MINUTE)
    asked: list[RefreshReceipt] = []

    def do(hands: Hands, job: Job) -> None:
        receipt = RefreshReceipt(
            run_id=new_run_id(clock.now, os.urandom),
            action="refresh",
            table=str(job.table),
            reason=Reason(code="snapshot_expired", detail="a snapshot is gone"),
            refresh="FULL" if not asked else "INCREMENTAL",
        )
        asked.append(receipt)
        hands.tell(Done(table=job.table, state="succeeded", refresh=receipt))

    deed(monkeypatch, do)
    assert [row.refresh_action for row in lake._context.store.refreshes.recent(5)[uuid]] == ["INCREMENTAL"]
    events: list[Event] = []
    for _ in range(2):
        assert states(lake.worker(log=events.append).tick()) == {"default.d": "succeeded"}
    told = [event.fields for event in events if event.name == "alert" and event.fields["alert"] == "full"]
    assert [(each["run_id"], each["detail"]) for each in told] == [
        (asked[0].run_id, "refreshed in full: a snapshot is gone")
    ]


def test_an_alert_that_cannot_be_told_is_logged_and_stops_nothing(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_with(lake, "d", moved=True)
    clock.go(timedelta(hours=1))
    deed(monkeypatch, lambda hands, job: hands.tell(Done(table=job.table, state="succeeded")))
    events: list[Event] = []
    with Lake(lake.root, flags={"alerts.command": "/no/such/command"}) as watched:
        watched._context.clock = lambda: clock.now
        assert watched.worker(tables=["s"], log=events.append).tick() == []
        assert events.pop().name == "worker_stopped"
        assert "alert" not in [event.name for event in events], "it is not for this worker to tell"
        assert states(watched.worker(log=events.append).tick()) == {"default.d": "succeeded"}
    assert [event.fields["alert"] for event in events if event.name == "alert_failed"] == ["late"]


def test_metrics_are_prometheus_text_in_a_file_that_is_always_whole(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    table_with(lake, "d", lag="10m", moved=True)
    declare(lake, "bad", "SELECT id, v FROM gone", "gone")
    target = tmp_path / "neve.prom"
    clock.go(MINUTE)
    lake.worker(metrics_file=target).tick()
    lake.worker(metrics_file=target).tick()
    values = {}
    for line in target.read_text().splitlines():
        if not line.startswith("#"):
            key, _, value = line.rpartition(" ")
            values[key] = float(value)
    assert values['neve_lag_seconds{table="default.d"}'] == 60
    assert values['neve_target_lag_seconds{table="default.d"}'] == 600
    assert values['neve_refresh_total{table="default.bad",status="FAILED"}'] == 1
    assert values['neve_errors_total{error_type="table_not_found"}'] == 1
    assert values['neve_table_files{table="default.s"}'] == 2
    assert [value for key, value in values.items() if key.startswith("neve_worker_health")] == [1]
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["neve.prom"]


def test_a_file_of_metrics_keeps_no_table_from_its_turn(
    lake: Lake, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a table that cannot be told of, nor a disk that is full."""
    table_with(lake, "d", moved=True)
    file = lake.root / "told.yaml"
    file.write_text("name: told\ncolumns: {id: bigint}\n")
    lake.tables.create(str(file))
    file.unlink()
    clock.go(10 * MINUTE)
    deed(monkeypatch, lambda hands, job: hands.tell(Done(table=job.table, state="succeeded")))
    said: list[Event] = []
    (tmp_path / "taken" / "x").mkdir(parents=True)
    full = lake.worker(metrics_file=tmp_path / "taken", log=said.append)
    assert states(full.tick()) == {"default.d": "succeeded"}
    assert {event.fields["error_type"] for event in said if event.name == "look_untold"} == {"storage"}
    lake.worker(metrics_file=tmp_path / "neve.prom", log=said.append).tick()
    assert 'neve_table_files{table="default.s"} 2' in (tmp_path / "neve.prom").read_text()


def test_the_log_is_json_lines_with_ids(lake: Lake, cli: Cli, clock: Clock) -> None:
    declare(lake, "bad", "SELECT id, v FROM gone", "gone")
    said = cli("worker", "--once", "--log-format", "json", "-o", "jsonl")
    lines = [json.loads(line) for line in said.err.splitlines() if '"event"' in line]
    assert [line["event"] for line in lines] == ["worker_started", "job_started", "job_failed", "worker_stopped"]
    assert lines[1]["job_id"] == lines[2]["job_id"] == json.loads(said.out)["job_id"]
    assert lines[2]["error_type"] == "table_not_found"
    assert len({line["worker"] for line in lines}) == 1
    declare(lake, "worse", "SELECT id, v FROM gone", "gone")
    plain = cli("worker", "--once").err
    assert "✗ job failed: default.worse refresh FAILED · " in plain
    assert "default.bad" not in plain, "it is left alone for now"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_signals_drain_a_worker(lake: Lake, number: signal.Signals) -> None:
    """The real command, in a process of its own: it ends in order, and has never started a JVM."""
    make(lake, "t", rows=1)
    process = subprocess.Popen(
        [sys.executable, "-m", "neve", "worker", "--log-format", "json"],
        cwd=lake.root,
        env=os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert json.loads(process.stderr.readline())["event"] == "worker_started"
    time.sleep(0.5)
    process.send_signal(number)
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=20) == 0
    assert '"event": "worker_stopped"' in said
    assert not (lake.root / ".neve" / "spark.log").exists()
    (record,) = lake._context.store.workers.list()
    assert record.stopped_at is not None


_STUCK = """
import sys, time
from neve.cli.app import run
from neve.services.worker import worker

def stuck(hands, job):
    print("begun", flush=True)
    time.sleep(120)

worker.JOBS = {"refresh": stuck}
sys.exit(run(["worker", "--lake", sys.argv[1]]))
"""


@pytest.mark.slow
def test_a_second_signal_ends_a_worker_whatever_runs(lake: Lake) -> None:
    """A job that hears of nothing: its claim is left to run out."""
    uuid = table_with(lake, "d", lag="1m", moved=True)
    command = [sys.executable, "-c", _STUCK, str(lake.root)]
    lake._context.catalog.set_properties(TableName.parse("d"), put={}, remove=[FRONTIER])
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the first lets it finish"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(timeout=20) == 130
        assert time.monotonic() - began < 10
        assert "left as it is" in process.stderr.read()
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
    assert uuid in lake._context.store.claims.held()


def test_a_directory_table_that_cannot_be_read_hides_no_other(lake: Lake) -> None:
    for name in ("days", "other"):
        file = lake.root / f"{name}.yaml"
        file.write_text(
            f"name: {name}\nstorage: {{format: parquet, base_path: {name}}}\ncolumns: {{id: bigint}}\n"
            "compaction: {trigger: {schedule: '0 3 * * *'}}\n"
        )
        lake.tables.create(str(file))
        (lake.root / name / "2024-01-01.parquet").write_bytes(b"")
    make(lake, "t", rows=1)
    known = lake._context.store.registry.get("days")
    assert known is not None
    lake._context.store.registry.put(known.model_copy(update={"config": {"storage": "of another time"}}))
    said: list[str] = []
    lake._context.tell = said.append
    tables = {row.table for row in lake.schedule()}
    assert tables >= {"default.t", "default.other"}
    assert "default.days" not in tables
    assert any("days" in line for line in said)
    assert {row.table for row in lake.status()} >= {"default.t", "default.other"}
