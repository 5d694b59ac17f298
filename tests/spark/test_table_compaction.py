"""Compaction of Iceberg tables: fewer files, and every row, its id and its time of change as they were."""

from __future__ import annotations

import json
import math
import struct
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from neve.catalog.entries import read_table_files
from neve.engine.staging import load_iceberg
from neve.errors import ColumnNotFound, InvalidInput, LeaseHeld, StorageError
from neve.lake import Lake, LakeTable
from neve.model.results import Reason
from neve.model.rewrites import Group
from neve.plan import rewrite_groups
from neve.services.leases import leased
from neve.services.ledger import settle_compaction
from neve.services.rewrites import carrying, work
from neve.services.rewrites import files as rewriting_files
from neve.services.rewrites.work import Rewriting

Make = Callable[..., LakeTable]
RICH = (
    "id bigint, part string, s string, d double, f float, m decimal(9,2), big decimal(30,3), day date, at timestamp,"
    " wall timestamp_ntz, flag boolean, bin binary, list array<int>, map map<string,int>,"
    " st struct<a:int,b:array<string>>"
)
ROWS = """
SELECT nullif(id, 3) AS id, nullif(concat('p', id % 2), 'p1') AS part, IF(id % 5 = 0, '', concat('s', id % 7)) AS s,
  CASE id % 6 WHEN 0 THEN double('NaN') WHEN 1 THEN NULL WHEN 2 THEN -0.0D ELSE id / 3D END AS d,
  CASE WHEN id % 4 = 0 THEN float('NaN') ELSE float(id) END AS f, cast(id AS decimal(9,2)) AS m,
  cast(id * 1000000000000 AS decimal(30,3)) AS big, nullif(date '1969-12-30' + int(id % 9), date '1970-01-01') AS day,
  timestamp '1969-12-31 23:59:59.123456' + make_interval(0, 0, 0, 0, 0, 0, id) AS at,
  timestamp_ntz '2024-02-29 01:02:03.000004' AS wall, id % 3 = 0 AS flag, cast(string(id) AS binary) AS bin,
  IF(id % 3 = 0, NULL, array(int(id), NULL)) AS list, map('k', int(id)) AS map,
  named_struct('a', nullif(int(id % 3), 2), 'b', array('x', NULL)) AS st
FROM range({first}, {last}, 1, 1)
"""
LINEAGE = "*, _row_id, _last_updated_sequence_number"
SEEN = "*, map_entries(map) AS entries, _row_id, _last_updated_sequence_number"


@pytest.fixture
def rich(spark_lake: Lake, make_table: Make) -> Make:
    """A partitioned table of many types: appended, updated in place, and with an updated file appended to again."""

    def make(*, version: int = 3, appends: int = 4) -> LakeTable:
        table = make_table("rich", RICH, partition_by=("part",))
        if version == 2:
            spark_lake.sql(f"DROP TABLE {table.name.sql} PURGE", write=True)
            spark_lake.sql(
                f"CREATE TABLE {table.name.sql} ({RICH}) PARTITIONED BY (part) TBLPROPERTIES ('format-version' = '2')",
                write=True,
            )
        spark_lake.sql(
            f"ALTER TABLE {table.name.sql} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write',"
            " 'write.delete.mode' = 'merge-on-read')",
            write=True,
        )
        source = make_table("source", RICH)
        spark_lake.sql(f"INSERT INTO {source.name.sql} {ROWS.format(first=0, last=20 * appends)}", write=True)
        for number in range(appends):
            rows = f"SELECT * FROM {source.name.sql} WHERE m >= {number * 20} AND m < {number * 20 + 20}"
            spark_lake.sql(f"INSERT INTO {table.name.sql} {rows}", write=True)
        spark_lake.sql(f"UPDATE {table.name.sql} SET s = 'changed' WHERE id BETWEEN 22 AND 25", write=True)
        return table

    return make


def seen(lake: Lake, table: LakeTable, columns: str = SEEN) -> list[str]:
    frame = lake.sql(f"SELECT {columns} FROM {table.name.sql}").drop("map")
    return sorted(repr(row) for row in frame.collect())


def last_operation(table: LakeTable) -> str:
    return max(table.history(), key=lambda row: row.at).operation


def by_java(lake: Lake, table: LakeTable) -> dict[str, dict[str, Any]]:
    """Every live data file with all that Iceberg itself knows of it."""
    iceberg = load_iceberg(lake.spark, table.name)
    java: Any = lake.spark._jvm
    found = {}
    tasks = iceberg.newScan().includeColumnStats().planFiles()
    for_each = tasks.iterator()
    while for_each.hasNext():
        file = for_each.next().file()
        told = json.loads(java.org.apache.iceberg.ContentFileParser.toJson(file, iceberg.specs().get(file.specId())))
        found[file.location()] = told | {"sequence": file.dataSequenceNumber(), "first": file.firstRowId()}
    tasks.close()
    return found


def use(monkeypatch: pytest.MonkeyPatch, mechanic: str) -> None:
    """Tiny files are encoded; as if they were large, or of types that pyarrow cannot write, they are not."""
    if mechanic == "copy":
        monkeypatch.setattr(rewrite_groups, "MIN_ROW_GROUP_BYTES", 0)
    elif mechanic == "spark":
        monkeypatch.setattr(rewriting_files, "_can_encode", lambda *_: False)


# ------------------------------------------------------------------------------------------------------------- the rows


@pytest.mark.parametrize(("version", "mechanic"), [(3, "copy"), (3, "encode"), (3, "spark"), (2, "copy")])
def test_rows_and_their_lineage_stay(
    spark_lake: Lake, rich: Make, monkeypatch: pytest.MonkeyPatch, mechanic: str, version: int
) -> None:
    use(monkeypatch, mechanic)
    table = rich(version=version)
    columns = SEEN if version == 3 else "*, map_entries(map) AS entries"
    before, ranges = seen(spark_lake, table, columns), _ranges(by_java(spark_lake, table).values())
    dry = table.compact(dry_run=True)
    assert not dry.compacted
    assert seen(spark_lake, table, columns) == before
    done = table.compact()
    assert {group.mechanic for group in done.groups} == {mechanic}
    assert dry.groups == done.groups
    assert (done.files_before, done.files_after, done.files_compacted) == (dry.files_before, 2, dry.files_compacted)
    assert seen(spark_lake, table, columns) == before
    assert last_operation(table) == "replace"
    files = by_java(spark_lake, table)
    assert len(files) == 2
    assert _ranges(files.values()) == ranges
    assert all(file["split-offsets"] for file in files.values())

    assert not table.compact().compacted, "what was compacted is left alone"
    spark_lake.sql(f"UPDATE {table.name.sql} SET s = 'again' WHERE id = 41", write=True)
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id = 42", write=True)
    now = seen(spark_lake, table, columns)
    assert len(set(before) - set(now)) == 2
    table.rollback(str(done.snapshot_after))
    assert seen(spark_lake, table, columns) == before


def _ranges(files: Any) -> dict[str, Any]:
    """Counts of all files together and the outermost bounds, per column; as one file of them all would say it."""
    total: dict[str, Any] = {}
    for file in map(_without_lineage, files):
        for what in ("value-counts", "null-value-counts", "nan-value-counts"):
            told = file.get(what, {"keys": [], "values": []})
            for key, value in zip(told["keys"], told["values"], strict=True):
                total[f"{what} {key}"] = total.get(f"{what} {key}", 0) + value
        for what, best in (("lower-bounds", min), ("upper-bounds", max)):
            told = file.get(what, {"keys": [], "values": []})
            for key, value in zip(told["keys"], told["values"], strict=True):
                name = f"{what} {key}"
                total[name] = best(total.get(name, _order(key, value)), _order(key, value))
    return total


def _without_lineage(file: dict[str, Any]) -> dict[str, Any]:
    return {
        what: {
            "keys": [key for key in told["keys"] if key < 100],
            "values": [value for key, value in zip(told["keys"], told["values"], strict=True) if key < 100],
        }
        for what, told in file.items()
        if isinstance(told, dict) and "keys" in told
    }


def _order(key: int, value: str) -> tuple[Any, str]:
    """Bounds of doubles and floats, of numbers, and of texts compare by their values."""
    raw = bytes.fromhex(value)
    if key in (4, 5):
        number = struct.unpack("<d" if key == 4 else "<f", raw)[0]
        return (number, math.copysign(1, number)), value
    if key in (6, 7):
        return int.from_bytes(raw, "big", signed=True), value
    return (raw if key in (2, 3, 12) else int.from_bytes(raw, "little", signed=True)), value


def test_files_that_differ_in_what_may_be_null_go_together(spark_lake: Lake, make_table: Make) -> None:
    """A query's own knowledge of NULLs becomes the file's."""
    table = make_table("unlike", "id bigint, st struct<a:int,b:array<string>>, map map<string,int>")
    for first, null in ((0, "NULL"), (10, "id"), (20, "NULL"), (30, "id")):
        made = f"named_struct('a', int(id), 'b', array('x', string({null}))), map('k', int({null}))"
        rows = f"SELECT IF(id = 5, {null}, id), {made} FROM range({first}, {first + 10}, 1, 1)"
        spark_lake.sql(f"INSERT INTO {table.name.sql} {rows}", write=True)
    columns = "id, st, map_entries(map), _row_id, _last_updated_sequence_number"
    before = seen(spark_lake, table, columns)
    done = table.compact()
    assert [(group.mechanic, group.files) for group in done.groups] == [("encode", 4)]
    assert seen(spark_lake, table, columns) == before


def test_files_are_read_as_iceberg_reads_them(spark_lake: Lake, rich: Make) -> None:
    """Row ids that manifests leave out, entries that are gone, manifests that were merged: our reader and Iceberg's."""
    table = rich(appends=3)
    name = table.name.sql
    spark_lake.sql(f"DELETE FROM {name} WHERE id < 5", write=True)
    spark_lake.sql(f"CALL lake.system.rewrite_manifests('{table.name.short}')", write=True)
    spark_lake.sql(f"INSERT INTO {name} {ROWS.format(first=90, last=95)}", write=True)
    spark_lake.sql(f"DELETE FROM {name} WHERE part = 'p0' AND id > 90", write=True)
    wanted = by_java(spark_lake, table)
    catalog = spark_lake._context.catalog
    loaded = catalog._backend.load(table.name)
    assert loaded is not None
    found = read_table_files(table.name, loaded, catalog.files.read)
    assert {entry.path: entry.first_row_id for entry in found.data} == {
        path: file["first"] for path, file in wanted.items()
    }
    assert {entry.path: entry.file.sequence for entry in found.data} == {
        path: file["sequence"] for path, file in wanted.items()
    }
    for entry in found.data:
        told = wanted[entry.path]
        for held, what in ((entry.metrics.values, "value-counts"), (entry.metrics.nans, "nan-value-counts")):
            assert dict(held) == dict(zip(told[what]["keys"], told[what]["values"], strict=True))
        lower = told["lower-bounds"]
        assert {key: raw.hex().upper() for key, raw in entry.metrics.lower.items()} == dict(
            zip(lower["keys"], lower["values"], strict=True)
        )


def test_deleted_rows_go_and_do_not_come_back(spark_lake: Lake, rich: Make) -> None:
    """Vectors are folded in by Spark, and the vectors themselves go."""
    table = rich()
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id % 4 = 1", write=True)
    before = seen(spark_lake, table)
    done = table.compact()
    assert {group.reason.code for group in done.groups if group.mechanic == "spark"} == {"deletes"}
    assert done.rows_deleted == 20
    assert done.files_after == 2, "the vectors' size is no reason for another file"
    assert seen(spark_lake, table) == before
    assert table.compact().reason == Reason(
        code="few_small_files", detail="Only 2 small files in 2 partitions (threshold: 3 in one)"
    )
    assert {row.content for row in table.files()} == {"data"}


def test_deletes_of_several_files_are_folded_in_once(spark_lake: Lake, namespace: str) -> None:
    """In format 2 they outlive the files that they were of; those made in their place are not taken for deleted."""
    table = spark_lake.table(f"{namespace}.old")
    own = {"format-version": "2", "write.delete.granularity": "partition"}
    spark_lake.tables.create(table.name.short, "id bigint", properties=own)
    for first in (0, 10, 20, 30):
        spark_lake.sql(f"INSERT INTO {table.name.sql} SELECT id FROM range({first}, {first + 10}, 1, 1)", write=True)
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id % 10 < 3", write=True)
    assert [row.due for row in spark_lake.schedule() if row.table == str(table.name)] == [True]
    done = table.compact()
    assert (done.files_compacted, done.files_written, done.rows_deleted) == (4, 1, 12)
    assert spark_lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0] == 28
    assert [row.due for row in spark_lake.schedule() if row.table == str(table.name)] == [False]
    assert not table.compact().compacted
    assert settle_compaction(spark_lake._context, table.name, str(done.run_id), None), (
        "it says so when its process died"
    )
    assert not settle_compaction(spark_lake._context, table.name, "another", None)


def test_few_deletes_in_large_files_are_left(spark_lake: Lake, make_table: Make) -> None:
    table = make_table("few", "id bigint")
    spark_lake.sql(f"INSERT INTO {table.name.sql} SELECT id FROM range(0, 1000, 1, 1)", write=True)
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id < 3", write=True)
    left = table.compact()
    assert (left.compacted, left.reason and left.reason.code) == (False, "few_small_files")
    done = table.compact(force=True)
    assert (done.rows_deleted, done.files_after) == (3, 1)
    assert spark_lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0] == 997


# ------------------------------------------------------------------------------------------------------------- writers


def test_only_what_a_writer_changed_is_done_again(
    spark_lake: Lake, rich: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete in one partition and an append in the other, between the work and its commit."""
    table = rich()
    name = table.name.sql
    commit = Rewriting.commit
    commits: list[list[str]] = []

    def late(rewriting: Rewriting, summary: dict[str, str]) -> int:
        if not commits:
            spark_lake.sql(f"DELETE FROM {name} WHERE part = 'p0' AND id = 40", write=True)
            spark_lake.sql(f"INSERT INTO {name} {ROWS.format(first=101, last=102)}", write=True)
        commits.append([made.group.partition for made in rewriting.made])
        return commit(rewriting, summary)

    monkeypatch.setattr(Rewriting, "commit", late)
    before = seen(spark_lake, table)
    done = table.compact()
    assert commits[0] == ["part=null", "part=p0"] or commits[0] == ["part=p0", "part=null"]
    assert commits[1] == ["part=null"], "what nobody touched is committed as it is"
    assert all("part=p0" in parts for parts in commits[2:])
    assert (done.conflicts, done.commits) == (1, 2)
    after = seen(spark_lake, table)
    assert len(set(before) - set(after)) == 1
    assert len(set(after) - set(before)) == 1
    assert done.undo is None, "a rollback would take the writer's rows along"
    live = {row.path for row in table.files()}
    on_disk = {str(path) for path in _folder(spark_lake, table).rglob("*-neve.parquet")}
    assert on_disk <= live, "what lost is removed"


def test_an_interrupt_before_the_commit_leaves_nothing(
    spark_lake: Lake, rich: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rich(appends=3)

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    before = seen(spark_lake, table)
    with monkeypatch.context() as patched:
        patched.setattr(rewrite_groups, "MIN_ROW_GROUP_BYTES", 0)
        patched.setattr(Rewriting, "_write_by_spark", interrupt)
        with pytest.raises(KeyboardInterrupt):
            table.compact()
    assert not list(_folder(spark_lake, table).rglob("*-neve.parquet"))
    assert seen(spark_lake, table) == before
    with leased(spark_lake._context, f"compaction of {table.name}"), pytest.raises(LeaseHeld):
        table.compact()
    assert table.compact().compacted


def test_when_one_group_fails_the_files_of_the_others_go_too(
    spark_lake: Lake, rich: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rich(appends=3)
    written = rewriting_files.write_group
    others = threading.Event()

    def write(writing: Any, group: Group, *rest: Any) -> Any:
        if group.partition == "part=p0":
            assert others.wait(20)
            raise StorageError("the disk is full")
        done = written(writing, group, *rest)
        others.set()
        return done

    before = seen(spark_lake, table)
    with monkeypatch.context() as patched:
        patched.setattr(work, "write_group", write)
        with pytest.raises(StorageError, match="full"):
            table.compact()
    assert others.is_set()
    assert not list(_folder(spark_lake, table).rglob("*-neve.parquet"))
    assert seen(spark_lake, table) == before


def test_an_older_partitioning_is_rewritten_when_forced(spark_lake: Lake, make_table: Make) -> None:
    table = make_table("older", "id bigint, part string")
    for first in (0, 10, 20):
        spark_lake.sql(
            f"INSERT INTO {table.name.sql} SELECT id, concat('p', id % 2) FROM range({first}, {first + 10}, 1, 1)",
            write=True,
        )
    spark_lake.sql(f"ALTER TABLE {table.name.sql} ADD PARTITION FIELD part", write=True)
    before = seen(spark_lake, table, LINEAGE)
    left = table.compact()
    assert (left.compacted, left.reason and left.reason.code) == (False, "old_layout")
    done = table.compact(force=True)
    assert [(group.mechanic, group.files) for group in done.groups] == [("spark", 3)]
    assert {entry.partition for entry in spark_lake._context.catalog.table_files(table.name).data} == {
        "part=p0",
        "part=p1",
    }
    assert seen(spark_lake, table, LINEAGE) == before
    assert not table.compact(force=True).compacted


def _folder(lake: Lake, table: LakeTable) -> Any:
    from pathlib import Path

    return Path(lake._context.catalog.facts(table.name).location.removeprefix("file:"))


def test_dynamic_tables_see_no_change_and_can_be_compacted_themselves(
    spark_lake: Lake, make_table: Make, namespace: str
) -> None:
    facts = make_table("facts", "id bigint, g int, v int")
    name = facts.name.sql
    for first in range(0, 40, 10):
        spark_lake.sql(f"INSERT INTO {name} SELECT id, int(id % 3), int(id) FROM range({first}, {first + 10}, 1, 1)",
                       write=True)  # fmt: skip
    below = spark_lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {namespace}.kept TARGET_LAG = '1 hour' AS SELECT id, v * 2 AS w FROM {namespace}.facts"
    )
    kept = spark_lake.dynamic(f"{namespace}.kept")
    assert below is not None
    assert facts.compact().compacted
    assert kept.refresh().refresh == "NO_DATA"
    for first in (40, 50, 60):
        spark_lake.sql(f"INSERT INTO {name} SELECT id, int(id % 3), int(id) FROM range({first}, {first + 10}, 1, 1)",
                       write=True)  # fmt: skip
        spark_lake.sql(f"DELETE FROM {name} WHERE id = {first - 7}", write=True)
        assert kept.refresh().refresh == "INCREMENTAL"
    stored = spark_lake.table(f"{namespace}.kept")
    done = stored.compact()
    assert done.compacted
    assert kept.refresh().refresh == "NO_DATA"
    spark_lake.sql(f"DELETE FROM {name} WHERE id % 9 = 0", write=True)
    assert kept.refresh().refresh == "INCREMENTAL"
    wanted = spark_lake.sql(f"SELECT id, v * 2 AS w FROM {name} ORDER BY id").collect()
    assert spark_lake.sql(f"SELECT id, w FROM {stored.name.sql} ORDER BY id").collect() == wanted


# ---------------------------------------------------------------------------------------------------------------- knobs


@pytest.fixture
def scattered(spark_lake: Lake, make_table: Make) -> LakeTable:
    """Two partitions, each with files over the whole range of x and of y."""
    table = make_table("scattered", "x int, y int, part string", partition_by=("part",))
    for step in range(4):
        rows = "SELECT int(id * 7 % 100), int(id * 13 % 100), concat('p', id % 2)"
        some = f"FROM range({step * 50}, {step * 50 + 50}, 1, 1)"
        spark_lake.sql(f"INSERT INTO {table.name.sql} {rows} {some}", write=True)
    return table


def test_a_sort_puts_each_partition_in_order_once(spark_lake: Lake, scattered: LakeTable) -> None:
    before = seen(spark_lake, scattered, LINEAGE)
    done = scattered.compact(strategy="sort", by=["x desc", "y"])
    assert (done.files_before, done.files_after, {group.mechanic for group in done.groups}) == (8, 2, {"spark"})
    assert seen(spark_lake, scattered, LINEAGE) == before
    name = scattered.name.sql
    rows = spark_lake.sql(f"SELECT part, x, y, _pos FROM {name} ORDER BY part, _pos").collect()
    for part in ("p0", "p1"):
        placed = [(row.x, row.y) for row in rows if row.part == part]
        assert placed == sorted(placed, key=lambda row: (-row[0], row[1]))
    again = scattered.compact(strategy="sort", by=["x desc", "y"])
    assert (again.compacted, again.reason and again.reason.code) == (False, "in_order")
    spark_lake.sql(f"INSERT INTO {name} VALUES (5, 5, 'p1')", write=True)
    third = scattered.compact(strategy="sort", by=["x desc", "y"])
    assert [group.partition for group in third.groups] == ["part=p1"]


def test_only_what_a_sort_made_is_in_order(
    spark_lake: Lake, scattered: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what came while it ran; and all that it made, by how many commits ever."""
    order: dict[str, Any] = {"strategy": "sort", "by": ["x"]}
    commit = Rewriting.commit
    came: list[str] = []

    def late(rewriting: Rewriting, summary: Any) -> int:
        if not came:
            came.append("p0")
            spark_lake.sql(f"INSERT INTO {scattered.name.sql} VALUES (5, 5, 'p0')", write=True)
        return commit(rewriting, summary)

    with monkeypatch.context() as patched:
        patched.setattr(Rewriting, "commit", late)
        patched.setattr(carrying, "COMMIT_BYTES", 1)
        assert scattered.compact(**order).commits == 2
    assert [group.partition for group in scattered.compact(**order, dry_run=True).groups] == ["part=p0"]
    assert scattered.compact(**order, partition={"part": "p0"}).compacted
    again = scattered.compact(**order)
    assert (again.compacted, again.reason and again.reason.code) == (False, "in_order")


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_columns_woven_together(spark_lake: Lake, scattered: LakeTable, strategy: str) -> None:
    before = seen(spark_lake, scattered, LINEAGE)
    done = scattered.compact(strategy=strategy, by=["x", "y"], partition={"part": "p0"})
    assert [group.partition for group in done.groups] == ["part=p0"]
    assert seen(spark_lake, scattered, LINEAGE) == before
    placed = spark_lake.sql(f"SELECT x, y FROM {scattered.name.sql} WHERE part = 'p0' ORDER BY _file, _pos").collect()
    near = sum(abs(a.x - b.x) + abs(a.y - b.y) for a, b in pairwise(placed)) / len(placed)
    assert near < 40, "neighbours in the file are near one another; by chance they would be 67 apart"


def test_the_tables_own_order_is_the_sort(spark_lake: Lake, make_table: Make, namespace: str) -> None:
    spark_lake.tables.create(f"{namespace}.own", "x int", sort_by=["x"])
    table = spark_lake.table(f"{namespace}.own")
    for step in range(3):
        spark_lake.sql(f"INSERT INTO {table.name.sql} SELECT int(id * 7 % 30) FROM range({step}, 30)", write=True)
    health = table.health()
    assert health.sort is not None
    assert health.sort.overlapping
    table.compact(strategy="sort")
    placed = [row.x for row in spark_lake.sql(f"SELECT x FROM {table.name.sql} ORDER BY _pos").collect()]
    assert placed == sorted(placed)


def test_filters_and_bounds_are_honoured(spark_lake: Lake, scattered: LakeTable) -> None:
    def partitions(**how: Any) -> list[str]:
        return sorted({group.partition for group in scattered.compact(dry_run=True, **how).groups})

    assert partitions() == ["part=p0", "part=p1"]
    assert partitions(where="part = 'p1'") == ["part=p1"]
    assert partitions(where="x < 0") == []
    assert partitions(partition={"part": "p0"}) == ["part=p0"]
    assert scattered.compact(dry_run=True, max_files=3).files_compacted == 3
    with pytest.raises(InvalidInput, match="no partition field"):
        partitions(partition={"parts": "p0"})
    with pytest.raises(ColumnNotFound, match="nowhere"):
        partitions(where="nowhere = 1")
    with pytest.raises(InvalidInput, match="at least 1MB"):
        partitions(target_file_size="10KB")
    done = scattered.compact(where="part = 'p1'", max_files=3)
    assert (done.files_before, done.files_after, done.files_compacted) == (8, 6, 3)


def test_outputs_have_the_size_that_is_asked_for(
    spark_lake: Lake, make_table: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table("sized", "id bigint, noise binary")
    for step in range(6):
        spark_lake.sql(
            f"INSERT INTO {table.name.sql} SELECT id, unhex(sha2(concat(id, '-', {step}), 512)) "
            "FROM range(0, 6000, 1, 1)",
            write=True,
        )
    assert 350_000 < table.files()[0].bytes < 500_000
    for mechanic in ("encode", "spark"):
        with monkeypatch.context() as patched:
            use(patched, mechanic)
            done = table.compact(target_file_size="1MB", force=True)
        assert ({group.mechanic for group in done.groups}, done.files_after) == ({mechanic}, 3)
        assert all(row.bytes < 1_100_000 for row in table.files())
        assert spark_lake.sql(f"SELECT count(DISTINCT id, noise) FROM {table.name.sql}").collect()[0][0] == 36000
        table.rollback(str(done.snapshot_before))


def test_document_003(spark_lake: Lake, namespace: str, cli: Callable[..., tuple[int, str, str]]) -> None:
    """Its guide: five writes, then COMPACT; the fields of its answer are all there, and true."""
    spark_lake.tables.create(f"{namespace}.users", "name string not null, age int")
    users = spark_lake.table(f"{namespace}.users")
    code, out, _ = cli("compact", users.name.short, "-o", "json")
    answer = json.loads(out)
    assert (code, answer["compacted"], answer["reason"]["detail"]) == (0, False, "No files to compact")
    for number in range(5):
        spark_lake.sql(f"INSERT INTO {users.name.sql} VALUES ('User-{number}', {20 + number})", write=True)
        if number == 1:
            below = users.compact()
            assert below.reason is not None
            assert (below.compacted, below.reason.detail) == (False, "Only 2 small files (threshold: 3)")
    before = seen(spark_lake, users, "*")
    sizes = [row.bytes for row in users.files()]
    stats = json.loads(cli("compact", users.name.short, "--force", "-o", "json")[1])
    after = [row.bytes for row in users.files()]
    assert {key: stats[key] for key in ("files_before", "files_after", "files_compacted", "files_removed")} == {
        "files_before": 5,
        "files_after": 1,
        "files_compacted": 5,
        "files_removed": 5,
    }
    assert (stats["bytes_before"], stats["bytes_after"]) == (sum(sizes), sum(after))
    assert stats["bytes_saved"] == sum(sizes) - sum(after)
    assert (stats["snapshots_expired"], stats["small_files_remaining"]) == (0, 1)
    assert stats["compaction_time_ms"] > 0
    assert seen(spark_lake, users, "*") == before
    for number in range(5, 8):
        spark_lake.sql(f"INSERT INTO {users.name.sql} VALUES ('User-{number}', NULL)", write=True)
    kept = users.compact(expire_snapshots=True, snapshot_retention_hours=168)
    assert (kept.compacted, kept.snapshots_expired, len(users.history())) == (True, 0, 10)
    for number in range(8, 10):
        spark_lake.sql(f"INSERT INTO {users.name.sql} VALUES ('User-{number}', NULL)", write=True)
    gone = users.compact(expire_snapshots=True, snapshot_retention_hours=0)
    assert (gone.snapshots_expired, len(users.history()), gone.undo) == (12, 1, None)
    assert len(seen(spark_lake, users, "*")) == 10
    with pytest.raises(InvalidInput, match="--expire-snapshots"):
        users.compact(snapshot_retention_hours=1)
    said = cli("compact", users.name.short)
    assert said[:2] == (0, f"= nothing to do for {users.name}: Only 1 small files (threshold: 3)\n")
