"""kill −9 at each step of a refresh: whatever it had done, the next refresh is right, and nothing is left behind."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import SparkSession
from tests.spark.attached import KILLED, Attached
from tests.spark.dynamic_oracle import differences

from neve.lake import Lake
from neve.model.names import is_aside

QUERIES = {
    "keyed": "SELECT k, count(*) AS n, sum(x) AS total FROM {ns}.a GROUP BY k",
    "bag": "SELECT a.k, x, y FROM {ns}.a JOIN {ns}.b ON a.k = b.k",
}
MOST = 40  # effects of a refresh: more, and it does not end


@pytest.mark.faults
@pytest.mark.parametrize("shape", QUERIES)
def test_a_refresh_that_was_killed_is_applied_once(
    spark_lake: Lake, quick: SparkSession, namespace: str, attached: Attached, shape: str
) -> None:
    quick.sql(f"CREATE TABLE {namespace}.a (k int, x int) USING iceberg")
    quick.sql(f"CREATE TABLE {namespace}.b (k int, y int) USING iceberg")
    quick.sql(f"INSERT INTO {namespace}.a VALUES (1, 1), (1, 1), (2, 2), (null, 3)")
    quick.sql(f"INSERT INTO {namespace}.b VALUES (1, 1), (2, 2), (2, 2)")
    query, name = QUERIES[shape].replace("{ns}", namespace), f"{namespace}.{shape}"
    spark_lake.dynamic.create(f"CREATE DYNAMIC TABLE {name} TARGET_LAG = '5 minutes' AS {query}")
    before = spark_lake.sql(f"SELECT * FROM {name}").collect()
    for step in itertools.count(1):
        assert step < MOST
        changes = {
            0: f"DELETE FROM {namespace}.a WHERE x = {step - 2}",
            1: f"UPDATE {namespace}.a SET k = 2 WHERE k = 1",
        }
        quick.sql(changes.get(step % 3, f"INSERT INTO {namespace}.a VALUES (1, {step}), (1, {step - 1}), (3, 3)"))
        if attached.refresh(spark_lake.root, name, die_at=step) != KILLED:
            break
        if step % 3 == 0:  # otherwise the next one meets what others have left
            spark_lake.dynamic.refresh([name])
            assert differences(spark_lake, quick, {name: query}) == {}, step
            assert [row.name for row in spark_lake.table(name).references()] == ["main"], step
    assert step > 5, "it died at several steps"
    assert differences(spark_lake, quick, {name: query}) == {}
    assert spark_lake.sql(f"SELECT * FROM {name}").collect() != before
    states = {run.state for run in spark_lake.runs.list(table=name, kind="refresh")}
    assert states == {"succeeded", "failed"}


REPLACED = {
    "grouped": "SELECT k, count(*) AS n FROM {ns}.a GROUP BY k",
    "wider": "SELECT k, x, x * 2 AS n FROM {ns}.a WHERE x > 1",
}


@pytest.mark.faults
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_another_query_is_there_whole_or_not_at_all(
    spark_lake: Lake, quick: SparkSession, namespace: str, attached: Attached, every: int
) -> None:
    quick.sql(f"CREATE TABLE {namespace}.a (k int, x int) USING iceberg")
    quick.sql(f"INSERT INTO {namespace}.a VALUES (1, 1), (1, 1), (2, 2), (null, 3)")
    name, queries = f"{namespace}.d", {key: text.replace("{ns}", namespace) for key, text in REPLACED.items()}
    statement = f"CREATE OR REPLACE DYNAMIC TABLE {name} TARGET_LAG = '5 minutes' AS "
    spark_lake.dynamic.create(statement + queries["grouped"])
    seen, here = set(), "grouped"
    for step in itertools.count(1, every):
        assert step < 2 * MOST
        wanted = "wider" if here == "grouped" else "grouped"
        ended = attached.declare(spark_lake.root, statement + queries[wanted], die_at=step)
        told = spark_lake.dynamic(name).show().query
        (here,) = (key for key, text in queries.items() if text == told)
        seen.add((ended, here == wanted))
        assert differences(spark_lake, quick, {name: told}) == {}, step
        with Lake(spark_lake.root) as opened:
            assert all(run.state != "running" for run in opened.runs.list(table=name, kind="replace")), step
            assert not any(map(is_aside, opened._context.catalog.metadata_locations(aside=True))), step
        quick.sql(f"INSERT INTO {namespace}.a VALUES (1, {step}), (3, 3)")
        assert spark_lake.dynamic.refresh([name])[0].refresh == "INCREMENTAL", step
        assert differences(spark_lake, quick, {name: told}) == {}, step
        if ended != KILLED:
            break
    assert {(KILLED, False), (0, True)} <= seen
