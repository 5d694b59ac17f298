"""Files that arrive by and by, loaded by Spark: a watched folder, batches, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

from examples.sales.generate import write_day
from tests.spark.sales import COLUMNS, DATASET, Rows, model

from neve.lake import Lake, LakeTable

FIRST, SECOND = date(2024, 1, 31), date(2024, 2, 1)
QUICK = {"every": "50ms", "settle": "100ms"}


def describe(lake: Lake, namespace: str, folder: Path, *, storage: str = "format: iceberg", batch: str = "") -> str:
    """The path of a table's file; the table is made."""
    (folder / "dataset.yaml").write_text(DATASET)
    config = folder / f"{namespace}.yaml"
    ingestion = f"{{dataset_config: {folder}/dataset.yaml, batch: {{{batch}}}}}"
    config.write_text(f"name: {namespace}.sales\nstorage: {{{storage}}}\ningestion: {ingestion}\n")
    lake.tables.create(str(config))
    return str(config)


def loaded(table: LakeTable) -> Rows:
    return sorted(map(tuple, table.query(f"SELECT {COLUMNS} FROM sales").collect()), key=repr)


def expected(*paths: Path) -> Rows:
    return sorted((row for path in paths for row in model(path)[0]), key=repr)


def test_a_watched_folder_ends_up_in_the_table_and_a_restart_loads_nothing(
    spark_lake: Lake, namespace: str, tmp_path: Path
) -> None:
    sales = spark_lake.table(describe(spark_lake, namespace, tmp_path))
    landing = tmp_path / "landing"
    paths = [landing / f"{shop}/sales_{day}.csv" for shop, day in (("a", FIRST), ("a", SECOND), ("b", FIRST))]
    for folder in ("a", "b"):
        (landing / folder).mkdir(parents=True)
    for number, path in enumerate(paths[:2]):
        write_day(path, date.fromisoformat(path.stem[-10:]), rows=40, seed=number)
    (landing / "a" / "sales_2024-03-01.csv.part").write_text("half")
    (outcome,) = sales.watch(landing, date_from_name="sales_{date}.csv", once=True, **QUICK)
    assert (outcome.state, outcome.dates) == ("loaded", [FIRST, SECOND])
    assert loaded(sales) == expected(*paths[:2])
    write_day(paths[2], FIRST, rows=30, seed=7)
    write_day(paths[1], SECOND, rows=20, seed=8)
    (outcome,) = sales.watch(landing, date_from_name="sales_{date}.csv", once=True, **QUICK)
    assert outcome.receipt is not None
    assert [(row.date, row.action) for row in outcome.receipt.dates] == [(FIRST, "replace"), (SECOND, "replace")]
    assert loaded(sales) == expected(*paths), "the late file joined its date, the new one took the old one's place"
    history = sales.history()
    assert list(sales.watch(landing, date_from_name="sales_{date}.csv", once=True, **QUICK)) == []
    assert sales.history() == history
    assert [row.state for row in sales.verify()] == ["ok", "ok"]


def test_each_batch_is_one_commit_and_a_bad_date_stays_behind(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    sales = spark_lake.table(describe(spark_lake, namespace, tmp_path, batch="max_files: 2"))
    paths = [tmp_path / f"sales_2024-01-0{day}.csv" for day in range(1, 5)]
    for number, path in enumerate(paths):
        write_day(path, date(2024, 1, number + 1), rows=20, seed=number)
    paths[1].write_text('date,product_id\n2024-01-02,1,2,3\n,,\n"')
    paths[1].rename(paths[1].with_suffix(".parquet"))
    paths[1] = paths[1].with_suffix(".parquet")
    for path in paths:
        sales.submit(path, date=path.stem[-10:])
    before = len(sales.history())
    outcomes = sales.ingest_batches()
    assert [(row.state, [day.day for day in row.dates]) for row in outcomes] == [
        ("loaded", [1]),
        ("failed", [2]),
        ("loaded", [3, 4]),
    ]
    assert outcomes[1].reason is not None
    runs = {row.receipt.run_id for row in outcomes if row.receipt is not None}
    published = {row.run_id for row in sales.history() if row.run_id is not None}
    assert published == runs
    assert len(sales.history()) > before
    assert loaded(sales) == expected(*paths[:1], *paths[2:])
    (again,) = sales.ingest_batches(force=True)
    assert (again.state, again.files) == ("failed", [str(paths[1])])


def test_the_command_tells_line_by_line_what_it_loads_into_a_directory_table(
    spark_lake: Lake, namespace: str, tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    storage = f"format: parquet, base_path: {tmp_path}/table"
    config = describe(spark_lake, namespace, tmp_path, storage=storage)
    landing = tmp_path / "landing"
    landing.mkdir()
    path = landing / "sales_2024-01-31.csv"
    write_day(path, FIRST, rows=20, seed=1)
    (landing / "notes.csv").write_text("x\n")
    words = ("table", "watch", config, str(landing), "--date-from-name", "sales_{date}.csv", "--once")
    code, out, err = cli(*words, "--every", "50ms", "--settle", "100ms", "-o", "jsonl")
    refused, done = map(json.loads, out.splitlines())
    assert (code, refused["state"], done["state"]) == (5, "failed", "loaded")
    assert done["receipt"]["rows_ingested"] == len(expected(path))
    assert "notes.csv" in refused["reason"]["detail"]
    (landing / "notes.csv").unlink()
    assert cli(*words, "--every", "50ms", "--settle", "0", "-o", "jsonl") == (0, "", "")
    code, out, err = cli("table", "submit", f"{namespace}.sales", str(path), "--date", "2024-01-31")
    assert code == 0, err
    code, out, err = cli("table", "batch", f"{namespace}.sales")
    assert (code, out.split(":")[0]) == (0, "= nothing to do"), err
    assert cli("table", "batch", f"{namespace}.sales")[1].startswith("= nothing to load yet")
    assert loaded(spark_lake.table(config)) == expected(path)
