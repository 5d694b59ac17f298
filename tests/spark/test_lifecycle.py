"""The life of a table with rows in it: emptied, renamed, deleted and brought back, as Spark sees it."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neve.errors import StorageError, TableNotFound
from neve.lake import Lake, LakeTable
from neve.model.results import TableDetails

Cli = Callable[..., tuple[int, str, str]]
RowsOf = Callable[..., list[tuple[object, ...]]]


@pytest.fixture
def filled(spark_lake: Lake, namespace: str) -> LakeTable:
    """A partitioned, sorted table with a property, a tag, three commits and a deletion vector."""
    spark_lake.tables.create(
        f"{namespace}.filled",
        "id bigint not null, day date, note string",
        partition_by=["month(day)"],
        sort_by=["id desc"],
        properties={"team": "blue"},
    )
    table = spark_lake.table(f"{namespace}.filled")
    rows = "SELECT id, date_add(DATE'2024-01-15', CAST(id AS INT)), concat('n', id) FROM range({})"
    spark_lake.sql(f"INSERT INTO {table.name.sql} {rows.format('0, 60')}", write=True)
    table.tag("first")
    spark_lake.sql(f"INSERT INTO {table.name.sql} {rows.format('60, 100')}", write=True)
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id % 10 = 3", write=True)
    return table


def lasting(details: TableDetails) -> dict[str, object]:
    """What emptying a table leaves as it is."""
    return details.model_dump(
        include={"uuid", "columns", "partition_by", "sort_by", "properties", "location", "format"}
    )


def test_reinitialise_takes_all_rows_and_no_more(
    spark_lake: Lake, filled: LakeTable, rows_of: RowsOf, cli: Cli
) -> None:
    before, rows = filled.show(), rows_of(filled)
    assert len(rows) == 90
    planned = filled.reinitialise(dry_run=True)
    assert (planned.dry_run, planned.details["rows_deleted"]) == (True, 90)
    assert rows_of(filled) == rows

    receipt = filled.reinitialise()
    assert rows_of(filled) == []
    after = filled.show()
    assert (after.rows, after.files, after.delete_files) == (0, 0, 0)
    assert lasting(after) == lasting(before)
    assert {row.name for row in filled.references()} == {"main", "first"}
    assert len(rows_of_tag(spark_lake, filled, "first")) == 60, "the tag still has its rows"
    assert (receipt.snapshot_before, receipt.snapshot_after) == (before.current_snapshot, after.current_snapshot)
    assert receipt.details["rows_deleted"] == 90

    newest = filled.history()[0]
    assert (newest.snapshot, newest.run_id) == (after.current_snapshot, receipt.run_id)
    summary = filled.query("SELECT summary FROM filled.snapshots ORDER BY committed_at DESC LIMIT 1").collect()[0][0]
    assert summary["neve.run-id"] == receipt.run_id
    assert filled.reinitialise().reason is not None, "nothing to do"

    assert receipt.undo is not None
    assert cli(*shlex.split(receipt.undo)[1:], "--yes")[0] == 0
    assert rows_of(filled) == rows
    spark_lake.sql(f"INSERT INTO {filled.name.sql} VALUES (1000, NULL, 'after')", write=True)
    assert len(rows_of(filled)) == 91


def rows_of_tag(lake: Lake, table: LakeTable, tag: str) -> list[Any]:
    return lake.sql(f"SELECT * FROM {table.name.sql}", as_of=tag).collect()


def test_rename_moves_nothing(spark_lake: Lake, namespace: str, filled: LakeTable, rows_of: RowsOf) -> None:
    before, rows = filled.show(), rows_of(filled, "*, _row_id, _file, _pos")
    old = filled.name.sql
    filled.rename(f"{namespace}.`order`")  # a reserved word
    after = filled.show()
    assert after.model_dump(exclude={"table"}) == before.model_dump(exclude={"table"})
    assert rows_of(filled, "*, _row_id, _file, _pos") == rows
    with pytest.raises(TableNotFound):
        spark_lake.sql(f"SELECT * FROM {old}")
    assert [row[1] for row in spark_lake.sql(f"SHOW TABLES IN {namespace}").collect()] == ["order"]
    filled.rename(f"{namespace}_deep.er.filled")
    assert rows_of(filled, "*, _row_id, _file, _pos") == rows
    assert spark_lake.sql(f"SHOW TABLES IN {namespace}").collect() == []


def test_orphan_removal_spares_a_renamed_table(
    spark_lake: Lake, namespace: str, make_table: Callable[..., LakeTable], rows_of: RowsOf
) -> None:
    """Rename a to b, make a new a, write both, remove orphans of a at once: b still has all its rows."""
    b = make_table("a", rows="(1, 'x'), (2, 'y')")
    b.rename(f"{namespace}.b")
    a = make_table("a", rows="(3, 'z')")
    spark_lake.sql(f"INSERT INTO {b.name.sql} VALUES (4, 'w')", write=True)
    homes = Path(a.show().location), Path(b.show().location)
    assert homes[0] != homes[1]
    assert homes[0] not in homes[1].parents
    assert homes[1] not in homes[0].parents
    orphan = homes[0] / "data" / f"{uuid.uuid4()}.parquet"
    orphan.write_bytes(b"nobody's")

    removed = _remove_orphans(spark_lake, a)
    assert removed == [str(orphan)]
    assert not orphan.exists()
    assert rows_of(b) == [(1, "x"), (2, "y"), (4, "w")]
    assert rows_of(a) == [(3, "z")]


def _remove_orphans(lake: Lake, table: LakeTable) -> list[str]:
    """Iceberg's own removal, with no grace: even what is written this instant is old enough."""
    jvm: Any = lake.spark.sparkContext._jvm
    session = lake.spark._jsparkSession
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, table.name.sql)
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(session).deleteOrphanFiles(loaded)
    result = action.olderThan(jvm.java.lang.System.currentTimeMillis() + 86_400_000).execute()
    found = result.orphanFileLocations().iterator()
    paths = []
    while found.hasNext():
        paths.append(str(found.next()).removeprefix("file:"))
    return paths


def test_delete_asks_and_takes_only_its_own(  # noqa: PLR0917
    cli: Cli,
    spark_lake: Lake,
    namespace: str,
    filled: LakeTable,
    make_table: Callable[..., LakeTable],
    rows_of: RowsOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unconfirmed, nothing happens; half failed, it is still listed and can be repeated; another table is untouched."""
    other = make_table("filled2", rows="(1, 'kept')")
    home, rows = Path(filled.show().location), rows_of(filled)
    assert cli("table", "delete", str(filled.name))[0] == 6
    assert rows_of(filled) == rows

    unlink, allowed = Path.unlink, 3

    def failing(path: Path, missing_ok: bool = False) -> None:
        nonlocal allowed
        if home in path.parents:
            allowed -= 1
            if allowed < 0:
                raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(StorageError, match="Permission denied"):
        filled.drop(force=True)
    monkeypatch.setattr(Path, "unlink", unlink)
    assert str(filled.name) in [row.table for row in spark_lake.tables.list(namespace)]
    assert spark_lake.runs.list(table=str(filled.name), limit=1)[0].state == "failed"

    assert cli("table", "delete", str(filled.name), "--force")[0] == 0
    assert [row.table for row in spark_lake.tables.list(namespace)] == [str(other.name)]
    assert not home.exists()
    with pytest.raises(TableNotFound):
        spark_lake.sql(f"SELECT * FROM {filled.name.sql}")
    assert rows_of(other) == [(1, "kept")]


def test_undelete_brings_back_rows_and_history(
    spark_lake: Lake, filled: LakeTable, make_table: Callable[..., LakeTable], rows_of: RowsOf
) -> None:
    rows, history = rows_of(filled, "*, _row_id"), filled.history()
    filled.drop()
    with pytest.raises(TableNotFound):
        rows_of(filled)
    usurper = make_table("filled", rows="(1, 'new')")
    back = f"{filled.name.namespace[0]}.back"
    spark_lake.tables.undelete(str(filled.name), new_name=back)
    table = spark_lake.table(back)
    assert rows_of(table, "*, _row_id") == rows
    assert table.history() == history
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id < 50", write=True)
    assert len(rows_of(table)) == 45
    assert rows_of(usurper) == [(1, "new")]


def test_keep_data_then_register(
    spark_lake: Lake, namespace: str, filled: LakeTable, rows_of: RowsOf, cli: Cli
) -> None:
    rows, details = rows_of(filled, "*, _row_id"), filled.show()
    receipt = filled.drop(keep_data=True)
    assert Path(details.location).is_dir()
    assert receipt.undo is not None
    assert cli(*shlex.split(receipt.undo)[1:])[0] == 0
    assert rows_of(filled, "*, _row_id") == rows
    assert filled.show() == details
