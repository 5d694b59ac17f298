"""A tenant's SQL on real Spark: what it may read, what it may not, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from neve.engine.confinement import check_change_within
from neve.engine.row_statements import analysed
from neve.errors import Forbidden, NeveError
from neve.lake import Lake
from neve.model.keys import Caller
from neve.model.operation_answers import QueryAnswer, SqlChanged
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


CHANGES = [  # rows that came, rows that went, and what there is then
    ("INSERT INTO users VALUES (3, 'c', 'z'), (4, 'd', NULL)", (2, 0), "1a 2b 3c 4d"),
    ("INSERT INTO users (name, id) SELECT upper(name), id + 10 FROM eu.users -- both", (2, 0), "1a 2b 3c 4d 11A 12B"),
    ("UPDATE users SET name = :new WHERE id > :least AND id IN (SELECT id + 10 FROM eu.users)", (2, 2), None),
    ("DELETE FROM users AS u WHERE EXISTS (SELECT 1 FROM eu.users e WHERE e.id = u.id - 10)", (0, 2), "1a 2b 3c 4d"),
    (
        "MERGE INTO users t USING (SELECT id + 2 AS id, name FROM eu.users) s ON t.id = s.id AND s.id = 3 "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id + 1, s.name)",
        (2, 1),
        "1a 2b 3a 4d 5b",
    ),
    ("DELETE FROM users WHERE id > 2", (0, 3), "1a 2b"),
    ("DELETE FROM users WHERE id > 99", (0, 0), "1a 2b"),
    ("INSERT INTO kept VALUES (1, 'by place')", (1, 0), None),
    ("DELETE FROM users", (0, 2), ""),
]
NO_CHANGES = [
    "INSERT INTO theirs VALUES (1, 'a', 'b')",  # a view over another's table
    "INSERT INTO users SELECT * FROM theirs",
    "MERGE INTO users t USING theirs s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "DELETE FROM theirs",
    "INSERT INTO nowhere VALUES (1)",
    "INSERT INTO top VALUES (1)",
    "INSERT INTO users VALUES (1)",
    "UPDATE users SET nosuch = 1",
    "INSERT INTO derived VALUES (1)",  # a dynamic table
]


def test_a_tenants_changes_stay_with_the_tenant(spark_lake: Lake, namespace: str, quick: SparkSession) -> None:
    acme, globex = f"acme{namespace}", f"globex{namespace}"
    for table in (f"{acme}.default.users", f"{acme}.eu.users", f"{globex}.default.secret"):
        spark_lake.tables.create(table, "id bigint, name string, secrets string")
        spark_lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'y')", write=True)
    spark_lake.tables.create(f"{acme}.top", "id bigint")
    spark_lake.sql(
        f"CREATE DYNAMIC TABLE {acme}.default.derived TARGET_LAG = '1 day' AS SELECT id FROM {acme}.default.users",
        write=True,
    )
    spark_lake.spark.sql(f"CREATE VIEW lake.{acme}.default.theirs AS SELECT * FROM lake.{globex}.default.secret")
    caller = Caller("k", acme, "writer")

    def do(operation: str, **words: Any) -> Any:
        return spark_lake.database.do(OPERATION.validate_python({"operation": operation, **words}), caller)

    fields = {"id": {"type": "long"}, "name": {"type": "string"}}
    do("CREATE_TABLE", table="kept", schema={"fields": fields})
    for text in NO_CHANGES:
        with pytest.raises(NeveError) as told:
            do("EXECUTE_SQL", sql=text)
        error = discreet(told.value, acme)
        assert globex not in f"{error.message} {error.hint}", text
    for text, counts, expected in CHANGES:
        history = len(spark_lake.table(f"{acme}.default.users").history())
        params = {"new": "it's", "least": 5} if ":new" in text else {}
        done = do("EXECUTE_SQL", sql=text, params=params)
        assert isinstance(done, SqlChanged)
        assert (done.rows_added, done.rows_removed) == counts, text
        if expected is not None:
            found = do("QUERY", table="users", sort=[{"field": "id"}]).records
            assert " ".join(f"{row['id']}{row['name']}" for row in found) == expected, text
            made = len(spark_lake.table(f"{acme}.default.users").history()) - history
            assert made == 1, "one commit, also of a delete that finds nothing: Iceberg makes an empty one"
    assert do("QUERY", table="kept").records == [{"id": 1, "name": "by place"}]
    # Even if a text had come so far: what it would read and write is looked at before it is run.
    mine, other = f"lake.{acme}.eu.users", f"lake.{globex}.default.secret"
    for text in (
        "INSERT INTO {} SELECT * FROM {}",
        "UPDATE {} SET id = 1 WHERE id IN (SELECT id FROM {})",
        "DELETE FROM {} WHERE id IN (SELECT id FROM {})",
        "DELETE FROM {} WHERE id = 1 -- {}",
        "MERGE INTO {} t USING {} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name",
        "MERGE INTO {} t USING {} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ):
        check_change_within(analysed(quick, text.format(mine, mine), ()), acme)
        for pair in ((other, mine), (mine, other)):
            if "--" in text and pair[0] == mine:
                continue
            with pytest.raises(Forbidden):
                check_change_within(analysed(quick, text.format(*pair), ()), acme)
    whole = Caller("k", None, "writer")
    for text in (f"INSERT INTO IDENTIFIER('{other}') VALUES (9, '', '')", f"UPDATE IDENTIFIER('{other}') SET id = 9"):
        with pytest.raises(NeveError):
            spark_lake.database.do(OPERATION.validate_python({"operation": "EXECUTE_SQL", "sql": text}), whole)
    for table in (mine, other):
        assert sorted(map(tuple, quick.table(table).collect())) == [(1, "a", "x"), (2, "b", "y")]
