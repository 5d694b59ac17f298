"""Dynamic tables on real Spark and Iceberg: after every refresh each table equals its query, as a bag."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from neve.engine.row_delta import RowDelta
from neve.errors import ColumnNotFound, CommitConflict, InvalidInput, InvalidQuery, JobFailed, Refused, TableNotFound
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.results import Reason
from neve.plan.applying import ApplyPlan
from neve.services.dynamic import carrying, deciding
from neve.services.dynamic.definitions import FRONTIER, find_definition

Cli = Callable[..., tuple[int, str, str]]
ORDERS = """(1, 1, 10.5, date'2024-01-01', 'x'), (2, 1, 10.5, date'2024-01-01', 'x'),
    (2, 1, 10.5, date'2024-01-01', 'x'), (3, 2, 7, date'2024-01-02', null), (4, 9, 1, null, 'z')"""
QUERIES = {
    "details": "SELECT o.id, amount, name, region FROM {ns}.orders o JOIN {ns}.customers c ON o.customer_id = c.id",
    "metrics": "SELECT customer_id, count(*) AS n, sum(amount) AS total, max(day) AS last FROM {ns}.orders GROUP BY 1",
    "by_region": "SELECT region, sum(amount) AS total, count(DISTINCT name) AS names FROM {ns}.details GROUP BY region",
    "top": "SELECT d.region, d.total, m.n FROM {ns}.by_region d CROSS JOIN (SELECT count(*) AS n FROM {ns}.metrics) m",
    "lonely": "SELECT name FROM {ns}.customers c WHERE NOT EXISTS (SELECT 1 FROM {ns}.orders WHERE customer_id = c.id)",
}


class Work:
    """Orders, customers and dynamic tables over them, in a namespace of their own."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self.lake, self.namespace = lake, namespace
        lake.tables.create(
            f"{namespace}.orders", "id bigint, customer_id bigint, amount decimal(10,2), day date, note string"
        )
        lake.tables.create(f"{namespace}.customers", "id bigint, name string, region string")
        self.write("INSERT INTO {ns}.customers VALUES (1, 'a', 'n'), (2, 'b', 's'), (3, null, 'n')")
        self.write(f"INSERT INTO {{ns}}.orders VALUES {ORDERS}")

    def write(self, *statements: str) -> None:
        for statement in statements:
            self.lake.sql(statement.replace("{ns}", self.namespace), write=True).collect()

    def write_behind(self, statement: str) -> None:
        """As somebody does who does not come through Névé, which would refuse to write to a dynamic table."""
        self.lake._context.session.spark.sql(statement.replace("{ns}", f"lake.{self.namespace}")).collect()

    def declare(self, name: str, options: str = "", query: str | None = None) -> Any:
        text = (query or QUERIES[name]).replace("{ns}", self.namespace)
        return self.lake.dynamic.create(
            f"CREATE DYNAMIC TABLE {self.namespace}.{name} TARGET_LAG = '5 minutes' {options} AS {text}"
        )

    def refresh(self, *names: str) -> dict[str, Any]:
        """One round."""
        chosen = [self.named(name) for name in names] or [
            row.table for row in self.lake.dynamic.list() if row.table.startswith(f"{self.namespace}.")
        ]
        return {TableName.parse(receipt.table).name: receipt for receipt in self.lake.dynamic.refresh(chosen)}

    def compare(self, *names: str) -> None:
        """The oracle: stored rows are the query as it was written."""
        for name in names:
            found = self.bag(f"SELECT * FROM {self.namespace}.{name}")
            assert found == self.bag(QUERIES[name].replace("{ns}", self.namespace)), name

    def check(self, *names: str) -> None:
        """The same, and what `verify` says."""
        self.compare(*names)
        for name in names:
            difference = self.lake.dynamic.verify(self.named(name))
            assert (difference.missing, difference.surplus) == (0, 0), name

    def bag(self, query: str) -> Counter[tuple[object, ...]]:
        return Counter(map(tuple, self.lake.sql(query).collect()))

    def named(self, name: str) -> str:
        return f"{self.namespace}.{name}"


@pytest.fixture
def work(spark_lake: Lake, quick: SparkSession, namespace: str) -> Work:
    return Work(spark_lake, namespace)


def test_a_diamond_of_tables_follows_every_kind_of_change(work: Work) -> None:
    for name in QUERIES:
        created, filled = work.declare(name)
        assert (created.action, filled.refresh, filled.reason.code) == ("create", "FULL", "first")
    assert {receipt.refresh for receipt in work.refresh().values()} == {"NO_DATA"}
    steps = {
        "append": ["INSERT INTO {ns}.orders VALUES (5, 3, 2, date'2024-01-03', 'q'), (6, null, 3, null, null)"],
        "a foreign key moves, a group's last row goes, a dimension changes": [
            "UPDATE {ns}.orders SET customer_id = 2 WHERE id = 2",
            "DELETE FROM {ns}.orders WHERE customer_id = 9",
            "UPDATE {ns}.customers SET region = 'w' WHERE id = 2",
        ],
        "files are rewritten": ["CALL lake.system.rewrite_data_files(table => 'lake.{ns}.orders')"],
        "everything goes, and something comes": [
            "DELETE FROM {ns}.orders",
            "INSERT INTO {ns}.orders VALUES (1, 1, 1, null, null)",
        ],
    }
    for step, statements in steps.items():
        work.write(*statements)
        done = work.refresh()
        assert {receipt.refresh for receipt in done.values()} <= {"INCREMENTAL", "NO_DATA"}, step
        if step == "files are rewritten":
            assert {receipt.refresh for receipt in done.values()} == {"NO_DATA"}
        work.compare(*QUERIES)
    again = work.refresh()
    assert {receipt.run_id for receipt in again.values()} == {None}, "nothing is committed when nothing changed"
    work.check("top")


def test_only_what_changed_is_written_and_children_see_only_that(work: Work) -> None:
    work.declare("details")
    work.declare("by_region")
    work.write("UPDATE {ns}.customers SET name = 'other' WHERE id = 3")
    done = work.refresh()
    assert (done["details"].refresh, done["details"].rows_inserted) == ("INCREMENTAL", 0), "nobody ordered as 3"
    assert done["details"].snapshot_before == done["details"].snapshot_after
    assert done["by_region"].refresh == "NO_DATA"
    work.check("details", "by_region")


def test_a_query_without_a_rule_is_computed_in_full_and_writes_the_difference(work: Work) -> None:
    query = "SELECT id, amount, row_number() OVER (ORDER BY id, amount, note) AS n FROM {ns}.orders"
    with pytest.raises(Refused, match=r"cannot follow changes: .*line 1, column"):
        work.declare("numbered", "REFRESH_MODE = INCREMENTAL", query)
    work.declare("numbered", "", query)
    work.write("INSERT INTO {ns}.orders VALUES (9, 1, 1, null, null)")
    receipt = work.refresh()["numbered"]
    assert (receipt.refresh, receipt.rows_inserted, receipt.rows_deleted) == ("FULL", 1, 0)
    assert "window" in receipt.reason.detail.lower()
    assert work.bag(f"SELECT * FROM {work.named('numbered')}") == work.bag(query.replace("{ns}", work.namespace))
    assert work.refresh()["numbered"].rows_inserted == 0


def test_a_source_made_anew_and_an_expired_snapshot(work: Work) -> None:
    work.declare("metrics")
    work.declare("lonely", "REFRESH_MODE = INCREMENTAL")
    table = f"lake.{work.namespace}.customers"
    work.write("UPDATE {ns}.customers SET name = 'c' WHERE id = 3")
    tags = [row.name for row in work.lake.table(work.named("customers")).references() if row.kind == "tag"]
    work.write(*(f"ALTER TABLE {table} DROP TAG `{tag}`" for tag in tags))
    work.write(
        f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    with pytest.raises(Refused, match="expired"):
        work.refresh("lonely")
    facts = work.lake._context.catalog.facts(TableName.parse(work.named("metrics")))
    frontier = json.loads(next(iter(facts.ancestors())).summary[FRONTIER])
    moved = {**frontier, "sources": {key: {**pin, "uuid": "another"} for key, pin in frontier["sources"].items()}}
    work.lake._context.catalog.set_properties(
        facts.name, put={FRONTIER: json.dumps({**moved, "snapshot": facts.current_snapshot_id})}
    )
    receipt = work.refresh("metrics")["metrics"]
    assert (receipt.refresh, receipt.rows_inserted, receipt.rows_deleted) == ("REINITIALIZE", 0, 0)
    work.check("metrics")


def test_a_writer_between_reading_and_committing_is_picked_up_next_time(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.declare("metrics")
    work.write("INSERT INTO {ns}.orders VALUES (7, 1, 5, null, null)")
    real = RowDelta.commit

    def late(*args: Any) -> int:
        work.write("INSERT INTO {ns}.orders VALUES (8, 1, 6, null, null)")
        return real(*args)

    monkeypatch.setattr(RowDelta, "commit", late)
    assert work.refresh()["metrics"].refresh == "INCREMENTAL"
    monkeypatch.undo()
    difference = work.lake.dynamic.verify(work.named("metrics"))
    assert (difference.missing, difference.surplus) == (0, 0), "right at its frontier"
    assert work.refresh()["metrics"].refresh == "INCREMENTAL"
    work.check("metrics")


def test_a_second_refresher_cannot_apply_the_same_changes(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    work.declare("metrics")
    work.write("INSERT INTO {ns}.orders VALUES (7, 1, 5, null, null)")
    real: Callable[..., None] = vars(carrying)["apply_changes"]
    merge = ApplyPlan("merge", Reason(code="asked", detail="a test asks for it"))
    monkeypatch.setattr(deciding, "plan_apply", lambda *_, **__: merge)

    def rival(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(carrying, "apply_changes", real)
        work.refresh("metrics")
        real(*args, **kwargs)

    monkeypatch.setattr(carrying, "apply_changes", rival)
    with pytest.raises(CommitConflict):
        work.refresh("metrics")
    work.check("metrics")
    assert len(work.lake.table(work.named("metrics")).references()) == 1, "the loser's branch is gone"


def test_what_somebody_else_wrote_is_mended_in_full(work: Work) -> None:
    work.declare("details")
    work.declare("metrics")
    work.write_behind("DELETE FROM {ns}.details WHERE id = 1")
    work.write_behind("INSERT INTO {ns}.details SELECT * FROM {ns}.details WHERE id = 3")
    work.write_behind("INSERT INTO {ns}.details (id, name) VALUES (3, 'odd')")
    work.write_behind("INSERT INTO {ns}.metrics SELECT * FROM {ns}.metrics WHERE customer_id = 2")
    work.write("DELETE FROM {ns}.orders WHERE id = 2")
    done = work.refresh("details", "metrics")
    receipt = done["details"]
    assert (receipt.refresh, receipt.reason.code) == ("FULL", "unknown_rows")
    assert (receipt.rows_inserted, receipt.rows_deleted) == (2, 5), "all rows that are, in the place of all that were"
    assert done["metrics"].reason.code == "unknown_rows"
    work.check("details", "metrics")
    work.write("DELETE FROM {ns}.orders WHERE id = 3", "INSERT INTO {ns}.orders VALUES (3, 1, 7, null, null)")
    assert work.refresh("details")["details"].refresh == "INCREMENTAL", "equal rows are told apart again"
    work.check("details")
    work.write_behind("DELETE FROM {ns}.details")
    assert work.refresh("details")["details"].reason.code == "first"
    work.check("details")


def test_a_row_that_is_not_there_fails_the_refresh(work: Work) -> None:
    """A frontier that speaks of other rows than there are is corruption, and never passed over."""
    work.declare("details")
    catalog, name = work.lake._context.catalog, TableName.parse(work.named("details"))
    frontier = json.loads(next(iter(catalog.facts(name).ancestors())).summary[FRONTIER])
    work.write_behind("DELETE FROM {ns}.details WHERE id = 1")
    work.write("DELETE FROM {ns}.orders WHERE id = 1")
    false = json.dumps({**frontier, "snapshot": catalog.facts(name).current_snapshot_id})
    catalog.set_properties(name, put={FRONTIER: false})
    with pytest.raises(JobFailed, match="is not there"):
        work.refresh("details")
    assert work.lake.dynamic.verify(str(name)).missing == 1


def test_what_is_wrong_is_said_before_anything_is_made(work: Work) -> None:
    with pytest.raises(TableNotFound, match="oders") as caught:
        work.declare("bad", query="SELECT * FROM {ns}.oders")
    assert "orders" in (caught.value.hint or "")
    with pytest.raises(InvalidQuery, match="reads no table"):
        work.declare("bad", query="SELECT 1 AS x")
    with pytest.raises(InvalidQuery, match=r"the query ends at this ; but GROUP"):
        work.lake.dynamic.create(
            f"CREATE DYNAMIC TABLE {work.named('bad')} TARGET_LAG = '5 minutes' AS "
            f"SELECT id FROM {work.named('orders')}; GROUP BY id"
        )
    with pytest.raises(ColumnNotFound, match=r"IMMUTABLE WHERE: .*idd"):
        work.declare("bad", "IMMUTABLE WHERE (idd < 3)", "SELECT id FROM {ns}.orders")
    with pytest.raises(InvalidInput):
        work.lake.dynamic.create("DROP DYNAMIC TABLE x")
    assert work.named("bad") not in [row.table for row in work.lake.tables.list()]


def test_commands_and_statements(work: Work, cli: Cli, tmp_path: Any) -> None:
    file = tmp_path / "metrics.sql"
    query = QUERIES["metrics"].replace("{ns}", work.namespace)
    file.write_text(f"CREATE DYNAMIC TABLE {work.named('metrics')}\nTARGET_LAG = '5 minutes'\nAS\n{query};\n")
    code, out, err = cli("dynamic", "validate", "-f", str(file))
    assert (code, "add to stored rows" in out) == (0, True), err
    code, out, _ = cli("dynamic", "create", "-f", str(file))
    assert (code, "refreshed: FULL" in out) == (0, True)
    code, out, _ = cli("dynamic", "refresh", work.named("metrics"))
    assert (code, out.startswith("= nothing to do")) == (0, True)
    work.write("UPDATE {ns}.orders SET note = upper(note)")
    code, out, _ = cli("dynamic", "refresh", work.named("metrics"))
    assert (code, "refreshed: INCREMENTAL" in out, "undo" in out) == (0, True, False), "no row of it changed"
    assert "rows: +0 −0" in out
    assert "rows inserted" not in out, "said once"
    code, out, _ = cli("dynamic", "list", "-o", "json")
    assert [row["follows_changes"] for row in json.loads(out) if row["table"] == work.named("metrics")] == [True]
    assert cli("dynamic", "explain", work.named("metrics"))[0] == 0
    assert cli("dynamic", "verify", work.named("metrics"))[0] == 0
    child = (
        f"CREATE DYNAMIC TABLE {work.named('child')} TARGET_LAG = DOWNSTREAM AS SELECT n FROM {work.named('metrics')}"
    )
    assert cli("sql", child)[0] == 6, "needs --write"
    assert cli("sql", "--write", child)[0] == 0
    assert cli("dynamic", "drop", work.named("metrics"), "--yes")[0] == 6, "its child reads it"
    code, out, _ = cli("sql", "--write", f"DROP DYNAMIC TABLE {work.named('metrics')} CASCADE")
    assert code == 0
    assert not [row for row in work.lake.dynamic.list() if row.table.startswith(f"{work.namespace}.")]
    with pytest.raises(Refused, match="is not a dynamic table"):
        find_definition(work.lake._context, TableName.parse(work.named("orders")))
