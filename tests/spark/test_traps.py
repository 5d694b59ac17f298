"""Traps that were measured before the first line was written (DESIGN §2): each is laid here, and stays shut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from neve.errors import TableNotFound
from neve.lake import Lake, LakeTable

RowsOf = Callable[..., list[tuple[object, ...]]]
LONG = "a key that is much longer than sixteen bytes"


def test_no_two_tables_ever_share_a_folder(spark_lake: Lake, namespace: str) -> None:
    """By either door, whatever was renamed, deleted or dropped before, and whatever the names look like."""
    homes: list[str] = []
    for door in ("neve", "sql", "neve", "sql"):
        name = f"{namespace}.same"
        if door == "neve":
            spark_lake.tables.create(name, "id int")
        else:
            spark_lake.sql(f"CREATE TABLE {name} (id INT)", write=True)
        table = spark_lake.table(name)
        homes.append(table.show().location)
        match len(homes):
            case 1:
                table.rename(f"{namespace}.moved")
            case 2:
                spark_lake.sql(f"ALTER TABLE {name} RENAME TO {namespace}.moved2", write=True)
            case 3:
                table.drop()
    for name in (f"{namespace}_a.b", f"{namespace}.a_b", f"{namespace}.`a b`", f"{namespace}.A_B"):
        spark_lake.tables.create(name, "id int")
        homes.append(spark_lake.table(name).show().location)
    assert len(set(homes)) == len(homes)
    assert not [(a, b) for a in homes for b in homes if a != b and Path(a) in Path(b).parents], (
        "nor lies one in another"
    )


def test_new_tables_commit_patiently(spark_lake: Lake, namespace: str) -> None:
    spark_lake.tables.create(f"{namespace}.a", "id int")
    spark_lake.sql(f"CREATE TABLE {namespace}.b AS SELECT 1 AS id", write=True)
    for name in ("a", "b"):
        properties = spark_lake.table(f"{namespace}.{name}").show().properties
        assert {key: properties[f"commit.retry.{key}"] for key in ("num-retries", "min-wait-ms", "max-wait-ms")} == {
            "num-retries": "50",
            "min-wait-ms": "10",
            "max-wait-ms": "1000",
        }


def test_key_columns_have_whole_statistics(spark_lake: Lake, namespace: str) -> None:
    """Columns that locate rows keep their bounds in full; others are cut at 16 bytes, as Iceberg does."""
    columns = "id int, part string, sorted string, other string"
    spark_lake.tables.create(f"{namespace}.t", columns, partition_by=["truncate(4, part)"], sort_by=["sorted"])
    table = spark_lake.table(f"{namespace}.t")
    table.query("SELECT 1 FROM t")  # the short name resolves
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (1, '{LONG}', '{LONG}', '{LONG}')", write=True)
    (metrics,) = table.query("SELECT readable_metrics FROM t.files").collect()[0]
    assert {name: metrics[name]["lower_bound"] for name in ("part", "sorted", "other")} == {
        "part": LONG,
        "sorted": LONG,
        "other": LONG[:16],
    }


def test_lineage_outlives_merge_and_compaction(
    spark_lake: Lake, make_table: Callable[..., LakeTable], rows_of: RowsOf
) -> None:
    table = make_table("t", rows="(1, 'a'), (2, 'b'), (3, 'c')")
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (4, 'd')", write=True)
    before = {row[0]: row[1] for row in rows_of(table, "id, _row_id")}
    spark_lake.sql(
        f"MERGE INTO {table.name.sql} t USING (SELECT 2 AS id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'new' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        write=True,
    )
    merged = rows_of(table, "id, _row_id, _last_updated_sequence_number")
    assert {row[0]: row[1] for row in merged if row[0] != 9} == before
    done = spark_lake.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.name.sql}', options => map('rewrite-all', 'true'))",
        write=True,
    ).collect()
    assert done[0]["added_data_files_count"] >= 1
    assert rows_of(table, "id, _row_id, _last_updated_sequence_number") == merged
    assert table.show().delete_files == 0


def test_a_session_ends_with_its_call(spark_lake: Lake, namespace: str) -> None:
    """Settings, temporary views, variables and the current namespace do not reach the next call."""
    spark_lake.sql(
        f"USE {namespace}; SET spark.sql.ansi.enabled = false; CREATE TEMPORARY VIEW mine AS SELECT 1; SELECT 1",
        write=True,
    )
    assert spark_lake.sql("SELECT current_schema()").collect()[0][0] == "default"
    assert spark_lake.sql("SET spark.sql.ansi.enabled").collect()[0][1] == "true"
    with pytest.raises(TableNotFound):
        spark_lake.sql("SELECT * FROM mine")
