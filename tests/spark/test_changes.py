"""Row changes on real tables, one kind of history per test; the oracle is EXCEPT ALL both ways of two snapshots."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.equality import delete_where_equal
from tests.spark.histories import Bag, head, oracle, quick_session, read

from neve.engine.staging import load_iceberg
from neve.errors import ColumnNotFound, Refused, SnapshotNotFound
from neve.lake import Lake, LakeTable
from neve.services import positions
from neve.services.row_changes import changes_since

VERSIONS = (2, 3)


class Work:
    """A table, and the snapshots it had."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.lake = lake
        self.spark = quick_session(lake)
        self.name = name
        self.snapshots: list[int] = []

    def create(self, columns: str, *, version: int = 3, mode: str = "merge-on-read", layout: str = "") -> Work:
        modes = "".join(f", 'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
        properties = f"'format-version'='{version}', 'write.distribution-mode'='none'{modes}"
        self.spark.sql(f"CREATE TABLE lake.{self.name} ({columns}) USING iceberg {layout} TBLPROPERTIES ({properties})")
        return self

    @property
    def table(self) -> LakeTable:
        return self.lake.table(self.name)

    def run(self, *texts: str) -> int:
        """Statements in which `t` is the table; the snapshot after them."""
        for text in texts:
            self.spark.sql(text.replace(" t ", f" lake.{self.name} ").replace("'t'", f"'lake.{self.name}'")).collect()
        self.snapshots.append(head(self.table))
        return self.snapshots[-1]

    def fill(self, rows: int = 100, files: int = 2) -> int:
        return self.run(
            f"INSERT INTO t SELECT id, CAST(id % 10 AS STRING), DATE'2024-01-01' + CAST(id % 3 AS INT)"
            f" FROM range(0, {rows}, 1, {files})"
        )

    def check(
        self, since: int, until: int, *, tier: str, columns: list[str] | None = None, general: bool = False
    ) -> Bag:
        """The fast road takes the tier and agrees with the oracle, and if asked so does the general one."""
        items = "*" if columns is None else ", ".join(columns)
        expected = oracle(self.spark, self.table, since, until, old=items, new=items)
        fast, by_files = read(self.lake, self.table, since, until, road="fast", columns=columns)
        assert by_files == expected
        if general:
            assert read(self.lake, self.table, since, until, road="general", columns=columns)[1] == expected
        assert fast.plan.tier == tier, fast.plan.reason
        return by_files


@pytest.fixture
def work(spark_lake: Lake, namespace: str) -> Work:
    return Work(spark_lake, f"{namespace}.t")


@pytest.fixture
def jobs(spark_lake: Lake) -> Callable[[], int]:
    """How many Spark jobs there were since the last call."""
    scheduler = spark_lake.spark.sparkContext._jsc.sc().dagScheduler()
    seen = [int(scheduler.numTotalJobs())]

    def count() -> int:
        now = int(scheduler.numTotalJobs())
        seen.append(now)
        return now - seen[-2]

    return count


COLUMNS = "id BIGINT, v STRING, d DATE"


@pytest.mark.parametrize(("mode", "version"), [("merge-on-read", 2), ("merge-on-read", 3), ("copy-on-write", 3)])
def test_every_statement(work: Work, mode: str, version: int) -> None:
    work.create(COLUMNS, version=version, mode=mode, layout="PARTITIONED BY (d)")
    steps = [work.fill()]
    for tier, text in (
        ("appends", "INSERT INTO t VALUES (1000, NULL, NULL), (1000, NULL, NULL)"),
        ("diff", "UPDATE t SET v = concat(v, '!') WHERE id % 20 = 3"),
        ("diff", "DELETE FROM t WHERE id % 20 = 4 OR v IS NULL"),
        (
            "diff",
            "MERGE INTO t USING (SELECT id AS s FROM range(90, 110)) ON id = s WHEN MATCHED AND s % 2 = 0 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v, d) VALUES (s, 'n', NULL)",
        ),
        ("diff", "INSERT OVERWRITE t SELECT * FROM t WHERE id < 50"),
        ("diff", "TRUNCATE TABLE t "),
    ):
        steps.append(work.run(text))
        assert work.check(steps[-2], steps[-1], tier=tier)
    work.check(steps[0], steps[3], tier="diff")


def test_nothing_changed_costs_no_job(work: Work, jobs: Callable[[], int]) -> None:
    work.create(COLUMNS, mode="copy-on-write").fill(files=4)
    since = work.run("DELETE FROM t WHERE id = 5")
    until = work.run("CALL lake.system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    jobs()
    for later in (since, until):
        with work.table.changes(since, later) as changes:
            assert changes.nothing
            assert changes.frame().schema.simpleString() == "struct<id:bigint,v:string,d:date,_w:bigint>"
            assert changes.frame().collect() == []
    assert jobs() == 0
    assert since != until


def test_nothing_changed_starts_no_spark(lake: Lake) -> None:
    lake.tables.create("t", "id bigint, v string")
    with lake.table("t").changes(None) as changes:
        assert (changes.nothing, changes.plan.reason.code) == (True, "same_snapshot")
        assert not lake._context.session.started


def test_small_changes_are_one_job(work: Work, jobs: Callable[[], int]) -> None:
    work.create(COLUMNS).fill(files=8)
    since = work.snapshots[-1]
    appended = work.run("INSERT INTO t VALUES (1000, 'a', NULL)")
    until = work.run("UPDATE t SET v = 'b' WHERE id % 5 = 2", "DELETE FROM t WHERE id % 5 = 3")
    for start, end in ((since, appended), (appended, until), (since, until)):
        with work.table.changes(start, end) as changes:
            frame = changes.frame()
            jobs()
            frame.collect()
            assert jobs() == 1


def test_rows_that_went_are_picked_not_read(work: Work) -> None:
    work.create(COLUMNS).fill(rows=1000, files=2)
    since = work.snapshots[-1]
    until = work.run("DELETE FROM t WHERE id IN (1, 2, 3)")
    with work.table.changes(since, until) as changes:
        assert (changes.estimate.files, changes.estimate.rows) == (1, 3)
    again = work.run("DELETE FROM t WHERE id IN (3, 4, 999)")
    with work.table.changes(until, again) as changes:
        assert (changes.estimate.files, changes.estimate.rows) == (2, 2)
    assert sum(work.check(since, again, tier="diff").values()) == -5
    assert sum(work.check(again, since, tier="appends").values()) == 5


@pytest.mark.parametrize("version", VERSIONS)
def test_too_many_positions_are_left_to_spark(work: Work, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "MOST_POSITIONS", 2)
    work.create(COLUMNS, version=version).fill()
    since = work.snapshots[-1]
    until = work.run("DELETE FROM t WHERE id % 10 = 3")
    with work.table.changes(since, until) as changes:
        assert changes.estimate.rows == 200
    work.check(since, until, tier="diff")


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_of_format_2(work: Work, granularity: str) -> None:
    work.create(COLUMNS, version=2)
    work.spark.sql(f"ALTER TABLE lake.{work.name} SET TBLPROPERTIES ('write.delete.granularity'='{granularity}')")
    first = work.fill(files=4)
    second = work.run("DELETE FROM t WHERE id % 10 = 3")
    third = work.run("DELETE FROM t WHERE id % 10 = 4")
    work.check(first, second, tier="diff")
    work.check(second, third, tier="diff")
    merged = work.run(
        "CALL lake.system.rewrite_position_delete_files(table => 't', options => map('rewrite-all','true'))"
    )
    assert merged != third
    work.check(third, merged, tier="nothing")
    work.check(first, merged, tier="diff")


def test_an_upgrade_from_position_deletes_to_vectors(work: Work) -> None:
    work.create(COLUMNS, version=2).fill()
    first = work.run("DELETE FROM t WHERE id % 10 = 3")
    second = work.run("ALTER TABLE t SET TBLPROPERTIES ('format-version'='3')", "DELETE FROM t WHERE id % 10 = 4")
    third = work.run("UPDATE t SET v = 'u' WHERE id = 11")
    work.check(work.snapshots[0], second, tier="diff")
    work.check(first, third, tier="diff")


@pytest.mark.parametrize("version", VERSIONS)
def test_equality_deletes_of_another_engine(work: Work, version: int) -> None:
    work.create(COLUMNS, version=version)
    first = work.fill()
    delete_where_equal(work.spark, work.table.name, "v", ["3", "4"])
    second = work.run()
    third = work.run("INSERT INTO t VALUES (1003, '3', NULL)", "DELETE FROM t WHERE id % 10 = 5")
    delete_where_equal(work.spark, work.table.name, "v", ["3", "6"])
    fourth = work.run()
    for since, until in ((first, second), (second, third), (third, fourth), (first, fourth), (fourth, second)):
        assert work.check(since, until, tier="diff")
    work.check(first, fourth, tier="diff", columns=["d"], general=True)


def test_equality_deletes_in_one_partition(work: Work) -> None:
    work.create(COLUMNS, layout="PARTITIONED BY (d)")
    first = work.fill()
    delete_where_equal(work.spark, work.table.name, "v", ["3"], like="d=2024-01-02")
    second = work.run()
    gone = work.check(first, second, tier="diff")
    assert gone
    assert all("datetime.date(2024, 1, 2)" in row for row in gone)


def test_a_later_schema_reads_earlier_rows(work: Work) -> None:
    work.create("id INT, a STRING, b FLOAT, n STRUCT<x: INT, y: STRING>, amount DECIMAL(5, 2)")
    first = work.run(
        "INSERT INTO t SELECT CAST(id AS INT), 'a', 1.5, named_struct('x', 1, 'y', 'y'), 1.25 FROM range(20)"
    )
    second = work.run(
        "ALTER TABLE t ADD COLUMN c STRING",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t RENAME COLUMN b TO a",
        "ALTER TABLE t ALTER COLUMN a TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN amount TYPE DECIMAL(9, 2)",
        "ALTER TABLE t RENAME COLUMN n.y TO z",
        "ALTER TABLE t ADD COLUMN n.w DATE",
        "ALTER TABLE t ALTER COLUMN n.x TYPE BIGINT",
        "DELETE FROM t WHERE id = 3",
    )
    third = work.run("UPDATE t SET c = 'new', n.w = DATE'2024-01-01' WHERE id = 4")
    old = (
        "CAST(id AS BIGINT), CAST(b AS DOUBLE),"
        " named_struct('x', CAST(n.x AS BIGINT), 'z', n.y, 'w', CAST(NULL AS DATE)),"
        " CAST(amount AS DECIMAL(9, 2)), CAST(NULL AS STRING)"
    )
    expected: Bag = Counter()
    for until in (second, third):
        expected = oracle(work.spark, work.table, first, until, old=old, new="id, a, n, amount, c")
        for road in ("fast", "general"):
            changes, found = read(work.lake, work.table, first, until, road=road)
            assert [column.name for column in changes.plan.columns] == ["id", "a", "n", "amount", "c"]
            assert found == expected
    assert sum(map(abs, expected.values())) == 3


def test_an_earlier_schema_is_the_answer_to_an_earlier_moment(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    second = work.run("UPDATE t SET v = 'u' WHERE id < 5")
    work.run("ALTER TABLE t DROP COLUMN v", "ALTER TABLE t RENAME COLUMN d TO day", "DELETE FROM t WHERE id = 50")
    work.check(first, second, tier="diff", columns=["id", "v", "d"])
    with pytest.raises(ColumnNotFound, match="no column day"):
        work.table.changes(first, second, columns=["day"])


def test_back_over_a_change_of_the_schema(work: Work) -> None:
    work.create("id INT, v STRING, d DATE")
    first = work.run("INSERT INTO t SELECT CAST(id AS INT), 'v', NULL FROM range(20)")
    second = work.run(
        "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE t DROP COLUMN v",
        "INSERT INTO t VALUES (3000000000, NULL)",
        "DELETE FROM t WHERE id = 3",
    )
    work.run("INSERT INTO t VALUES (7, NULL)")
    for columns, old in (("id", "id"), ("id, v", "id, CAST(NULL AS STRING)")):
        changes, found = read(work.lake, work.table, second, first, road="auto", columns=columns.split(", "))
        assert (changes.plan.tier, changes.plan.reason.code) == ("compare", "schema_went_back")
        assert found == oracle(work.spark, work.table, second, first, old=old, new=columns)
    work.check(second, first, tier="diff", columns=["d"])


def test_a_column_that_came_after_the_last_snapshot(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    last = work.run("DELETE FROM t WHERE id = 1", "ALTER TABLE t ADD COLUMN late INT")
    for road in ("fast", "general"):
        _, found = read(work.lake, work.table, first, last, road=road, columns=["id", "late"])
        assert found == Counter({"(1, None)": -1})


def test_partitions_that_evolve(work: Work) -> None:
    work.create(COLUMNS, layout="PARTITIONED BY (d)")
    first = work.fill()
    second = work.run("ALTER TABLE t ADD PARTITION FIELD bucket(2, id)", "UPDATE t SET v = 'u' WHERE id % 9 = 1")
    third = work.run("ALTER TABLE t DROP PARTITION FIELD d", "DELETE FROM t WHERE id % 9 = 2")
    work.check(first, second, tier="diff")
    work.check(first, third, tier="diff", general=True)


def test_a_layout_that_the_earlier_schema_does_not_know(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    second = work.run("DELETE FROM t WHERE id = 1")
    work.run(
        "ALTER TABLE t ADD COLUMN p INT", "ALTER TABLE t ADD PARTITION FIELD p", "ALTER TABLE t WRITE ORDERED BY p"
    )
    work.run("INSERT INTO t VALUES (1, 'a', NULL, 7)")
    work.check(first, second, tier="diff")


def test_a_partition_column_that_is_gone_leaves_the_general_road(work: Work) -> None:
    work.create(COLUMNS, layout="PARTITIONED BY (v)", mode="copy-on-write")
    first = work.fill()
    last = work.run(
        "ALTER TABLE t DROP PARTITION FIELD v", "ALTER TABLE t DROP COLUMN v", "DELETE FROM t WHERE id % 10 = 1"
    )
    changes, found = read(work.lake, work.table, first, last, road="auto")
    assert (changes.plan.tier, changes.plan.reason.code) == ("compare", "unstageable_file")
    assert found == oracle(work.spark, work.table, first, last, old="id, d", new="id, d")


def test_every_kind_of_partition_value(work: Work) -> None:
    kinds = {
        "b": ("BOOLEAN", "id % 2 = 0"),
        "f": ("DOUBLE", "id / 4"),
        "m": ("DECIMAL(9, 3)", "id / 8"),
        "x": ("BINARY", "unhex(hex(id))"),
        "ts": ("TIMESTAMP", "TIMESTAMP'2024-01-01 00:00:00.000001Z' + make_interval(0, 0, 0, CAST(id AS INT))"),
        "tn": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'1969-12-31 23:59:59.5' - make_interval(0, 0, 0, CAST(id AS INT))"),
        "s": ("STRING", "IF(id = 1, NULL, concat('ü/=%', id))"),
    }
    work.create(f"id BIGINT, {', '.join(f'{name} {kind}' for name, (kind, _) in kinds.items())}")
    fields = [f"ALTER TABLE t ADD PARTITION FIELD {name}" for name in kinds]
    rows = f"SELECT id, {', '.join(value for _, value in kinds.values())} FROM range(4)"
    first = work.run(*fields, "ALTER TABLE t ADD PARTITION FIELD hours(ts)", f"INSERT INTO t {rows}")
    second = work.run(f"INSERT INTO t {rows}")
    third = work.run("DELETE FROM t WHERE id = 2", "UPDATE t SET s = NULL WHERE id = 3")
    work.check(first, second, tier="appends")
    work.check(first, third, tier="diff")


def test_compaction_in_between_is_passed_over(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill(files=8)
    work.run("UPDATE t SET v = 'u' WHERE id = 1")
    work.run("CALL lake.system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    last = work.run("DELETE FROM t WHERE id = 2")
    with work.table.changes(first, last) as changes:
        assert len(changes.plan.legs) == 2
        assert changes.estimate.rows == 3
    work.check(first, last, tier="diff")


def test_rollback_and_cherry_pick(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    second = work.run("DELETE FROM t WHERE id % 10 = 1")
    work.table.rollback(first)
    third = work.run("UPDATE t SET v = 'u' WHERE id % 10 = 2")
    work.check(second, third, tier="diff", general=True)
    work.run("ALTER TABLE t SET TBLPROPERTIES ('write.wap.enabled'='true')")
    work.spark.conf.set("spark.wap.id", "one")
    work.run("INSERT INTO t VALUES (2000, 'w', NULL)")
    work.spark.conf.unset("spark.wap.id")
    assert head(work.table) == third
    staged = max(work.table.history(), key=lambda row: row.at).snapshot
    work.check(third, staged, tier="appends")
    fourth = work.run("DELETE FROM t WHERE id % 10 = 3")
    picked = work.run(f"CALL lake.system.cherrypick_snapshot('t', {staged})")
    work.check(staged, picked, tier="diff")
    assert work.check(fourth, picked, tier="appends") == Counter({"(2000, 'w', None)": 1})


def test_branches(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    work.run("ALTER TABLE t CREATE BRANCH b")
    work.spark.sql(f"DELETE FROM lake.{work.name}.branch_b WHERE id < 3")
    with work.table.changes(first, "b") as changes:
        assert changes.frame().count() == 3
    with work.table.changes(first) as changes:
        assert changes.nothing
    with work.table.changes("b", "main") as changes:
        assert {row["_w"] for row in changes.frame().collect()} == {1}


def test_a_table_replaced_by_a_query(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    work.spark.sql(
        f"CREATE OR REPLACE TABLE lake.{work.name} USING iceberg AS SELECT id, v, d FROM lake.{work.name} WHERE id < 7"
    )
    work.check(first, head(work.table), tier="diff")


def test_a_source_made_anew(work: Work) -> None:
    work.create(COLUMNS)
    since, uuid = work.fill(), work.table.show().uuid
    work.spark.sql(f"DROP TABLE lake.{work.name}")
    work.create(COLUMNS)
    until = work.fill()
    with changes_since(work.lake._context, work.table.name, uuid=uuid, since=since, until=until) as changes:
        assert (changes.plan.tier, changes.plan.reason.code) == ("reinitialise", "other_table")
        with pytest.raises(Refused, match="made anew"):
            changes.frame()


def test_expired_snapshots(work: Work) -> None:
    work.create(COLUMNS)
    first = work.fill()
    kept = work.run("DELETE FROM t WHERE id = 1")
    work.table.tag("kept")
    work.run("DELETE FROM t WHERE id = 2")
    last = work.run("INSERT INTO t VALUES (3000, 'x', NULL)")
    work.run("CALL lake.system.expire_snapshots(table => 't', older_than => now(), retain_last => 1)")
    with pytest.raises(SnapshotNotFound) as caught:
        work.table.changes(first)
    assert "history.expire.max-snapshot-age-ms" in (caught.value.hint or "")
    uuid = work.table.show().uuid
    with changes_since(work.lake._context, work.table.name, uuid=uuid, since=first, until=last) as changes:
        assert (changes.plan.tier, changes.plan.reason.code) == ("impossible", "snapshot_expired")
    with work.table.changes("kept", last) as changes:
        assert changes.plan.reason.code == "not_an_ancestor"
    work.check(kept, last, tier="diff")


def test_only_chosen_columns_are_read_and_net(work: Work) -> None:
    work.create("id BIGINT, v STRING, a ARRAY<INT>, m MAP<STRING, INT>", mode="copy-on-write")
    first = work.run("INSERT INTO t SELECT id, 'v', array(1, NULL), map('k', CAST(id AS INT)) FROM range(50)")
    last = work.run("UPDATE t SET v = 'other', m = map('k', 0) WHERE id < 10")
    assert work.check(first, last, tier="diff", columns=["id", "a"]) == Counter()
    work.check(first, last, tier="diff", columns=["v"])
    with work.table.changes(first, last, columns=["v"]) as changes:
        plan = changes.frame()._jdf.queryExecution().optimizedPlan().toString()
    assert "id#" not in plan
    for road in ("fast", "general"):
        _, found = read(work.lake, work.table, first, last, road=road, columns=["m"])
        assert sum(found.values()) == 0
        assert found["({'k': 0},)"] == 9
        _, found = read(work.lake, work.table, first, last, road=road, columns=[])
        assert found == Counter()


def test_special_values_compare_as_in_spark(work: Work) -> None:
    work.create("id BIGINT, f DOUBLE, b BINARY, s STRUCT<f: FLOAT>", mode="copy-on-write")
    values = (
        "(1, DOUBLE('NaN'), X'00ff', named_struct('f', FLOAT('-0.0'))), (2, -0.0D, X'', NULL), (3, NULL, NULL, NULL)"
    )
    first = work.run(f"INSERT INTO t VALUES {values}")
    second = work.run("UPDATE t SET f = 0.0D WHERE id = 2")
    third = work.run("DELETE FROM t WHERE id = 3")
    assert work.check(first, second, tier="diff", general=True) == Counter()
    assert sum(work.check(first, third, tier="diff", general=True).values()) == -1


def test_variants_can_be_appended_but_not_compared(work: Work) -> None:
    work.create("id BIGINT, j VARIANT")
    first = work.run("INSERT INTO t SELECT id, parse_json('[1]') FROM range(5)")
    second = work.run("INSERT INTO t SELECT id, parse_json('[1]') FROM range(5)")
    third = work.run("DELETE FROM t WHERE id = 1")
    with work.table.changes(first, second) as changes:
        assert changes.frame().count() == 5
    with pytest.raises(Refused, match="j cannot be compared"):
        work.table.changes(second, third)
    work.check(second, third, tier="diff", columns=["id"])


def test_temporary_vectors_go_when_closed(work: Work) -> None:
    work.create(COLUMNS).fill()
    since = work.snapshots[-1]
    work.run("DELETE FROM t WHERE id = 1")
    folder = Path(work.table.show().location) / "metadata"
    tasks: Any = load_iceberg(work.spark, work.table.name)
    manager: Any = work.spark._jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()  # type: ignore[union-attr]
    with work.table.changes(since) as changes:
        assert changes.frame().where("id >= 0").count() == 1
        assert len(list(folder.glob("neve-changes-*"))) == 1
        assert manager.fetchSetIds(tasks).size() == 1
    assert list(folder.glob("neve-changes-*")) == []
    assert manager.fetchSetIds(tasks).isEmpty()


def test_a_frame_shows_the_moment_it_was_planned_for(work: Work) -> None:
    work.create(COLUMNS).fill()
    since = work.snapshots[-1]
    work.run("DELETE FROM t WHERE id = 1")
    with work.table.changes(since) as changes:
        work.run("DELETE FROM t WHERE id = 2", "ALTER TABLE t DROP COLUMN v")
        assert [row["id"] for row in changes.frame().collect()] == [1]
        assert changes.frame().columns == ["id", "v", "d", "_w"]


def test_many_files_cost_no_more_calls_than_one(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.java_gateway import GatewayClient

    sent: list[str] = []
    send = GatewayClient.send_command
    work.create(COLUMNS)
    few, many = [(work.fill(files=files), work.run("UPDATE t SET v = 'u' WHERE true")) for files in (1, 100)]

    def counted(client: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        if not command.startswith("m\nd\n"):  # forgetting an object, whenever Python does
            sent.append(command)
        return send(client, command, *args, **kwargs)

    calls = []
    for since, until in (few, many):
        with work.table.changes(since, until) as changes:
            monkeypatch.setattr(GatewayClient, "send_command", counted)
            changes.frame()
            monkeypatch.undo()
            calls.append((changes.estimate.files, len(sent)))
            sent.clear()
    assert calls[0][0] < 10
    assert calls[1][0] > 100
    assert calls[1][1] <= calls[0][1]


def test_python_and_command_line(work: Work, cli: Callable[..., tuple[int, str, str]]) -> None:
    work.create(COLUMNS).fill()
    since = work.snapshots[-1]
    work.table.tag("start")
    until = work.run("UPDATE t SET v = 'u' WHERE id = 7")
    frame = work.lake.changes(work.name, since, columns=["id", "v"])
    expected = [{"id": 7, "v": "7", "_w": -1}, {"id": 7, "v": "u", "_w": 1}]
    assert sorted((row.asDict() for row in frame.collect()), key=lambda row: row["_w"]) == expected
    words = ("table", "changes", work.name, "--columns", "id,v")
    code, out, err = cli(*words, "--since", "start", "-o", "jsonl")
    assert (code, sorted(map(json.loads, out.splitlines()), key=lambda row: row["_w"])) == (0, expected)
    assert "only files that differ" in err
    code, out, _ = cli(*words, "--since", str(since), "--until", str(until), "--limit", "1", "-o", "csv")
    assert (code, out.splitlines()[0], len(out.splitlines())) == (0, "id,v,_w", 2)
    code, out, err = cli(*words, "--since", str(until), "-o", "json")
    assert (code, json.loads(out)) == (0, [])
    assert cli(*words, "--since", "12345")[0] == 3
    assert cli("table", "changes", work.name, "--since", "start", "--columns", "nope")[0] == 3
