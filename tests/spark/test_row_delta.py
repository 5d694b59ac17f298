"""Changes put into dynamic tables by both ways: rows marked and added in one commit, and a MERGE on a branch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.dynamic_oracle import differences

from neve.engine import staging
from neve.engine.row_delta import RowDelta
from neve.errors import CommitConflict
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.results import Reason
from neve.plan.applying import ApplyPlan
from neve.services.dynamic import carrying, deciding

SUMS = "SELECT k, count(*) AS n, sum(m) AS total FROM {ns}.s GROUP BY k"
QUERIES = {
    "sums": ("", SUMS),
    "sums_by_key": ("PARTITIONED BY (bucket(2, k)) CLUSTER BY (n)", SUMS),
    "kinds": ("", "SELECT k, count(DISTINCT x) AS xs, max(d) AS last FROM {ns}.s GROUP BY k"),
    "floats": ("", "SELECT x, count(*) AS n FROM {ns}.s GROUP BY x"),
    "bag": ("", "SELECT k, x, d FROM {ns}.s WHERE m IS NOT NULL"),
    "bag_by_day": ("PARTITIONED BY (d) CLUSTER BY (k)", "SELECT s.d, s.k, r.name FROM {ns}.s JOIN {ns}.r ON s.k = r.k"),
    "total": ("", "SELECT count(*) AS n, sum(m) AS total FROM {ns}.s"),
    "window": ("CLUSTER BY (k)", "SELECT k, m, x, sum(m) OVER (PARTITION BY k) AS total FROM {ns}.s"),
    "without": ("", "SELECT k, name FROM {ns}.r r WHERE NOT EXISTS (SELECT 1 FROM {ns}.s s WHERE s.k = r.k)"),
}
BOTH_WAYS = [query for query in QUERIES if query != "sums"]
NAN, ZERO = "CAST('NaN' AS DOUBLE)", "CAST('-0.0' AS DOUBLE)"
HISTORY = {
    "rows come, some equal to others": [
        f"INSERT INTO {{ns}}.s VALUES (1, 1, {NAN}, DATE'2024-01-01'), (null, 5, 0.0, null), (3, 2, {ZERO}, null)"
    ],
    "one of equal rows goes, keys move": [
        "DELETE FROM {ns}.s WHERE m = 7",
        "UPDATE {ns}.s SET k = 2 WHERE k IS NULL AND m = 5",
        "UPDATE {ns}.r SET name = 'other' WHERE k = 2",
    ],
    "targets are compacted": [],
    "from the same files again, and equal ones come": [
        "DELETE FROM {ns}.s WHERE k = 1 AND d = DATE'2024-01-01'",
        f"INSERT INTO {{ns}}.s VALUES (2, 3, 1.5, DATE'2024-01-02'), (2, 3, 1.5, DATE'2024-01-02'),"
        f" (null, 1, {NAN}, null)",
    ],
    "everything goes": ["DELETE FROM {ns}.s"],
    "and something comes": [f"INSERT INTO {{ns}}.s VALUES (1, 1, {ZERO}, null), (1, 1, 0.0, null)"],
}


class Lakes:
    """A source, a second one to join, and each query as two tables: one takes the row delta, the other the MERGE."""

    def __init__(self, lake: Lake, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake, self.spark, self.namespace, self._patch = lake, spark, namespace, monkeypatch
        lake.tables.create(f"{namespace}.s", "k bigint, m decimal(10,2), x double, d date")
        lake.tables.create(f"{namespace}.r", "k bigint, name string")
        self.write(
            "INSERT INTO {ns}.r VALUES (1, 'a'), (2, 'b'), (3, null)",
            f"INSERT INTO {{ns}}.s VALUES (1, 1, 1.5, DATE'2024-01-01'), (1, 1, 1.5, DATE'2024-01-01'),"
            f" (2, 7, 1.5, DATE'2024-01-02'), (2, 3, 1.5, DATE'2024-01-02'), (2, 3, 1.5, DATE'2024-01-02'),"
            f" (null, null, {NAN}, null), (3, 4, {ZERO}, DATE'2024-02-01'), (3, 4, 0.0, DATE'2024-02-01')",
        )

    def write(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("{ns}", f"lake.{self.namespace}")).collect()

    def declare(self, name: str, query: str) -> None:
        options, text = QUERIES[query]
        self.lake.dynamic.create(
            f"CREATE DYNAMIC TABLE {self.namespace}.{name} TARGET_LAG = '5 minutes' {options} AS "
            + text.replace("{ns}", self.namespace)
        )

    def refresh(self, *names: str, way: str = "row_delta") -> dict[str, Any]:
        with self._patch.context() as patch:
            if way == "merge":
                asked = ApplyPlan("merge", Reason(code="asked", detail="a test asks for it"))
                patch.setattr(deciding, "plan_apply", lambda *_, **__: asked)
            done = self.lake.dynamic.refresh([f"{self.namespace}.{name}" for name in names])
        return {TableName.parse(receipt.table).name: receipt for receipt in done}

    def check(self, **queries: str) -> None:
        """The oracle: both ways EXCEPT ALL of the query as it was written; one job for all tables."""
        wrong = [side for name, query in queries.items() for side in self._differences(name, query)]
        assert self.spark.sql(" UNION ALL ".join(wrong)).collect() == []

    def _differences(self, name: str, query: str) -> list[str]:
        shown = [column.name for column in self.lake.table(f"{self.namespace}.{name}").show().columns]
        visible = ", ".join(column for column in shown if not column.startswith("_neve_"))
        text = QUERIES[query][1].replace("{ns}", f"lake.{self.namespace}")
        sides = (f"SELECT {visible} FROM lake.{self.namespace}.{name}", f"SELECT {visible} FROM ({text})")
        return [
            f"SELECT '{name}', to_json(struct(*)) FROM ({one} EXCEPT ALL {other})"
            for one, other in (sides, sides[::-1])
        ]


@pytest.fixture
def lakes(spark_lake: Lake, quick: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Lakes:
    return Lakes(spark_lake, quick, namespace, monkeypatch)


def test_both_ways_over_the_same_history(lakes: Lakes) -> None:
    for query in BOTH_WAYS:
        lakes.declare(query, query)
        lakes.declare(f"{query}_merged", query)
    for step, statements in HISTORY.items():
        lakes.write(*statements)
        if step == "targets are compacted":
            for query in BOTH_WAYS:
                target = f"lake.{lakes.namespace}.{query}"
                lakes.write(
                    f"CALL lake.system.rewrite_data_files(table => '{target}', options => map('rewrite-all', 'true'))"
                )
            continue
        fast, merged = lakes.refresh(*BOTH_WAYS), lakes.refresh(*(f"{q}_merged" for q in BOTH_WAYS), way="merge")
        for query in BOTH_WAYS:
            one, other = fast[query], merged[f"{query}_merged"]
            assert (one.refresh, one.rows_inserted, one.rows_deleted) == (
                (other.refresh, other.rows_inserted, other.rows_deleted)
            ), (step, query)
            if one.rows_inserted + one.rows_deleted:
                assert (one.strategy, other.strategy) == ("row_delta", "merge"), (step, query)
        lakes.check(**{q: q for q in BOTH_WAYS}, **{f"{q}_merged": q for q in BOTH_WAYS})


MAPS = "SELECT k, map('k', k, 'm', m) AS flat, named_struct('at', map('d', d)) AS deep FROM {ns}.s"


@pytest.mark.parametrize("way", ["row_delta", "merge"])
def test_rows_that_hold_maps_are_found(lakes: Lakes, way: str) -> None:
    name, query = f"{lakes.namespace}.maps", MAPS.replace("{ns}", lakes.namespace)
    lakes.lake.dynamic.create(f"CREATE DYNAMIC TABLE {name} TARGET_LAG = '5 minutes' AS {query}")
    lakes.write("DELETE FROM {ns}.s WHERE m = 7", "INSERT INTO {ns}.s VALUES (2, 3, 1.5, DATE'2024-01-02')")
    done = lakes.refresh("maps", way=way)["maps"]
    assert (done.refresh, done.strategy, done.rows_inserted, done.rows_deleted) == ("INCREMENTAL", way, 1, 1)
    assert (
        differences(lakes.lake, lakes.spark, {f"{lakes.namespace}.maps": MAPS.replace("{ns}", lakes.namespace)}) == {}
    )


RIVALS: dict[str, tuple[str, Callable[[Lakes], object]]] = {
    "append": ("bag_by_day", lambda it: it.write("INSERT INTO {ns}.bag_by_day SELECT * FROM {ns}.bag_by_day LIMIT 1")),
    "delete": ("bag_by_day", lambda it: it.write("DELETE FROM {ns}.bag_by_day WHERE k = 3 AND name IS NULL")),
    "delete of a whole file elsewhere": (
        "bag_by_day",
        lambda it: it.write("DELETE FROM {ns}.bag_by_day WHERE d = DATE'2024-02-01'"),
    ),
    "compaction": (
        "sums",
        lambda it: it.write(
            f"CALL lake.system.rewrite_data_files(table => 'lake.{it.namespace}.sums',"
            " options => map('rewrite-all', 'true'))"
        ),
    ),
    "refresher": ("sums", lambda it: it.refresh("sums")),
}


@pytest.mark.parametrize("moment", ["_attempt", "_row_delta"])
def test_a_rival_between_reading_and_committing_wins(
    lakes: Lakes, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before the last look at the table, and between that look and the commit."""
    for query in ("bag_by_day", "sums"):
        lakes.declare(query, query)
    real = getattr(RowDelta, moment)
    # The later moment is guarded by the one comparison of snapshots, whoever the rival is.
    rivals = RIVALS if moment == "_attempt" else {name: RIVALS[name] for name in ("delete", "refresher")}
    for rival, (table, act) in rivals.items():
        lakes.write("INSERT INTO {ns}.s VALUES (1, 1, 1.5, DATE'2024-01-01')", "DELETE FROM {ns}.s WHERE m = 7")

        def disturbed(self: RowDelta, *args: Any, act: Callable[[Lakes], object] = act) -> Any:
            setattr(RowDelta, moment, real)
            act(lakes)
            return real(self, *args)

        setattr(RowDelta, moment, disturbed)
        try:
            with pytest.raises(CommitConflict):
                lakes.lake.dynamic.refresh([f"{lakes.namespace}.{table}"])
        finally:
            setattr(RowDelta, moment, real)
        assert strays(lakes, table) == set(), f"{rival}: the loser left files behind"
        lakes.refresh(table)
        lakes.check(**{table: table})
        lakes.write("INSERT INTO {ns}.s VALUES (2, 7, 1.5, DATE'2024-01-02')")
        lakes.refresh(table)
    lakes.refresh("bag_by_day", "sums")
    lakes.check(bag_by_day="bag_by_day", sums="sums")


def test_a_rival_that_changes_no_row_does_not_matter(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    lakes.declare("sums", "sums")
    lakes.write("INSERT INTO {ns}.s VALUES (1, 1, 1.5, null)")
    real = RowDelta._row_delta

    def disturbed(self: RowDelta, *args: Any) -> Any:
        monkeypatch.setattr(RowDelta, "_row_delta", real)
        lakes.lake.table(f"{lakes.namespace}.sums").set({"mine": "1"})
        return real(self, *args)

    monkeypatch.setattr(RowDelta, "_row_delta", disturbed)
    (receipt,) = lakes.lake.dynamic.refresh([f"{lakes.namespace}.sums"])
    assert receipt.strategy == "row_delta"
    lakes.check(sums="sums")
    assert strays(lakes, "sums") == set()


class Disturbed:
    """Iceberg's table, but for what happens when its references are to be changed."""

    def __init__(self, iceberg: Any, manage: Callable[[Any], Any]) -> None:
        self._iceberg, self._manage = iceberg, manage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iceberg, name)

    def manageSnapshots(self) -> Any:  # noqa: N802 - Iceberg's name
        return self._manage(self._iceberg)


def test_nor_does_it_while_a_branch_is_made_and_published(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MERGE goes by a branch: commits of references, each of which may find the table's metadata changed."""
    lakes.declare("sums", "sums")
    lakes.write("INSERT INTO {ns}.s VALUES (1, 1, 1.5, null)")
    real, table = staging.load_iceberg, lakes.lake.table(f"{lakes.namespace}.sums")
    tries = itertools.count()

    def manage(iceberg: Any) -> Any:
        change = iceberg.manageSnapshots()
        if (number := next(tries)) % 2 == 0:
            table.set({"mine": str(number)})
        return change

    monkeypatch.setattr(staging, "load_iceberg", lambda spark, name: Disturbed(real(spark, name), manage))
    assert lakes.refresh("sums", way="merge")["sums"].strategy == "merge"
    assert next(tries) == 4, "making and publishing were tried twice; then nothing was left to remove"
    assert [row.name for row in table.references()] == ["main"]
    lakes.check(sums="sums")


def test_who_writes_while_a_branch_is_being_published_wins(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg looks at the table once more when it begins to publish, after we have."""
    lakes.declare("sums", "sums")
    lakes.write("INSERT INTO {ns}.s VALUES (1, 1, 1.5, null)")
    real = staging.load_iceberg

    def manage(iceberg: Any) -> Any:
        if len(list(iceberg.refs().keySet().toArray())) > 1:  # the branch is there, and to be published
            monkeypatch.setattr(staging, "load_iceberg", real)
            lakes.write("DELETE FROM {ns}.sums WHERE k = 3")
        return iceberg.manageSnapshots()

    monkeypatch.setattr(staging, "load_iceberg", lambda spark, name: Disturbed(real(spark, name), manage))
    with pytest.raises(CommitConflict, match="was written to meanwhile"):
        lakes.refresh("sums", way="merge")
    assert [row.name for row in lakes.lake.table(f"{lakes.namespace}.sums").references()] == ["main"]
    lakes.refresh("sums")
    lakes.check(sums="sums")


def test_few_changes_take_few_jobs_and_one_commit(lakes: Lakes) -> None:
    """Keyed rows: the changes to every task, rows written, places collected. A bag is counted and looked up besides."""
    for query in ("sums", "bag"):
        lakes.declare(query, query)
    for statement in ("INSERT INTO {ns}.s VALUES (1, 1, 1.5, null)", "DELETE FROM {ns}.s WHERE m = 7"):
        lakes.write(statement)
        for query, most in (("sums", 3), ("bag", 5)):
            snapshots = len(lakes.lake.table(f"{lakes.namespace}.{query}").history())
            jobs = jobs_of(lakes, partial(lakes.refresh, query))
            assert len(jobs) <= most, (statement, query, jobs)
            assert len(lakes.lake.table(f"{lakes.namespace}.{query}").history()) == snapshots + 1
        assert jobs_of(lakes, lambda: lakes.refresh("sums", "bag")) == [], "nothing is new"


@pytest.mark.parametrize("query", ["sums_by_key", "window"])
def test_many_rows_are_counted_once(lakes: Lakes, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """Rows that are to be divided by their order among tasks are computed twice, first to find out where to divide."""
    lakes.declare(query, query)
    monkeypatch.setattr(carrying, "MOST_MATCHED", 0)
    monkeypatch.setattr(carrying, "plan_small", lambda spark: spark.conf.set("spark.sql.shuffle.partitions", "4"))
    lakes.write("UPDATE {ns}.s SET m = m + 1 WHERE k < 3", "INSERT INTO {ns}.s VALUES (4, 1, 1.5, null)")
    done = lakes.refresh(query)[query]
    rows = {"sums_by_key": (3, 2), "window": (6, 5)}[query]
    assert (done.refresh, done.strategy, (done.rows_inserted, done.rows_deleted)) == ("INCREMENTAL", "row_delta", rows)
    lakes.check(**{query: query})


def jobs_of(lakes: Lakes, act: Callable[[], object]) -> list[str]:
    """The jobs that Spark runs meanwhile, each by the name of its last stage."""
    context: Any = lakes.spark.sparkContext._jsc.sc()
    before = context.dagScheduler().numTotalJobs()
    act()
    tracker, found = context.statusTracker(), []
    for job in range(before, context.dagScheduler().numTotalJobs()):
        info = tracker.getJobInfo(job)
        stage = tracker.getStageInfo(max(info.get().stageIds())) if info.isDefined() else info
        found.append(stage.get().name() if stage.isDefined() else "unknown")
    return found


def strays(lakes: Lakes, name: str) -> set[str]:
    """Files in the table's folder that no snapshot names. Iceberg's catalog itself leaves the metadata of a commit that
    lost."""
    table = f"lake.{lakes.namespace}.{name}"
    known = [
        *(f"SELECT file_path FROM {table}.{kind}" for kind in ("all_data_files", "all_delete_files")),
        f"SELECT path FROM {table}.all_manifests",
        f"SELECT manifest_list FROM {table}.snapshots",
    ]
    named = {Path(row[0].removeprefix("file:")).name for row in lakes.spark.sql(" UNION ".join(known)).collect()}
    location = Path(lakes.lake.table(f"{lakes.namespace}.{name}").show().location.removeprefix("file:"))
    there = {path.name for path in location.rglob("*") if path.is_file() and not path.name.startswith(".")}
    return {file for file in there - named if not file.endswith(".metadata.json")}
