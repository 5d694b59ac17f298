"""Workers on real Spark: one is killed in mid-job, another takes over after the lease; two at once share the work."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession
from tests.spark.attached import KILLED, Attached
from tests.spark.dynamic_oracle import differences

from neve.lake import Lake
from neve.model.work import JobOutcome
from neve.observe.log import Event

QUERIES = {
    "totals": "SELECT k, count(*) AS n, sum(x) AS total FROM {ns}.a GROUP BY k",
    "large": "SELECT k, total FROM {ns}.totals WHERE total > 1 OR total IS NULL",
}


class Time:
    """The lake's clock, some way ahead of the world's."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        now, self.ahead = lake._context.clock, timedelta(0)
        monkeypatch.setattr(lake._context, "clock", lambda: now() + self.ahead)

    def go(self, length: timedelta) -> None:
        self.ahead += length


@pytest.mark.faults
def test_a_killed_worker_is_taken_over_and_two_share_the_work(
    spark_lake: Lake, quick: SparkSession, namespace: str, attached: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.sql(f"CREATE TABLE {namespace}.a (k int, x int) USING iceberg")
    quick.sql(f"INSERT INTO {namespace}.a VALUES (1, 1), (1, 1), (2, 2), (null, 3)")
    queries = {f"{namespace}.{name}": query.replace("{ns}", namespace) for name, query in QUERIES.items()}
    for name, query in queries.items():
        spark_lake.dynamic.create(f"CREATE DYNAMIC TABLE {name} TARGET_LAG = '5 minutes' AS {query}")
    clock, store, pattern = Time(spark_lake, monkeypatch), spark_lake._context.store, f"{namespace}.*"

    def work(events: list[Event] | None = None) -> list[JobOutcome]:
        heard: list[Event] = [] if events is None else events
        return spark_lake.worker(slots=2, tables=[pattern], log=heard.append).tick()

    for step in (2, 5):
        quick.sql(f"INSERT INTO {namespace}.a VALUES (1, {step}), (3, {step}), (null, null)")
        clock.go(timedelta(minutes=10))
        killed = attached.work(spark_lake.root, pattern, die_at=step, later=clock.ahead.total_seconds())
        assert killed == KILLED, step
        held = {claim.table_name for claim in store.claims.held().values()}
        assert held, "it died in mid-job"
        assert not {outcome.table for outcome in work()} & held, "nobody else may yet"
        clock.go(timedelta(minutes=2))
        events: list[Event] = []
        assert {outcome.state for outcome in work(events)} == {"succeeded"}
        # Java ends a commit that the dead process had asked for: then nobody need take over the table.
        source = f"{namespace}.a"
        begun = {event.fields["table"] for event in events if event.name == "job_started"}
        ended = source not in begun and spark_lake.table(source).history()[0].operation == "replace"
        done = held & {source} if ended else set()
        assert {event.fields["table"] for event in events if event.name == "claim_taken_over"} == held - done
        assert differences(spark_lake, quick, queries) == {}, step
        assert store.claims.held() == {}
        assert store.setbacks.list() == {}

    quick.sql(f"DELETE FROM {namespace}.a WHERE k = 1 AND x = 1")
    clock.go(timedelta(minutes=10))
    before = _refreshes(spark_lake, queries)
    attached.begin("work", str(spark_lake.root), pattern, 0, clock.ahead.total_seconds())
    mine = work()
    assert attached.end() == 0
    assert differences(spark_lake, quick, queries) == {}
    assert _refreshes(spark_lake, queries) - before == Counter(list(queries)), "each table once, by either"
    assert all(outcome.state == "succeeded" for outcome in mine)
    _check_never_at_once(spark_lake, queries)


def _refreshes(lake: Lake, names: dict[str, str]) -> Counter[str]:
    """How often each table was changed by the schedule."""
    rows = [(name, row) for name in names for row in lake.dynamic.history(name, limit=100)]
    return Counter(
        name
        for name, row in rows
        if (row.state, row.refresh_trigger) == ("SUCCEEDED", "SCHEDULED") and row.refresh_action != "NO_DATA"
    )


def _check_never_at_once(lake: Lake, names: dict[str, str]) -> None:
    for name in names:
        runs = sorted(lake.runs.list(table=name, kind="refresh"), key=lambda run: run.started_at)
        assert len(runs) > 2
        for sooner, later in pairwise(runs):
            assert sooner.finished_at is not None
            assert sooner.finished_at <= later.started_at, f"two at once on {name}"
