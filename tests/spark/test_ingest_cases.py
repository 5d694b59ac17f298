"""Cases A2 13 to 15 of the notes: what one delivery or one upsert touches, and which file a date lies in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from tests.spark.attached import Attached

from neve.errors import InvalidSchema
from neve.lake import Lake, LakeTable

Make = Callable[..., LakeTable]


@pytest.fixture
def make(spark_lake: Lake, namespace: str, tmp_path: Path) -> Make:
    def made(format: str, more: str = "") -> LakeTable:  # noqa: A002
        storage = "{format: iceberg}" if format == "iceberg" else f"{{base_path: {tmp_path}/t, format: {format}}}"
        config = tmp_path / "t.yaml"
        config.write_text(f"name: {namespace}.t\nstorage: {storage}\ncolumns: {{id: bigint, value: int}}\n{more}")
        spark_lake.tables.create(str(config))
        return spark_lake.table(str(config))

    return made


def rows_by_day(table: LakeTable) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for day, key, value in table.query("SELECT _ingest_date, id, value FROM t").collect():
        assert found.setdefault(str(day), {}).setdefault(key, value) == value, "no row is there twice"
    return found


def deliver(folder: Path, **days: str) -> None:
    for day, rows in days.items():
        (folder / f"in_2026-{day[1:].replace('_', '-')}.csv").write_text(f"id,value\n{rows}\n")


def files_of(table: LakeTable, partition: str) -> list[tuple[str, int]]:
    """Paths of data files with their time of change."""
    return [
        (row.path, Path(row.path.removeprefix("file:")).stat().st_mtime_ns)
        for row in table.files()
        if row.partition == partition
    ]


@pytest.mark.parametrize(
    ("format", "partitions"),
    [
        ("iceberg", ("_ingest_date_month=2026-01", "_ingest_date_month=2026-02")),
        ("parquet", ("2026-01-31", "2026-02-01")),
    ],
)
def test_case_13_a_new_delivery_touches_its_own_date_only(
    make: Make,
    tmp_path: Path,
    format: str,  # noqa: A002
    partitions: tuple[str, str],
) -> None:
    table = make(format)
    deliver(tmp_path, _01_31="1,10", _02_01="2,20")
    table.ingest(str(tmp_path / "in_*.csv"), date_from_name="in_{date}.csv")
    touched, left = partitions
    before, beside = files_of(table, touched), files_of(table, left)
    assert before
    assert beside
    deliver(tmp_path, _01_31="1,99\n3,30")
    receipt = table.ingest(str(tmp_path / "in_*.csv"), date_from_name="in_{date}.csv")
    assert {str(row.date): row.action for row in receipt.dates} == {"2026-01-31": "replace", "2026-02-01": "skip"}
    assert rows_by_day(table) == {"2026-01-31": {1: 99, 3: 30}, "2026-02-01": {2: 20}}
    assert files_of(table, left) == beside
    assert not set(files_of(table, touched)) & set(before)
    again = table.ingest(tmp_path / "in_2026-01-31.csv", date="2026-01-31", replace=True)
    assert [row.action for row in again.dates] == ["replace"], "asked for by name, the same content is loaded anew"
    assert rows_by_day(table) == {"2026-01-31": {1: 99, 3: 30}, "2026-02-01": {2: 20}}
    assert files_of(table, left) == beside


def test_case_14_an_upsert_touches_the_date_of_its_rows_only(spark_lake: Lake, namespace: str) -> None:
    spark_lake.tables.create(f"{namespace}.t", "day date, e string, v int", partition_by=["days(day)"])
    table = spark_lake.table(f"{namespace}.t")
    first = [("2026-01-01", "e1", 10), ("2026-01-01", "e2", 20), ("2026-01-02", "e3", 30)]
    table.upsert([dict(zip(("day", "e", "v"), row, strict=True)) for row in first], ["day", "e"])
    beside = files_of(table, "day_day=2026-01-02")
    assert beside
    new = [("2026-01-01", "e2", 200), ("2026-01-01", "e4", 40)]
    receipt = table.upsert([dict(zip(("day", "e", "v"), row, strict=True)) for row in new], ["day", "e"])
    assert (receipt.rows_inserted, receipt.rows_updated) == (1, 1)
    rows = sorted((str(row[0]), *row[1:]) for row in table.query("SELECT day, e, v FROM t").collect())
    assert rows == [
        ("2026-01-01", "e1", 10),
        ("2026-01-01", "e2", 200),
        ("2026-01-01", "e4", 40),
        ("2026-01-02", "e3", 30),
    ]
    assert files_of(table, "day_day=2026-01-02") == beside


def test_case_15_a_date_lies_in_one_file_whatever_its_tier(make: Make, tmp_path: Path) -> None:
    """A year, a month and days beside each other, and a day that came again after its month was compacted."""
    table = make("parquet", "compaction: {strategy: {type: hierarchical}}\n")
    days = {"_01_05": "1,1", "_02_06": "2,2", "_03_14": "3,3", "_03_15": "4,4"}
    deliver(tmp_path, **days)
    (tmp_path / "in_2025-12-31.csv").write_text("id,value\n5,5\n")
    table.ingest(str(tmp_path / "in_*.csv"), date_from_name="in_{date}.csv")
    for period in ("2025-12", "2025", "2026-02", "2026-03"):
        table.compact(period)
    deliver(tmp_path, _03_14="3,33")
    table.ingest(tmp_path / "in_2026-03-14.csv", date="2026-03-14")

    tiers = {row.partition: Path(row.path).name for row in table.files()}
    assert tiers == {
        "2025": "2025.parquet",
        "2026-01-05": "2026-01-05.parquet",
        "2026-02": "2026-02.parquet",
        "2026-03": "2026-03.parquet",
        "2026-03-14": "2026-03-14.parquet",
    }
    expected = {
        "2025-12-31": ("2025.parquet", 5, 5),
        "2026-01-05": ("2026-01-05.parquet", 1, 1),
        "2026-02-06": ("2026-02.parquet", 2, 2),
        "2026-03-14": ("2026-03-14.parquet", 3, 33),
        "2026-03-15": ("2026-03.parquet", 4, 4),
    }
    with duckdb.connect() as database:
        found = database.execute(
            f"SELECT _ingest_date, filename, id, value FROM read_parquet('{tmp_path}/t/*.parquet', filename = true)"
        ).fetchall()
    assert {str(day): (Path(file).name, *rest) for day, file, *rest in found} == expected
    assert len(found) == len(expected), "anybody who reads the folder counts each row once"
    assert rows_by_day(table) == {day: {key: value} for day, (_, key, value) in expected.items()}
    assert (table.status().files, table.status().rows) == (5, 5)
    assert [row.state for row in table.verify()] == ["ok"] * 5


@pytest.mark.parametrize("format", ["iceberg", "parquet"])
def test_two_processes_load_the_same_date_once(
    spark_lake: Lake,
    make: Make,
    tmp_path: Path,
    format: str,  # noqa: A002
) -> None:
    """The same file: one of them loads it. Then two contents: whoever comes last stays, and nothing is doubled."""
    table, sources = make(format), [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for number, source in enumerate(sources):
        source.write_text(f"id,value\n1,{number}\n2,{number}\nx,{number}\n")
    processes = [Attached(spark_lake.spark) for _ in range(2)]
    try:
        for pair in ([sources[0]] * 2, sources[1:]):
            for process, source in zip(processes, pair, strict=True):
                process.begin_ingest(spark_lake.root, str(tmp_path / "t.yaml"), source, "2026-01-31")
            assert [process.end() for process in processes] == [0, 0]
            (rows,) = rows_by_day(table).values()
            assert len(table.query("SELECT id FROM t").collect()) == len(rows) == 2
            assert set(rows.values()) <= {sources.index(source) for source in pair}
    finally:
        for process in processes:
            process.close()
    runs = spark_lake.runs.list(table=str(table.name), kind="ingest")
    loads = [run for run in runs if (run.result or {}).get("rows_ingested")]
    assert {run.state for run in runs} == {"succeeded"}
    assert len(loads) == 3, "the same content was loaded by one of the two"
    assert table.status().ingestion.rows_rejected == 3
    assert [(row.state, row.logged) for row in table.verify()] == [("ok", 2)]


def test_a_narrower_type_never_cuts_a_value(make: Make, tmp_path: Path) -> None:
    table, source = make("iceberg"), tmp_path / "in.csv"
    source.write_text("id,value\n1,3000000000\n2,1.5\n3,7\n")
    (tmp_path / "dataset.yaml").write_text(
        "name: t\ncolumns: [{name: id, type: bigint}, {name: value, type: bigint}]\n"
    )
    with pytest.raises(InvalidSchema, match="value is cleaned to"):
        table.ingest(source, date="2026-01-31", dataset_config=tmp_path / "dataset.yaml")
    receipt = table.ingest(source, date="2026-01-31")
    assert [(row.rows_ingested, row.rows_rejected) for row in receipt.dates] == [(1, 2)]
    assert rows_by_day(table) == {"2026-01-31": {3: 7}}
