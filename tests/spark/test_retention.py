"""Expiry, manifests, deletes and statistics on tables that Spark wrote, beside Iceberg's own actions as the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
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
