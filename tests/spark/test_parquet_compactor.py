"""Document 002: compaction keeps every row once, whatever mechanic does it, and says what needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import digests
from tests.spark.trades import bag, files, read, read_with_duckdb, write

from neve.errors import CheckFailed, ColumnNotFound, InvalidInput
from neve.lake import Lake
from neve.parquet import ParquetCompactor, ParquetCRUD, Repartitioner
from neve.plan.directories import Dataset

pytestmark = pytest.mark.spark

Compactor = Callable[..., ParquetCompactor]


@pytest.fixture
def compactor(spark_lake: Lake, tmp_path: Path) -> Compactor:
    def make(at: Path = tmp_path / "d", **options: Any) -> ParquetCompactor:
        return ParquetCompactor(at, spark=spark_lake.spark, **options)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve small files in one partition, two in another, one in a third."""
    for number in range(15):
        k = 1 if number < 12 else 2 if number < 14 else 3
        rows = [{"k": k, "id": number * 10 + i, "name": f"n{i}" if i else None} for i in range(4)]
        write(tmp_path / "d", rows, ["k"], name=f"f{number:02}")
    return tmp_path / "d"


def test_small_files_become_one(folder: Path, compactor: Compactor) -> None:
    """C2 14: files below a count are left alone; the rows are the same, in the same order; twice is once."""
    before, rows = files(folder), read(folder)
    dry = compactor().compact(min_file_count=5, dry_run=True)
    assert files(folder) == before
    stats = compactor().compact(min_file_count=5)
    for key in ("partitions_scanned", "partitions_compacted", "files_before", "files_after", "bytes_before", "rows"):
        assert dry[key] == stats[key]
    assert (stats["partitions_scanned"], stats["partitions_compacted"]) == (3, 1)
    assert (stats["files_before"], stats["files_after"], stats["rows"]) == (15, 4, 60)
    assert stats["bytes_after"] == sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    assert stats["start_time"] <= stats["end_time"]
    assert read(folder) == rows
    assert bag(read_with_duckdb(folder)) == bag(rows)
    left = {path: inode for path, inode in files(folder).items() if not path.startswith("k=1/")}
    assert left == {path: inode for path, inode in before.items() if not path.startswith("k=1/")}
    assert compactor().compact(min_file_count=5)["run_id"] is None


def test_kept_sources_are_counted_once_and_come_back(folder: Path, compactor: Compactor) -> None:
    """C4: keeping the sources doubled every row; here any pattern finds each row once."""
    rows, before = read(folder), files(folder)
    stats = compactor().compact(delete_source_files=False)
    assert len(files(folder)) == 3
    assert read(folder) == rows
    assert bag(read_with_duckdb(folder)) == bag(rows)
    kept = folder / "_backups" / str(stats["run_id"])
    assert len(list(kept.rglob("*.parquet.kept"))) == 14
    assert pq.read_table(kept / "k=1/f00.parquet.kept", partitioning=None).to_pylist() == rows[:4]
    assert stats["undo"] == f"neve parquet restore {folder} {stats['run_id']}"
    ParquetCRUD(folder).restore(stats["run_id"])
    assert files(folder) == before


def test_sizes_counts_filters_and_order(folder: Path, compactor: Compactor) -> None:
    rows = read(folder)
    big = pa.table({"k": [1] * 40_000, "id": range(40_000), "name": ["x"] * 40_000})
    pq.write_table(big, folder / "k=1/big.parquet", compression="none")
    inode = files(folder)["k=1/big.parquet"]
    stats = compactor(target_file_size_mb=1).compact(
        max_file_size_mb=0.02, partition_filter={"k": 1}, target_file_count=3
    )
    assert files(folder)["k=1/big.parquet"] == inode
    assert (stats["partitions_scanned"], stats["files_after"]) == (1, 4)
    assert len(files(folder)) == 4 + 3
    (folder / "k=1/big.parquet").unlink()
    compactor().compact(sort_by=["name desc", "id"], target_file_count=1, partition_filter={"k": 1})
    found = [(row["name"], row["id"]) for row in read(folder, "k=1/*.parquet")]
    named = sorted(((name, number) for name, number in found if name), key=lambda row: (-int(row[0][1:]), row[1]))
    nulls = sorted((row for row in found if row[0] is None), key=lambda row: row[1])
    assert found in ([*named, *nulls], [*nulls, *named])
    assert bag(read(folder)) == bag(rows)


def test_large_row_groups_are_copied_as_they_are(tmp_path: Path, compactor: Compactor) -> None:
    """No value is decoded: the bytes of every column chunk are those of the sources, and no Spark job runs."""
    folder = tmp_path / "d"
    folder.mkdir()
    random = Random(7)
    for number in range(3):
        table = pa.table({"id": [random.getrandbits(62) for _ in range(200_000)]})
        pq.write_table(table, folder / f"f{number}.parquet", compression="zstd")
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])
    chunks = [chunk for file in sorted(folder.glob("*.parquet")) for chunk in column_chunks(file)]
    stats = ParquetCompactor(folder).compact()
    assert (stats["files_before"], stats["files_after"]) == (3, 1)
    file = next(folder.glob("*.parquet"))
    assert column_chunks(file) == chunks
    assert pq.read_table(file).equals(rows)


def column_chunks(file: Path) -> list[bytes]:
    metadata, content = pq.read_metadata(file), file.read_bytes()
    found = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            start = column.dictionary_page_offset or column.data_page_offset
            found.append(content[start : start + column.total_compressed_size])
    return found


def test_mixed_files_and_folders_of_others(tmp_path: Path, compactor: Compactor, spark_lake: Lake) -> None:
    """Widened numbers, added columns, a dictionary column, empty files, hive columns that are not inside."""
    folder = tmp_path / "d"
    (folder / "day=2024-01-01").mkdir(parents=True)
    tables = [
        pa.table({"id": pa.array([1], pa.int32())}),
        pa.table({"id": pa.array([2**40], pa.int64()), "name": pa.array(["a"]).dictionary_encode()}),
        pa.table({"id": pa.array([], pa.int32())}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"day=2024-01-01/f{number}.parquet", compression="snappy")
    compactor().compact()
    assert read(folder) == [{"id": 1, "name": None}, {"id": 2**40, "name": "a"}]
    assert pq.read_metadata(next(folder.rglob("*.parquet"))).row_group(0).column(0).compression == "ZSTD"
    crud = ParquetCRUD(folder, spark=spark_lake.spark)
    assert crud.delete("day = DATE'2024-01-01' AND id = 1")["rows_deleted"] == 1


def test_files_that_lack_the_partition_column_beside_others(
    tmp_path: Path, compactor: Compactor, spark_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive's rows, and those that an upsert brought, stay in their partition; the check would see if not."""
    folder = tmp_path / "d"
    for tens, region in ((1, "eu"), (2, "us"), (3, "__HIVE_DEFAULT_PARTITION__")):
        (folder / f"region={region}").mkdir(parents=True)
        for number in range(2):
            pq.write_table(pa.table({"id": [tens * 10 + number]}), folder / f"region={region}/{number}.parquet")
    crud = ParquetCRUD(folder, spark=spark_lake.spark)
    new = [{"id": 1, "region": "eu"}, {"id": 2, "region": None}]
    crud.upsert(new, key_cols=["id", "region"], partition_cols=["region"])
    before = digests(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "told", lambda _: {})
        with pytest.raises(CheckFailed, match="other content"):
            compactor().compact()
    assert digests(folder) == before
    assert compactor().compact()["files_after"] == 3
    found = {row["id"]: row.get("region", "not inside") for row in read(folder)}
    europe, nowhere = dict.fromkeys((1, 10, 11), "eu"), dict.fromkeys((2, 30, 31))
    assert found == {**europe, **nowhere, **dict.fromkeys((20, 21), "not inside")}


def test_folders_whose_names_look_like_patterns(tmp_path: Path, compactor: Compactor, spark_lake: Lake) -> None:
    folder = tmp_path / "x[1]{a,b}*?"
    for number in range(4):
        write(folder, [{"k": "a[b]", "id": number}], ["k"], name=f"f[{number}]")
    for order in ((), ("id",)):
        assert compactor(folder).compact(sort_by=order, min_file_count=1)["files_after"] == 1
    work = Repartitioner(folder, tmp_path / "new[1]", ["id"], spark=spark_lake.spark)
    assert work.repartition(sort_by=["k"])["records_written"] == 4
    assert sorted(row["id"] for row in read(tmp_path / "new[1]")) == [0, 1, 2, 3]


def test_timestamps_as_spark_writes_them(tmp_path: Path, compactor: Compactor, spark_lake: Lake) -> None:
    """INT96, unless it is told otherwise: Spark reads the same instants after, also where nothing is compared."""
    spark, folder = spark_lake.spark.newSession(), str(tmp_path / "d")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    frame = spark.sql(
        "SELECT id, at, struct(at AS inner, array(at) AS all) AS deep FROM VALUES"
        " (1, TIMESTAMP'1700-01-01 00:00:00.123456Z'), (2, TIMESTAMP'9999-12-31 23:59:59Z'),"
        " (3, TIMESTAMP'2024-03-31 02:30:00 Europe/Berlin'), (4, NULL) AS t (id, at)"
    )
    for _ in range(2):
        frame.coalesce(1).write.mode("append").parquet(folder)

    def seen() -> Counter[Any]:
        texts = spark.read.parquet(folder).selectExpr("to_json(struct(*))", "unix_micros(at)")
        return Counter(map(tuple, texts.collect()))

    file = next(tmp_path.rglob("*.parquet"))
    assert pq.ParquetFile(file).schema.column(1).physical_type == "INT96"
    before = seen()
    for verify in (True, False):
        stats = compactor().compact(min_file_count=2, verify=verify)
        assert (stats["files_before"], stats["files_after"]) == (2, 1)
        assert seen() == before
        if verify:  # once more, half of it from what Névé wrote
            before += before
            frame.coalesce(1).union(frame.coalesce(1)).coalesce(1).write.mode("append").parquet(folder)
    assert ParquetCRUD(folder, spark=spark).delete("year(at) = 9999")["rows_deleted"] == 4


def test_a_large_partition_is_streamed(tmp_path: Path, compactor: Compactor) -> None:
    """A partition goes through memory a row group at a time."""
    folder = tmp_path / "d"
    rows = [{"id": number, "text": "x" * 20} for number in range(30_000)]
    for number in range(3):
        write(folder, rows[number::3], name=f"f{number}", row_group_size=1000)
    compactor().compact()
    file = next(folder.glob("*.parquet"))
    assert pq.read_metadata(file).num_row_groups == 1
    assert bag(read(folder)) == bag(rows)


def test_bad_requests_change_nothing(folder: Path, compactor: Compactor) -> None:
    before = digests(folder)
    wrong: dict[str, dict[str, Any]] = {
        "min_file_count": {"min_file_count": 0},
        "target_file_count": {"target_file_count": -1},
        "max_file_size_mb": {"max_file_size_mb": 0},
        "not a partition key": {"partition_filter": {"id": 1}},
    }
    for words, options in wrong.items():
        with pytest.raises(InvalidInput, match=words):
            compactor().compact(**options)
    with pytest.raises(ColumnNotFound, match="idd"):
        compactor().compact(sort_by=["idd"])
    assert digests(folder) == before


def test_wrong_rows_are_found_before_anything_is_removed(
    folder: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check can fail: what a mechanic got wrong stays unpublished."""
    from neve.engine import compaction

    before = digests(folder)
    right = compaction.merge_bins

    def wrong(session: Any, dataset: Any, bins: Any, sink: Any) -> Any:
        written = right(session, dataset, bins, sink)
        table = pq.read_table(written[0].address)
        ids = pa.array([value + 1 for value in table["id"].to_pylist()], pa.int64())
        pq.write_table(table.set_column(1, "id", ids), written[0].address)
        return written

    monkeypatch.setattr(compaction, "merge_bins", wrong)
    with pytest.raises(CheckFailed, match="other content"):
        compactor().compact()
    assert digests(folder) == before


def test_fragmentation(folder: Path) -> None:
    """Files per partition, the worst first; no Spark."""
    found = ParquetCompactor(folder).fragmentation(worst=2)
    assert (found["partitions"], found["files"], found["small_files"], found["fragmented"]) == (3, 15, 15, 1)
    assert [row["partition"] for row in found["worst"]] == ["k=1", "k=2"]
    assert found["worst"][0]["files"] == 12
    assert sum(bar["files"] for bar in found["histogram"]) == 15
    assert found["bytes"] == sum(file.stat().st_size for file in folder.rglob("*.parquet"))
