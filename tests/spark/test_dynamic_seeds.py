"""The examples of the document on dynamic tables and of its implementation's tests, and what that one gets wrong."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.dynamic_oracle import differences

from neve.errors import AlreadyExists, NotFound
from neve.lake import Lake
from neve.model.refresh import RefreshReceipt

QUERIES = {  # each as a table of its own over the same two sources, some over each other
    "by_product": "SELECT product, sum(amount) AS total, count(*) AS n FROM {ns}.sales GROUP BY product",
    "top_products": "SELECT product FROM {ns}.by_product WHERE total > 200",
    "how_many": "SELECT count(*) AS n FROM {ns}.top_products",
    "by_customer": "SELECT customer, count(*) AS n, sum(amount) AS total FROM {ns}.orders GROUP BY customer",
    "by_month": "SELECT date_trunc('month', day) AS month, sum(amount) AS total FROM {ns}.orders GROUP BY month",
    "by_expression": "SELECT upper(note) AS shout, max(amount) AS most FROM {ns}.orders GROUP BY upper(note)",
    "nested_groups": "SELECT n, count(*) AS customers FROM "
    "(SELECT customer, count(*) AS n FROM {ns}.orders GROUP BY customer) GROUP BY n",
    "named_like_a_table": "WITH sales AS (SELECT customer, amount FROM {ns}.orders WHERE amount > 30) "
    "SELECT customer, sum(amount) AS total FROM sales GROUP BY customer",
    "odd_names": "SELECT note AS `a note`, count(*) AS `select`, max(Amount) AS MOST FROM {ns}.orders GROUP BY `NOTE`",
    "odd_rows": "SELECT id AS `Order Id`, customer AS `ünï'\"`, amount FROM {ns}.orders WHERE amount > 20",
    "qualified": "SELECT lake.{ns}.orders.id, s.amount FROM lake.{ns}.orders LEFT JOIN {ns}.sales s ON id = product",
}
STEPS: list[tuple[list[str], dict[str, set[tuple[object, ...]]]]] = [  # and the rows that tables must have then
    (
        ["INSERT INTO {ns}.sales VALUES (1, 75)", "UPDATE {ns}.orders SET customer = 400 WHERE id = 2"],
        {
            "by_product": {(1, 325, 3), (2, 450, 2)},
            "by_customer": {(100, 1, 50), (200, 1, 100), (300, 1, 25), (400, 1, 75), (None, 1, 5)},
        },
    ),
    (
        ["DELETE FROM {ns}.orders WHERE customer IS NULL", "DELETE FROM {ns}.sales WHERE product = 2"],
        {"by_customer": {(100, 1, 50), (200, 1, 100), (300, 1, 25), (400, 1, 75)}, "top_products": {(1,)}},
    ),
    (
        [
            "INSERT INTO {ns}.orders VALUES (6, null, 7, null, 'n'), (7, null, 8, date'2024-02-02', null)",
            "INSERT INTO {ns}.sales VALUES (3, 500), (2, 201)",
        ],
        {"by_customer": {(100, 1, 50), (200, 1, 100), (300, 1, 25), (400, 1, 75), (None, 2, 15)}, "how_many": {(3,)}},
    ),
]


@pytest.fixture
def seeded(spark_lake: Lake, quick: SparkSession, namespace: str) -> str:
    for statement in (
        "CREATE TABLE {ns}.sales (product int, amount int) USING iceberg TBLPROPERTIES ('format-version'='3')",
        "CREATE TABLE {ns}.orders (id int, customer int, amount int, day date, note string) USING iceberg",
        "INSERT INTO {ns}.sales VALUES (1, 100), (1, 150), (2, 200), (2, 250)",
        "INSERT INTO {ns}.orders VALUES (1, 100, 50, date'2024-01-01', 'a'), (2, 100, 75, date'2024-01-31', 'A'), "
        "(3, 200, 100, date'2024-02-01', 'b'), (4, 300, 25, null, null), (5, null, 5, null, 'b')",
    ):
        quick.sql(statement.replace("{ns}", namespace))
    options = "REFRESH_MODE = AUTO INITIALIZE = ON_SCHEDULE"
    script = ";\n".join(declared(namespace, name, query, options) for name, query in QUERIES.items())
    made = spark_lake.dynamic.create(f"{script};")
    assert [receipt.table for receipt in made] == [f"{namespace}.{name}" for name in QUERIES]
    return namespace


def declared(namespace: str, name: str, query: str, options: str = "") -> str:
    text = query.replace("{ns}", namespace)
    return f"CREATE DYNAMIC TABLE {namespace}.{name} TARGET_LAG = '5 minutes' {options} AS {text}"


def test_the_examples_of_the_document(spark_lake: Lake, quick: SparkSession, seeded: str) -> None:
    texts = {f"{seeded}.{name}": query.replace("{ns}", seeded) for name, query in QUERIES.items()}

    def refresh() -> dict[str, RefreshReceipt]:
        receipts = spark_lake.dynamic.refresh(list(texts))
        assert differences(spark_lake, quick, texts) == {}
        return {receipt.table.rpartition(".")[2]: receipt for receipt in receipts}

    def rows(name: str) -> set[tuple[object, ...]]:
        return {tuple(row) for row in spark_lake.sql(f"SELECT * FROM {seeded}.{name}").collect()}

    assert {receipt.refresh for receipt in refresh().values()} == {"FULL"}
    assert rows("by_product") == {(1, 250, 2), (2, 450, 2)}
    for statements, expected in STEPS:
        for statement in statements:
            quick.sql(statement.replace("{ns}", seeded))
        done = refresh()
        assert {receipt.refresh for receipt in done.values()} <= {"INCREMENTAL", "NO_DATA"}, statements
        assert {name: rows(name) for name in expected} == expected
        if "customer = 400" in statements[1]:
            moved = done["by_customer"]
            assert (moved.rows_inserted, moved.rows_deleted) == (2, 1), "the two customers, and no other"
    table = f"lake.{seeded}.orders"
    quick.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    before = {name: spark_lake.table(name).show().current_snapshot for name in texts}
    assert {receipt.refresh for receipt in refresh().values()} == {"NO_DATA"}
    assert {name: spark_lake.table(name).show().current_snapshot for name in texts} == before

    quick.sql(f"DELETE FROM {seeded}.orders WHERE id = 6")
    for row in spark_lake.table(f"{seeded}.orders").references():
        if row.kind == "tag":  # they keep what is still needed, as long as nobody drops them
            quick.sql(f"ALTER TABLE {table} DROP TAG `{row.name}`")
    soon = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
    quick.sql(f"CALL lake.system.expire_snapshots(table => '{table}', {soon})")
    late = refresh()
    assert (late["by_customer"].refresh, late["by_product"].refresh) == ("FULL", "NO_DATA")
    assert late["by_customer"].reason is not None
    assert "expired" in late["by_customer"].reason.detail

    quick.sql(f"ALTER TABLE {seeded}.orders ADD COLUMN product int")  # `id = product` could now mean two columns
    quick.sql(f"INSERT INTO {seeded}.orders VALUES (3, 1, 1, null, null, 1)")
    assert spark_lake.dynamic.refresh([f"{seeded}.qualified"])[0].refresh == "INCREMENTAL"
    assert (3, 500) in rows("qualified"), "the query means what it meant when it was declared"

    with pytest.raises(AlreadyExists, match="already exists"):
        spark_lake.dynamic.create(declared(seeded, "by_product", QUERIES["by_product"]))
    with pytest.raises(NotFound, match="nobody"):
        spark_lake.dynamic.refresh([f"{seeded}.nobody"])
