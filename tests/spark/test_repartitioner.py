"""Document 002: other partition columns, checked row by row, resumed, and swapped with the source."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.spark.bags import digests
from tests.spark.trades import bag, read, write

from neve.errors import CheckFailed, ColumnNotFound, Conflict, InvalidInput, InvalidSchema, NotEmpty, Refused, StalePlan
from neve.lake import Lake
from neve.parquet import ParquetCompactor, ParquetCRUD, Repartitioner
from neve.plan.folders import folder_of

pytestmark = pytest.mark.spark

Make = Callable[..., Repartitioner]
NEW = ["product_id", "year", "month", "day", "hour"]


def rows() -> list[dict[str, Any]]:
    start = datetime(2025, 11, 25, 20, tzinfo=UTC)
    return [
        {
            "product_id": ("BTC/USD", "ETH-USD")[number % 2],
            "date": str((start + timedelta(minutes=30 * number)).date()),
            "timestamp": start + timedelta(minutes=30 * number),
            "price": number / 7 if number % 5 else None,
            "tags": {"n": number},
        }
        for number in range(24)
    ]


def add_time(frame: DataFrame) -> DataFrame:
    """Workflow 4 of the guide."""
    parts = {part: getattr(f, part)("timestamp") for part in ("year", "month", "hour")}
    return frame.withColumns({**parts, "day": f.dayofmonth("timestamp")})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(tmp_path / "level2", rows(), ["product_id", "date"])
    return tmp_path / "level2"


@pytest.fixture
def make(spark_lake: Lake, source: Path, tmp_path: Path) -> Make:
    def new(columns: list[str] = NEW, target: Path = tmp_path / "new", **options: Any) -> Repartitioner:
        return Repartitioner(source, target, columns, spark=spark_lake.spark, **options)

    return new


def without_time(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in NEW[1:]} for row in found]


def test_the_schema_migration_of_the_guide(source: Path, make: Make, tmp_path: Path, spark_lake: Lake) -> None:
    """C4, workflow 4: partition columns that the transform makes; counts and content equal; then compaction."""
    before = digests(source)
    estimate = make().estimate_size(transform_fn=add_time)
    dry = make().repartition(transform_fn=add_time, dry_run=True)
    assert not (tmp_path / "new").exists()
    stats = make().repartition(delete_source=False, validate=True, transform_fn=add_time, sort_by=["timestamp desc"])
    expected = {(row["product_id"], row["timestamp"].strftime("%Y%m%d%H")) for row in rows()}
    assert stats["partitions_created"] == estimate["num_partitions"] == dry["partitions_created"] == len(expected)
    assert (stats["records_read"], stats["records_written"], stats["errors"]) == (24, 24, 0)
    assert (estimate["total_rows"], estimate["total_files"]) == (24, 4)
    assert estimate["estimated_size_mb"] == sum(file.stat().st_size for file in source.rglob("*.parquet")) / 2**20
    for key in ("files_read", "files_written", "records_written", "bytes_read"):
        assert dry[key] == stats[key]
    found = read(tmp_path / "new")
    assert bag(without_time(found)) == bag(rows())
    assert all(row["hour"] == row["timestamp"].hour for row in found)
    assert (tmp_path / "new/product_id=BTC%2FUSD/year=2025/month=11/day=25/hour=20").is_dir()
    assert digests(source) == before
    assert not list((tmp_path / "new").glob("_*"))
    again = make(["product_id"], tmp_path / "coarse")
    again.repartition()
    one = read(tmp_path / "coarse", "product_id=ETH-USD/*.parquet")
    assert len(one) == 12
    seen = spark_lake.spark.read.parquet(str(tmp_path / "coarse/product_id=ETH-USD"))  # written by pyarrow, no Spark
    assert {row.price for row in seen.collect()} == {row["price"] for row in one}
    assert seen.schema["product_id"].dataType.simpleString() == "string"
    assert ParquetCompactor(tmp_path / "new", spark=spark_lake.spark).compact()["partitions_compacted"] == 0


def test_what_is_refused(source: Path, make: Make, tmp_path: Path) -> None:
    before = digests(source)
    with pytest.raises(ColumnNotFound, match="no column year"):
        make().repartition()
    with pytest.raises(CheckFailed, match="24 rows came in, 12 went out"):
        make(["date"]).repartition(transform_fn=lambda frame: frame.where("product_id = 'ETH-USD'"))
    with pytest.raises(InvalidInput, match="not a Spark DataFrame"):
        make(["date"]).repartition(transform_fn=lambda _: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidSchema, match="price"):
        make(["price"]).repartition()
    with pytest.raises(Refused, match="overlap"):
        make(["date"], source / "inside").repartition()
    with pytest.raises(InvalidInput, match="batch_size"):
        make(["date"], batch_size=0).repartition()
    assert read(tmp_path / "new") == []
    write(tmp_path / "new", [{"a": 1}])
    for dry_run in (True, False):
        with pytest.raises(NotEmpty, match=r"a\.parquet"):
            make(["date"]).repartition(dry_run=dry_run)
    assert digests(source) == before
    stats = make(["date"], tmp_path / "half").repartition(
        validate=False, transform_fn=lambda frame: frame.where("product_id = 'ETH-USD'"), delete_source=True
    )
    assert (stats["records_read"], stats["records_written"], stats["validated"]) == (24, 12, False)
    assert not source.exists()


SEEN: list[int] = []


def fail_at_the_third(frame: DataFrame) -> DataFrame:
    SEEN.append(1)
    if len(SEEN) == 3:
        raise KeyboardInterrupt
    return frame


def test_a_run_that_stopped_is_resumed(source: Path, make: Make, tmp_path: Path) -> None:
    """Each part is a commit: what was written is not written again, and no row is lost or doubled."""
    parts = make(["date"], chunk_mb=1)
    object.__setattr__(parts._request, "chunk_mb", 1 / 2**20)  # one byte: every file is a part
    SEEN.clear()
    with pytest.raises(KeyboardInterrupt):
        parts.repartition(transform_fn=fail_at_the_third)
    written = digests(tmp_path / "new")
    assert 0 < len(read(tmp_path / "new")) < 24
    with pytest.raises(NotEmpty, match="unfinished"):
        make(["product_id"]).repartition()
    with pytest.raises(NotEmpty, match="asked for otherwise, or cannot be told from it: transform"):
        parts.repartition()
    with pytest.raises(NotEmpty, match=r"otherwise.*: transform"):
        parts.repartition(transform_fn=lambda frame: fail_at_the_third(frame))  # noqa: PLW0108 - other code
    assert len(SEEN) == 3
    stats = parts.repartition(transform_fn=fail_at_the_third)
    assert (stats["resumed"], stats["records_written"], stats["files_written"]) == (True, 24, 2)
    assert bag(read(tmp_path / "new")) == bag(rows())
    kept = {path: digest for path, digest in written.items() if path.endswith(".parquet")}
    assert kept.items() <= digests(tmp_path / "new").items()
    assert not (tmp_path / "new/_repartition.json").exists()
    with pytest.raises(NotEmpty):
        parts.repartition()


def test_starting_over(source: Path, make: Make, tmp_path: Path) -> None:
    parts = make([])
    object.__setattr__(parts._request, "chunk_mb", 1 / 2**20)
    seen: list[int] = []

    def fail_later(frame: DataFrame) -> DataFrame:
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return frame

    with pytest.raises(KeyboardInterrupt):
        parts.repartition(transform_fn=fail_later)
    with pytest.raises(NotEmpty, match=r"otherwise.*: transform"):  # it holds `seen`, which no code tells
        parts.repartition(transform_fn=fail_later)
    stats = parts.repartition(resume=False)
    assert (stats["resumed"], stats["records_written"]) == (False, 24)
    assert bag(read(tmp_path / "new", "*.parquet")) == bag(rows())


def test_swapping_with_the_source(source: Path, make: Make, tmp_path: Path, spark_lake: Lake) -> None:
    """The production workflow of the guide as one call, and back again."""
    before = digests(source)
    stats = make(["date"]).repartition(swap_with_source=True)
    assert not (tmp_path / "new").exists()
    assert {path.name for path in source.glob("*=*")} == {"date=2025-11-25", "date=2025-11-26"}
    assert bag(read(source)) == bag(rows())
    assert stats["undo"] == f"neve parquet restore {source} {stats['run_id']}"
    ParquetCRUD(source, spark=spark_lake.spark).restore(stats["backup"])
    assert digests(source) == before


def test_a_source_that_changes_meanwhile_is_not_removed(source: Path, make: Make, tmp_path: Path) -> None:
    def write_meanwhile(frame: DataFrame) -> DataFrame:
        pq.write_table(pa.Table.from_pylist(rows()[:1]), source / "product_id=ETH-USD/late.parquet")
        return frame

    (source / "product_id=ETH-USD").mkdir(exist_ok=True)
    for options in ({"delete_source": True}, {"swap_with_source": True}):
        target = tmp_path / "-".join(options)
        with pytest.raises((StalePlan, Conflict), match="has changed"):
            make(["date"], target).repartition(transform_fn=write_meanwhile, **options)  # type: ignore[arg-type]
        assert (source / "product_id=ETH-USD/late.parquet").exists()
        (source / "product_id=ETH-USD/late.parquet").unlink()
        assert bag(read(source)) == bag(rows())


def test_files_of_a_size_and_row_groups_of_a_length(make: Make, source: Path, tmp_path: Path, spark_lake: Lake) -> None:
    many = [{"k": 1, "text": f"{number:032x}" * 8} for number in range(60_000)]
    write(tmp_path / "many", many)
    Repartitioner(
        tmp_path / "many",
        tmp_path / "sized",
        ["k"],
        compression="uncompressed",
        batch_size=2000,
        spark=spark_lake.spark,
    ).repartition(target_file_size_mb=4)
    files = sorted((tmp_path / "sized").rglob("*.parquet"))
    assert len(files) >= 3
    assert all(file.stat().st_size < 6 * 2**20 for file in files)
    metadata = pq.read_metadata(files[0])
    assert metadata.row_group(0).num_rows <= 2000
    assert metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    assert len(read(tmp_path / "sized")) == 60_000


def test_few_large_partitions_are_written_without_a_shuffle(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a transform, on Spark: each task writes a file of its own to every partition that it meets, all checked."""
    from neve.engine import directories, repartition

    right, plans, open_at_once = directories.write_partitions, [], []

    def watch(frame: DataFrame, dataset: Any, sink: Any, **options: Any) -> Any:
        open_at_once.append(sink.open_groups)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return right(frame, dataset, sink, **options)

    monkeypatch.setattr(repartition, "write_partitions", watch)
    monkeypatch.setattr("neve.plan.directories._LEAST_FILE", 1)
    half = {"half": f.when(f.hour("timestamp") < 12, "a/m").when(f.hour("timestamp") < 20, None).otherwise("p m")}
    stats = make(["half", "product_id"]).repartition(transform_fn=lambda frame: frame.withColumns(half))
    assert open_at_once == [4]  # NULL has no row
    assert "Exchange" not in plans[0]
    assert (stats["partitions_created"], stats["records_written"], stats["validated"]) == (4, 24, True)
    found = read(tmp_path / "new")
    assert bag([{key: row[key] for key in row if key != "half"} for row in found]) == bag(rows())
    for place in (tmp_path / "new").glob("*/*"):
        values = {(row["half"], row["product_id"]) for row in read(place)}
        assert len(values) == 1
        half_name, product = values.pop()
        assert str(place.relative_to(tmp_path / "new")) == folder_of({"half": half_name, "product_id": product})

    def lose(frame: DataFrame, dataset: Any, sink: Any, **options: Any) -> Any:
        files = right(frame, dataset, sink, **options)
        table = pq.read_table(files[0].address)
        pq.write_table(table.slice(0, table.num_rows - 1), files[0].address)
        return files

    monkeypatch.setattr(repartition, "write_partitions", lose)
    with pytest.raises(CheckFailed):
        make(["product_id"], tmp_path / "lossy").repartition(transform_fn=lambda frame: frame)
    assert read(tmp_path / "lossy") == []


def test_content_is_compared_not_only_counted(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The check can fail: rows that were written wrongly, in the right number."""
    from neve.engine import directories, repartition

    right = directories.write_partitions

    def wrong(*arguments: Any, **options: Any) -> Any:
        files = right(*arguments, **options)
        table = pq.read_table(files[0].address)
        prices = pa.array([0.5] * table.num_rows, pa.float64())
        pq.write_table(table.set_column(table.schema.get_field_index("price"), "price", prices), files[0].address)
        return files

    monkeypatch.setattr(repartition, "write_partitions", wrong)
    with pytest.raises(CheckFailed, match="other content"):
        make(["date"]).repartition(transform_fn=lambda frame: frame)  # on Spark; else see tests/lake/test_splitting.py
    assert read(tmp_path / "new") == []
