"""A year of daily CSV files: ingest with cleaning beside plain Spark and DuckDB, and queries around compaction.

Prints a table and writes bench/results/ingest.json. All in one process, on one warm Spark session, one after the other:
compare ratios, not seconds. `--rows` is for the whole year; of them 3 % are rejected, or none with `--clean`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb

from neve import Lake
from neve.lake import LakeTable

RESULTS = Path(__file__).parent / "results"
DATASET = Path(__file__).parent.parent / "examples" / "sales" / "configs" / "sales_dataset.yaml"
SCHEMA = "date date, product_id string, quantity int, price double, customer_id int, region string"
QUERY = "SELECT region, count(*), sum(quantity * price) FROM {} GROUP BY region"
DAYS = 365
DAY_ROWS = """
COPY (
  SELECT DATE '{day}' AS date, 'P' || lpad((hash(i, 1) % 500)::VARCHAR, 4, '0') AS product_id,
    CASE WHEN {dirty} AND hash(i, 2) % 50 = 0 THEN 0 ELSE 1 + hash(i, 3) % 9 END AS quantity,
    CASE WHEN {dirty} AND hash(i, 4) % 100 = 0 THEN 'n/a'
      ELSE round(1 + (hash(i, 5) % 20000) / 100.0, 2)::VARCHAR END AS price,
    hash(i, 6) % 5000 AS customer_id,
    ['north', 'South', 'EAST', 'west '][(1 + hash(i, 7) % 4)::INT] AS region
  FROM range({first}, {last}) t(i)
) TO '{path}' (FORMAT csv, HEADER)
"""
DUCKDB = """
COPY (
  SELECT date, trim(product_id) AS product_id, quantity, price, customer_id, upper(trim(region)) AS region
  FROM (SELECT * REPLACE (try_cast(price AS DOUBLE) AS price)
  FROM read_csv('{landing}/*.csv', header = true, columns = {{
    'date': 'DATE', 'product_id': 'VARCHAR', 'quantity': 'INTEGER', 'price': 'VARCHAR', 'customer_id': 'INTEGER',
    'region': 'VARCHAR'}}))
  WHERE quantity > 0 AND price > 0
) TO '{target}' (FORMAT parquet, COMPRESSION zstd)
"""


@dataclass(frozen=True)
class Figure:
    what: str
    seconds: float
    ratio: float
    beside: str
    detail: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--clean", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        root = Path(folder)
        landing = generate(root / "landing", given.rows, dirty=not given.clean)
        with Lake.create(root / "lake") as lake:
            figures = measure(lake, root, landing)
    width = max(len(figure.what) for figure in figures)
    print(f"{'':{width}}  seconds   ratio  beside")
    for figure in figures:
        print(f"{figure.what:{width}}  {figure.seconds:7.2f}  {figure.ratio:6.2f}  {figure.beside}  {figure.detail}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"ingest{'-clean' if given.clean else ''}.json").write_text(
        json.dumps([asdict(figure) for figure in figures], indent=2) + "\n"
    )


def generate(landing: Path, rows: int, *, dirty: bool) -> Path:
    """A file per day of 2023; the same rows every time."""
    landing.mkdir()
    per_day = rows // DAYS + 1
    with duckdb.connect() as database:
        for number in range(DAYS):
            day = date(2023, 1, 1) + timedelta(days=number)
            path = landing / f"sales_{day}.csv"
            first = number * per_day
            database.execute(DAY_ROWS.format(day=day, first=first, last=first + per_day, path=path, dirty=dirty))
    return landing


def measure(lake: Lake, root: Path, landing: Path) -> list[Figure]:
    lake.sql("SELECT 1").collect()
    warm(lake, root, landing)
    plain = timed(lambda: write_plain(lake, landing, root / "plain"))
    figures = [Figure("plain Spark, csv to parquet, no cleaning", plain, 1.0, "itself", size(landing))]
    by_duckdb = timed(lambda: copy_duckdb(landing, root / "duckdb.parquet"))
    figures.append(Figure("DuckDB COPY, cleaning, one file", by_duckdb, plain / by_duckdb, "plain Spark"))
    for format_ in ("iceberg", "parquet"):
        figures += measure_format(lake, root, landing, format_, plain)
    return [Figure(f.what, round(f.seconds, 2), round(f.ratio, 2), f.beside, f.detail) for f in figures]


def measure_format(lake: Lake, root: Path, landing: Path, format_: str, plain: float) -> list[Figure]:
    config = root / f"{format_}.yaml"
    storage = (
        f"{{format: {format_}}}" if format_ == "iceberg" else f"{{format: {format_}, base_path: tables/{format_}}}"
    )
    cleaning = f"ingestion: {{dataset_config: {DATASET}}}"
    config.write_text(f"name: by_{format_}\nstorage: {storage}\n{cleaning}\n")
    lake.tables.create(str(config))
    table = lake.table(str(config))
    loaded = timed(lambda: table.ingest(landing, date_from_name="sales_{date}.csv"))
    rows = table.status().ingestion.total_rows
    found = [Figure(f"{format_}: ingest with cleaning", loaded, plain / loaded, "plain Spark", f"{rows:,} rows")]
    before, files_before = query(table), table.status()
    compacted = timed(lambda: [table.compact(f"2023-{month:02}", delete_source=True) for month in range(1, 13)])
    after, files_after = query(table), table.status()
    found.append(
        Figure(
            f"{format_}: query of {files_before.files} files", before, 1.0, "itself", f"{files_before.bytes:,} bytes"
        )
    )
    found.append(Figure(f"{format_}: compaction of 12 months", compacted, compacted / loaded, "its ingest"))
    detail = f"{files_after.bytes:,} bytes; {before / after:.1f} times faster"
    found.append(Figure(f"{format_}: query of {files_after.files} files", after, before / after, "before", detail))
    return found


def warm(lake: Lake, root: Path, landing: Path) -> None:
    """Spark compiles on its first use: each way is walked once on a few files before it is measured."""
    few = root / "few"
    few.mkdir()
    for path in sorted(landing.iterdir())[:4]:
        shutil.copy(path, few)
    write_plain(lake, few, root / "few_plain")
    for format_ in ("iceberg", "parquet"):
        config = root / f"few_{format_}.yaml"
        base = "" if format_ == "iceberg" else f", base_path: tables/few_{format_}"
        config.write_text(
            f"name: few_{format_}\nstorage: {{format: {format_}{base}}}\ningestion: {{dataset_config: {DATASET}}}\n"
        )
        lake.tables.create(str(config))
        table = lake.table(str(config))
        table.ingest(few, date_from_name="sales_{date}.csv")
        query(table)
        table.compact("2023-01", delete_source=True)


def write_plain(lake: Lake, landing: Path, target: Path) -> None:
    lake.spark.read.csv(str(landing), schema=SCHEMA, header=True).write.option("compression", "zstd").parquet(
        str(target)
    )


def copy_duckdb(landing: Path, target: Path) -> None:
    with duckdb.connect() as database:
        database.execute(DUCKDB.format(landing=landing, target=target))


def query(table: LakeTable) -> float:
    """The median of five runs after one to warm up."""

    def run() -> object:
        return table.query(QUERY.format(table.name.name)).collect()

    run()
    return statistics.median(timed(run) for _ in range(5))


def size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.iterdir()):,} bytes in {DAYS} files"


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
