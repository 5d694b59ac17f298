"""How long a refresh of a dynamic table takes, beside computing its query anew by what a user has without Névé.

One warm session. For each size, query and share of changed rows: the facts are changed (half of it appended, a quarter
updated, a quarter deleted, in one range), and then every way brings its table up to date, in turns on the same changes.
All must agree. Figures are medians, and ratios to a plain recompute by Spark; compare ratios, the machine may be noisy.
`python -m bench.refresh` prints a table, and writes bench/results/refresh.json (cells that were not run again stay as
they were) and refresh.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.drawing import draw

from neve import Lake

RESULTS = Path(__file__).parent / "results"
QUERIES = {
    "group": "SELECT customer, count(*) AS n, sum(amount) AS total FROM {facts} GROUP BY customer",
    "join": "SELECT f.id, f.amount, d.name, d.region FROM {facts} f JOIN {dims} d ON f.customer = d.customer",
    "join_group": "SELECT d.region, count(*) AS n, sum(f.amount) AS total FROM {facts} f"
    " JOIN {dims} d ON f.customer = d.customer GROUP BY d.region",
    "window": "SELECT id, customer, amount, sum(amount) OVER (PARTITION BY customer) AS total FROM {facts}",
    "not_exists": "SELECT customer, name FROM {dims} d"
    " WHERE NOT EXISTS (SELECT 1 FROM {facts} f WHERE f.customer = d.customer)",
}
CLUSTERED = {"join": "id", "window": "customer"}  # as one would a large result; every way's table is laid out alike
TELLING = {"group": (0.001, 0.01, 0.5), "join": (0.001,)}  # shares that change by default: under 15 minutes in all
SMALL = 300_000  # rows of the facts that Java compiles everything on
WARM_UP, OTHERS_WARM_UP = 60, 20  # turns until most of it is: most of a refresh is code that runs once in each
FULL, NEVE, MERGE, DUCKDB = "Spark, computed anew", "Névé", "MERGE over changelog view", "DuckDB, computed anew"


@dataclass(frozen=True)
class Figure:
    rows: int
    query: str
    share: float
    way: str
    seconds: float | None
    ratio: float | None
    jobs: int | None
    action: str | None
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))

    @property
    def cell(self) -> tuple[int, str, float]:
        return self.rows, self.query, self.share


@dataclass
class Facts:
    """Facts twice: as Névé's tables are (merge-on-read), and as the changelog view needs them (copy-on-write)."""

    lake: Lake
    rows: int
    next_id: int = 0
    first_id: int = 0

    def sql(self, text: str) -> Any:
        return self.lake.spark.sql(text).collect()

    def fill(self) -> None:
        groups = max(1_000, self.rows // 30)
        columns = "id BIGINT, customer BIGINT, amount BIGINT, day DATE"
        for name, mode in (("facts", "merge-on-read"), ("facts_cow", "copy-on-write")):
            modes = "".join(f", 'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
            self.sql(
                f"CREATE TABLE lake.default.{name} ({columns}) USING iceberg"
                f" TBLPROPERTIES ('format-version'='3'{modes})"
            )
        self._insert(self.rows, files=max(2, self.rows // 1_000_000))
        self.sql(
            "CREATE TABLE lake.default.dims USING iceberg TBLPROPERTIES ('format-version'='3') AS"
            " SELECT id AS customer, concat('name', id) AS name, concat('r', id % 50) AS region"
            f" FROM range(0, {groups + groups // 10}, 1, 1)"
        )

    def _insert(self, count: int, files: int) -> None:
        groups = max(1_000, self.rows // 30)
        chosen = (
            f"SELECT id, pmod(hash(id), {groups}) AS customer, pmod(id * 31, 997) AS amount,"
            f" DATE'2026-01-01' + CAST(id % 30 AS INT) AS day"
            f" FROM range({self.next_id}, {self.next_id + count}, 1, {files})"
        )
        for name in ("facts", "facts_cow"):
            self.sql(f"INSERT INTO lake.default.{name} {chosen}")
        self.next_id += count

    def change(self, share: float) -> None:
        """So large a share of the rows, all in one range of ids that only moves on."""
        count = max(4, int(self.rows * share))
        middle, end = self.first_id + count // 4, self.first_id + count // 2
        for name in ("facts", "facts_cow"):
            self.sql(f"UPDATE lake.default.{name} SET amount = amount + 1 WHERE id BETWEEN {middle} AND {end - 1}")
            self.sql(f"DELETE FROM lake.default.{name} WHERE id BETWEEN {self.first_id} AND {middle - 1}")
        self.first_id = middle
        self._insert(count // 2, 1 if count < 2_000_000 else count // 1_000_000)


@dataclass
class Ways:
    """Each way with a table of its own, for one query."""

    facts: Facts
    query: str
    since: int | None = None

    def text(self, facts: str) -> str:
        return QUERIES[self.query].format(facts=f"lake.default.{facts}", dims="lake.default.dims")

    def prepare(self) -> None:
        plain = QUERIES[self.query].format(facts="facts", dims="dims")
        by = CLUSTERED.get(self.query)
        options = f"TARGET_LAG = '5 minutes' {f'CLUSTER BY ({by})' if by else ''}"
        self.facts.lake.dynamic.create(f"CREATE DYNAMIC TABLE {self.query} {options} AS {plain}")
        for way in ("anew", "merged"):
            self.facts.sql(
                f"CREATE TABLE lake.default.{self.query}_{way} USING iceberg TBLPROPERTIES ('format-version'='3')"
                f" AS {self.text('facts')}"
            )
            if by:
                self.facts.sql(f"ALTER TABLE lake.default.{self.query}_{way} WRITE ORDERED BY {by}")
        self.since = self._head()

    def _head(self) -> int:
        return self.facts.lake.table("facts_cow").history()[0].snapshot

    def all(self) -> dict[str, Callable[[], str | None]]:
        ways: dict[str, Callable[[], str | None]] = {FULL: self.anew, NEVE: self.refresh}
        if self.query in ("group", "join"):
            ways[MERGE] = self.merge
        return {**ways, DUCKDB: self.duckdb}

    def anew(self) -> None:
        self.facts.sql(f"INSERT OVERWRITE lake.default.{self.query}_anew {self.text('facts')}")

    def refresh(self) -> str:
        receipt = self.facts.lake.dynamic.refresh([self.query])[0]
        return f"{receipt.refresh}, {receipt.details.get('apply', 'nothing written')}"

    def merge(self) -> None:
        """What a careful user writes by hand."""
        until = self._head()
        options = f"map('start-snapshot-id', '{self.since}', 'end-snapshot-id', '{until}')"
        self.facts.sql(
            f"CALL lake.system.create_changelog_view(table => 'default.facts_cow', options => {options},"
            " changelog_view => 'changelog')"
        )
        changed = "id, customer, amount"
        net = (
            f"SELECT {changed}, sum(IF(_change_type = 'INSERT', 1L, -1L)) AS w FROM changelog"
            f" GROUP BY {changed} HAVING w <> 0"
        )
        if self.query == "group":
            delta = f"SELECT customer, sum(w) AS n, sum(w * amount) AS total FROM ({net}) GROUP BY 1"
            self.facts.sql(
                f"MERGE INTO lake.default.group_merged t USING ({delta}) s ON t.customer <=> s.customer"
                " WHEN MATCHED AND t.n + s.n = 0 THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total"
                " WHEN NOT MATCHED THEN INSERT *"
            )
        else:
            last = f"SELECT id, max_by(struct(customer, amount), w) AS r, max(w) AS w FROM ({net}) GROUP BY id"
            delta = (
                f"SELECT c.id, c.r.amount, d.name, d.region, c.w FROM ({last}) c"
                " LEFT JOIN lake.default.dims d ON c.r.customer = d.customer"
            )
            self.facts.sql(
                f"MERGE INTO lake.default.join_merged t USING ({delta}) s ON t.id = s.id"
                " WHEN MATCHED AND s.w < 0 THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET amount = s.amount, name = s.name, region = s.region"
                " WHEN NOT MATCHED AND s.w > 0 THEN INSERT (id, amount, name, region)"
                " VALUES (s.id, s.amount, s.name, s.region)"
            )
        self.since = until

    def duckdb(self) -> None:
        """Over the files of the copy-on-write table, which have no deletes, into a Parquet file."""
        import duckdb

        def files(name: str) -> str:
            rows = self.facts.lake.table(name).files()
            return f"read_parquet({[row.path.removeprefix('file:') for row in rows]})"

        text = QUERIES[self.query].format(facts=files("facts_cow"), dims=files("dims"))
        with tempfile.NamedTemporaryFile(suffix=".parquet") as out:
            duckdb.sql(f"COPY ({text}) TO '{out.name}' (FORMAT parquet)")

    def check(self) -> None:
        """All tables hold the same rows."""
        tables = [
            self.query,
            f"{self.query}_anew",
            *([f"{self.query}_merged"] if self.query in ("group", "join") else []),
        ]
        names = ", ".join(field.name for field in self.facts.lake.spark.table(f"lake.default.{self.query}_anew").schema)
        found = {
            str(
                self.facts.sql(f"SELECT count(*), sum(CAST(hash({names}) AS DECIMAL(38, 0))) FROM lake.default.{table}")
            )
            for table in tables
        }
        if len(found) != 1:
            raise SystemExit(f"{self.query}: the ways do not agree: {found}")


@contextmanager
def filled(rows: int) -> Iterator[Facts]:
    with tempfile.TemporaryDirectory(prefix="neve-bench-refresh-") as folder, Lake.create(Path(folder) / "l") as lake:
        facts = Facts(lake, rows)
        facts.fill()
        yield facts


def warm_up(queries: list[str]) -> None:
    """The session is to be warm, as a worker's is: every way, on a small table."""
    with filled(SMALL) as facts:
        for query in queries:
            ways = Ways(facts, query)
            ways.prepare()
            for turn in range(WARM_UP):
                facts.change(0.01)
                for way, run in ways.all().items():
                    if way == NEVE or turn < OTHERS_WARM_UP:
                        run()


def measure(facts: Facts, ways: Ways, share: float, turns: int) -> Iterator[Figure]:
    """A turn for the files to be in memory, then `turns` that count."""
    scheduler: Any = facts.lake.spark.sparkContext._jsc.sc().dagScheduler()
    taken: dict[str, list[tuple[float, int, str | None]]] = {way: [] for way in ways.all()}
    for turn in range(-1, turns):
        facts.change(share)
        for way, run in ways.all().items():
            jobs, began = scheduler.numTotalJobs(), time.monotonic()
            said = run()
            if turn >= 0:
                taken[way].append((time.monotonic() - began, scheduler.numTotalJobs() - jobs, said))
        ways.check()
    medians = {way: statistics.median(seconds for seconds, _, _ in found) for way, found in taken.items()}
    for way, found in taken.items():
        yield Figure(
            rows=facts.rows,
            query=ways.query,
            share=share,
            way=way,
            seconds=round(medians[way], 3),
            ratio=round(medians[way] / medians[FULL], 4),
            jobs=None if way == DUCKDB else found[-1][1],
            action=found[-1][2],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--shares", type=float, nargs="+", help="of the facts that change")
    parser.add_argument("--queries", nargs="+", choices=list(QUERIES), default=list(TELLING))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--grid", action="store_true", help="1 to 100 million rows, every share and every query")
    given = parser.parse_args()
    if given.grid:
        given.rows, given.queries = [1_000_000, 10_000_000, 30_000_000, 100_000_000], list(QUERIES)
        given.shares = [0.0001, 0.001, 0.01, 0.1, 0.5]
    warm_up(given.queries)
    for rows in given.rows:
        with filled(rows) as facts:
            for query in given.queries:
                ways = Ways(facts, query)
                ways.prepare()
                for share in given.shares or TELLING.get(query, (0.001,)):
                    keep(list(measure(facts, ways, share, given.turns)))


def keep(figures: list[Figure]) -> None:
    """Shows new figures, and puts them in the place of earlier ones of the same cell."""
    first = figures[0]
    print(f"\n{first.rows:,} rows, {first.query}, {first.share:.2%} changed; load {first.load}")
    for figure in figures:
        told = f"{figure.jobs} jobs" if figure.jobs is not None else ""
        print(
            f"  {figure.way:28} {figure.seconds:8.2f} s {figure.ratio:8.3f}  {told}  {figure.action or ''}", flush=True
        )
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "refresh.json"
    known = [Figure(**item) for item in json.loads(path.read_text())] if path.exists() else []
    every = [*(figure for figure in known if figure.cell != first.cell), *figures]
    every.sort(key=lambda figure: (figure.rows, figure.query, figure.share))
    path.write_text(json.dumps([asdict(figure) for figure in every], indent=2) + "\n")
    (RESULTS / "refresh.svg").write_text(draw_refresh(every))


def draw_refresh(figures: list[Figure]) -> str:
    """A panel for each size and query: the ratio of each way over the share that changed."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for figure in figures:
        if figure.ratio is not None:
            panel = panels.setdefault(f"{figure.query}, {figure.rows:,} rows", {})
            panel.setdefault(figure.way, []).append((figure.share, figure.ratio))
    return draw(panels, across="share of the facts that changed", up="time, as a ratio to Spark computing it anew")


if __name__ == "__main__":
    main()
