"""Compaction of an Iceberg table of small files: Névé, Iceberg's `rewrite_data_files`, DuckDB, Delta's OPTIMIZE.

    python bench/compaction.py --files 500 --kb 8000 --partitions 1 --writer

Every tool starts from the same snapshot of one table (format 3, ten columns, zstd), in one warm session, one after the
other; each piece runs `--turns` times and the best counts. DuckDB reads the same files and writes one Parquet file,
without any table. Delta has a session of its own (bench/delta.py), and the same files as a table without partitions.
Queries ask the snapshots before and after in turn, so that all have the same warm Spark. `--writer` goes on with a
writer that commits each second; `--peers none` leaves DuckDB and Delta out. `--kb` is about: the table printed says
what came of it.
Prints a table and adds to bench/results/compaction.json. Compare ratios, not seconds; on a busy machine those of CPU
time, as the one with more threads gets more of it there.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from neve import Lake
from neve.errors import CommitConflict
from neve.files import encoding
from neve.lake import LakeTable
from neve.services.rewrites import compaction
from neve.services.rewrites.work import Rewriting

DELTA = Path(__file__).parent / "delta.py"
RESULTS = Path(__file__).parent / "results" / "compaction.json"
ROWS = """
SELECT nullif(id, -1) AS id, int(id % 1000) AS g, int(id % 77) AS h, concat('name-', pmod(hash(id), 100000)) AS s,
  string(uuid()) AS w, rand() AS d, id / 7D AS e, cast(id AS decimal(12, 2)) AS m,
  date '2024-01-01' + int(id % 400) AS day, int(pmod(hash(id), {partitions})) AS part
FROM range(0, {rows}, 1, {tasks})
"""
COLUMNS = "id bigint, g int, h int, s string, w string, d double, e double, m decimal(12,2), day date, part int"
QUERIES = {
    "every row, four columns": "SELECT g, count(*), sum(e), max(s) FROM {t} GROUP BY g",
    "every row, one column": "SELECT g, count(*) FROM {t} GROUP BY g",
    "few rows": "SELECT * FROM {t} WHERE s = 'name-777'",
}
QUERY = QUERIES["every row, four columns"]
SEEN = "count(*), sum(cast(xxhash64(id, g, h, s, w, d, e, m, day, r, q) AS decimal(38, 0)))"
ROW_BYTES = 36
_WRITES = 1.0
_ASKED, _LONG = 10, 60.0


@dataclass(frozen=True)
class Figure:
    files: int
    kilobytes: int
    partitions: int
    what: str
    seconds: float
    ratio: float | None
    detail: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--kb", type=int, default=8000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--writer", action="store_true")
    parser.add_argument("--peers", choices=("all", "none"), default="all", help="none: without DuckDB and Delta")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as scratch, Lake.create(Path(scratch) / "lake") as lake:
        figures = Bench(lake, given).run()
    width = max(len(figure.what) for figure in figures)
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:6.2f}"
        print(f"{figure.what:{width}}  {figure.seconds:8.2f} s  {ratio:>6}  {figure.detail}")
    RESULTS.parent.mkdir(exist_ok=True)
    key = [figures[0].files, figures[0].kilobytes, figures[0].partitions]
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kept = [item for item in earlier if [item["files"], item["kilobytes"], item["partitions"]] != key]
    RESULTS.write_text(json.dumps([*kept, *map(asdict, figures)], indent=2) + "\n")


class Bench:
    def __init__(self, lake: Lake, given: argparse.Namespace) -> None:
        self.lake, self.given = lake, given
        self.figures: list[Figure] = []
        self.cpu: dict[str, float] = {}
        self._java = int(lake.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        self._warm_up()
        self.table = self._make("t", given.files, given.kb, given.partitions)
        self.base = self.table.history()[0].snapshot
        self.size, self.count = sum(row.bytes for row in self.table.files()), len(self.table.files())

    def run(self) -> list[Figure]:
        files = self.table.files()
        print(
            f"{len(files):,} files of {self.size / len(files) / 1000:,.0f} KB, {self.given.partitions} partitions, "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        content = self._content()
        spent: dict[str, float] = {}
        ours = self._measure("neve compact", lambda: self._ours(spent))
        if self._content() != content:
            raise SystemExit("rows, or their lineage, are not what they were")
        made = {"before": self.base, "after neve compact": self.table.history()[0].snapshot}
        cpu = self.cpu["neve compact"]
        self._add("neve compact", ours, 1.0, f"{self._layout()}; {_shares(spent, ours)}; {cpu:.1f} s of CPU")
        theirs = self._measure("rewrite_data_files", self._iceberg)
        made["after rewrite_data_files"] = self.table.history()[0].snapshot
        used = self.cpu["rewrite_data_files"]
        told = f"{self._layout()}; {used:.1f} s of CPU, {used / cpu:.1f} times ours"
        self._add("rewrite_data_files", theirs, theirs / ours, told)
        self._ask(made)
        self._reset()
        if self.given.peers == "all":
            self._duckdb(ours)
            self._delta(ours)
        if self.given.writer:
            self._beside_a_writer()
        return self.figures

    # ------------------------------------------------------------------------------------------------------------ work

    def _ours(self, spent: dict[str, float]) -> None:
        spent.clear()
        with (
            _timed(compaction, "look_at", "planning", spent),
            _timed(Rewriting, "make", "files", spent),
            _timed(Rewriting, "commit", "committing", spent),
            _timed(encoding, "_read", "reading", spent),
            _timed(encoding, "_written", "writing", spent),
        ):
            self.table.compact()

    def _iceberg(self) -> None:
        self.lake.sql("CALL lake.system.rewrite_data_files(table => 't')", write=True).collect()

    def _duckdb(self, ours: float) -> None:
        import duckdb

        paths = [row.path.removeprefix("file:") for row in self.table.files()]
        target = Path(tempfile.mkdtemp(prefix="neve-bench-")) / "all.parquet"
        text = f"COPY (SELECT * FROM read_parquet({paths})) TO '{target}' (COMPRESSION zstd)"
        best = min(_seconds(lambda: duckdb.connect().execute(text)) for _ in range(self.given.turns))
        self._add(
            "DuckDB, read and write", best, best / ours, f"1 file of {target.stat().st_size / 1e6:.0f} MB, no table"
        )
        shutil.rmtree(target.parent)

    def _ask(self, snapshots: Mapping[str, int]) -> None:
        """Each query on each snapshot, in turn, the best of ten; of two where that takes long."""
        for label, text in QUERIES.items():
            took = dict.fromkeys(snapshots, float("inf"))
            began = time.monotonic()
            for turn in range(_ASKED):
                if turn > 1 and time.monotonic() - began > _LONG:
                    break
                for name, snapshot in snapshots.items():
                    asked = text.format(t=f"t VERSION AS OF {snapshot}")
                    took[name] = min(took[name], _seconds(partial(self._collect, asked)))
            for name, seconds in took.items():
                ratio = None if name == "before" else took["before"] / seconds
                self._add(f"query of {label}, {name}", seconds, ratio, "" if ratio is None else "times as fast")

    def _collect(self, text: str) -> None:
        self.lake.sql(text).collect()

    def _delta(self, ours: float) -> None:
        paths = [row.path.removeprefix("file:") for row in self.table.files()]
        memory = self.lake.spark.conf.get("spark.driver.memory")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
            json.dump(paths, listed)
            listed.flush()
            words = [listed.name, str(self.given.turns), QUERY.format(t="t"), str(memory)]
            child = subprocess.run([sys.executable, DELTA, *words], capture_output=True, text=True, check=False)
        if child.returncode:
            raise SystemExit(f"Delta failed: {child.stderr[-2000:]}")
        told = json.loads(child.stdout.splitlines()[-1])
        layout = f"{told['files']:,} files of {told['bytes'] / 1e6:.0f} MB"
        detail = f"{layout}; the query of four columns then {told['query']:.2f} s"
        self._add("Delta OPTIMIZE", told["seconds"], told["seconds"] / ours, detail)

    def _beside_a_writer(self) -> None:
        """Compaction after compaction while a writer commits each second: every acknowledged row is there once."""
        done, written, lost, again = threading.Event(), [0], [0], [0]

        def delete(number: int) -> None:
            """A delete that loses to a compaction of the same file is told so, and made again."""
            while True:
                try:
                    self.lake.sql(f"DELETE FROM t WHERE id = {number}", write=True)
                except CommitConflict:
                    again[0] += 1
                else:
                    lost[0] += 1
                    return

        def write() -> None:
            while not done.wait(_WRITES):
                number = -2 - written[0]
                row = f"({number}, 1, 1, 's', 'w', 0, 0, 0, date '2024-01-01', 0)"
                self.lake.sql(f"INSERT INTO t VALUES {row}", write=True)
                written[0] += 1
                if written[0] % 5 == 0:
                    delete(number + 2)

        writer = threading.Thread(target=write)
        writer.start()
        conflicts = turns = 0
        began = time.monotonic()
        try:
            while turns < 5 or time.monotonic() - began < 20:
                conflicts += self.table.compact(force=True).conflicts
                turns += 1
        finally:
            done.set()
            writer.join()
        found = self.lake.sql("SELECT count(*), count(DISTINCT id) FROM t WHERE id < -1").collect()[0]
        expected = written[0] - lost[0]
        if tuple(found) != (expected, expected):
            raise SystemExit(f"{expected} rows were acknowledged, {found} are there")
        seconds = time.monotonic() - began
        detail = f"{turns} compactions beside {written[0] + lost[0]} commits: {conflicts} conflicts, "
        detail += f"{again[0]} deletes made again, nothing lost"
        self._add("beside a writer", seconds, None, detail)

    # ----------------------------------------------------------------------------------------------------------- tools

    def _warm_up(self) -> None:
        table = self._make("warm", 6, 300, 1)
        base = table.history()[0].snapshot
        for _ in range(3):
            table.compact()
            table.rollback(str(base))
            self.lake.sql("CALL lake.system.rewrite_data_files(table => 'warm')", write=True).collect()
            table.rollback(str(base))
            for text in QUERIES.values():
                self.lake.sql(text.format(t="warm")).collect()

    def _make(self, name: str, files: int, kilobytes: int, partitions: int) -> LakeTable:
        self.lake.tables.create(name, COLUMNS, partition_by=() if partitions == 1 else ("part",))
        table = self.lake.table(name)
        table.set({"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"})
        rows = files * kilobytes * 1000 // ROW_BYTES
        chosen = self.lake.spark.sql(ROWS.format(rows=rows, tasks=max(1, files // partitions), partitions=partitions))
        chosen.writeTo(table.name.sql).append()
        table.unset(["write.distribution-mode", "write.spark.fanout.enabled"])
        return table

    def _measure(self, what: str, work: Callable[[], None]) -> float:
        best = float("inf")
        for _ in range(self.given.turns):
            self._reset()
            before = self._cpu()
            took = _seconds(work)
            used = self._cpu() - before
            self.cpu[what] = min(self.cpu.get(what, used), used)
            best = min(best, took)
            print(f"  {what}: {took:.2f} s, {used:.1f} s of CPU", flush=True)
        return best

    def _cpu(self) -> float:
        """Seconds that this process and Spark's have worked so far, on all cores."""
        fields = Path(f"/proc/{self._java}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _content(self) -> Any:
        lineage = "SELECT *, _row_id AS r, _last_updated_sequence_number AS q FROM t"
        return self.lake.sql(f"SELECT {SEEN} FROM ({lineage})").collect()

    def _reset(self) -> None:
        if self.table.history()[0].snapshot != self.base:
            self.table.rollback(str(self.base))

    def _layout(self) -> str:
        files = self.table.files()
        return f"{len(files):,} files of {sum(row.bytes for row in files) / 1e6:.0f} MB"

    def _add(self, what: str, seconds: float, ratio: float | None, detail: str) -> None:
        given = self.given
        self.figures.append(
            Figure(
                self.count,
                self.size // self.count // 1000,
                given.partitions,
                what,
                round(seconds, 3),
                ratio and round(ratio, 2),
                detail,
            )
        )


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _shares(spent: Mapping[str, float], whole: float) -> str:
    """Of the whole time; reading and writing are of several threads, and share what files took."""
    files, worked = spent["files"], {name: spent[name] for name in ("reading", "writing") if name in spent}
    parts = {name: spent[name] for name in ("planning", "committing")}
    if "reading" in worked:
        parts |= {name: files * seconds / sum(worked.values()) for name, seconds in worked.items()}
    else:
        parts["copying"] = files
    return ", ".join(f"{name} {seconds / max(whole, 1e-9):.0%}" for name, seconds in parts.items())


@contextmanager
def _timed(owner: Any, name: str, label: str, spent: dict[str, float]) -> Iterator[None]:
    """Adds up what the calls of a function take."""
    real = getattr(owner, name)

    def call(*args: Any, **words: Any) -> Any:
        began = time.monotonic()
        try:
            return real(*args, **words)
        finally:
            spent[label] = spent.get(label, 0.0) + time.monotonic() - began

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, real)


if __name__ == "__main__":
    main()
