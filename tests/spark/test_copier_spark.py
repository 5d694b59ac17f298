"""Row-group copy as Spark sees it: its files and pyarrow's, read back whole and by filter; Iceberg's row lineage."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from tests.spark.bags import bag
from tests.unit.copier_files import by_duckdb, make_table, shape_of, write_all

from neve.engine.staging import load_iceberg
from neve.files.copier import Lineage, LocalSource, LocalTarget, copy, inspect, lineage_columns, verify
from neve.lake import Lake, LakeTable
from neve.model.copying import CopyOptions, CopyResult
from neve.plan.copying import plan_copy
from neve.plan.provenance import ICEBERG_IGNORES

ROWS = """
SELECT id, CAST(id % 1000 AS INT) AS small, CAST(pmod(hash(id), 5000) AS STRING) AS word, id / 7.0D AS part,
       CAST(id AS DECIMAL(20, 3)) AS money, DATE '2024-01-01' + CAST(id % 400 AS INT) AS day,
       TIMESTAMP '2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id % 90000) AS at,
       IF(id % 3 = 0, NULL, array(id, NULL)) AS list, map(CAST(id % 5 AS STRING), id) AS map,
       named_struct('x', id, 'y', array(named_struct('z', CAST(id AS STRING)))) AS nested
FROM range({first}, {last}, 1, 1)
"""
WAYS = {
    "zstd, small pages": {"compression": "zstd", "parquet.page.size": "2000", "parquet.page.row.count.limit": "100"},
    "gzip, version 2 pages": {"compression": "gzip", "parquet.writer.version": "PARQUET_2_0"},
    "lz4, bloom filters, small row groups": {
        "compression": "lz4_raw",
        "parquet.block.size": "60000",
        "parquet.bloom.filter.enabled#word": "true",
        "parquet.enable.dictionary": "false",
    },
}


def copied(files: Sequence[Path], out: Path, **how: Any) -> CopyResult:
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(file)) for file in files]
        with LocalTarget(out) as target:
            result = copy(sources, target, **how)
        without = [extra.field_id for extra in how.get("extra_columns", ())]
        assert verify(sources, stack.enter_context(LocalSource(out)), depth="pages", without=without) is None
    return result


@pytest.mark.parametrize("way", WAYS)
def test_files_of_spark(spark_lake: Lake, tmp_path: Path, way: str) -> None:
    """Spark reads a page index and Bloom filters: a place that is wrong there loses rows or fails."""
    spark = spark_lake.spark
    for number in range(3):
        frame = spark.sql(ROWS.format(first=number * 1000, last=number * 1000 + 1000))
        frame.write.options(**WAYS[way]).parquet(str(tmp_path / "in" / str(number)))
    files = sorted(tmp_path.glob("in/*/*.parquet"))
    shapes = [shape_of(file) for file in files]
    assert all(shape.page_index for shape in shapes)
    assert all(shape.bloom_filters == ("bloom" in way) for shape in shapes)
    (tmp_path / "out").mkdir()
    copied(files, tmp_path / "out" / "copy.parquet")

    whole = spark.read.parquet(*map(str, files))
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.schema == whole.schema
    assert _digest(out) == _digest(whole)
    assert bag(by_duckdb(tmp_path / "out" / "copy.parquet")) == bag(by_duckdb(*files))
    rows = pq.read_table(tmp_path / "out" / "copy.parquet").to_pylist()
    low, word = random.Random(way).randrange(2900), rows[1234]["word"]
    for condition, wanted in (
        (f"id BETWEEN {low} AND {low + 90}", [row for row in rows if low <= row["id"] <= low + 90]),
        (f"word = '{word}' AND part > 0", [row for row in rows if row["word"] == word]),
        ("word = 'nowhere'", []),
        ("money > 2600 AND list IS NULL", [row for row in rows if row["id"] > 2600 and row["id"] % 3 == 0]),
    ):
        found = out.where(condition).select("id", "part").collect()
        assert sorted(map(tuple, found)) == sorted((row["id"], row["part"]) for row in wanted), condition


def _digest(frame: DataFrame) -> tuple[int, int]:
    """The rows as a bag, summed up by Spark."""
    ((rows, total),) = frame.selectExpr(
        "count(*)", "sum(CAST(xxhash64(to_json(struct(*))) AS DECIMAL(38, 0)))"
    ).collect()
    return rows, int(total or 0)


def test_files_of_pyarrow_are_read_by_spark(spark_lake: Lake, tmp_path: Path) -> None:
    kinds = ("number", "large", "text", "double", "money", "day", "at_utc", "list", "map", "struct")
    tables = [make_table(seed, 700, kinds) for seed in range(3)]
    ways: list[dict[str, Any]] = [{}, {"data_page_version": "2.0"}, {"use_dictionary": False, "data_page_size": 300}]
    for number, how in enumerate(ways):
        pq.write_table(
            tables[number], tmp_path / f"{number}.parquet", write_page_index=number != 1, row_group_size=300, **how
        )
    files = sorted(tmp_path.glob("*.parquet"))
    (tmp_path / "out").mkdir()
    copied(files, tmp_path / "out" / "copy.parquet")
    spark = spark_lake.spark
    out, whole = spark.read.parquet(str(tmp_path / "out")), spark.read.parquet(*map(str, files))
    assert _digest(out) == _digest(whole)
    condition = "number > 0 AND text >= 'm'"
    assert _digest(out.where(condition)) == _digest(whole.where(condition)) != _digest(whole)


def test_row_lineage_survives_a_copy(
    spark_lake: Lake, tmp_path: Path, make_table: Callable[..., LakeTable], rows_of: Callable[..., Any]
) -> None:
    """Iceberg, format 3: rows that were appended, updated in place and merged keep their ids and their sequence."""
    table = make_table("t", "id bigint, name string, tags array<string>")
    name = table.name.sql
    spark_lake.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')", write=True)
    for first in (0, 500, 1000):
        spark_lake.sql(
            f"INSERT INTO {name} SELECT IF(id < 0, NULL, id), IF(id < 0, NULL, concat('n', id)), IF(id < 0, NULL,"
            f" array(CAST(id AS STRING), NULL)) FROM range({first}, {first + 500}, 1, 1)",
            write=True,
        )
    spark_lake.sql(f"UPDATE {name} SET name = 'new' WHERE id BETWEEN 600 AND 700", write=True)
    everything = "id, name, tags, _row_id, _last_updated_sequence_number"
    before = rows_of(table, everything)
    assert len({row[-1] for row in before}) > 3, "an update must show in the lineage"

    iceberg = load_iceberg(spark_lake.spark, table.name)
    held = _data_files(iceberg)
    files = {Path(file.location().removeprefix("file:")): file for file in held}
    with ExitStack() as stack:
        shapes = [inspect(stack.enter_context(LocalSource(file))) for file in files]
    options = CopyOptions(ignore=ICEBERG_IGNORES, without=frozenset({2147483540, 2147483539}))
    plan = plan_copy(shapes, target_bytes=1 << 30, min_row_group_bytes=0, options=options)
    assert [len(group.files) for group in plan.groups] == [len(files)], [shape.elements for shape in shapes]

    lineage = [
        Lineage(first_row_id=files[Path(path)].firstRowId(), sequence_number=files[Path(path)].dataSequenceNumber())
        for path in plan.groups[0].files
    ]
    out = next(iter(files)).with_name("copy.parquet")
    result = copied([*map(Path, plan.groups[0].files)], out, options=options, extra_columns=lineage_columns(lineage))
    _replace(spark_lake, iceberg, held, out, result)

    after = spark_lake.sql(f"SELECT operation FROM {name}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
    assert after[0][0] == "replace"
    assert rows_of(table, everything) == before
    assert rows_of(table, "count(*)") == [(1500,)]
    spark_lake.sql(f"UPDATE {name} SET name = 'newer' WHERE id = 3", write=True)
    changed = {row[0]: row for row in rows_of(table, everything)}
    for row in before:
        same = slice(0, 4) if row[0] == 3 else slice(0, 5)
        assert changed[row[0]][same] == (row if row[0] != 3 else (3, "newer", *row[2:]))[same]
    assert changed[3][4] > max(row[4] for row in before)
    assert pq.read_table(out).num_rows == 1500


def _data_files(iceberg: Any) -> list[Any]:
    found = []
    tasks = iceberg.newScan().planFiles()
    iterator = tasks.iterator()
    while iterator.hasNext():
        found.append(iterator.next().file())
    tasks.close()
    return found


def _replace(lake: Lake, iceberg: Any, old: Sequence[Any], out: Path, result: CopyResult) -> None:
    java: Any = lake.spark._jvm
    added = (
        java.org.apache.iceberg.DataFiles.builder(iceberg.spec())
        .withPath(f"file:{out}")
        .withFormat("parquet")
        .withFileSizeInBytes(result.bytes)
        .withRecordCount(result.rows)
        .build()
    )
    snapshot = iceberg.currentSnapshot()
    rewrite = iceberg.newRewrite().validateFromSnapshot(snapshot.snapshotId())
    rewrite = rewrite.dataSequenceNumber(snapshot.sequenceNumber()).addFile(added)
    for file in old:
        rewrite = rewrite.deleteFile(file)
    rewrite.commit()
    iceberg.refresh()


def test_an_empty_copy_and_a_copy_of_many_files(spark_lake: Lake, tmp_path: Path) -> None:
    empty = write_all(tmp_path, [pa.table({"k": pa.array([], pa.int64())})] * 2)
    (tmp_path / "empty").mkdir()
    copied(empty, tmp_path / "empty" / "out.parquet")
    read = spark_lake.spark.read.parquet(str(tmp_path / "empty"))
    assert (read.columns, read.count()) == (["k"], 0)

    (tmp_path / "many").mkdir()
    files = write_all(tmp_path / "many", [pa.table({"k": pa.arange(n * 10, n * 10 + 10)}) for n in range(100)])
    (tmp_path / "one").mkdir()
    copied(files, tmp_path / "one" / "out.parquet")
    read = spark_lake.spark.read.parquet(str(tmp_path / "one"))
    assert sorted(row[0] for row in read.collect()) == list(range(1000))
    assert sorted(row[0] for row in read.where("k >= 990").collect()) == list(range(990, 1000))
