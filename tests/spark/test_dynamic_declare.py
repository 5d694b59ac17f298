"""Declaring and altering dynamic tables on real Spark and Iceberg: what is changed is changed whole, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_dynamic import QUERIES, Work

from neve.errors import (
    CommitConflict,
    DependentsExist,
    Refused,
    Unsupported,
)
from neve.lake import Lake
from neve.model.names import TableName
from neve.services.dynamic import replacing

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def work(spark_lake: Lake, quick: SparkSession, namespace: str) -> Work:
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
    monkeypatch.undo()
    other = "SELECT name AS region, count(*) AS total, max(id) AS last FROM {ns}.customers GROUP BY name"
    _replace(work, "by_region", other)
    assert _bag(work, "by_region") == work.bag(other.replace("{ns}", work.namespace)), "other types and keys"
    work.write("INSERT INTO {ns}.customers VALUES (4, 'a', 'n'), (5, 'z', 'n')")
    assert work.refresh("by_region")["by_region"].refresh == "INCREMENTAL"
    assert _bag(work, "by_region") == work.bag(other.replace("{ns}", work.namespace))
    tables = [row.tableName for row in work.lake.sql(f"SHOW TABLES IN lake.{work.namespace}").collect()]
    assert not [name for name in tables if name.startswith("_neve")], "what was built aside is gone"


def test_frozen_rows_neither_come_nor_go_nor_change(work: Work) -> None:
    """The model: frozen rows as they were when they were frozen, the rest as the query has it now."""
    lines = "SELECT id, amount, note FROM {ns}.orders"
    work.declare("lines", "IMMUTABLE WHERE (note = 'x')", lines)
    work.declare("metrics", "IMMUTABLE WHERE (customer_id < 2)")
    numbered = "SELECT id, row_number() OVER (ORDER BY id, amount) AS place FROM {ns}.orders"
    work.declare("numbered", "IMMUTABLE WHERE (place <= 2)", numbered)
    queries = {"lines": (lines, "note = 'x'"), "metrics": (QUERIES["metrics"], "customer_id < 2")}
    queries["numbered"] = (numbered, "place <= 2")
    frozen = {name: work.bag(f"SELECT * FROM {work.named(name)} WHERE {p}") for name, (_, p) in queries.items()}
    assert {name: sum(bag.values()) for name, bag in frozen.items()} == {"lines": 3, "metrics": 1, "numbered": 2}

    def check(*names: str) -> None:
        for name, (query, predicate) in ((name, queries[name]) for name in names):
            text = f"SELECT * FROM ({query.replace('{ns}', work.namespace)}) WHERE ({predicate}) IS NOT TRUE"
            assert _bag(work, name) == frozen[name] + work.bag(text), name
            assert (difference := work.lake.dynamic(work.named(name)).verify()).missing == 0, name
            assert difference.surplus == 0, name

    work.write(
        "UPDATE {ns}.orders SET amount = 99 WHERE id IN (1, 3)",
        "DELETE FROM {ns}.orders WHERE id = 2",
        "INSERT INTO {ns}.orders VALUES (7, 1, 5, null, 'x'), (8, 2, 6, null, null), (9, null, 1, null, 'y')",
    )
    done = work.refresh()
    assert [done[name].refresh for name in queries] == ["INCREMENTAL", "INCREMENTAL", "FULL"]
    check(*queries)
    run(work, "ALTER DYNAMIC TABLE {ns}.lines SET REFRESH_MODE = FULL")
    work.write("UPDATE {ns}.orders SET note = 'y' WHERE id IN (1, 9)", "UPDATE {ns}.orders SET note = 'x' WHERE id = 8")
    assert work.refresh("lines")["lines"].refresh == "FULL"
    check("lines")
    with pytest.raises(Refused, match="some are frozen"):
        run(work, "ALTER DYNAMIC TABLE {ns}.metrics SET FLOAT_SUMS = FAST")
    run(work, "ALTER DYNAMIC TABLE {ns}.metrics UNSET IMMUTABLE WHERE")
    assert work.refresh("metrics")["metrics"].refresh == "REINITIALIZE", "what was frozen is computed anew"
    work.check("metrics")


def test_the_document_by_every_door_and_doors_that_stay_closed(work: Work, cli: Cli, tmp_path: Any) -> None:
    file = tmp_path / "order_details.sql"
    head = "CREATE DYNAMIC TABLE lake.{ns}.deep.order_details (id COMMENT 'the order', amount, name, region)\n"
    query = QUERIES["details"].replace("{ns}", "lake.{ns}")
    text = f"{head}TARGET_LAG = '5 minutes'\nCOMMENT = 'flat'\nAS\n{query};\n".replace("{ns}", work.namespace)
    file.write_text(text.replace(";\n", ";\nGROUP BY customer_id;\n"))
    code, _, err = cli("dynamic", "create", "-f", str(file))
    assert (code, "line 5" in err, "the query ends at this ;" in err) == (2, True, True), err
    file.write_text(text)
    assert cli("dynamic", "create", "-f", str(file))[0] == 0
    deep = f"{work.namespace}.deep.order_details"
    shown = work.lake.dynamic(deep).show()
    assert (shown.columns[0].comment, shown.comment) == ("the order", "flat")
    again = text.replace("DYNAMIC TABLE", "DYNAMIC TABLE IF NOT EXISTS")
    assert work.lake.dynamic.create(again)[0].reason.code == "already_exists"  # type: ignore[union-attr]
    assert run(work, "SHOW DYNAMIC TABLES LIKE 'order!_%'") == []
    assert [row["table"] for row in run(work, "SHOW DYNAMIC TABLES LIKE 'order_det%'")] == [deep]
    floats = "SELECT note, sum(CAST(amount AS double)) AS total FROM {ns}.orders GROUP BY note"
    work.declare("floats", query=floats)
    (receipt,) = run(work, "ALTER DYNAMIC TABLE {ns}.floats SET FLOAT_SUMS = FAST")
    assert (receipt["action"], receipt["details"]["rows_compared"]) == ("replace", False)
    run(work, f"ALTER DYNAMIC TABLE {deep} SET PARTITIONED BY (region) CLUSTER BY (id)")
    work.write("INSERT INTO {ns}.orders VALUES (7, 1, 5, null, 'x')", "DELETE FROM {ns}.orders WHERE id = 1")
    done = {receipt.table: receipt for receipt in work.lake.dynamic.refresh([deep, work.named("floats")])}
    assert {receipt.refresh for receipt in done.values()} == {"INCREMENTAL"}
    assert work.bag(f"SELECT * FROM {deep}") == work.bag(query.replace("{ns}", work.namespace))
    assert _bag(work, "floats") == work.bag(floats.replace("{ns}", work.namespace))

    here = work.lake._context.catalog.facts(TableName.parse(deep)).metadata_location
    for statement in (
        "INSERT INTO {t} SELECT * FROM {t}",
        "FROM {ns}.orders INSERT INTO {ns}.orders SELECT * INSERT INTO {t} SELECT id, 1, note, note",
        "DELETE FROM {t} d WHERE id = 1",
        "UPDATE {t} SET id = 1",
        "MERGE INTO {t} AS d USING {ns}.orders o ON d.id = o.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE {t}",
        "INSERT INTO IDENTIFIER('{t}') SELECT * FROM {t}",
        "DELETE FROM IDENTIFIER('{t}')",
        "EXECUTE IMMEDIATE 'DELETE FROM {t}'",
        "INSERT OVERWRITE lake.{t} SELECT * FROM {t}",
        "INSERT INTO {t}.branch_main SELECT * FROM {t}",
        "ALTER TABLE {t} ADD COLUMN x int",
        "ALTER TABLE {t} SET TBLPROPERTIES ('neve.dynamic' = '{}')",
        "ALTER TABLE {t} RENAME TO {ns}.deep.else",
        "CREATE OR REPLACE TABLE {t} AS SELECT 1 AS x",
        "DROP TABLE {t}",
        "CALL lake.system.set_current_snapshot(table => '{t}', snapshot_id => 1)",
        "USE lake.{ns}.deep; INSERT INTO order_details SELECT * FROM order_details",
    ):
        with pytest.raises(Refused, match="is a dynamic table"):
            work.lake.sql(statement.replace("{t}", deep).replace("{ns}", work.namespace), write=True)
    for statement in (
        "DROP TABLE {ns}.orders",
        "INSERT INTO {ns}.orders VALUES (99, 1, 1, null, null); DROP TABLE IF EXISTS lake.{ns}.orders PURGE",
        "ALTER TABLE {ns}.orders RENAME TO {ns}.o2",
        "USE lake.{ns}; DROP TABLE orders",
        "DROP TABLE IDENTIFIER('{ns}.orders')",
        "EXECUTE IMMEDIATE 'DROP TABLE {ns}.orders'",
    ):
        with pytest.raises(DependentsExist, match=f"orders: .*{deep}"):
            work.lake.sql(statement.replace("{ns}", work.namespace), write=True)
    assert work.lake.sql(f"SELECT * FROM {work.named('orders')} WHERE id = 99").count() == 0, "nothing was begun"
    with pytest.raises(Refused, match="not written out"):
        work.lake.sql(f"DECLARE what = 'DELETE FROM {deep}'; EXECUTE IMMEDIATE what", write=True)
    assert work.lake._context.catalog.facts(TableName.parse(deep)).metadata_location == here
    work.write(f"ALTER TABLE {deep} CREATE TAG kept", f"CALL lake.system.rewrite_data_files(table => 'lake.{deep}')")
    work.write(f"INSERT INTO {{ns}}.orders SELECT id, 1, 1, null, null FROM {deep} LIMIT 1")
    refreshed = work.lake.dynamic(deep).refresh()
    assert refreshed.refresh == "INCREMENTAL"
    assert cli(*(refreshed.undo or "").split()[1:], "--yes")[0] == 0, "a refresh can be taken back"
    assert (work.lake.dynamic(deep).verify().missing, work.lake.dynamic(deep).refresh().refresh) == (0, "INCREMENTAL")
    other = f"CREATE OR REPLACE DYNAMIC TABLE {deep} TARGET_LAG = '1 hour' AS "
    other += f"SELECT id, note AS {{}} FROM {work.named('orders')}"
    with pytest.raises(Unsupported, match="region partitions files"):
        run(work, other.format("remark"))
    run(work, other.format("region"))
    assert work.bag(f"SELECT * FROM {deep}") == work.bag(f"SELECT id, note FROM {work.named('orders')}")
    with pytest.raises(Refused, match="is not the result of its query"):
        work.lake.table(deep).rollback(str(refreshed.snapshot_after))
    assert run(work, f"DROP DYNAMIC TABLE {deep}")[0]["action"] == "delete"
    assert run(work, f"DROP DYNAMIC TABLE IF EXISTS {deep} CASCADE")[0]["reason"]["code"] == "not_there"


def _replace(work: Work, name: str, query: str, options: str = "") -> list[dict[str, Any]]:
    return run(work, f"CREATE OR REPLACE DYNAMIC TABLE {{ns}}.{name} TARGET_LAG = '5 minutes' {options} AS {query}")


def _bag(work: Work, name: str) -> Any:
    return work.bag(f"SELECT * FROM {work.named(name)}")
