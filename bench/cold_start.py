"""How long a command takes to answer, as a ratio to a bare SparkSession start measured in the same run.

Prints a table and writes bench/results/cold_start.json. Every time is the median of several runs of a new process; the
machine may be noisy, so compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from neve import Lake
from neve.engine.jars import ivy_folder
from neve.engine.java import find_java

RESULTS = Path(__file__).parent / "results" / "cold_start.json"
BARE = """
from pyspark.sql import SparkSession
SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
"""
IN_PROCESS = """
import time
from neve import Lake
lake = Lake()
for name in ("first", "second"):
    began = time.monotonic()
    lake.sql("SELECT region, sum(quantity) FROM sales GROUP BY region").collect()
    print(name, time.monotonic() - began)
lake.close()
"""


@dataclass(frozen=True)
class Figure:
    what: str
    seconds: float
    ratio: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        root = Path(folder) / "lake"
        with Lake.create(root) as lake:
            lake.make_demo()
        figures = measure(root, runs)
    width = max(len(figure.what) for figure in figures)
    print(f"{'':{width}}  seconds  ratio")
    for figure in figures:
        print(f"{figure.what:{width}}  {figure.seconds:7.2f}  {figure.ratio:5.2f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def measure(root: Path, runs: int) -> list[Figure]:
    """Rounds of all commands one after the other, so that a noisy minute hits each of them."""
    work: dict[str, Callable[[], float]] = {
        "bare SparkSession start": lambda: timed([sys.executable, "-c", BARE], root),
        "neve --help": lambda: timed(neve("--help"), root),
        "neve table list": lambda: timed(neve("table", "list"), root),
        "neve table status sales": lambda: timed(neve("table", "status", "sales"), root),
        "neve table show sales": lambda: timed(neve("table", "show", "sales"), root),
        "neve table create …": lambda: timed(neve("table", "create", f"t{time.time_ns()}", "--schema", "id int"), root),
        "neve sql (a new process)": lambda: timed(neve("sql", "SELECT count(*) FROM sales"), root),
    }
    taken: dict[str, list[float]] = {name: [] for name in work}
    taken |= {"Lake().sql, first": [], "Lake().sql, second": [], "first, without the class archive": []}
    bare_cache = cache_without_archive(root.parent)
    for _ in range(runs):
        for name, run in work.items():
            taken[name].append(run())
        first, second = in_process(root, environment())
        without, _ = in_process(root, {**environment(), "XDG_CACHE_HOME": str(bare_cache)})
        taken["first, without the class archive"].append(without)
        taken["Lake().sql, first"].append(first)
        taken["Lake().sql, second"].append(second)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    bare = medians["bare SparkSession start"]
    return [Figure(name, round(seconds, 3), round(seconds / bare, 3)) for name, seconds in medians.items()]


def neve(*words: str) -> list[str]:
    return [sys.executable, "-m", "neve", *words]


def timed(command: list[str], folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment())
    return time.monotonic() - began


def in_process(folder: Path, env: dict[str, str]) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS], cwd=folder, check=True, capture_output=True, text=True, env=env
    )
    times = dict(line.split() for line in done.stdout.splitlines())
    return float(times["first"]), float(times["second"])


def cache_without_archive(folder: Path) -> Path:
    """A cache that has the jars and nothing else."""
    cache = folder / "cache"
    (cache / "neve").mkdir(parents=True)
    (cache / "neve" / "ivy").symlink_to(ivy_folder(os.environ))
    return cache


def environment() -> dict[str, str]:
    return {**os.environ, "JAVA_HOME": str(find_java(os.environ).home)}


if __name__ == "__main__":
    main()
