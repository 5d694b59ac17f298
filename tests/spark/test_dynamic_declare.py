"""Declaring and altering dynamic tables on real Spark and Iceberg: what is changed is changed whole, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.test_dynamic import QUERIES, Work

from neve.errors import (
    CommitConflict,
    DependentsExist,
    InvalidInput,
    InvalidSchema,
    Refused,
)
from neve.lake import Lake
from neve.model.names import TableName
from neve.services.dynamic import replacing

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def work(spark_lake: Lake, namespace: str) -> Work:
    return Work(spark_lake, namespace)


def facts_of(work: Work, name: str) -> Any:
    return work.lake._context.catalog.facts(TableName.parse(work.named(name)))


def state_of(work: Work, name: str) -> str:
    """Where the table stands: any commit at all would change it."""
    return str(facts_of(work, name).metadata_location)


def run(work: Work, statement: str) -> list[dict[str, Any]]:
    """A statement through SQL; what it answers."""
    rows = work.lake.sql(statement.replace("{ns}", work.namespace), write=True).collect()
    return [json.loads(row.answer) for row in rows]


def test_options_are_changed_in_place_and_what_cannot_be_is_refused_whole(work: Work, cli: Cli) -> None:
    work.declare("metrics")
    before = facts_of(work, "metrics")
    (receipt,) = run(
        work,
        "ALTER DYNAMIC TABLE {ns}.metrics SET TARGET_LAG = '10 minutes', COMMENT = 'per customer' "
        "REFRESH_MODE = INCREMENTAL PARTITIONED BY (bucket(4, customer_id)) CLUSTER BY (n desc)",
    )
    assert receipt["details"]["target_lag"] == {"before": "0:05:00", "after": "0:10:00"}
    facts = facts_of(work, "metrics")
    assert (facts.uuid, facts.current_snapshot_id) == (before.uuid, before.current_snapshot_id)
    assert [str(item) for item in facts.partition_by] == ["bucket(4, customer_id)"]
    assert facts.properties["comment"] == "per customer"
    shown = work.lake.dynamic(work.named("metrics")).show()
    assert (shown.target_lag, shown.refresh_mode, shown.comment) == ("10m", "INCREMENTAL", "per customer")
    work.write("INSERT INTO {ns}.orders VALUES (7, 1, 5, null, null), (8, 77, 1, null, null)")
    assert work.refresh()["metrics"].refresh == "INCREMENTAL"
    work.check("metrics")

    here = state_of(work, "metrics")
    table = work.lake.dynamic(work.named("metrics"))
    assert table.alter({"TARGET_LAG": "10 minutes"}).reason.code == "same_definition"  # type: ignore[union-attr]
    with pytest.raises(InvalidSchema, match="no column nothing"):
        table.alter({"PARTITIONED_BY": "nothing", "TARGET_LAG": "1 hour"})
    with pytest.raises(InvalidInput, match="no option TARGT_LAG"):
        table.alter({"TARGT_LAG": "1 hour"})
    assert state_of(work, "metrics") == here, "nothing, not even a part of it, was changed"
    work.declare("numbered", query="SELECT id,\n row_number() OVER (ORDER BY id) AS n FROM {ns}.orders")
    here = state_of(work, "numbered")
    with pytest.raises(Refused, match=r"cannot follow changes: .*\(line 2, column"):
        run(work, "ALTER DYNAMIC TABLE {ns}.numbered SET REFRESH_MODE = INCREMENTAL")
    assert state_of(work, "numbered") == here

    code, out, err = cli(
        "dynamic", "alter", work.named("metrics"), "--set", "TARGET_LAG=downstream", "--unset", "comment"
    )
    assert (code, "DOWNSTREAM" in out) == (0, True), err
    code, out, _ = cli("dynamic", "show", work.named("metrics"), "-o", "json")
    assert (code, json.loads(out)["target_lag"], json.loads(out)["comment"]) == (0, "DOWNSTREAM", None)
    (described,) = run(work, "DESCRIBE DYNAMIC TABLE {ns}.metrics")
    assert described == json.loads(out)
    run(work, "ALTER DYNAMIC TABLE {ns}.metrics UNSET PARTITIONED BY, CLUSTER BY")
    assert facts_of(work, "metrics").partition_by == ()
    work.write("DELETE FROM {ns}.orders WHERE id = 8")
    assert work.refresh("metrics")["metrics"].refresh == "INCREMENTAL"
    work.check("metrics")


def test_suspension_goes_down_the_graph_and_names_get_through(work: Work, cli: Cli) -> None:
    for name in ("details", "metrics", "by_region", "top"):
        work.declare(name)
    assert cli("dynamic", "suspend", work.named("metrics"))[0] == 0
    receipts = work.lake.dynamic(work.named("details")).suspend()
    assert [receipt.table for receipt in receipts] == [work.named("details"), work.named("by_region")]
    assert receipts[1].details["because"] == f"{work.named('details')}, which it needs, is suspended"
    work.write("INSERT INTO {ns}.orders VALUES (7, 1, 5, null, null)")
    own = {
        TableName.parse(r.table).name for r in work.lake.dynamic.refresh() if r.table.startswith(work.namespace + ".")
    }
    assert own == set()
    assert work.refresh("details")["details"].refresh == "INCREMENTAL", "a named table is refreshed"
    assert set(work.refresh("details+")) == {"details"}, "those that it leads to are still suspended"
    receipts = work.lake.dynamic(work.named("details")).resume()
    assert [receipt.table for receipt in receipts] == [
        work.named("details"),
        work.named("by_region"),
        work.named("top"),
    ], "the user suspended metrics, and that stays"
    assert [row["suspended_by"] for row in run(work, "DESCRIBE DYNAMIC TABLE {ns}.metrics")] == ["user"]
    assert run(work, "ALTER DYNAMIC TABLE {ns}.metrics RESUME")[0]["action"] == "resume"
    assert run(work, "ALTER DYNAMIC TABLE {ns}.metrics RESUME")[0]["reason"]["code"] == "nothing_to_do"
    work.refresh()
    work.compare("details", "metrics", "by_region", "top")


def test_another_query_is_built_aside_and_swapped_in(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    work.declare("details")
    work.declare("by_region")
    held = facts_of(work, "details")
    (kept,) = _replace(work, "details", QUERIES["details"].replace("JOIN", "/* still */ INNER   JOIN"))
    assert (kept["run_id"], kept["reason"]["code"]) == (None, "same_definition")
    assert state_of(work, "details") == held.metadata_location, "an equivalent query is no commit"

    filtered = QUERIES["details"] + " WHERE o.id <> 3"
    (receipt,) = _replace(work, "details", filtered)
    assert receipt["details"] == {"rows_inserted": 0, "rows_deleted": 1, "rows_compared": True}
    assert _bag(work, "details") == work.bag(filtered.replace("{ns}", work.namespace))
    done = work.refresh("details+")
    assert [done[name].refresh for name in ("details", "by_region")] == ["NO_DATA", "INCREMENTAL"]
    work.compare("by_region")

    wider = filtered.replace("region FROM", "region, day, amount * 2 AS twice FROM")
    (receipt,) = _replace(work, "details", wider, "CLUSTER BY (day)")
    assert receipt["details"]["rows_compared"] is False
    facts = facts_of(work, "details")
    assert (facts.uuid, facts.location) == (held.uuid, held.location)
    assert [c.name for c in facts.columns][:6] == ["id", "amount", "name", "region", "day", "twice"]
    assert _bag(work, "details") == work.bag(wider.replace("{ns}", work.namespace))
    assert work.refresh("details+")["by_region"].refresh in ("INCREMENTAL", "NO_DATA")
    work.write("UPDATE {ns}.orders SET amount = 3 WHERE id = 1")
    done = work.refresh("details+")
    assert {receipt.refresh for receipt in done.values()} == {"INCREMENTAL"}
    assert _bag(work, "details") == work.bag(wider.replace("{ns}", work.namespace))
    work.compare("by_region")
    assert work.lake.dynamic.verify(work.named("details")).missing == 0

    here = state_of(work, "details")
    with pytest.raises(DependentsExist, match=r"by_region \(.*region"):
        _replace(work, "details", "SELECT o.id, amount, name FROM {ns}.orders o JOIN {ns}.customers c ON o.id = c.id")
    with pytest.raises(DependentsExist, match=r"by_region"):
        _replace(
            work,
            "details",
            "SELECT id, CAST(amount AS double) AS amount, note AS name, note AS region FROM {ns}.orders",
        )
    real: Callable[..., Any] = vars(replacing)["fill"]

    def fail(*_: Any) -> Any:
        raise RuntimeError("the build broke")

    def rival(*args: Any) -> Any:
        done = real(*args)
        work.lake.dynamic(work.named("details")).alter({"COMMENT": "from a rival"})
        return done

    monkeypatch.setattr(replacing, "fill", fail)
    with pytest.raises(RuntimeError, match="broke"):
        _replace(work, "details", filtered)
    assert state_of(work, "details") == here
    monkeypatch.setattr(replacing, "fill", rival)
    with pytest.raises(CommitConflict):
        _replace(work, "details", filtered)
    assert facts_of(work, "details").properties["comment"] == "from a rival"
    assert _bag(work, "details") == work.bag(wider.replace("{ns}", work.namespace))
    tables = [row.tableName for row in work.lake.sql(f"SHOW TABLES IN lake.{work.namespace}").collect()]
    assert not [name for name in tables if name.startswith("_neve")], "what was built aside is gone"


def _replace(work: Work, name: str, query: str, options: str = "") -> list[dict[str, Any]]:
    return run(work, f"CREATE OR REPLACE DYNAMIC TABLE {{ns}}.{name} TARGET_LAG = '5 minutes' {options} AS {query}")


def _bag(work: Work, name: str) -> Any:
    return work.bag(f"SELECT * FROM {work.named(name)}")
