"""Key-range tables: sorted ingest, reads by key, and what dividing a range costs, beside the same data unsorted.

Prints each figure as it comes and writes bench/results/key_ranges.json. All in one process, on one warm Spark session,
one after the other: compare ratios, not seconds. Sleeper's figures are those that it publishes for a task of two
virtual cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import duckdb

from neve import Lake
from neve.engine.rewrites import matching_files
from neve.lake import LakeTable
from neve.plan.ranges import Keys
from neve.services.ranges.reading import Asked

RESULTS = Path(__file__).parent / "results"
SCHEMA = "key string not null, at bigint not null, value string"
SLEEPER = "Sleeper publishes 160,000 to 208,000"
ROWS = """
COPY (
  SELECT lpad((hash(i, 1) % 10000000000)::VARCHAR, 10, '0') AS key, (hash(i, 2) % 1000000)::BIGINT AS at,
    lpad((hash(i, 3) % 10000000000)::VARCHAR, 10, '0') AS value
  FROM range({first}, {last}) t(i)
) TO '{path}' (FORMAT parquet)
"""


@dataclass(frozen=True)
class Figure:
    what: str
    seconds: float
    figure: str
    beside: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=4, help="loads, a date each")
    parser.add_argument("--leaves", type=int, default=128)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder, Lake.create(Path(folder) / "lake") as lake:
        files = generate(Path(folder), given.rows, given.files)
        figures = [told(figure) for figure in measure(lake, files, given.rows, given.leaves)]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "key_ranges.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def generate(folder: Path, rows: int, files: int) -> list[Path]:
    paths = [folder / f"part_{number}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        duckdb.sql(ROWS.format(first=rows * number // files, last=rows * (number + 1) // files, path=path))
    return paths


def told(figure: Figure) -> Figure:
    print(f"{figure.what:35}  {figure.seconds:8.2f} s  {figure.figure}  {figure.beside}", flush=True)
    return figure


def measure(lake: Lake, files: list[Path], rows: int, leaves: int) -> Iterator[Figure]:
    points = "".join(f"{10_000_000_000 * step // leaves:010d}\n" for step in range(1, leaves))
    lake.tables.create("warm", SCHEMA, row_keys=["key, at"])
    load(lake.table("warm"), files[:1])
    lake.tables.create("plain", SCHEMA)
    lake.tables.create("one", SCHEMA, row_keys=["key, at"])
    lake.tables.create("many", SCHEMA, row_keys=["key, at"], split_points=points)
    tables = {name: lake.table(name) for name in ("plain", "one", "many")}
    titles = {"plain": "unsorted", "one": "sorted, 1 range", "many": f"sorted, {leaves} ranges"}
    for name, table in tables.items():
        took = timed(partial(load, table, files))
        yield Figure(f"ingest, {titles[name]}", took, rate(rows, took), "" if name == "plain" else SLEEPER)
    yield from reads(lake, tables["many"], tables["plain"])
    yield from splits(tables["one"], rows)


def reads(lake: Lake, table: LakeTable, plain: LakeTable) -> list[Figure]:
    """Bytes are those of the files that are opened."""
    key = lake.sql("SELECT key FROM many ORDER BY hash(key) LIMIT 1").collect()[0][0]
    above = f"{int(key) + 5_000_000:010d}"
    found = []
    for what, asked, where in (
        ("point", Asked(exact=[key]), f"key = '{key}'"),
        ("range", Asked(between=[(key, above)]), f"key >= '{key}' AND key < '{above}'"),
    ):
        query = f"SELECT key, at, value FROM plain WHERE {where} ORDER BY key, at"
        ours = middle(partial(collect, table, asked))
        theirs = middle(partial(collect_sql, lake, query))
        read = table.explain_read(partial(said, asked))
        paths = matching_files(lake.spark, plain.name, where)
        scanned = sum(file.bytes for file in plain.files() if file.path in paths)
        found += [
            Figure(f"{what} read, in ranges", ours, f"{read.files} of {read.files_total} files, {read.bytes:,} bytes"),
            Figure(
                f"{what} read, unsorted", theirs, f"{len(paths)} files, {scanned:,} bytes", ratio(scanned, read.bytes)
            ),
        ]
    return found


def said(asked: Asked, _: Keys) -> Asked:
    return asked


def collect(table: LakeTable, asked: Asked) -> object:
    return table.read(partial(said, asked)).collect()


def collect_sql(lake: Lake, query: str) -> object:
    return lake.sql(query).collect()


def middle(work: Callable[[], object]) -> float:
    return statistics.median(timed(work) for _ in range(5))


def splits(table: LakeTable, rows: int) -> list[Figure]:
    """The one range is divided, then one of its halves, and so on."""
    found: list[Figure] = []
    range_id, size = 0, rows
    for _ in range(4):
        began = time.monotonic()
        receipt = table.split(range_id)
        took = time.monotonic() - began
        found.append(Figure(f"split a range of {size:,} rows", took, rate(size, took)))
        parts = receipt.ranges[0].parts
        if parts is None:
            break
        range_id = parts[0]
        size = next(row.rows for row in table.ranges() if row.range == range_id)
    return found


def load(table: LakeTable, files: list[Path]) -> None:
    for number, path in enumerate(files):
        table.ingest(str(path), date=str(date(2024, 1, 1) + timedelta(days=number)))


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s"


def ratio(theirs: int, ours: int) -> str:
    return f"{theirs / max(ours, 1):.0f} times the bytes"


if __name__ == "__main__":
    main()
