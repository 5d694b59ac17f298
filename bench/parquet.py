"""Plain folders: compaction, repartition, delete and upsert, beside what a user would write with polars and DuckDB.

Prints a table and writes bench/results/parquet.json. `--mb` is the size of the data on disk, `--files` the number of
files. `--data DIR` keeps the data, so that `--only WORK/TOOL` can measure one piece after the other; the figures of
earlier pieces stay in the JSON. Times are of one run on one machine, so compare ratios; every tool runs in a process
of its own, one after the other, on hard links to the same files. Memory is the most that the process and those it
started, Java among them, held at one time (resident, looked at every 50 ms).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent / "results" / "parquet.json"
PARTITIONS = 20
ROW_BYTES = 23.2  # on disk: two random numbers, and one that counts
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Figure:
    what: str
    tool: str
    seconds: float
    ratio: float
    peak_mb: int
    detail: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=2048)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, Path(given.folder))
        return
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as scratch:
        folder = given.data or Path(scratch)
        if not (folder / "source").is_dir():
            make(folder / "source", given.mb, given.files)
        figures = _with_earlier(measure(folder / "source", folder / "copy", given.only), given.only)
        size = sum(file.stat().st_size for file in (folder / "source").rglob("*.parquet"))
    width = max(len(f"{figure.what}, {figure.tool}") for figure in figures)
    print(f"{size / 2**20:,.0f} MB in {given.files:,} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for figure in figures:
        name = f"{figure.what}, {figure.tool}"
        print(f"{name:{width}}  {figure.seconds:8.1f} s  {figure.ratio:6.2f}  {figure.peak_mb:6} MB  {figure.detail}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def _with_earlier(figures: list[Figure], only: str) -> list[Figure]:
    """Those of this run, those of earlier pieces, and how they compare with ours."""
    measured = {(figure.what, figure.tool) for figure in figures}
    earlier = [Figure(**item) for item in json.loads(RESULTS.read_text())] if only and RESULTS.exists() else []
    kept = [figure for figure in earlier if (figure.what, figure.tool) not in measured]
    every = sorted(
        [*kept, *figures],
        key=lambda figure: (list(WORK).index(figure.what), list(WORK[figure.what]).index(figure.tool)),
    )
    ours = {figure.what: figure.seconds for figure in every if figure.tool == "neve"}
    return [replace(figure, ratio=round(figure.seconds / ours.get(figure.what, figure.seconds), 2)) for figure in every]


def make(folder: Path, mb: int, files: int) -> None:
    """Random numbers, which do not pack, in small files of `PARTITIONS` days."""
    random = Random(1)
    rows = max(1, int(mb * 2**20 / ROW_BYTES / files))
    for number in range(files):
        day = f"2025-11-{number % PARTITIONS + 1:02}"
        table = pa.table(
            {
                "day": [day] * rows,
                "id": range(number * rows, (number + 1) * rows),
                "region": [f"r{place % 10}" for place in range(rows)],
                "a": pa.array(memoryview(random.randbytes(8 * rows)).cast("q"), pa.int64()),
                "b": pa.array(memoryview(random.randbytes(8 * rows)).cast("q"), pa.int64()),
            }
        )
        place = folder / f"day={day}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place / f"f{number:05}.parquet", compression="zstd")


def measure(source: Path, copy: Path, only: str) -> list[Figure]:
    figures = []
    for what, tools in WORK.items():
        for tool in tools:
            if not f"{what}/{tool}".startswith(only):
                continue
            shutil.copytree(source, copy, copy_function=os.link)
            began = time.monotonic()
            answer, peak = run([sys.executable, __file__, "--work", f"{what}/{tool}", "--folder", str(copy)])
            whole = time.monotonic() - began
            detail = f"{answer['detail']}; {whole:.1f} s with start; load {os.getloadavg()[0]:.0f}"
            figures.append(Figure(what, tool, round(answer["seconds"], 2), 1.0, peak, detail))
            shutil.rmtree(copy)
            shutil.rmtree(copy.with_name("out"), ignore_errors=True)
    return figures


def run(command: list[str]) -> tuple[dict[str, Any], int]:
    """What a command printed last, as JSON, and the most MB that it and its children held."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, resident(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    return json.loads(out.splitlines()[-1]), peak // 2**20


def resident(root: int) -> int:
    """Bytes of memory of a process and all below it."""
    parents: dict[int, int] = {}
    held: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], held[int(entry.name)] = int(fields[1]), int(fields[21]) * PAGE
    total, wanted = 0, [root]
    while wanted:
        process = wanted.pop()
        total += held.get(process, 0)
        wanted += [child for child, parent in parents.items() if parent == process]
    return total


def work(name: str, folder: Path) -> None:
    """One piece of work in this process; what it took, as JSON."""
    what, tool = name.split("/")
    began = time.monotonic()
    detail = WORK[what][tool](folder)
    print(json.dumps({"seconds": time.monotonic() - began, "detail": detail}))


def compact_ours(folder: Path) -> str:
    from neve.parquet import ParquetCompactor

    stats = ParquetCompactor(folder).compact()
    return f"{stats['files_before']} → {stats['files_after']} files"


def compact_duckdb(folder: Path) -> str:
    import duckdb

    out = folder.with_name("out")
    duckdb.sql(
        f"COPY (SELECT * FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false)) TO '{out}' "
        "(FORMAT parquet, COMPRESSION zstd, PARTITION_BY (day), WRITE_PARTITION_COLUMNS true)"
    )
    return f"→ {len(list(out.rglob('*.parquet')))} files, not crash-safe"


def compact_polars(folder: Path) -> str:
    import polars as pl

    out = folder.with_name("out")
    for place in sorted(folder.iterdir()):
        (out / place.name).mkdir(parents=True)
        pl.scan_parquet(f"{place}/*.parquet").sink_parquet(out / place.name / "all.parquet", compression="zstd")
    return f"→ {len(list(out.rglob('*.parquet')))} files, not crash-safe"


def repartition_ours(folder: Path, *, validate: bool = True) -> str:
    from neve.parquet import Repartitioner

    stats = Repartitioner(folder, folder.with_name("out"), ["region"]).repartition(validate=validate)
    compared = "every row compared" if validate else "no row compared"
    return f"{stats['partitions_created']} partitions, {stats['files_written']} files, {compared}"


def repartition_unchecked(folder: Path) -> str:
    return repartition_ours(folder, validate=False)


def transform_ours(folder: Path) -> str:
    from neve.parquet import Repartitioner

    def by_digit(frame: Any) -> Any:
        return frame.selectExpr("*", "id % 10 AS digit")

    stats = Repartitioner(folder, folder.with_name("out"), ["digit"]).repartition(transform_fn=by_digit, validate=False)
    return f"{stats['partitions_created']} partitions, {stats['files_written']} files"


def repartition_duckdb(folder: Path, rows: str = "*", key: str = "region") -> str:
    import duckdb

    out = folder.with_name("out")
    duckdb.sql(
        f"COPY (SELECT {rows} FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false)) "
        f"TO '{out}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY ({key}), WRITE_PARTITION_COLUMNS true)"
    )
    return f"{len(list(out.iterdir()))} partitions, {len(list(out.rglob('*.parquet')))} files"


def transform_duckdb(folder: Path) -> str:
    return repartition_duckdb(folder, "*, id % 10 AS digit", "digit")


def repartition_polars(folder: Path, key: str = "region") -> str:
    import polars as pl

    out = folder.with_name("out")
    rows = pl.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=False)
    if key == "digit":
        rows = rows.with_columns(digit=pl.col("id") % 10)
    rows.sink_parquet(pl.PartitionBy(out, key=key, include_key=True), compression="zstd", mkdir=True)
    return f"{len(list(out.iterdir()))} partitions, {len(list(out.rglob('*.parquet')))} files"


def transform_polars(folder: Path) -> str:
    return repartition_polars(folder, "digit")


def delete(folder: Path, **options: Any) -> str:
    from neve.parquet import ParquetCRUD

    stats = ParquetCRUD(folder).delete("day = '2025-11-01' AND a % 50 = 0", **options)
    return f"{stats['rows_deleted']:,} of {stats['rows_before']:,} rows; rewrote {stats['files_written']} files"


def delete_filtered(folder: Path) -> str:
    return delete(folder, partition_filter={"day": "2025-11-01"})


def upsert(folder: Path) -> str:
    from neve.parquet import ParquetCRUD

    rows = sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))
    count = min(100_000, rows // 10)
    table = pa.table(
        {"day": ["2025-11-01"] * count, "id": range(rows - count // 2, rows - count // 2 + count), "a": [1] * count}
    )
    stats = ParquetCRUD(folder).upsert(table, ["id"], ["day"], update_cols=["a"])
    return f"{count:,} rows into {rows:,}; rewrote {stats['files_written']} files"


WORK: dict[str, dict[str, Callable[[Path], str]]] = {
    "compact": {"neve": compact_ours, "duckdb": compact_duckdb, "polars": compact_polars},
    "repartition": {
        "neve": repartition_ours,
        "neve, validate=False": repartition_unchecked,
        "duckdb": repartition_duckdb,
        "polars": repartition_polars,
    },
    "transform and repartition": {"neve": transform_ours, "duckdb": transform_duckdb, "polars": transform_polars},
    "delete 0.1 %": {"neve": delete},
    "delete 0.1 %, partition_filter": {"neve": delete_filtered},
    "upsert": {"neve": upsert},
}

if __name__ == "__main__":
    main()
