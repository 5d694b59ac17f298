"""Cancelling runs that Spark works for: their jobs end, nothing half done stays, and no other run's job is touched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from neve.engine.rewrites import Rewrite
from neve.engine.session import use_in_thread
from neve.errors import Cancelled
from neve.lake import Lake, LakeTable
from neve.model.names import TableName
from neve.model.runs import REQUEST, Run
from neve.services import cancelling

FOREVER = "(SELECT count(*) AS n FROM range(300000) a CROSS JOIN range(300000) b WHERE a.id + b.id < 0)"
"""An hour's work that needs no room."""


@pytest.fixture
def pool(spark_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Threads to work in, whose Spark jobs end with the test however it ends."""
    monkeypatch.setattr(cancelling, "EVERY", 0.05)
    spark_lake.spark  # noqa: B018 - started here, before threads share it
    opened = ThreadPoolExecutor(3)
    yield opened
    opened.shutdown(wait=False)
    while any(thread.is_alive() for thread in opened._threads):
        spark_lake.cancel_jobs()
        time.sleep(0.2)


def end(lake: Lake, work: Future[Any], kind: str, *, jobs: int = 1, after: Callable[[], bool] = lambda: True) -> Run:
    """Cancels the run of a kind that goes on, from a lake opened apart, as soon as Spark works for it."""
    tracker = lake.spark.sparkContext.statusTracker()
    with Lake(lake.root) as other:
        while not (found := other.runs.list(kind=kind, state="running")) or len(tracker.getActiveJobsIds()) < jobs:
            assert not work.done(), work.exception()
            time.sleep(0.05)
        assert after()
        return other.runs.cancel(found[0].run_id)


def waited(written: list[int]) -> bool:
    """Until something was written."""
    until = time.monotonic() + 30
    while not written and time.monotonic() < until:
        time.sleep(0.05)
    return bool(written)


def state_of(lake: Lake, table: TableName) -> tuple[object, ...]:
    """Where a table stands, its branches and tags, and every file of data in its folder."""
    facts = lake._context.catalog.facts(table)
    files = [found.path for found in lake._context.catalog.files.listing(f"{facts.location}/data")]
    return facts.current_snapshot_id, facts.references, sorted(files)


def test_statements_and_requests_end_alone(
    spark_lake: Lake, make_table: Callable[..., LakeTable], pool: ThreadPoolExecutor
) -> None:
    table = make_table("t", "n bigint")
    insert = f"INSERT INTO {table.name.sql} SELECT n FROM {FOREVER}"
    other = pool.submit(lambda: spark_lake.sql(f"SELECT * FROM {FOREVER}").collect())
    direct = pool.submit(spark_lake.sql, insert, write=True)
    assert end(spark_lake, direct, "sql", jobs=2).state == "cancelled"
    with pytest.raises(Cancelled):
        direct.result(timeout=30)

    def work() -> None:
        spark_lake.sql(insert, write=True)

    within = pool.submit(spark_lake.runs.carry, {}, None, work, lambda _: None)
    ended = end(
        spark_lake, within, REQUEST, jobs=2, after=lambda: bool(spark_lake.runs.list(kind="sql", state="running"))
    )
    assert ended.state == "cancelled"
    with pytest.raises(Cancelled):
        within.result(timeout=30)
    assert [run.state for run in spark_lake.runs.list(kind="sql", limit=2)] == ["cancelled"] * 2
    tracker = spark_lake.spark.sparkContext.statusTracker()
    assert (other.done(), len(tracker.getActiveJobsIds())) == (False, 1), "nobody asked this one to end"
    assert table.history() == []


def test_a_compaction_by_spark_and_a_refresh_of_a_worker_leave_nothing(
    spark_lake: Lake,
    make_table: Callable[..., LakeTable],
    namespace: str,
    pool: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = make_table("t", "id bigint, v int", partition_by=("v",))
    for number in range(3):
        spark_lake.sql(f"INSERT INTO {table.name.sql} SELECT id + {number}, id % 2 FROM range(50)", write=True)
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id % 3 = 0", write=True)
    before = state_of(spark_lake, table.name)
    by_spark = Rewrite.by_spark
    turns: list[int] = []
    written: list[int] = []

    def slowly(self: Rewrite, *words: object, **more: object) -> object:
        """One group is written; the other never is, in the thread that is to write it."""
        turns.append(1)
        if len(turns) == 2:
            use_in_thread(self.spark)
            self.spark.sql(f"SELECT * FROM {FOREVER}").collect()
        made = by_spark(self, *words, **more)  # type: ignore[arg-type]
        written.append(made.files)
        return made

    monkeypatch.setattr(Rewrite, "by_spark", slowly)
    compacting = pool.submit(table.compact)
    assert end(spark_lake, compacting, "compact", after=lambda: waited(written)).state == "cancelled"
    with pytest.raises(Cancelled):
        compacting.result(timeout=30)
    monkeypatch.undo()
    assert state_of(spark_lake, table.name) == before

    make_table("s", "id bigint", rows="(1), (2)")
    spark_lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {namespace}.d TARGET_LAG = '1 minute' AS "
        f"SELECT count(*) AS n FROM {namespace}.s a JOIN {namespace}.s b ON a.id + b.id < 0"
    )
    spark_lake.sql(f"INSERT INTO {namespace}.s SELECT id FROM range(300000)", write=True)
    name = TableName.parse(f"{namespace}.d")
    before = state_of(spark_lake, name)
    monkeypatch.setattr(cancelling, "EVERY", 0.05)
    later = spark_lake._context.clock() + timedelta(minutes=10)
    ticking = pool.submit(spark_lake.worker(tables=[name.short]).tick, later)
    run = end(spark_lake, ticking, "refresh")
    (outcome,) = ticking.result(timeout=30)
    assert (run.state, outcome.state, outcome.run_id) == ("cancelled", "cancelled", run.run_id)
    assert state_of(spark_lake, name) == before
    store = spark_lake._context.store
    assert [store.claims.held(), store.setbacks.list()] == [{}, {}]
    assert [row.state for row in spark_lake.dynamic.history(name.short, limit=1)] == ["CANCELLED"]
