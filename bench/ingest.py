"""A year of daily CSV files: ingest with cleaning beside plain Spark and DuckDB, and queries around compaction.

Prints each figure as it comes and writes bench/results/ingest.json. All in one process, on one warm Spark session, one
after the other: compare ratios, not seconds. `--rows` is for the whole year; of them 3 % are rejected, or none with
`--clean`. `--format` measures one kind of table only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame

from neve import Lake
from neve.lake import LakeTable

RESULTS = Path(__file__).parent / "results"
DATASET = Path(__file__).parent.parent / "examples" / "sales" / "configs" / "sales_dataset.yaml"
SCHEMA = "date date, product_id string, quantity int, price double, customer_id int, region string"
QUERY = "SELECT region, count(*), sum(quantity * price) FROM {} GROUP BY region"
FORMATS = ("iceberg", "parquet")
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
    parser.add_argument("--format", choices=FORMATS, action="append")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        root = Path(folder)
        landing = generate(root / "landing", given.rows, dirty=not given.clean)
        with Lake.create(root / "lake") as lake:
            figures = list(measure(lake, root, landing, given.format or FORMATS))
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


def measure(lake: Lake, root: Path, landing: Path, formats: Sequence[str]) -> Iterator[Figure]:
    lake.sql("SELECT 1").collect()
    warm(lake, root, landing)
    plain = timed(lambda: write_plain(lake, landing, root / "plain"))
    yield told(Figure("plain Spark, csv to parquet, no cleaning", plain, 1.0, "itself", size(landing)))
    by_duckdb = timed(lambda: copy_duckdb(landing, root / "duckdb.parquet"))
    yield told(Figure("DuckDB COPY, cleaning, one file", by_duckdb, plain / by_duckdb, "plain Spark"))
    for format_ in formats:
        yield from map(told, measure_format(lake, root, landing, format_, plain))


def told(figure: Figure) -> Figure:
    figure = replace(figure, seconds=round(figure.seconds, 2), ratio=round(figure.ratio, 2))
    print(
        f"{figure.what:45}  {figure.seconds:7.2f} s  {figure.ratio:6.2f} of {figure.beside}  {figure.detail}",
        flush=True,
    )
    return figure


def measure_format(lake: Lake, root: Path, landing: Path, format_: str, plain: float) -> Iterator[Figure]:
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
    yield Figure(f"{format_}: ingest with cleaning", loaded, plain / loaded, "plain Spark", f"{rows:,} rows")
    few, _ = query(lake, lake.table(f"few_{format_}"))
    yield Figure(f"{format_}: query of 31 days in one file", few, 1.0, "itself", "what Spark takes for itself")
    before, detail = query(lake, table)
    yield Figure(f"{format_}: query of {table.status().files} files", before, 1.0, "itself", detail)
    compacted = timed(lambda: [table.compact(f"2023-{month:02}", delete_source=True) for month in range(1, 13)])
    yield Figure(f"{format_}: compaction of 12 months", compacted, compacted / loaded, "its ingest")
    after, detail = query(lake, table)
    yield Figure(f"{format_}: query of {table.status().files} files", after, before / after, "before", detail)


def warm(lake: Lake, root: Path, landing: Path) -> None:
    """Spark compiles on its first use: each way is walked once on a month of files before it is measured."""
    few = root / "few"
    few.mkdir()
    for path in sorted(landing.iterdir())[:31]:
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
        query(lake, table)
        table.compact("2023-01", delete_source=True)


def write_plain(lake: Lake, landing: Path, target: Path) -> None:
    lake.spark.read.csv(str(landing), schema=SCHEMA, header=True).write.option("compression", "zstd").parquet(
        str(target)
    )


def copy_duckdb(landing: Path, target: Path) -> None:
    with duckdb.connect() as database:
        database.execute(DUCKDB.format(landing=landing, target=target))


def query(lake: Lake, table: LakeTable) -> tuple[float, str]:
    """The median of five runs after one to warm up; and of one run, what planning took, and what tasks did and read."""

    def asked() -> DataFrame:
        return table.query(QUERY.format(table.name.name))

    asked().collect()
    took = statistics.median(timed(lambda: asked().collect()) for _ in range(5))
    seconds, read = tasks(lake)
    planned = timed(lambda: asked()._jdf.queryExecution().executedPlan())
    asked().collect()
    seconds, read = tasks(lake)[0] - seconds, tasks(lake)[1] - read
    return took, f"{planned:.2f} s planning, {seconds:.2f} s of tasks, {read:,} bytes read"


def tasks(lake: Lake) -> tuple[float, int]:
    """How long all tasks took so far, and the bytes that they read."""
    lake.spark._jsc.sc().listenerBus().waitUntilEmpty()
    here = lake.spark._jsc.sc().statusStore().executorList(True).apply(0)
    return here.totalDuration() / 1000, here.totalInputBytes()


def size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.iterdir()):,} bytes in {DAYS} files"


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
