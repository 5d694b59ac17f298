"""A tenant's SQL on real Spark: what it may read, what it may not, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from neve.errors import Forbidden, NeveError
from neve.lake import Lake
from neve.model.keys import Caller
from neve.model.operation_answers import QueryAnswer
from neve.model.operations import OPERATION
from neve.plan.discretion import discreet
from neve.services.queries import run_sql

pytestmark = pytest.mark.spark

ALLOWED = [
    "SELECT * FROM users ORDER BY id",
    "SELECT users.id, u.name FROM users JOIN eu.users u USING (id) ORDER BY 1",
    "WITH users AS (SELECT id + 1 AS id FROM users) SELECT max(id) AS m FROM users",
    "SELECT name, count(*) AS n, sum(id) OVER (PARTITION BY name) AS s FROM users GROUP BY name, id ORDER BY 1, 3",
    "SELECT id FROM users WHERE id IN (SELECT id FROM eu.users) AND EXISTS (SELECT 1 FROM users) -- all of them",
    "SELECT x.id, y.col FROM users x LATERAL VIEW explode(array(1, 2)) y ORDER BY 1, 2",
    "SELECT * FROM VALUES (1, 'it''s'), (2, \"q\") AS v(a, b) ORDER BY a",
    "SELECT id, (SELECT max(id) FROM eu.users) AS m FROM users UNION SELECT 10L, length(X'1F') >> 1 ORDER BY 1",
    "SELECT transform(array(id), x -> x + 1) AS t, CAST(id AS string)::int AS c FROM users ORDER BY id",
    "FROM users SELECT id /* nested /* comment */ here */ ORDER BY id",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r ORDER BY n",
]
REFUSED = [
    "SELECT * FROM theirs",  # a view over another's table
    "SELECT * FROM (SELECT * FROM theirs) WHERE 1 = 0",
    "SELECT (SELECT max(id) FROM theirs)",
    "SELECT * FROM top.files",  # a metadata table, of a table right below the tenant
    "SELECT * FROM global_temp.shared",
    "SELECT * FROM broken",  # a view over a table of another's that is gone
    "SELECT * FROM nowhere",
    "SELECT nosuch FROM users",
    "SELECT id / 0 FROM users",
    "SELECT secrt FROM users",
]


def test_a_tenants_sql_stays_with_the_tenant(spark_lake: Lake, namespace: str, quick: SparkSession) -> None:
    acme, globex = f"acme{namespace}", f"globex{namespace}"
    spark_lake.tables.create(f"{acme}.top", "id bigint")
    for table in (f"{acme}.default.users", f"{acme}.eu.users", f"{globex}.default.secret"):
        spark_lake.tables.create(table, "id bigint, name string, secrets string")
        spark_lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'y')", write=True)
    spark_lake.tables.create(f"{globex}.default.gone", "id bigint")
    for view, table in (("theirs", "secret"), ("broken", "gone")):
        text = f"CREATE VIEW lake.{acme}.default.{view} AS SELECT * FROM lake.{globex}.default.{table}"
        spark_lake.spark.sql(text)
    spark_lake.table(f"{globex}.default.gone").drop()
    spark_lake.spark.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW shared AS SELECT 1 AS id")
    caller = Caller("k", acme, "reader")

    def ask(text: str, who: Caller, **words: Any) -> list[dict[str, Any]]:
        operation = {"operation": "EXECUTE_SQL", "tenant_id": acme, "sql": text, **words}
        answer = spark_lake.database.do(OPERATION.validate_python(operation), who)
        assert isinstance(answer, QueryAnswer)
        return answer.records

    for text in ALLOWED:  # the same as without a tenant, where names are spelled by hand
        whole = text.replace("eu.users", f"lake.{acme}.eu.users")
        assert ask(text, caller) == ask(whole, Caller(None, None, "admin")), text
    found = ask(f"SELECT id FROM {acme}.default.users WHERE name = :n AND id = 2", caller, params={"n": "b"})
    assert found == [{"id": 2}]
    snapshot = spark_lake.table(f"{acme}.default.users").history()[0].snapshot
    assert len(ask(f"SELECT * FROM users VERSION AS OF {snapshot}", caller)) == 2

    for text in REFUSED:
        with pytest.raises(NeveError) as told:
            ask(text, caller)
        error = discreet(told.value, acme)
        shown = f"{error.message} {error.hint}"
        assert globex not in shown, text
        assert str(spark_lake.root) not in shown, text
    for text in (
        f"SELECT * FROM lake.{globex}.default.secret",
        f"SELECT 1 WHERE 1 IN (SELECT id FROM {globex}.default.secret)",
    ):
        with pytest.raises(Forbidden):  # even if it had come so far
            run_sql(spark_lake._context, text, namespace=(acme, "default"), files=False, within=acme)
    for function in ("reflect", "java_method", "try_reflect", "system.builtin.reflect"):
        with pytest.raises(NeveError, match=r"(?i)routine|function"):  # nor does a key of the whole lake
            ask(f"SELECT {function}('java.lang.Math', 'abs', -1)", Caller("k", None, "reader"))
    assert spark_lake.sql("SELECT reflect('java.lang.Math', 'abs', -1)").first()[0] == "1"  # type: ignore[index]
    plan = spark_lake.database.do(
        OPERATION.validate_python({"operation": "QUERY", "table": "users", "explain": True}), caller
    )
    assert isinstance(plan, QueryAnswer)
    assert str(spark_lake.root) not in str(plan.plan)
