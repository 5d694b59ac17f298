"""How long it takes to read what changed in a table, beside the ways a user of Spark and Iceberg has without Névé.

Every figure is the median of several changes of the same kind, all ways taking turns on each of them, and a ratio to
`EXCEPT ALL` of the two snapshots both ways. Each way ends in the same aggregate (net weight and sum by key), and all
must agree. Prints tables and writes bench/results/changes.json after each; the machine may be noisy, so compare ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from neve import Lake
from neve.errors import NeveError

RESULTS = Path(__file__).parent / "results" / "changes.json"
APPENDED, CHANGED = 10_000, 1_000
LARGE = 10_000_000  # rows from which reading them all gains nothing by a turn to get warm


@dataclass(frozen=True)
class Figure:
    rows: int
    files: int
    mode: str
    change: str
    way: str
    seconds: float | None
    ratio: float | None
    jobs: int | None

    @property
    def cell(self) -> tuple[int, int, str, str]:
        return self.rows, self.files, self.mode, self.change


@dataclass(frozen=True)
class Table:
    lake: Lake
    name: str
    rows: int
    files: int

    def sql(self, text: str) -> DataFrame:
        return self.lake.spark.sql(text)

    def head(self) -> int:
        return self.lake.table(self.name).history()[0].snapshot

    def fill(self, mode: str) -> None:
        modes = "".join(f", 'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
        self.sql(f"DROP TABLE IF EXISTS lake.default.{self.name}")
        self.sql(
            f"CREATE TABLE lake.default.{self.name}"
            " (id BIGINT, customer BIGINT, amount DOUBLE, day DATE, a BIGINT, b INT)"
            f" USING iceberg TBLPROPERTIES ('format-version'='3', 'write.distribution-mode'='none'{modes})"
        )
        self.insert(0, self.rows, self.files)

    def insert(self, start: int, end: int, files: int) -> None:
        self.sql(
            f"INSERT INTO lake.default.{self.name} SELECT id, CAST(pmod(hash(id), 1000000) AS BIGINT),"
            f" CAST(pmod(id * 31, 997) AS DOUBLE), DATE'2026-01-01' + CAST(id % 30 AS INT), id * 7, hash(id)"
            f" FROM range({start}, {end}, 1, {files})"
        )

    def append(self, turn: int) -> None:
        start = self.rows + turn * APPENDED
        self.insert(start, start + APPENDED, 1)

    def change_one_file(self, turn: int) -> None:
        start = self.rows // self.files // 2 + turn * CHANGED
        self._change(f"id BETWEEN {start} AND {start + CHANGED * 9 // 10 - 1}")
        self._delete(f"id BETWEEN {start + CHANGED * 9 // 10} AND {start + CHANGED - 1}")

    def change_all_files(self, turn: int) -> None:
        step = self.rows // CHANGED
        self._change(f"id < {self.rows} AND id % {step} = {turn + 1} AND id % 10 <> 0")
        self._delete(f"id < {self.rows} AND id % {step * 10} = {turn + 1}")

    def _change(self, where: str) -> None:
        self.sql(f"UPDATE lake.default.{self.name} SET amount = amount + 1 WHERE {where}")

    def _delete(self, where: str) -> None:
        self.sql(f"DELETE FROM lake.default.{self.name} WHERE {where}")


Way = Callable[[Table, int, int], DataFrame]


def with_neve(table: Table, since: int, until: int) -> DataFrame:
    return table.lake.changes(table.name, since, until, ["customer", "amount"])


def with_two_reads(table: Table, since: int, until: int) -> DataFrame:
    """Névé's general road: the two snapshots once each, netted by one aggregation."""
    from neve.model.names import TableName
    from neve.services.row_changes import changes_between

    return changes_between(
        table.lake._context,
        TableName.parse(table.name),
        since=str(since),
        until=str(until),
        columns=["customer", "amount"],
        road="general",
    ).frame()


def with_except_all(table: Table, since: int, until: int) -> DataFrame:
    old, new = (f"SELECT customer, amount FROM lake.default.{table.name} VERSION AS OF {at}" for at in (since, until))
    return table.sql(
        f"SELECT *, 1L AS _w FROM (({new}) EXCEPT ALL ({old})) UNION ALL"
        f" SELECT *, -1L AS _w FROM (({old}) EXCEPT ALL ({new}))"
    )


def with_changelog_view(table: Table, since: int, until: int) -> DataFrame:
    options = f"map('start-snapshot-id', '{since}', 'end-snapshot-id', '{until}')"
    table.sql(
        f"CALL lake.system.create_changelog_view(table => 'default.{table.name}', options => {options},"
        " changelog_view => 'changelog')"
    )
    return table.sql("SELECT customer, amount, IF(_change_type = 'INSERT', 1L, -1L) AS _w FROM changelog")


WAYS: dict[str, Way] = {
    "EXCEPT ALL both ways": with_except_all,
    "create_changelog_view": with_changelog_view,
    "neve, general road": with_two_reads,
    "neve": with_neve,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, help="3, or 1 of the large ones")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--files", type=int, nargs="+")
    parser.add_argument("--large", action="store_true", help="30 million rows in 30 and in 1,000 files")
    given = parser.parse_args()
    rows, counts = (30_000_000, [30, 1_000]) if given.large else (given.rows, [30, 300])
    counts = given.files or counts
    turns = given.turns or (1 if rows >= LARGE else 3)
    with (
        tempfile.TemporaryDirectory(prefix="neve-bench-changes-") as folder,
        Lake.create(Path(folder) / "lake") as lake,
    ):
        for files in counts:
            for mode in ("merge-on-read", "copy-on-write"):
                found = measure(Table(lake, "facts", rows, files), mode, turns)
                show(found)
                keep(found)


def keep(figures: list[Figure]) -> None:
    """Figures of cells that were not measured again stay as they were."""
    held = [Figure(**item) for item in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    anew = {figure.cell for figure in figures}
    every = [*(figure for figure in held if figure.cell not in anew), *figures]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(figure) for figure in every], indent=2) + "\n")


def measure(table: Table, mode: str, turns: int) -> list[Figure]:
    table.fill(mode)
    changes = {
        f"{APPENDED:,} rows appended": table.append,
        f"{CHANGED:,} updates and deletes in one file": table.change_one_file,
        f"{CHANGED:,} updates and deletes over all files": table.change_all_files,
    }
    return [figure for change, apply in changes.items() for figure in measure_change(table, mode, change, apply, turns)]


def measure_change(table: Table, mode: str, change: str, apply: Callable[[int], None], turns: int) -> list[Figure]:
    """One turn to get warm, then `turns` that count; ways that fail are shown as such."""
    warming = {"neve": with_neve} if table.rows >= LARGE else WAYS
    taken: dict[str, list[tuple[float, int]]] = {way: [] for way in WAYS}
    for turn in range(turns + 1):
        since = table.head()
        apply(turn)
        until = table.head()
        answers = {way: timed(table, read, since, until) for way, read in (WAYS if turn else warming).items()}
        good = {way: answer for way, answer in answers.items() if answer is not None}
        if len({answer.text for answer in good.values()}) != 1:
            raise SystemExit(f"{change}: the ways do not agree: {good}")
        for way, answer in good.items():
            if turn > 0:
                taken[way].append((answer.seconds, answer.jobs))
    seconds = {way: statistics.median(time for time, _ in found) for way, found in taken.items() if found}
    slowest = seconds["EXCEPT ALL both ways"]
    return [
        Figure(
            rows=table.rows,
            files=table.files,
            mode=mode,
            change=change,
            way=way,
            seconds=round(seconds[way], 3) if way in seconds else None,
            ratio=round(seconds[way] / slowest, 4) if way in seconds else None,
            jobs=found[-1][1] if found else None,
        )
        for way, found in taken.items()
    ]


@dataclass(frozen=True)
class Answer:
    text: str
    seconds: float
    jobs: int


def timed(table: Table, read: Way, since: int, until: int) -> Answer | None:
    """The net changes by one way, boiled down to a few numbers; None when that way does not work here."""
    scheduler: Any = table.lake.spark.sparkContext._jsc.sc().dagScheduler()
    before, began = scheduler.numTotalJobs(), time.monotonic()
    try:
        rows = read(table, since, until).selectExpr("sum(_w)", "sum(_w * customer)", "sum(_w * amount)").collect()
    except NeveError:
        raise
    except Exception:  # noqa: BLE001 - Spark says in many ways that it cannot
        return None
    return Answer(str(rows), time.monotonic() - began, scheduler.numTotalJobs() - before)


def show(figures: list[Figure]) -> None:
    first = figures[0]
    print(f"\n{first.rows:,} rows in {first.files:,} files, {first.mode}")
    width = max(len(figure.way) for figure in figures)
    for change in dict.fromkeys(figure.change for figure in figures):
        print(f"  {change}")
        for figure in (figure for figure in figures if figure.change == change):
            if figure.seconds is None or figure.ratio is None:
                print(f"    {figure.way:{width}}  does not work")
            else:
                print(f"    {figure.way:{width}}  {figure.seconds:7.2f} s  {figure.ratio:7.4f}  {figure.jobs} jobs")


if __name__ == "__main__":
    main()
