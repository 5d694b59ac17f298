"""Every setting of upkeep reaches what it is for, from the environment on; what it does there, planners' tests hold.

No JVM. Settings of retention beside these are in `test_expire`, options of commands beside the commands.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.lake.lakes import append, facts, make, put_statistics

from neve.errors import StalePlan
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.rewrites import RewriteReceipt
from neve.model.work import Claim
from neve.plan.agenda import Agenda, Job
from neve.services.context import Context
from neve.services.operations.counting import SmallFiles
from neve.services.rewrites.compaction import compact_table
from neve.services.rewrites.looking import RewriteRequest
from neve.services.worker import jobs
from neve.services.worker.jobs import Hands
from neve.services.worker.worker import Worker

Reopen = Callable[..., Lake]
MIB = 1 << 20
KEEPS_NOTHING = {"retention__snapshot_retention_hours": 0, "retention__reader_grace": "0s"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a table of three files, each of a little more than 1 MiB. Nobody changes it."""
    with Lake.create(tmp_path_factory.mktemp("knobs") / "lake") as lake:
        make(lake)
        text = os.urandom(3 * 2400 * 512).hex()
        for first in range(0, len(text), 2400 * 1024):
            rows = [{"id": at, "v": text[at : at + 1024]} for at in range(first, first + 2400 * 1024, 1024)]
            append(lake, "t", rows)
        assert [1 <= file.bytes / MIB < 3 for file in lake.table("t").files()] == [True] * 3
        return lake.root


@pytest.fixture
def reopened(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reopen]:
    """The lake as a process with these settings in its environment opens it."""
    with ExitStack() as opened:

        def reopen(**settings: object) -> Lake:
            with monkeypatch.context() as environment:
                for name, value in settings.items():
                    environment.setenv(f"NEVE_{name.upper()}", str(value))
                return opened.enter_context(Lake(root))

        yield reopen


class Seconds:
    """A clock on which each look is a second later."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.looks)


def taken(lake: Lake) -> int:
    """How many files a compaction would take, and the schedule, health and status say the same."""
    plan, health = lake.table("t").compact(dry_run=True), lake.table("t").health()
    due = {row.action for row in lake.schedule() if row.due}
    assert ("compact" in due) == bool(plan.files_compacted) == (health.score < 100)
    return plan.files_compacted


def test_compaction_small_file_threshold_mb(reopened: Reopen) -> None:
    found = {size: reopened(compaction__small_file_threshold_mb=size) for size in (1, 3)}
    assert {size: taken(lake) for size, lake in found.items()} == {1: 0, 3: 3}
    assert {size: lake.table("t").health().small_files for size, lake in found.items()} == {1: 0, 3: 3}
    assert {size: lake.table("t").status().small_files for size, lake in found.items()} == {1: 0, 3: 3}


def test_compaction_min_files_to_compact(reopened: Reopen) -> None:
    assert [taken(reopened(compaction__min_files_to_compact=number)) for number in (3, 4)] == [3, 0]


def test_compaction_enabled_is_of_the_schedule_and_not_of_the_command(reopened: Reopen) -> None:
    lake = reopened(compaction__enabled="false")
    (row,) = [row for row in lake.schedule() if row.action == "compact"]
    assert (row.due, row.reason.code) == (False, "disabled")
    assert lake.table("t").compact(dry_run=True).files_compacted == 3


def test_options_of_compact(reopened: Reopen) -> None:
    """Each changes the plan of three small files of one size, of which four are needed where that is said."""
    needs_four = reopened(compaction__min_files_to_compact=4)
    lake = reopened()

    def planned(lake: Lake, **asked: Any) -> int:
        found: int = lake.table("t").compact(dry_run=True, **asked).files_compacted
        return found

    assert planned(lake) == 3
    assert planned(lake, strategy="size-ratio") == 0, "two others are not three times the largest"
    assert planned(lake, max_files=2) == 2
    assert planned(lake, target_file_size="1MB") == 0
    assert (planned(needs_four), planned(needs_four, force=True)) == (0, 3)
    assert planned(needs_four, strategy="sort", by=["id"]) == 3, "a sort takes the whole partition"
    assert planned(needs_four, strategy="zorder", by=["id", "v"]) == 3


def test_write_target_file_size_mb_is_that_of_tables_without_their_own(reopened: Reopen) -> None:
    lakes = [reopened(), reopened(write__target_file_size_mb=1)]

    def planned(**asked: Any) -> list[int]:
        return [lake.table("t").compact(dry_run=True, **asked).files_compacted for lake in lakes]

    own = {"write.target-file-size-bytes": str(128 * MIB)}
    assert planned() == [3, 3]
    lakes[0].table("t").unset(list(own))
    try:
        assert planned() == [3, 0], "no file is small beside a target of 1 MiB"
        assert planned(target_file_size="128MB") == [3, 3]
    finally:
        lakes[0].table("t").set(own)


def test_write_settings_are_those_of_new_tables(reopened: Reopen) -> None:
    lake = reopened(write__target_file_size_mb=9, write__compression_codec="gzip", write__parquet_row_group_size=512)
    lake.tables.create("new", "id bigint")
    found = facts(lake, "new").properties
    assert found["write.target-file-size-bytes"] == str(9 * MIB)
    assert found["write.parquet.compression-codec"] == "gzip"
    assert found["write.parquet.row-group-size-bytes"] == str(512 * 1024)


def test_compaction_max_files_per_compaction_and_quiet_partitions_are_the_workers(
    reopened: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RewriteRequest] = []

    def note(_: Context, request: RewriteRequest) -> RewriteReceipt:
        asked.append(request)
        raise StalePlan("enough is known")

    monkeypatch.setattr(jobs, "compact_table", note)
    for number in (3, 7, 100):
        lake = reopened(compaction__max_files_per_compaction=number)
        assert [outcome.state for outcome in lake.worker(tables=["t"]).tick()] == ["conflict"]
    assert [request.max_files for request in asked] == [3, 7, 100]
    assert {request.quiet for request in asked} == {timedelta(minutes=1)}
    lake = reopened()
    worker = lake.worker(tables=["t"])
    worker.tick()
    later = lake._context.clock() + timedelta(hours=1)
    monkeypatch.setattr(lake._context, "clock", lambda: later)
    worker.tick()
    assert [request.quiet for request in asked[-2:]] == [timedelta(minutes=1), None], "nothing waits for ever"


def test_partitions_whose_rows_were_changed_just_now_wait_where_spark_has_to_work(
    reopened: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = reopened()
    make(lake, "hot", rows=2)
    words: dict[str, Any] = {"strategy": "sort", "by": ("id",), "dry_run": True}
    request = RewriteRequest(table=TableName.parse("hot"), quiet=timedelta(minutes=1), **words)
    append(lake, "hot", [{"id": 1, "v": "x"}])
    assert compact_table(lake._context, request).files_compacted == 2, "rows that only come make nobody lose"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg deletes by copy-on-write, and says so
        lake._context.catalog._backend.open_table(request.table).delete("id = 0")
    now = compact_table(lake._context, request)
    assert (now.files_compacted, [left.reason.code for left in now.left]) == (0, ["hot"])
    at = lake._context.clock() + timedelta(minutes=2)
    monkeypatch.setattr(lake._context, "clock", lambda: at)
    assert compact_table(lake._context, request).files_compacted == 2


def test_compaction_opportunistic_check_interval(reopened: Reopen) -> None:
    class Counted(SmallFiles):
        @staticmethod
        def _count(*words: Any) -> int:
            """Without Spark: the bytes below which it would count a file."""
            return int(words[-1])

    lake = reopened(compaction__opportunistic_check_interval=4, compaction__small_file_threshold_mb=5)
    found = [Counted().at(lake._context, facts(lake, "t"), number) for number in range(1, 9)]
    assert found == [None, None, None, 5 * MIB, None, None, None, 5 * MIB]
    off = reopened(compaction__opportunistic_check_interval=4, compaction__enabled="false")
    assert Counted().at(off._context, facts(off, "t"), 4) is None


def test_retention_min_snapshots_to_keep(reopened: Reopen) -> None:
    lakes = [reopened(**KEEPS_NOTHING, retention__min_snapshots_to_keep=number) for number in (1, 2)]
    assert [lake.table("t").expire(dry_run=True).snapshots_after for lake in lakes] == [1, 2]


def test_retention_orphan_age(reopened: Reopen) -> None:
    folder = Path(facts(reopened(), "t").location)
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    lost = folder / "data" / "lost.parquet"
    lost.write_bytes(b"x")
    moment = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    os.utime(lost, (moment, moment))
    found = {age: reopened(retention__orphan_age=age).table("t").orphans().files for age in ("2d", "4d")}
    assert found == {"2d": 1, "4d": 0}


def test_retention_orphan_scan_every_and_orphan_delete(reopened: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker looks through a folder, lists or removes what it finds, and does not look again until it is time."""
    lost = Path(facts(reopened(), "t").location) / "data" / "lost.parquet"

    def work(lake: Lake, *, days: int) -> list[tuple[str, str | None]]:
        lost.write_bytes(b"x")
        later = datetime.now(UTC) + timedelta(days=days)
        monkeypatch.setattr(lake._context, "clock", lambda: later)
        done = [lake.worker(tables=["t"]).tick() for _ in range(2)]
        assert done[1] == [], "once is enough"
        return [(outcome.action, outcome.what) for outcome in done[0]]

    quiet = {"compaction__enabled": "false"}
    assert work(reopened(**quiet), days=6) == []
    assert work(reopened(**quiet, retention__orphan_scan_every="0"), days=20) == []
    assert work(reopened(**quiet), days=20) == [("orphans", "1 file found (1 B)")]
    assert lost.exists(), "listed and left"
    removing = {**quiet, "retention__orphan_delete": "true"}
    assert work(reopened(**removing), days=26) == []
    daily = {**removing, "retention__orphan_scan_every": "1d"}
    assert work(reopened(**daily), days=26) == [("orphans", "1 of 1 file removed")]
    assert not lost.exists()
    assert reopened().runs.list(kind="orphans", table="t")[0].state == "succeeded"


def test_statistics_tables_and_stale_after(reopened: Reopen) -> None:
    """What is due; the counting itself needs Spark."""
    lake = reopened()
    make(lake, "counted")
    first = append(lake, "counted", [{"id": number, "v": "x"} for number in range(10)])
    put_statistics(lake, "counted", first)
    append(lake, "counted", [{"id": 11, "v": "x"}] * 3)

    def due(**settings: object) -> set[str]:
        lake = reopened(compaction__enabled="false", **settings)
        later = lake._context.clock() + timedelta(hours=2)
        lake._context.clock = lambda: later
        return {row.table for row in lake.schedule() if row.action == "stats" and row.due}

    counted = "default.counted"
    assert due() == {counted}
    assert due(statistics__stale_after=0.3) == due(statistics__stale_after=0) == set()
    assert due(statistics__tables="none") == set()
    everything = due(statistics__tables="all")
    assert everything > {counted}
    assert due(statistics__tables="all", statistics__stale_after=0) == everything - {counted}
    lake.table("counted").drop(force=True)


def test_trash_keep(reopened: Reopen) -> None:
    lake = reopened(trash__keep="3d")
    make(lake, "gone")
    lake.table("gone").drop()
    (row,) = lake._context.store.trash.list()
    assert row.purge_after - row.deleted_at == timedelta(days=3)


def test_worker_lease_is_that_of_claims_and_of_their_renewal(reopened: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = reopened(worker__lease="2s")
    seen: list[Claim] = []

    def held() -> Claim:
        (claim,) = lake._context.store.claims.held().values()
        return claim

    def compact(_: Hands, job: Job) -> None:
        seen.append(held())
        until = time.monotonic() + 10
        while held() == seen[0] and time.monotonic() < until:
            time.sleep(0.02)
        seen.append(held())
        raise StalePlan(f"enough is known of {job.table}")

    monkeypatch.setattr("neve.services.worker.worker.JOBS", {"compact": compact})
    assert [outcome.state for outcome in lake.worker(tables=["t"]).tick()] == ["conflict"]
    until = [(claim.expires_at - claim.claimed_at).total_seconds() for claim in seen]
    assert until[0] == 2
    assert 2 < until[1] < 10, "renewed every quarter of it, for as long again"


def test_worker_slots_lease_and_poll(reopened: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Worker] = [
        reopened(worker__slots=3, worker__lease="44s", worker__poll="2s").worker(),
        reopened(worker__slots=3).worker(slots=2),
    ]
    options = [worker._options for worker in made]
    assert [(found.slots, found.lease, found.poll) for found in options] == [
        (3, timedelta(seconds=44), timedelta(seconds=2)),
        (2, timedelta(minutes=1), timedelta(seconds=10)),
    ]
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    for worker, expected in zip(made, (2, 10), strict=True):
        monkeypatch.setattr(worker._context, "clock", Seconds())
        naps.clear()
        worker._wait(set(), Agenda(ready=(), waiting=(), wake_at=None), None)
        assert len(naps) == expected - 1
