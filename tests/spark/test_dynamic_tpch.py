"""All 22 queries of TPC-H as dynamic tables: rows come, go and change, and every refresh is incremental and right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scripts.incremental_table import cases
from tests.spark.dynamic_oracle import differences

from neve.lake import Lake

SCALE = "0.01"  # the smallest at which every query finds something
TABLES = {name: columns for name, columns in cases("tables") if name != "events"}
QUERIES = {title.lower(): query for title, query in cases("tpch")}
LATE = {  # rows that are not there at first
    "orders": "o_orderkey % 7 = 3",
    "lineitem": "l_orderkey % 7 = 3",
    "part": "p_partkey % 40 = 1",
    "partsupp": "ps_partkey % 40 = 1",
}
COME = "INSERT INTO {{ns}}.{0} SELECT * FROM all_{0} WHERE {1}"
FACTS = [  # what happens to facts, then to what they are about: each round leaves the other side alone
    *(COME.format(name, LATE[name]) for name in ("orders", "lineitem")),
    "DELETE FROM {ns}.orders WHERE o_orderkey % 11 = 4",
    "DELETE FROM {ns}.lineitem WHERE l_orderkey % 11 = 4 OR l_linenumber = 7",
    "UPDATE {ns}.lineitem SET l_quantity = l_quantity + 9, l_discount = 0.06 WHERE l_orderkey % 13 = 5",
    "UPDATE {ns}.lineitem SET l_receiptdate = date_add(l_commitdate, 3) WHERE l_orderkey % 17 = 1",
    "UPDATE {ns}.orders SET o_orderpriority = '2-HIGH', o_orderdate = o_orderdate + INTERVAL 31 DAY "
    "WHERE o_orderkey % 19 = 2",
]
DIMENSIONS = [
    *(COME.format(name, LATE[name]) for name in ("part", "partsupp")),
    "DELETE FROM {ns}.customer WHERE c_custkey % 40 = 2",
    "DELETE FROM {ns}.partsupp WHERE ps_partkey % 30 = 3",
    "UPDATE {ns}.supplier SET s_nationkey = (s_nationkey + 1) % 25 WHERE s_suppkey % 4 = 0",
    "UPDATE {ns}.part SET p_brand = 'Brand#23', p_container = 'MED BOX', p_name = 'forest green' "
    "WHERE p_partkey % 25 = 7",
    "UPDATE {ns}.part SET p_type = 'ECONOMY ANODIZED STEEL' WHERE p_partkey % 25 = 8",
    "UPDATE {ns}.partsupp SET ps_supplycost = ps_supplycost * 2 WHERE ps_partkey % 9 = 2",
    "UPDATE {ns}.customer SET c_acctbal = c_acctbal - 500, c_nationkey = 8 WHERE c_custkey % 21 = 4",
]
ROADS = {"add to stored rows", "replace touched keys", "add and remove rows"}  # docs/incremental.md says which by which


@pytest.fixture
def tpch(spark_lake: Lake, quick: SparkSession, namespace: str, tmp_path: Path) -> Path:
    """The eight tables, without the rows that come late; the folder of all rows."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([program, "parquet", "-s", SCALE, "--output-dir", tmp_path], check=True, capture_output=True)
    for name, columns in TABLES.items():
        quick.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView(f"all_{name}")
        spark_lake.tables.create(f"{namespace}.{name}", columns)
        early = f" WHERE NOT ({LATE[name]})" if name in LATE else ""
        quick.sql(f"INSERT INTO {namespace}.{name} SELECT * FROM all_{name}{early}")
    return tmp_path


@pytest.mark.soak
@pytest.mark.timeout(1800)  # 66 refreshes, some of eight tables
def test_all_queries_follow_what_comes_goes_and_changes(
    spark_lake: Lake, quick: SparkSession, namespace: str, tpch: Path
) -> None:
    for title, query in QUERIES.items():
        spark_lake.dynamic.create(
            f"CREATE DYNAMIC TABLE {namespace}.{title} TARGET_LAG = '1 hour' REFRESH_MODE = INCREMENTAL "
            f"INITIALIZE = ON_SCHEDULE AS {over(query, namespace)}"
        )
    names = [f"{namespace}.{title}" for title in QUERIES]
    assert {spark_lake.dynamic.explain(name).rule for name in names} == ROADS
    assert {receipt.refresh for receipt in spark_lake.dynamic.refresh(names)} == {"FULL"}
    moved: set[str] = set()
    expected = {f"{namespace}.{title}": over(query, namespace) for title, query in QUERIES.items()}
    for statements in (FACTS, DIMENSIONS):
        for statement in statements:
            quick.sql(statement.replace("{ns}", namespace))
        receipts = spark_lake.dynamic.refresh(names)
        assert {receipt.refresh for receipt in receipts} <= {"INCREMENTAL", "NO_DATA"}
        moved |= {receipt.table for receipt in receipts if receipt.rows_inserted + receipt.rows_deleted}
        assert differences(spark_lake, quick, expected) == {}
    assert moved == set(names), "every table has changed"


def over(query: str, namespace: str) -> str:
    """The query over the tables of a namespace."""
    from sqlglot import exp, parse_one

    tree = parse_one(query, read="spark")
    for table in list(tree.find_all(exp.Table)):
        if table.name in TABLES:
            table.set("db", exp.to_identifier(namespace))
    return tree.sql("spark")
