"""Row-group copy beside the re-encoding that it saves, on the same files, as ratios measured in one run.

    python bench/copier.py [--megabytes 200] [--runs 3]

For row groups of several sizes: one file out of many by copy, by pyarrow (read and write) and by DuckDB
(COPY), on a warm page cache; then how fast DuckDB and pyarrow read what came out. Prints a table and writes
bench/results/copier.json. The machine may be noisy, so compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from neve.files.copier import LocalSource, LocalTarget, copy, verify

Name = TypeVar("Name")
RESULTS = Path(__file__).parent / "results" / "copier.json"
ROW_GROUPS = (0.25, 0.5, 1.0, 2.0, 8.0)
ROWS_PER_MEGABYTE = 19_500
ROWS = """
SELECT i AS id, (hash(i) % 1000000)::BIGINT AS customer, timestamp '2026-01-01' + interval (i * 7) second AS at,
       ['north', 'south', 'east', 'west'][1 + (hash(i, 1) % 4)::INT] AS region, 'sku-' || (hash(i, 2) % 5000) AS sku,
       (hash(i, 3) % 100000)::DECIMAL(12, 2) / 100 AS price, (hash(i, 4) % 20)::INTEGER AS quantity,
       (hash(i, 5) % 1000000) / 997.0 AS score, md5(i::VARCHAR) AS token, i % 7 = 0 AS returned
FROM range({first}, {last}) AS r(i)
"""


@dataclass(frozen=True)
class Figure:
    """Speeds are megabytes of input in a second; ratios are to the copy."""

    row_group_mb: float
    files: int
    megabytes: float
    copy_mb_s: float
    pyarrow_mb_s: float
    duckdb_mb_s: float
    pyarrow_ratio: float
    duckdb_ratio: float
    size_ratio: float
    duckdb_read_ratio: float
    pyarrow_read_ratio: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    figures = []
    for size in ROW_GROUPS:
        with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
            figures.append(measure(Path(folder), size, given.megabytes, given.runs))
            show(figures[-1])
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def measure(folder: Path, size: float, megabytes: int, runs: int) -> Figure:
    files = make_files(folder, size, megabytes)
    held = sum(file.stat().st_size for file in files) / 1e6
    outputs = {name: folder / f"{name}.parquet" for name in ("copied", "pyarrow", "duckdb")}
    writers = {
        "copied": partial(copied, files),
        "pyarrow": partial(with_pyarrow, files),
        "duckdb": partial(with_duckdb, files),
    }
    seconds = rounds({name: partial(fresh, writers[name], outputs[name]) for name in writers}, runs)
    check(files, outputs["copied"])
    reads = rounds(
        {
            (reader.__name__, name): partial(reader, outputs[name])
            for reader in (read_duckdb, read_pyarrow)
            for name in ("copied", "pyarrow")
        },
        2 * runs,
    )
    return Figure(
        row_group_mb=size,
        files=len(files),
        megabytes=round(held, 1),
        copy_mb_s=round(held / seconds["copied"], 1),
        pyarrow_mb_s=round(held / seconds["pyarrow"], 1),
        duckdb_mb_s=round(held / seconds["duckdb"], 1),
        pyarrow_ratio=round(seconds["pyarrow"] / seconds["copied"], 1),
        duckdb_ratio=round(seconds["duckdb"] / seconds["copied"], 1),
        size_ratio=round(outputs["copied"].stat().st_size / outputs["pyarrow"].stat().st_size, 3),
        duckdb_read_ratio=round(reads["read_duckdb", "copied"] / reads["read_duckdb", "pyarrow"], 2),
        pyarrow_read_ratio=round(reads["read_pyarrow", "copied"] / reads["read_pyarrow", "pyarrow"], 2),
    )


def show(figure: Figure) -> None:
    print(
        f"{figure.files} files, {figure.megabytes} MB in row groups of {figure.row_group_mb} MB:"
        f" copy {figure.copy_mb_s} MB/s, {figure.pyarrow_ratio} × pyarrow ({figure.pyarrow_mb_s}),"
        f" {figure.duckdb_ratio} × DuckDB ({figure.duckdb_mb_s})\n"
        f"    against the re-encoded file: {figure.size_ratio} of its size, read in {figure.duckdb_read_ratio} (DuckDB)"
        f" and {figure.pyarrow_read_ratio} (pyarrow) of its time",
        flush=True,
    )


def make_files(folder: Path, size: float, megabytes: int) -> list[Path]:
    """One row group a file, packed with zstd, with page indexes."""
    rows = int(size * ROWS_PER_MEGABYTE)
    files = [folder / f"{number:05}.source" for number in range(max(2, round(megabytes / size)))]
    with duckdb.connect() as connection:
        for number, file in enumerate(files):
            made = connection.sql(ROWS.format(first=number * rows, last=(number + 1) * rows))
            pq.write_table(made.to_arrow_table(), file, compression="zstd", write_page_index=True)
    return files


def rounds(work: dict[Name, Callable[[], object]], runs: int) -> dict[Name, float]:
    """The best of several rounds, each in turn, so that a slow minute of the machine falls on all."""
    seconds: dict[Name, list[float]] = {name: [] for name in work}
    for _ in range(runs):
        for name, call in work.items():
            began = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - began)
    return {name: min(taken) for name, taken in seconds.items()}


def fresh(write: Callable[[Path], object], out: Path) -> None:
    out.unlink(missing_ok=True)
    write(out)


def copied(files: list[Path], out: Path) -> None:
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(file)) for file in files]
        copy(sources, stack.enter_context(LocalTarget(out)))


def with_pyarrow(files: list[Path], out: Path) -> None:
    """In row groups of about 8 MB, holding no more than that."""
    schema = pq.read_schema(files[0])
    with pq.ParquetWriter(out, schema, compression="zstd", write_page_index=True) as writer:
        waiting: list[pa.Table] = []
        for file in files:
            waiting.append(pq.read_table(file))
            if sum(map(len, waiting)) >= 8 * ROWS_PER_MEGABYTE:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def with_duckdb(files: list[Path], out: Path) -> None:
    with duckdb.connect() as connection:
        names = ", ".join(f"'{file}'" for file in files)
        connection.execute(f"COPY (FROM read_parquet([{names}])) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")


def read_duckdb(file: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"SELECT region, count(*), sum(price), max(token) FROM '{file}' GROUP BY ALL").fetchall()


def read_pyarrow(file: Path) -> None:
    pq.read_table(file)


def check(files: list[Path], out: Path) -> None:
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(file)) for file in files]
        if found := verify(sources, stack.enter_context(LocalSource(out)), depth="pages"):
            raise SystemExit(found.detail)


if __name__ == "__main__":
    main()
