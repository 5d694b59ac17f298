"""Rounds of refreshes on real Spark and Iceberg: who fails, who goes on, who reads what, and what is remembered."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from neve.engine.errors import translated
from neve.errors import RefreshFailed
from neve.lake import Lake
from neve.model.history import Dependency, RefreshRecord
from neve.model.names import TableName
from neve.model.runs import run_started
from neve.services.dynamic import rounds
from neve.services.dynamic.definitions import FRONTIER
from neve.services.look import RUN_ID

Cli = Callable[..., tuple[int, str, str]]


class Work:
    """Numbers, and dynamic tables over them, in a namespace of their own."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self.lake, self.namespace = lake, namespace
        self.queries: dict[str, str] = {}
        lake.tables.create(f"{namespace}.numbers", "id bigint, v bigint")
        self.write("INSERT INTO {ns}.numbers VALUES (1, 10), (2, 20)")

    def write(self, *statements: str) -> None:
        for statement in statements:
            self.lake.sql(statement.replace("{ns}", self.namespace), write=True).collect()

    def declare(self, **queries: str) -> None:
        for name, query in queries.items():
            self.queries[name] = query.replace("{ns}", self.namespace)
            self.lake.dynamic.create(
                f"CREATE DYNAMIC TABLE {self.named(name)} TARGET_LAG = '5 minutes' AS {self.queries[name]}"
            )

    def round(self, *names: str, **options: Any) -> dict[str, Any]:
        """One round of these tables, or of all in the namespace; never of another test's."""
        chosen = [f"{'+' * name.startswith('+')}{self.named(name.strip('+'))}" for name in names or self.queries]
        receipts = self.lake.dynamic.round(chosen, **options).receipts
        return {TableName.parse(receipt.table).name: receipt for receipt in receipts}

    def check(self) -> None:
        """The oracle: every table is its query over what is there now."""
        for name, query in self.queries.items():
            assert self.bag(f"SELECT * FROM {self.named(name)}") == self.bag(query), name

    def bag(self, query: str) -> Counter[tuple[object, ...]]:
        return Counter(map(tuple, self.lake.sql(query).collect()))

    def named(self, name: str) -> str:
        return f"{self.namespace}.{name}"


@pytest.fixture
def work(spark_lake: Lake, compiled: SparkSession, namespace: str) -> Work:
    return Work(spark_lake, namespace)


def test_a_failure_leaves_out_only_what_is_below_it(work: Work, cli: Cli) -> None:
    work.declare(
        parts="SELECT id, 100 div v AS part FROM {ns}.numbers",
        sums="SELECT sum(part) AS total FROM {ns}.parts",
        deep="SELECT total FROM {ns}.sums WHERE total > 0",
        copy="SELECT id, v FROM {ns}.numbers",
        counts="SELECT count(*) AS n FROM {ns}.copy",
    )
    work.write("INSERT INTO {ns}.numbers VALUES (3, 0)")
    foreseen = work.round(dry_run=True)
    assert {name: receipt.refresh for name, receipt in foreseen.items()} == dict.fromkeys(work.queries, "INCREMENTAL")
    assert all(receipt.dry_run and receipt.state == "SCHEDULED" for receipt in foreseen.values())
    code, out, err = cli("dynamic", "refresh", *map(work.named, work.queries), "--parallel", "2", "-o", "json")
    told = {TableName.parse(row["table"]).name: row for row in json.loads(out)}
    assert (code, "2 that need them were left out" in err) == (1, True), err
    assert {name: row["state"] for name, row in told.items()} == {
        "parts": "FAILED",
        "sums": "UPSTREAM_FAILED",
        "deep": "UPSTREAM_FAILED",
        "copy": "SUCCEEDED",
        "counts": "SUCCEEDED",
    }
    assert told["deep"]["upstream"] == work.named("parts"), "the one that failed, not the one in between"
    for name in ("copy", "counts"):
        was = foreseen[name]
        assert (was.refresh, told[name]["rows_inserted"]) == (told[name]["refresh"], 1)
        assert was.reason.code in (told[name]["reason"]["code"], "parents_first")
    assert foreseen["copy"].reason.detail == told["copy"]["reason"]["detail"]
    assert work.bag(f"SELECT count(*) FROM {work.named('parts')}") == Counter([(2,)]), "as it was"
    with pytest.raises(RefreshFailed, match="1 of 3 tables failed"):
        work.lake.dynamic.refresh([work.named("parts")], downstream=True)
    row = next(row for row in work.lake.dynamic.list() if row.table == work.named("parts"))
    assert (row.last_state, "zero" in str(row.last_error)) == ("FAILED", True)
    failed = work.lake.dynamic.history(work.named("parts"), failed=True)[0]
    assert failed.run_id is not None
    assert work.lake.runs.show(failed.run_id).state == "failed"
    work.write("UPDATE {ns}.numbers SET v = 5 WHERE id = 3")
    code, out, err = cli("runs", "retry", failed.run_id, "--parallel", "1", "-o", "json")
    assert code == 0, err
    assert [row["table"] for row in json.loads(out)] == [work.named(name) for name in ("parts", "sums", "deep")]
    work.round()
    work.check()
    assert cli("dynamic", "history", work.named("sums"), "--limit", "1")[1].count("SUCCEEDED") == 1


def test_everything_that_a_table_reads_is_of_one_moment(work: Work) -> None:
    work.declare(
        totals="SELECT count(*) AS n, sum(v) AS total FROM {ns}.numbers",
        evens="SELECT id FROM {ns}.numbers WHERE v % 2 = 0",
    )
    work.write("INSERT INTO {ns}.numbers VALUES (3, 30)")
    work.declare(
        joined="SELECT t.n, t.total, s.n AS seen, s.total AS sum FROM {ns}.totals t "
        "CROSS JOIN (SELECT count(*) AS n, sum(v) AS total FROM {ns}.numbers) s"
    )
    assert work.bag(f"SELECT * FROM {work.named('joined')}") == Counter([(2, 30, 2, 30)]), "as its parent saw them"
    assert set(work.round("joined")) == {"joined"}
    assert set(work.round("+joined")) == {"totals", "joined"}
    assert work.bag(f"SELECT * FROM {work.named('joined')}") == Counter([(3, 60, 3, 60)])
    work.declare(both="SELECT t.n, (SELECT count(*) FROM {ns}.evens) AS evens FROM {ns}.totals t")
    assert work.bag(f"SELECT * FROM {work.named('both')}") == Counter([(3, 3)]), "evens was behind, and came along"
    work.write("INSERT INTO {ns}.numbers VALUES (4, 40)")
    work.round("evens")
    done = work.round("both")
    assert {name: receipt.refresh for name, receipt in done.items()} == {"totals": "INCREMENTAL", "both": "INCREMENTAL"}
    assert done["totals"].details["needed_by"] == work.named("both")
    work.write("INSERT INTO {ns}.numbers VALUES (5, 50), (6, 60)")
    done = work.round(parallel=2)
    for name in ("totals", "evens"):  # at the same time, each with settings of its own
        current = work.lake._context.catalog.facts(TableName.parse(work.named(name))).current
        assert current is not None
        assert current.summary[RUN_ID] == done[name].run_id, name
    work.check()
    assert {(r.refresh, r.run_id) for r in work.round(parallel=4).values()} == {("NO_DATA", None)}


SLACK_MS = 250
"""Between reading one clock and the other, on a machine that has more to do."""


def milliseconds(row: RefreshRecord) -> int:
    """From when the refresh could begin to its end."""
    return sum(getattr(row, f"{phase}_time_ms") for phase in ("queued", "compilation", "execution"))


def test_history_tells_where_the_time_of_a_refresh_went(work: Work) -> None:
    work.declare(
        first="SELECT id, v FROM {ns}.numbers",
        last="SELECT max(id) AS id FROM {ns}.numbers",
        next="SELECT id, v + 1 AS v FROM {ns}.first",
    )
    work.write("INSERT INTO {ns}.numbers VALUES (3, 30)")
    began = time.monotonic()
    done = work.round(parallel=1)
    most = (time.monotonic() - began) * 1000
    rows = {name: work.lake.dynamic.history(work.named(name))[0] for name in work.queries}
    first, last, next_ = (rows[name] for name in ("first", "last", "next"))
    assert (first.last_completed_dependency, last.last_completed_dependency) == (None, None)
    assert next_.last_completed_dependency == Dependency(
        qualified_name=work.named("first"), data_timestamp=first.data_timestamp
    )
    assert first.round_id is not None
    ready = {"first": run_started(first.round_id), "last": run_started(first.round_id), "next": first.refresh_end_time}
    for name, row in rows.items():
        assert (row.refresh_action, row.rows_inserted) == ("INCREMENTAL", 1)
        since = (row.refresh_end_time - ready[name]).total_seconds() * 1000
        assert abs(since - milliseconds(row)) <= SLACK_MS, "all of its time is told, once"
        worked = (row.compilation_time_ms or 0) + (row.execution_time_ms or 0)
        assert worked == done[name].duration_ms
        assert abs((row.refresh_end_time - row.refresh_start_time).total_seconds() * 1000 - worked) <= SLACK_MS
        assert min(row.compilation_time_ms or 0, row.execution_time_ms or 0) > 0
        assert (row.rows_copied, row.files_added, row.files_deleted) == (0, 1, 0)
    assert milliseconds(first) + milliseconds(next_) <= most + 6, "one after the other, of what the round took"
    assert (last.queued_time_ms or 0) >= done["first"].duration_ms - 2, "it waited for the one place that there was"
    assert (next_.queued_time_ms or 0) >= done["last"].duration_ms - 2
    work.check()


def test_history_tells_what_a_refresh_wrote_once_more(work: Work) -> None:
    """A MERGE that copies whole files, as a table's owner may have set it."""
    work.write("INSERT INTO {ns}.numbers VALUES (3, 30), (4, 40), (5, 50)")
    query = f"SELECT id, sum(v) AS v FROM {work.named('numbers')} GROUP BY id"
    work.lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {work.named('sums')} TARGET_LAG = '5 minutes' REFRESH_MODE = FULL AS {query}"
    )
    work.queries["sums"] = query
    catalog, name = work.lake._context.catalog, TableName.parse(work.named("sums"))
    catalog.set_properties(name, put={"write.merge.mode": "copy-on-write"})
    work.write("INSERT INTO {ns}.numbers VALUES (3, 7)")
    receipt = work.round()["sums"]
    row = work.lake.dynamic.history(work.named("sums"))[0]
    assert (receipt.strategy, row.rows_inserted, row.rows_deleted, row.rows_copied) == ("merge", 1, 1, 4)
    wrote = next(snapshot for snapshot in work.lake.table(work.named("sums")).history() if snapshot.current)
    assert (row.files_added, row.files_deleted) == (wrote.files_added, wrote.files_deleted)
    assert row.files_deleted, "the file that held all of them"
    work.check()


def test_what_the_tables_know_outlives_the_state_database(work: Work, cli: Cli) -> None:
    """History comes back from the commits, refreshes go on by what changed, and held snapshots survive expiry."""
    work.declare(copy="SELECT id, v FROM {ns}.numbers", sums="SELECT v % 2 AS k, sum(v) AS s FROM {ns}.copy GROUP BY 1")
    work.write("INSERT INTO {ns}.numbers VALUES (3, 31), (4, 40)")
    first = work.round()
    work.write("DELETE FROM {ns}.numbers WHERE id = 1", "INSERT INTO {ns}.numbers VALUES (5, 51)")
    work.write(
        "CALL lake.system.expire_snapshots(table => 'lake.{ns}.numbers', older_than => TIMESTAMP '2100-01-01', "
        "retain_last => 1)"
    )
    assert len(work.lake.table(work.named("numbers")).history()) == 2, "the current one and the one that is held"
    store = work.lake._context.store
    told = {name: work.lake.dynamic.history(work.named(name)) for name in work.queries}
    for table in ("dynamic_tables", "source_snapshots", "dependencies", "refresh_history"):
        store._database.write(f"DELETE FROM {table}")
    code, out, err = cli("dynamic", "recover", "-o", "json")
    assert code == 0, err
    assert {"table": work.named("copy"), "detail": "2 refreshes"} in json.loads(out)
    for name, rows in told.items():
        known = {row.run_id: row for row in work.lake.dynamic.history(work.named(name))}
        for row in rows:
            again = known[row.run_id]
            for column in ("state", "refresh_action", "refresh_trigger", "reason_code", "reason_detail", "snapshot_id"):
                assert getattr(again, column) == getattr(row, column), (name, column)
            for column in ("rows_inserted", "rows_deleted", "source_snapshots", "round_id", "data_timestamp"):
                assert getattr(again, column) == getattr(row, column), (name, column)
            for column in ("rows_copied", "files_added", "files_deleted"):
                assert getattr(again, column) == getattr(row, column), (name, column)
            assert (again.execution_time_ms, again.last_completed_dependency) == (None, None), "no commit tells of them"
    assert first["copy"].run_id in {row.run_id for row in work.lake.dynamic.history(work.named("copy"))}
    assert {receipt.refresh for receipt in work.round().values()} == {"INCREMENTAL"}
    work.check()


def test_verify_shows_some_of_the_rows_that_differ(work: Work, cli: Cli) -> None:
    work.declare(copy="SELECT id, v FROM {ns}.numbers", sums="SELECT sum(v) AS s FROM {ns}.numbers")
    names = [work.named(name) for name in work.queries]
    assert cli("dynamic", "verify", *names)[0] == 0
    catalog, name = work.lake._context.catalog, TableName.parse(work.named("copy"))
    frontier = json.loads(next(iter(catalog.facts(name).ancestors())).summary[FRONTIER])
    behind = work.lake._context.session.spark  # through Névé nobody writes to a dynamic table
    behind.sql(f"UPDATE {name.sql} SET v = NULL WHERE id = 1")
    behind.sql(f"INSERT INTO {name.sql} (id, v) SELECT 7, 7 FROM range(9)")
    false = json.dumps({**frontier, "snapshot": catalog.facts(name).current_snapshot_id})
    catalog.set_properties(name, put={FRONTIER: false})
    code, out, err = cli("dynamic", "verify", *names, "-o", "json")
    assert (code, f"{work.named('copy')} lacks 1 rows and has 10 too many" in err) == (5, True), err
    found = {TableName.parse(row["table"]).name: row for row in json.loads(out)}
    assert found["copy"]["missing_rows"] == [{"count": 1, "row": {"id": 1, "v": 10}}]
    assert sorted(found["copy"]["surplus_rows"], key=str) == [
        {"count": 1, "row": {"id": 1, "v": None}},
        {"count": 9, "row": {"id": 7, "v": 7}},
    ]
    assert (found["sums"]["missing"], found["sums"]["surplus_rows"]) == (0, [])


def test_an_interrupt_ends_the_refreshes_of_other_threads(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    work.declare(copy="SELECT id, v FROM {ns}.numbers", sums="SELECT sum(v) AS s FROM {ns}.numbers")
    work.write("INSERT INTO {ns}.numbers VALUES (3, 30)")
    working, real = threading.Semaphore(0), vars(rounds)["wait"]

    def endless(context: Any, refresh: Any) -> Any:
        working.release()
        with translated():
            return context.session.spark.range(10**15).selectExpr("sum(id % 7)").collect()

    def interrupt(futures: Any, **options: Any) -> Any:
        if "return_when" not in options:
            return real(futures, **options)
        working.acquire()
        working.acquire()
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds, "complete", endless)
    monkeypatch.setattr(rounds, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        work.round(parallel=2)
    monkeypatch.undo()
    for name in work.queries:
        assert work.lake.dynamic.history(work.named(name))[0].state == "FAILED"
    assert {receipt.refresh for receipt in work.round().values()} == {"INCREMENTAL"}
    work.check()
