"""Rounds of refreshes on real Spark and Iceberg: who fails, who goes on, who reads what, and what is remembered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from neve.errors import RefreshFailed
from neve.lake import Lake
from neve.model.names import TableName

Cli = Callable[..., tuple[int, str, str]]


class Work:
    """Numbers, and dynamic tables over them, in a namespace of their own."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self.lake, self.namespace = lake, namespace
        self.queries: dict[str, str] = {}
        lake.tables.create(f"{namespace}.numbers", "id bigint, v bigint")
        self.write("INSERT INTO {ns}.numbers VALUES (1, 10), (2, 20)")

    def write(self, *statements: str) -> None:
        for statement in statements:
            self.lake.sql(statement.replace("{ns}", self.namespace), write=True).collect()

    def declare(self, **queries: str) -> None:
        for name, query in queries.items():
            self.queries[name] = query.replace("{ns}", self.namespace)
            self.lake.dynamic.create(
                f"CREATE DYNAMIC TABLE {self.named(name)} TARGET_LAG = '5 minutes' AS {self.queries[name]}"
            )

    def round(self, *names: str, **options: Any) -> dict[str, Any]:
        """One round of these tables, or of all in the namespace; never of another test's."""
        chosen = [f"{'+' * name.startswith('+')}{self.named(name.strip('+'))}" for name in names or self.queries]
        receipts = self.lake.dynamic.round(chosen, **options).receipts
        return {TableName.parse(receipt.table).name: receipt for receipt in receipts}

    def check(self) -> None:
        """The oracle: every table is its query over what is there now."""
        for name, query in self.queries.items():
            assert self.bag(f"SELECT * FROM {self.named(name)}") == self.bag(query), name

    def bag(self, query: str) -> Counter[tuple[object, ...]]:
        return Counter(map(tuple, self.lake.sql(query).collect()))

    def named(self, name: str) -> str:
        return f"{self.namespace}.{name}"


@pytest.fixture
def work(spark_lake: Lake, namespace: str) -> Work:
    return Work(spark_lake, namespace)


def test_a_failure_leaves_out_only_what_is_below_it(work: Work, cli: Cli) -> None:
    work.declare(
        parts="SELECT id, 100 div v AS part FROM {ns}.numbers",
        sums="SELECT sum(part) AS total FROM {ns}.parts",
        deep="SELECT total FROM {ns}.sums WHERE total > 0",
        copy="SELECT id, v FROM {ns}.numbers",
        counts="SELECT count(*) AS n FROM {ns}.copy",
    )
    work.write("INSERT INTO {ns}.numbers VALUES (3, 0)")
    foreseen = work.round(dry_run=True)
    assert {name: receipt.refresh for name, receipt in foreseen.items()} == dict.fromkeys(work.queries, "INCREMENTAL")
    assert all(receipt.dry_run and receipt.state == "SCHEDULED" for receipt in foreseen.values())
    code, out, err = cli("dynamic", "refresh", *map(work.named, work.queries), "--parallel", "2", "-o", "json")
    told = {TableName.parse(row["table"]).name: row for row in json.loads(out)}
    assert (code, "2 that need them were left out" in err) == (1, True), err
    assert {name: row["state"] for name, row in told.items()} == {
        "parts": "FAILED",
        "sums": "UPSTREAM_FAILED",
        "deep": "UPSTREAM_FAILED",
        "copy": "SUCCEEDED",
        "counts": "SUCCEEDED",
    }
    assert told["deep"]["upstream"] == work.named("parts"), "the one that failed, not the one in between"
    for name in ("copy", "counts"):
        was = foreseen[name]
        assert (was.refresh, told[name]["rows_inserted"]) == (told[name]["refresh"], 1)
        assert was.reason.code in (told[name]["reason"]["code"], "parents_first")
    assert foreseen["copy"].reason.detail == told["copy"]["reason"]["detail"]
    assert work.bag(f"SELECT count(*) FROM {work.named('parts')}") == Counter([(2,)]), "as it was"
    with pytest.raises(RefreshFailed, match="1 of 3 tables failed"):
        work.lake.dynamic.refresh([work.named("parts")], downstream=True)
    work.write("UPDATE {ns}.numbers SET v = 5 WHERE id = 3")
    again = work.round("parts", "sums", "deep", parallel=1)
    assert {receipt.state for receipt in again.values()} == {"SUCCEEDED"}
    work.round()
    work.check()


def test_everything_that_a_table_reads_is_of_one_moment(work: Work) -> None:
    work.declare(
        totals="SELECT count(*) AS n, sum(v) AS total FROM {ns}.numbers",
        evens="SELECT id FROM {ns}.numbers WHERE v % 2 = 0",
    )
    work.write("INSERT INTO {ns}.numbers VALUES (3, 30)")
    work.declare(
        joined="SELECT t.n, t.total, s.n AS seen, s.total AS sum FROM {ns}.totals t "
        "CROSS JOIN (SELECT count(*) AS n, sum(v) AS total FROM {ns}.numbers) s"
    )
    assert work.bag(f"SELECT * FROM {work.named('joined')}") == Counter([(2, 30, 2, 30)]), "as its parent saw them"
    assert set(work.round("joined")) == {"joined"}
    assert set(work.round("+joined")) == {"totals", "joined"}
    assert work.bag(f"SELECT * FROM {work.named('joined')}") == Counter([(3, 60, 3, 60)])
    work.declare(both="SELECT t.n, (SELECT count(*) FROM {ns}.evens) AS evens FROM {ns}.totals t")
    assert work.bag(f"SELECT * FROM {work.named('both')}") == Counter([(3, 3)]), "evens was behind, and came along"
    work.write("INSERT INTO {ns}.numbers VALUES (4, 40)")
    work.round("evens")
    done = work.round("both")
    assert {name: receipt.refresh for name, receipt in done.items()} == {"totals": "INCREMENTAL", "both": "INCREMENTAL"}
    work.round()
    work.check()
    assert {(r.refresh, r.run_id) for r in work.round(parallel=4).values()} == {("NO_DATA", None)}
