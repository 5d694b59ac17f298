"""Rows with maps: their NULL values stay NULL, wherever rows are netted."""

from __future__ import annotations

from pyspark.sql import SparkSession

from neve.engine.netting import netted
from neve.lake import Lake

MAPS = (
    "map('r', CAST(NULL AS INT), 's', 2)",
    "array(map(1, CAST(NULL AS BOOLEAN)), NULL)",
    "named_struct('m', map('k', map('l', CAST(NULL AS DOUBLE))), 'n', 1)",
)


def test_null_in_a_map_is_not_zero(spark_lake: Lake) -> None:
    """Of unsafe rows Spark makes 0, of others it may fail: both before and after a shuffle."""
    spark: SparkSession = spark_lake.spark
    one = spark.sql(f"SELECT {', '.join(f'{text} AS `m.{number}`' for number, text in enumerate(MAPS))}, 1 AS w")
    other = one.withColumn("w", one["w"] - 2).selectExpr(
        "map('s', 2, 'r', CAST(NULL AS INT)) AS `m.0`", "`m.1`", "`m.2`", "w"
    )
    names = ["m.0", "m.1", "m.2"]
    for rows in (one, one.repartition(2)):
        assert netted(rows, names, "w").collect() == one.collect()
        assert netted(rows.unionAll(rows), names, "w").collect()[0]["w"] == 2
        assert netted(rows.unionAll(other), names, "w").collect() == [], "the order of entries means nothing"
        assert netted(rows.unionAll(other), names, "w", in_order=True).count() == 2, "but where it is asked for"
    zero = one.selectExpr("map('r', 0, 's', 2) AS `m.0`", "`m.1`", "`m.2`", "-1 AS w")
    assert netted(one.unionAll(zero), names, "w").count() == 2


def test_dynamic_tables_and_changes_keep_nulls_in_maps(spark_lake: Lake, namespace: str) -> None:
    spark_lake.sql(f"CREATE TABLE {namespace}.t (k string, m map<string,int>)", write=True)
    spark_lake.sql(f"INSERT INTO {namespace}.t VALUES ('a', map('q', 1))", write=True)
    first = spark_lake.table(f"{namespace}.t").history()[0].snapshot
    spark_lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {namespace}.d TARGET_LAG = '1 hour' AS SELECT k, m FROM {namespace}.t"
    )
    spark_lake.sql(f"INSERT INTO {namespace}.t VALUES ('b', map('r', NULL)), ('c', NULL)", write=True)
    spark_lake.sql(f"UPDATE {namespace}.t SET m = map('q', NULL) WHERE k = 'a'", write=True)
    assert spark_lake.dynamic(f"{namespace}.d").refresh().refresh == "FULL"
    found = spark_lake.sql(f"SELECT k, m FROM {namespace}.d ORDER BY k").collect()
    assert [tuple(row) for row in found] == [("a", {"q": None}), ("b", {"r": None}), ("c", None)]
    difference = spark_lake.dynamic(f"{namespace}.d").verify()
    assert (difference.missing, difference.surplus) == (0, 0)
    changed = spark_lake.changes(f"{namespace}.t", str(first)).collect()
    assert sorted((row["k"], row["_w"], row["m"]) for row in changed if row["k"] != "c") == [
        ("a", -1, {"q": 1}),
        ("a", 1, {"q": None}),
        ("b", 1, {"r": None}),
    ]


def test_a_query_that_shows_the_order_of_entries_follows_it(spark_lake: Lake, namespace: str) -> None:
    spark_lake.sql(f"CREATE TABLE {namespace}.t (m map<string,int>)", write=True)
    spark_lake.sql(f"INSERT INTO {namespace}.t VALUES (map('q', 1, 'z', 2))", write=True)
    query = f"SELECT map_keys(m) AS ks FROM {namespace}.t"
    spark_lake.dynamic.create(f"CREATE DYNAMIC TABLE {namespace}.d TARGET_LAG = '1 hour' AS {query}")
    spark_lake.sql(f"UPDATE {namespace}.t SET m = map('z', 2, 'q', 1)", write=True)
    assert spark_lake.dynamic(f"{namespace}.d").refresh().refresh == "INCREMENTAL"
    assert spark_lake.sql(f"SELECT ks FROM {namespace}.d").collect()[0]["ks"] == ["z", "q"]
