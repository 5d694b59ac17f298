"""Derived texts on Spark itself: valid Spark SQL, and stored rows + changes = the query as the user wrote it."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from neve.lake import Lake
from neve.sql.columns import parse_columns
from neve.sql.delta import Moments, Version, analyse, derive, full

A = "k int, x int, d double, m decimal(12,2), s string, at timestamp, l array<int>, st struct<f:int,g:string>"
B = "k int, y bigint, day date"
NAN, LATE, EARLY = float("nan"), datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
OLD_A = [
    (1, 10, 0.5, Decimal("1.25"), "a", EARLY, [1, 2], (1, "p")),
    (1, 10, 0.5, Decimal("1.25"), "a", EARLY, [1, 2], (1, "p")),
    (2, None, NAN, Decimal("3.33"), "b", LATE, [], (2, None)),
    (None, 30, -0.0, None, None, None, None, None),
    (3, 5, 0.0, Decimal("7.77"), "c", LATE, [3], (1, "p")),
]
NEW_A = [
    *OLD_A[1:4],
    (3, 6, NAN, Decimal("0.01"), "c", LATE, [3, None], (1, "p")),
    (None, 31, 0.0, Decimal("2.50"), "d", EARLY, [9], None),
]
OLD_B = [(1, 100, date(2024, 1, 1)), (3, 300, date(2024, 2, 2)), (None, 5, None), (7, 2, date(2024, 1, 1))]
NEW_B = [(1, 100, date(2024, 1, 1)), (2, 200, date(2024, 2, 2)), (2, 200, date(2024, 2, 2)), (7, 3, None)]
MOMENTS = Moments(datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC))
QUERIES = {
    "merge": "SELECT k, sum(x) AS t, avg(x) AS ax, avg(m) AS am, count(m) AS n, sum(m) AS sm FROM a GROUP BY k",
    "extrema": "SELECT k, min(x) AS lo, max(d) AS hi, count_if(x > 7) AS n, max(s) FILTER (WHERE x > 5) AS f FROM a "
    "GROUP BY k",
    "float sums": "SELECT k, sum(d) AS t, stddev(x) AS sd FROM a GROUP BY k",
    "struct fields": "SELECT st.f, a.st.g AS h, x + 1 AS z, z * 2 AS w FROM a WHERE st.f IS NOT NULL",
    "left join": "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k",
    "full join": "SELECT * FROM (SELECT k, s FROM a) FULL JOIN b USING (k)",
    "not in": "SELECT x, s FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 2)",
    "mark": "SELECT x, k IN (SELECT k FROM b) AS known, x NOT IN (SELECT k FROM b) AS odd FROM a "
    "WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) OR x > 20",
    "correlated": "SELECT k, x, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
    "aggregate below join": "SELECT b.k, b.y, t.n, t.m FROM b "
    "JOIN (SELECT k, count(*) AS n, sum(m) AS m FROM a GROUP BY k) t USING (k)",
    "float sum below join": "SELECT b.k, b.y, t.t FROM b JOIN (SELECT k, sum(d) AS t FROM a GROUP BY k) t ON t.k = b.k",
    "window": "SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x, s) AS n, sum(m) OVER w AS t FROM a "
    "WINDOW w AS (PARTITION BY k ORDER BY x)",
    "qualify": "SELECT * EXCEPT (at, d) FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x DESC, s) = 1",
    "except all": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
    "intersect": "SELECT k, d FROM a INTERSECT SELECT k, CAST(NULL AS DOUBLE) FROM b UNION ALL SELECT 1, 2.5D",
    "explode": "SELECT k, e, p FROM a LATERAL VIEW OUTER posexplode(l) v AS p, e",
    "first rows": "SELECT k, x FROM a ORDER BY x DESC NULLS LAST, k LIMIT 2",
    "collected": "WITH t AS (SELECT k, sort_array(collect_list(x)) AS xs FROM a GROUP BY k) "
    "SELECT t.xs, u.xs AS ys FROM t JOIN t u ON t.k <=> u.k",
    "lambda": "SELECT k, transform(l, e -> e + x) AS l FROM a WHERE exists(l, e -> e > 1)",
    "time": "SELECT k, x FROM a WHERE at < current_timestamp() - INTERVAL 1 DAY",
    "set of things": "SELECT k, collect_set(x) AS xs, first(k) AS f FROM a GROUP BY k",
    "union": "SELECT k, 'a' AS src FROM a UNION SELECT k, 'b' FROM b "
    "UNION SELECT col1, col2 FROM VALUES (1, 'a'), (9, 'v')",
}
UNORDERED = {"set of things"}
SPELLED_OUT = {  # what Spark 4.1 itself has no word for
    "qualify": "SELECT k, x, m, s, l, st FROM ("
    "SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC, s) AS n FROM a) WHERE n = 1"
}
STORED_AS = {"tinyint": "int"}
CONF = {  # few rows: what makes large queries fast makes small ones slow
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def spark(spark_lake: Lake) -> SparkSession:
    session = spark_lake.spark.newSession()
    for key, value in CONF.items():
        session.conf.set(key, value)
    for name, schema, old, new in (("a", A, OLD_A, NEW_A), ("b", B, OLD_B, NEW_B)):
        session.createDataFrame(old, schema).createOrReplaceTempView(f"old_{name}")
        session.createDataFrame(new, schema).createOrReplaceTempView(f"new_{name}")
        changes = [(*row, w) for rows, w in ((old, -1), (new, 1)) for row in rows]
        session.createDataFrame(changes, f"{schema}, _w bigint").createOrReplaceTempView(f"delta_{name}")
    return session


def normal(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return tuple(map(normal, value)) if isinstance(value, list | tuple | Row) else value


def bag(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(normal, row)) for row in rows)


def as_written(spark: SparkSession, query: str, version: str) -> Counter[tuple[Any, ...]]:
    moment = MOMENTS.old if version == "old" else MOMENTS.new
    for name in "ab":
        spark.table(f"{version}_{name}").createOrReplaceTempView(name)
    frozen = query.replace("current_timestamp()", f"TIMESTAMP '{moment.isoformat(' ')}'")
    return bag(spark.sql(frozen).collect())


@pytest.mark.parametrize("name", QUERIES)
def test_spark_finds_the_new_result(spark: SparkSession, name: str) -> None:
    query = QUERIES[name]
    analysis = analyse(query, {"a": parse_columns(A), "b": parse_columns(B)})
    assert analysis.incremental, analysis.reasons
    before = spark.sql(full(analysis, Version.OLD, moment=MOMENTS.old).sql)
    stored_rows = before.collect()
    spark.createDataFrame(stored_rows, before.schema).createOrReplaceTempView("stored")
    stored = bag(stored_rows)

    derived = derive(analysis, frozenset({"a", "b"}), moments=MOMENTS)
    assert derived is not None
    changes = spark.sql(derived.sql)
    assert changes.columns == [*derived.columns, "_w"]
    assert changes.schema["_w"].dataType.simpleString() == "bigint"
    after = Counter(stored)
    for *row, weight in changes.collect():
        after[tuple(map(normal, row))] += weight
    assert min(after.values(), default=0) >= 0, "a row that is not there was removed"
    assert seen(+after, len(visible(analysis)), name) == seen(
        as_written(spark, SPELLED_OUT.get(name, query), "new"), None, name
    )
    kinds = {f.name: STORED_AS.get(kind := f.dataType.simpleString(), kind) for f in before.schema}
    known = {c.name: str(c.type) for c in analysis.columns if c.type is not None}
    assert {c: kinds[c] for c in known} == known


def visible(analysis: Any) -> list[str]:
    return [c.name for c in analysis.columns if not c.hidden]


def seen(rows: Counter[tuple[Any, ...]], columns: int | None, name: str) -> Counter[tuple[Any, ...]]:
    """The visible columns; collections that have no order are compared without."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        shown = row[:columns]
        if name in UNORDERED:
            shown = tuple(tuple(sorted(v)) if isinstance(v, tuple) else v for v in shown)
        found[shown] += count
    return found
