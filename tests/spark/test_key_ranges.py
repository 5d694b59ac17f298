"""Reinitialise and the ranges of a table: sleeper.md §9, cases 5, 6 and 7, with rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from neve.errors import InvalidInput
from neve.lake import Lake, LakeTable

POINTS = "row-25\nrow-50\nrow-75\n"


@pytest.fixture
def table(spark_lake: Lake, namespace: str) -> LakeTable:
    """100 rows in 4 ranges."""
    name = f"{namespace}.keyed"
    spark_lake.tables.create(name, "k string not null, v int", row_keys=["k"], split_points=POINTS)
    spark_lake.sql(
        f"INSERT INTO {name} (k, v) SELECT format_string('row-%02d', id), CAST(id AS INT) FROM range(100)", write=True
    )
    return spark_lake.table(name)


def count(lake: Lake, table: LakeTable) -> int:
    return int(lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0])


def test_case_5_rows_go_and_ranges_stay(spark_lake: Lake, table: LakeTable) -> None:
    before = table.show()
    assert (before.rows, before.ranges) == (100, 4)
    receipt = table.reinitialise()
    after = table.show()
    assert (count(spark_lake, table), after.rows, after.ranges) == (0, 0, 4)
    assert (after.properties, after.columns, after.uuid) == (before.properties, before.columns, before.uuid)
    assert receipt.details == {"rows_deleted": 100}
    table.rollback(receipt.snapshot_before or 0)
    assert count(spark_lake, table) == 100


def test_case_5_delete_partitions_makes_one_range(spark_lake: Lake, table: LakeTable) -> None:
    table.reinitialise(delete_partitions=True)
    assert (count(spark_lake, table), table.show().ranges) == (0, 1)


@pytest.mark.parametrize(("text", "base64"), [("row-10\nrow-20\n", False), ("cm93LTI1\n", True)])
def test_case_5_a_split_file_replaces_the_ranges(spark_lake: Lake, table: LakeTable, text: str, base64: bool) -> None:
    table.reinitialise(split_points=text, base64=base64)
    expected = "row-25\n" if base64 else text
    assert (count(spark_lake, table), table.export_splits()) == (0, expected)


def test_case_5_no_file_is_left_after_expiry(spark_lake: Lake, table: LakeTable) -> None:
    table.reinitialise()
    location = Path(table.show().location)
    spark_lake.sql(
        f"CALL lake.system.expire_snapshots(table => 'lake.{table.name}', older_than => now(), retain_last => 1)",
        write=True,
    )
    assert list(location.rglob("*.parquet")) == []


@pytest.mark.parametrize("text", ["b\na\n", "a\na\n"])
def test_case_6_a_bad_split_file_changes_nothing(spark_lake: Lake, table: LakeTable, text: str) -> None:
    before = (table.show(), table.history())
    with pytest.raises(InvalidInput, match="split points"):
        table.reinitialise(split_points=text)
    assert (table.show(), table.history()) == before
    assert count(spark_lake, table) == 100


def test_case_7_reinitialise_from_an_export_gives_the_same_ranges(table: LakeTable) -> None:
    exported = table.export_splits(base64=True)
    table.reinitialise(delete_partitions=True)
    table.reinitialise(split_points=exported, base64=True)
    assert table.export_splits() == POINTS
