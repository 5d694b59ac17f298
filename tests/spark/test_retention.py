"""Expiry, manifests, deletes and statistics on tables that Spark wrote, beside Iceberg's own actions as the oracle."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.lake.lakes import append_files
from tests.spark.equality import delete_where_equal

from neve.catalog.files import local_path
from neve.engine.staging import load_iceberg
from neve.lake import Lake, LakeTable
from neve.model.names import TableName

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
SAME = ("snapshots", "refs", "snapshot-log", "statistics", "partition-statistics", "current-snapshot-id")


def actions(spark: SparkSession) -> Any:
    java: Any = spark._jvm
    return java.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)


def metadata_of(lake: Lake, name: TableName) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(lake._context.catalog.facts(name).metadata_location).read_text())
    return {key: found.get(key) or None for key in SAME}


def files_of(lake: Lake, table: LakeTable) -> set[str]:
    root = local_path(lake._context.catalog.facts(table.name).location)
    assert root is not None
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def iceberg_expires(
    spark: SparkSession, lake: Lake, table: LakeTable, ids: list[int], *, older_than: datetime
) -> tuple[set[str], dict]:
    """The files that Iceberg would remove with these snapshots, and the metadata that it leaves: on a second name."""
    catalog, other = lake._context.catalog, TableName(table.name.namespace, "oracle")
    catalog.register(other, catalog.facts(table.name).metadata_location)
    action = (
        actions(spark).expireSnapshots(load_iceberg(spark, other)).expireOlderThan(round(older_than.timestamp() * 1000))
    )
    for snapshot in ids:
        action = action.expireSnapshotId(snapshot)
    rows = action.expireFiles().toDF().collectAsList()
    paths = {str(local_path(rows.get(index).getAs("path"))) for index in range(rows.size())}
    left = metadata_of(lake, other)
    catalog.drop(other)
    return paths, left


def partition_statistics(spark: SparkSession, name: TableName) -> None:
    actions(spark).computePartitionStats(load_iceberg(spark, name)).execute()


def statistics(spark: SparkSession, name: TableName) -> None:
    actions(spark).computeTableStats(load_iceberg(spark, name)).execute()


def history(spark: SparkSession, lake: Lake, table: LakeTable, version: int) -> datetime:
    """Everything that leaves files behind; the moment half-way through it."""
    t = table.name.sql
    tags = lambda: load_iceberg(spark, table.name).manageSnapshots()  # noqa: E731

    def run(*statements: str) -> None:
        for statement in statements:
            spark.sql(statement).collect()

    run(
        f"INSERT INTO {t} SELECT CAST(id AS INT), CAST(id % 2 AS STRING) FROM range(40)",
        f"DELETE FROM {t} WHERE id IN (1, 2)",
    )
    table.tag("kept")
    run(f"DELETE FROM {t} WHERE id IN (3, 4, 5)")
    statistics(spark, table.name)
    partition_statistics(spark, table.name)
    run(f"INSERT INTO {t} VALUES (100, null), (101, 'a b/ü')")
    tags().createBranch("side").commit()
    run(f"INSERT INTO {t}.branch_side VALUES (200, '0')", f"UPDATE {t} SET id = id + 1000 WHERE id = 10")
    delete_where_equal(spark, table.name, "id", [11, 12], like="name=1")
    middle = datetime.now(UTC)
    run(
        f"CALL lake.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true',"
        f" 'delete-file-threshold', '1'))",
    )
    tags().createTag("short", load_iceberg(spark, table.name).currentSnapshot().snapshotId()).setMaxRefAgeMs(
        "short", 1
    ).commit()
    run(f"INSERT INTO {t} VALUES (300, '1')", f"DELETE FROM {t} WHERE id = 300")
    gone = lake._context.catalog.facts(table.name).current_snapshot_id
    run(f"INSERT INTO {t} VALUES (301, '1')")
    assert gone is not None
    table.rollback(gone)
    run(f"DELETE FROM {t} WHERE name = '0'", f"INSERT INTO {t} VALUES (302, null)")
    statistics(spark, table.name)
    return middle


@pytest.mark.parametrize("version", [2, 3])
def test_expiry_removes_what_iceberg_would_remove(  # noqa: PLR0917 - fixtures
    spark_lake: Lake,
    quick: SparkSession,
    namespace: str,
    rows_of: Callable[..., list],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    name = f"{namespace}.t"
    spark_lake.tables.create(
        name, "id int, name string", partition_by=["name"], properties={"format-version": str(version)}
    )
    table = spark_lake.table(name)
    middle = history(quick, spark_lake, table, version)
    before, files = rows_of(table), files_of(spark_lake, table)
    tagged = quick.sql(f"SELECT * FROM {table.name.sql} VERSION AS OF 'kept'").collect()
    now = datetime.now(UTC)
    monkeypatch.setattr(spark_lake._context, "clock", lambda: now)
    kinds = set()
    with table.changes("kept") as reading:  # who reads what changed since a snapshot keeps it, and what it reads it to
        table.delete_tag("kept")
        reading.frame(quick)
        held = [
            item.snapshot
            for item in table.expire(older_than="0", dry_run=True).kept
            if item.reasons[0].code == "reader"
        ]
        assert held[0] == reading.plan.since
    table.tag("kept", at=str(held[0]))
    for age in (now - middle, None):
        planned = table.expire(older_than=age or "0", dry_run=True)
        assert planned.expired
        # By number the first time, by age the second: then Iceberg decides itself what goes.
        ids, moment = (planned.expired, LONG_AGO) if age else ([], now)
        wanted, left = iceberg_expires(quick, spark_lake, table, ids, older_than=moment)
        files = files_of(spark_lake, table)
        done = table.expire(older_than=age or "0")
        assert (done.expired, done.removed) == (planned.expired, planned.removed)
        assert metadata_of(spark_lake, table.name) == left
        assert files - files_of(spark_lake, table) == wanted & files
        assert sum(item.files for item in done.removed) == len(wanted)
        assert not done.files_left
        kinds |= {item.kind for item in done.removed}
        assert rows_of(table) == before
    assert quick.sql(f"SELECT * FROM {table.name.sql} VERSION AS OF 'kept'").collect() == tagged
    assert kinds >= {"data", "deletes", "manifest", "manifest_list", "statistics"}
    names = {reference.name for reference in table.references()}
    assert names == {"main", "kept", "side"}
    check_orphans(quick, spark_lake, table, now)
    assert rows_of(table) == before


def check_orphans(spark: SparkSession, lake: Lake, table: LakeTable, now: datetime) -> None:
    """The files of an old table that nothing names are those that Iceberg finds, and removing them does no harm."""
    root = local_path(lake._context.catalog.facts(table.name).location)
    assert root is not None
    for place in ("data/name=a%20b/left over.parquet", "metadata/lost.metadata.json"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_bytes(b"1")
    old = (now - timedelta(days=10)).timestamp()
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))
    limit = (now - timedelta(days=7)).strftime("%Y-%m-%d %H:%M:%S")
    found = spark.sql(
        f"CALL lake.system.remove_orphan_files(table => 'lake.{table.name}', older_than => TIMESTAMP '{limit}',"
        " dry_run => true)"
    ).collect()
    ours = table.orphans(delete=True)
    visible = {item.path for item in ours.orphans if not item.path.endswith(".crc")}  # Iceberg looks at no hidden file
    assert visible == {str(local_path(row[0])) for row in found}
    assert ours.removed >= 4, "with what the oracle left"
    assert {str(path) for path in root.rglob("*") if path.is_file()} >= set(
        lake._context.catalog.named_files(
            lake._context.catalog.facts(table.name).metadata_location, lake._context.catalog.reach()
        )
    )


def with_lineage(spark: SparkSession, table: LakeTable) -> list[tuple[object, ...]]:
    rows = spark.sql(f"SELECT *, _row_id, _last_updated_sequence_number FROM {table.name.sql}").collect()
    return sorted(map(tuple, rows), key=repr)


def test_manifests_become_few_and_rows_keep_their_lineage(
    spark_lake: Lake, quick: SparkSession, namespace: str
) -> None:
    name = f"{namespace}.t"
    spark_lake.tables.create(name, "id int, name string", partition_by=["name"])
    table = spark_lake.table(name)
    assert (table.manifests().run_id, table.manifests().manifests_after) == (None, 0), "an empty table"
    t = table.name.sql
    for statement in (
        f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, null)",
        f"INSERT INTO {t} VALUES (4, 'a'), (5, 'b')",
        f"UPDATE {t} SET id = id + 10 WHERE id IN (2, 4)",
        f"ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        f"INSERT INTO {t} VALUES (6, 'a')",
        f"INSERT INTO {t} VALUES (7, 'b'), (8, null)",
        f"DELETE FROM {t} WHERE id = 7",
    ):
        quick.sql(statement).collect()
    before = with_lineage(quick, table)
    planned = table.manifests(dry_run=True)
    assert (planned.run_id, planned.dry_run, planned.snapshot_after) == (None, True, planned.snapshot_before)
    done = table.manifests()
    assert (done.manifests_before, done.manifests_after) == (planned.manifests_before, planned.manifests_after)
    assert done.manifests_before > done.manifests_after == table.health().manifests
    assert with_lineage(quick, table) == before
    added = [row for row in table.history() if row.run_id == done.run_id]
    assert {row.operation for row in added} == {"replace"}
    assert added[0].snapshot == done.snapshot_after
    assert done.undo == f"neve table rollback {name} --to {done.snapshot_before}"
    again = table.manifests()
    assert (again.run_id, again.reason and again.reason.code) == (None, "nothing_to_do"), "a fixed point"
    quick.sql(f"INSERT INTO {t} VALUES (9, 'a')").collect()
    new = [row for row in with_lineage(quick, table) if row[0] == 9]
    assert set(with_lineage(quick, table)) == {*before, *new}
    ids = [row[2] for row in with_lineage(quick, table)]
    assert len(set(ids)) == len(ids), "row ids that were given are not given again"


def test_deletes_become_few_or_vectors(
    spark_lake: Lake, quick: SparkSession, namespace: str, rows_of: Callable[..., list], cli: Callable[..., tuple]
) -> None:
    name = f"{namespace}.t"
    own = {"format-version": "2", "write.delete.granularity": "partition"}
    spark_lake.tables.create(name, "id int, name string", partition_by=["name"], properties=own)
    table = spark_lake.table(name)
    t = table.name.sql
    assert "no deletes" in cli("rewrite-deletes", name)[1]
    quick.sql(f"INSERT INTO {t} SELECT CAST(id AS INT), CAST(id % 2 AS STRING) FROM range(20)").collect()
    delete_where_equal(quick, table.name, "id", [18], like="name=0")
    code, _, err = cli("rewrite-deletes", name)
    assert (code, "only writing its rows anew" in err, "compact" in err) == (6, True, True)
    for number in (0, 2, 1):
        quick.sql(f"DELETE FROM {t} WHERE id = {number}").collect()
    before = rows_of(table)
    planned = table.rewrite_deletes(dry_run=True)
    assert (planned.dry_run, planned.position_files_before, planned.equality_files) == (True, 3, 1)
    done = table.rewrite_deletes()
    assert (done.position_files_before, done.position_files_after, done.equality_files) == (3, 2, 1)
    assert rows_of(table) == before
    assert table.history()[0].operation == "replace"
    assert table.rewrite_deletes().run_id is None, "a fixed point"
    quick.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')").collect()
    done = table.rewrite_deletes()
    assert (done.position_files_after, done.vectors_after) == (0, 2)
    assert rows_of(table) == before
    assert table.rewrite_deletes().run_id is None
    quick.sql(
        f"CALL lake.system.rewrite_data_files(table => 'lake.{name}', options => map('rewrite-all', 'true'))"
    ).collect()
    done = table.rewrite_deletes()
    assert (done.dangling, done.equality_files) == (1, 0), "the rows that it was for were written anew"
    assert rows_of(table) == before


def test_statistics_are_counted_once_and_kept(
    spark_lake: Lake, quick: SparkSession, make_table: Callable[..., LakeTable], cli: Callable[..., tuple]
) -> None:
    table = make_table("t", "id bigint, name string, s struct<a:int>")
    assert table.stats().reason is not None
    quick.sql(
        f"INSERT INTO {table.name.sql} SELECT id, IF(id % 3 = 0, null, CAST(id % 7 AS STRING)), null FROM range(50)"
    ).collect()
    code, out, _ = cli("stats", str(table.name), "--columns", "name", "--dry-run")
    assert (code, "count: name" in out) == (0, True)
    first = table.stats(columns=["name"])
    counted = quick.sql(f"SELECT count(DISTINCT id), count(DISTINCT name) FROM {table.name.sql}").collect()[0]
    assert [(item.column, item.distinct_values) for item in first.columns] == [("name", counted[1])]
    done = table.stats(columns=["ID"])
    assert [(item.column, item.distinct_values) for item in done.columns] == [("id", counted[0]), ("name", counted[1])]
    again = table.stats()
    assert (again.run_id, again.columns) == (None, done.columns)
    code, _, err = cli("stats", str(table.name), "--columns", "nmae")
    assert (code, "did you mean name?" in err) == (3, True)
    code, _, err = cli("stats", str(table.name), "--columns", "s")
    assert (code, "nested column" in err) == (2, True)
    quick.sql(f"INSERT INTO {table.name.sql} VALUES (1000, 'new', null)").collect()
    later = json.loads(cli("stats", str(table.name), "-o", "json")[1])
    assert {item["column"]: item["distinct_values"] for item in later["columns"]} == {
        "id": counted[0] + 1,
        "name": counted[1] + 1,
    }


def test_the_worker_keeps_deletes_statistics_and_the_folder(
    spark_lake: Lake, quick: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As policy what the commands do once, without compaction, which would fold the deletes in; then nothing is due."""
    name = f"{namespace}.t"
    spark_lake.tables.create(name, "id int, name string", properties={"format-version": "2"})
    table = spark_lake.table(name)
    t = table.name.sql
    for statement in (
        f"INSERT INTO {t} SELECT /*+ REPARTITION(12) */ CAST(id AS INT), 'x' FROM range(1200)",
        f"DELETE FROM {t} WHERE id % 20 = 0",
    ):
        quick.sql(statement).collect()
    table.stats(columns=["id"])
    quick.sql(f"INSERT INTO {t} SELECT CAST(id AS INT), 'y' FROM range(1200, 1600, 1, 1)").collect()
    stray = Path(local_path(spark_lake._context.catalog.facts(table.name).location) or "") / "data" / "stray.parquet"
    stray.write_bytes(b"x")
    monkeypatch.setenv("NEVE_COMPACTION__ENABLED", "false")
    monkeypatch.setenv("NEVE_RETENTION__ORPHAN_DELETE", "true")
    with Lake(spark_lake.root) as lake:
        later = datetime.now(UTC) + timedelta(days=8)
        monkeypatch.setattr(lake._context, "clock", lambda: later)

        def due() -> set[str]:
            return {row.action for row in lake.schedule() if row.table == name and row.due}

        assert due() == {"stats", "orphans"}, "to write a file of deletes per data file anew would make them no fewer"
        table.set({"write.delete.granularity": "partition"})
        assert due() == {"rewrite_deletes", "stats", "orphans"}
        before = lake.table(name).health().deletes
        done = lake.worker(tables=[name]).tick()
        assert before is not None
        assert {outcome.action: (outcome.state, outcome.what) for outcome in done} == {
            "rewrite_deletes": ("succeeded", f"{before.delete_files} → 1 files of deletes"),
            "stats": ("succeeded", "1 column counted"),
            "orphans": ("succeeded", "1 of 1 file removed"),
        }
        assert due() == set()
        assert lake.worker(tables=[name]).tick() == []
    assert not stray.exists()
    counted = {item.column: item.distinct_values for item in table.stats(columns=["id"]).columns}
    assert counted == {"id": quick.sql(f"SELECT id FROM {t}").count()} == {"id": 1540}


def test_the_commands_that_health_names_bring_what_it_promises(
    spark_lake: Lake, namespace: str, cli: Callable[..., tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, until there is none that helps. Files that are not there are named by metadata alone."""
    monkeypatch.setenv("NEVE_RETENTION__READER_GRACE", "0")
    name = f"{namespace}.t"
    own = {"write.target-file-size-bytes": "1", "history.expire.max-snapshot-age-ms": "0", "format-version": "2"}
    spark_lake.tables.create(name, "id bigint, v string", properties=own)
    for _ in range(122):
        append_files(spark_lake, name, [{}])
    kinds = []
    while (found := json.loads(cli("table", "health", name, "-o", "json")[1]))["action"] is not None:
        action = found["action"]
        kinds.append(action["kind"])
        code, out, err = cli(*shlex.split(action["command"])[1:])
        assert code == 0, out + err
        after = json.loads(cli("table", "health", name, "-o", "json")[1])
        assert after["score"] - found["score"] == action["gain_points"] > 0
        assert len(kinds) < 5
    assert sorted(kinds) == ["expire", "manifests"]
    assert (found["score"], found["manifests"], found["snapshots"] <= 2) == (100, 1, True)
