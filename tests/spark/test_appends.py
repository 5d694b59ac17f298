"""Rows that this process writes as a file, held to what Spark writes: values, metrics, lineage, tables that change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_interop import as_duckdb_reads, as_pyiceberg_reads, as_spark_reads
from tests.spark.test_service import FULL, HOSTILE, TYPES

from neve.engine import appending as engine
from neve.engine.staging import load_iceberg
from neve.errors import CommitConflict, InvalidInput, JobFailed, TableNotFound
from neve.lake import Lake, LakeTable
from neve.model.operations import OPERATION
from neve.model.results import Reason
from neve.model.rewrites import DataEntry
from neve.services.operations import appending
from neve.services.specs import alterations_from_words

pytestmark = pytest.mark.spark
FIELDS: dict[str, Any] = TYPES["fields"]  # type: ignore[assignment]
EMPTY = dict.fromkeys(FULL)
RECORDS = [
    {"id": 1, **FULL, "m": {"-2": None}},  # of several pairs Spark chooses the order
    {"id": 2, **EMPTY},
    {"id": 3, **EMPTY, "f": "NaN", "d": "-Infinity", "s": "é" * 30, "raw": "ff" * 30, "m": {}, "tags": [], "items": []},
    {"id": 4, **EMPTY, "d": -0.0, "f": 0.0, "dec": "-12.5000000001", "day": "9999-12-31", "home": {"state": "z" * 17}},
    *({"id": 10 + number, **EMPTY, "s": text, "odd name!": text} for number, text in enumerate(HOSTILE)),
]
Do = Callable[..., Any]


@pytest.fixture
def do(spark_lake: Lake, namespace: str) -> Do:
    def do(operation: str, table: str = "t", **words: Any) -> Any:
        asked = {"operation": operation, "namespace": namespace, "table": table, **words}
        return spark_lake.database.do(OPERATION.validate_python(asked))

    return do


@pytest.fixture
def table(spark_lake: Lake, namespace: str) -> LakeTable:
    return spark_lake.table(f"{namespace}.t")


def by_spark(_: object, __: int) -> Reason:
    return Reason(code="test", detail="to compare")


def own_files(table: LakeTable) -> list[bool]:
    return [row.path.endswith("-neve.parquet") for row in table.files() if row.content == "data"]


def test_rows_and_metrics_are_as_spark_writes_them(
    do: Do, table: LakeTable, spark_lake: Lake, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {**FIELDS, "odd name!": {"type": "string"}}
    for name in ("t", "oracle"):
        do("CREATE_TABLE", name, schema={"fields": fields}, properties={"compression": "snappy"})
    do("WRITE", records=RECORDS)
    with monkeypatch.context() as patch:
        patch.setattr(appending, "spark_needed", by_spark)
        do("WRITE", "oracle", records=RECORDS)
    oracle = spark_lake.table(f"{namespace}.oracle")
    assert (own_files(table), own_files(oracle)) == ([True], [False])

    rows = do("QUERY", sort=[{"field": "id"}]).records
    assert rows == [{**dict.fromkeys(fields), **record} for record in _answered()]
    assert rows == do("QUERY", "oracle", sort=[{"field": "id"}]).records
    for read in (as_spark_reads, as_duckdb_reads, partial(as_pyiceberg_reads, spark_lake)):
        found = read(table)
        assert (found.total(), found) == (len(RECORDS), read(oracle))

    catalog = spark_lake._context.catalog
    (ours,), (theirs,) = catalog.table_files(table.name).data, catalog.table_files(oracle.name).data
    assert replace(ours.metrics, sizes={}) == replace(theirs.metrics, sizes={})
    assert set(ours.metrics.sizes) == set(theirs.metrics.sizes)
    assert (ours.first_row_id, ours.file.rows) == (0, len(RECORDS))
    lineage = "SELECT _row_id, _last_updated_sequence_number FROM {} ORDER BY id"
    lines = [tuple(row) for row in spark_lake.sql(lineage.format(table.name.sql)).collect()]
    assert lines == [(number, 1) for number in range(len(RECORDS))]

    do("UPDATE", updates={"i": 7}, filters=[{"field": "id", "operator": "lte", "value": 2}])
    do("WRITE", records=[{"id": 99}])
    do("COMPACT", force=True)
    again = do("QUERY", sort=[{"field": "id"}]).records
    assert [row for row in again if row["id"] not in (1, 2, 99)] == rows[2:]
    assert [(row["id"], row["i"]) for row in again if row["id"] in (1, 2)] == [(1, 7), (2, 7)]


def _answered() -> list[dict[str, Any]]:
    """As they are answered: zeros of floats are numbers, a field that a struct did not name is null."""
    found = [dict(record) for record in RECORDS]
    found[3]["home"] = {"state": "z" * 17, "geo": None}
    return found


def test_partitions_are_as_spark_makes_them(
    do: Do, table: LakeTable, spark_lake: Lake, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = (
        "id bigint, i int, s string, at timestamp, wall timestamp_ntz, d date, d2 date, dec decimal(38,10), raw binary"
    )
    by = ["s", "bucket(5, id)", "bucket(3, dec)", "truncate(10, i)", "day(at)", "hour(wall)", "month(d)", "year(d2)"]
    names = ("t", "oracle")
    for name in names:
        spark_lake.tables.create(f"{namespace}.{name}", schema, partition_by=[*by, "truncate(2, raw)"])
    full = {
        "i": -1,
        "s": "a/b c=é",
        "at": "1969-12-31T23:59:59.999999Z",
        "wall": "1969-12-31T23:30:00",
        "raw": "0a0b0c",
    }
    full |= {"d": "1582-10-04", "d2": "0001-01-01", "dec": "1234567890123456789012345678.0123456789"}
    records: list[dict[str, Any]] = [{"id": n, **full, "s": f"{n % 2}"} for n in (1, 3, -(2**63))]
    records += [{"id": 34, **full}, {"id": None}, {"id": 5, "s": "", "raw": "", "dec": "0", "i": 19}]
    do("WRITE", records=records)
    with monkeypatch.context() as patch:
        patch.setattr(appending, "spark_needed", by_spark)
        do("WRITE", "oracle", records=records)
    tables = [spark_lake.table(f"{namespace}.{name}").name for name in names]
    ours, theirs = ([*map(_part, spark_lake._context.catalog.table_files(name).data)] for name in tables)
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)
    assert (len(ours) > 3, all(own_files(table))) == (True, True)
    assert as_spark_reads(table) == as_spark_reads(spark_lake.table(f"{namespace}.oracle"))
    found = do("QUERY", filters=[{"field": "s", "operator": "eq", "value": full["s"]}], projection=["id"])
    assert found.records == [{"id": 34}]


def _part(entry: DataEntry) -> tuple[object, ...]:
    return entry.file.partition, entry.file.rows, entry.metrics.lower, entry.metrics.upper


def test_a_table_that_is_changed_meanwhile_gets_what_fits_it(
    do: Do, table: LakeTable, spark_lake: Lake, namespace: str
) -> None:
    schema = {"fields": {"id": {"type": "long", "required": True}, "v": {"type": "integer"}}}
    do("CREATE_TABLE", schema=schema)
    do("WRITE", records=[{"id": 1, "v": 1}])
    table.alter(alterations_from_words(add=["w string"]))
    do("WRITE", records=[{"id": 2, "w": "new"}])  # refused by what is remembered, taken by the table
    table.alter(alterations_from_words(rename={"v": "u"}, types={"v": "bigint"}))
    with pytest.raises(InvalidInput, match="there is no field v"):
        do("WRITE", records=[{"id": 3, "v": 1}])
    do("WRITE", records=[{"id": 3, "u": 2**40}])
    change = load_iceberg(spark_lake.spark, table.name).updateSchema()
    java: Any = spark_lake.spark._jvm
    literals = java.org.apache.iceberg.expressions.Expressions
    text = java.org.apache.iceberg.types.Types.StringType.get()
    change.addColumn("kind", text, "doc", literals.lit("plain")).commit()
    do("WRITE", records=[{"id": 4}, {"id": 5, "kind": None}])
    assert all(own_files(table))
    assert do("QUERY", sort=[{"field": "id"}]).records == [
        {"id": 1, "u": 1, "w": None, "kind": "plain"},
        {"id": 2, "u": None, "w": "new", "kind": "plain"},
        {"id": 3, "u": 2**40, "w": None, "kind": "plain"},
        {"id": 4, "u": None, "w": None, "kind": "plain"},
        {"id": 5, "u": None, "w": None, "kind": None},
    ]
    table.set({"write.parquet.bloom-filter-enabled.column.id": "true"})
    do("WRITE", records=[{"id": 6}])  # that is for Spark
    assert own_files(table).count(False) == 1
    do("DROP_TABLE")
    with pytest.raises(TableNotFound):
        do("WRITE", records=[{"id": 7}])
    do("CREATE_TABLE", schema={"fields": {"id": {"type": "string"}}})
    do("WRITE", records=[{"id": "7"}])
    assert do("QUERY").records == [{"id": "7"}]
    spark_lake.tables.undelete(f"{namespace}.t", new_name=f"{namespace}.old")
    assert do("QUERY", "old", aggregations=[{"function": "count"}]).records == [{"count": 6}]


def test_writers_side_by_side_lose_and_double_nothing(
    do: Do, table: LakeTable, spark_lake: Lake, quick: SparkSession
) -> None:
    """Beside rivals that go by Spark, and writes that are wrong."""
    do("CREATE_TABLE", schema={"fields": {"id": {"type": "long", "required": True}}})
    start = threading.Barrier(9)

    def client(number: int) -> None:
        start.wait()
        for turn in range(6):
            do("WRITE", records=[{"id": number * 100 + turn}, {"id": number * 100 + turn}])
            with pytest.raises(InvalidInput, match="a value is required"):
                do("WRITE", records=[{"id": None}])

    def rival() -> None:
        start.wait()
        for turn in range(2):
            quick.sql(f"INSERT INTO {table.name.sql} (id) VALUES ({9000 + turn})")

    with ThreadPoolExecutor(9) as pool:
        for each in [*(pool.submit(client, number) for number in range(8)), pool.submit(rival)]:
            each.result(120)
    ids = [row["id"] for row in do("QUERY", sort=[{"field": "id"}]).records]
    assert ids == sorted([n * 100 + t for n in range(8) for t in range(6) for _ in range(2)] + [9000, 9001])
    runs = spark_lake.runs.list(table=table.name.short, kind="write", limit=1000)
    assert sum(run.result["rows"] for run in runs if run.result) == 96  # type: ignore[misc]
    assert len(runs) < 48  # they shared commits


@pytest.mark.parametrize("way", ["lost", "unanswered", "unanswered, made"])
def test_a_commit_that_went_wrong_is_told_as_it_was(
    do: Do, table: LakeTable, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Surely lost: the file goes. Answer lost: the table tells, and the file stays either way."""
    commit, made = engine.Append.commit, way.endswith("made")

    def lose(self: Any, new: Any, summary: Any) -> bool:
        if made:
            commit(self, new, summary)
        if way != "lost":
            raise JobFailed("the line went dead")
        return False

    do("CREATE_TABLE", schema={"fields": {"id": {"type": "long"}}})
    monkeypatch.setattr(engine.Append, "commit", lose)
    if made:
        do("WRITE", records=[{"id": 1}])
    else:
        with pytest.raises(CommitConflict if way == "lost" else JobFailed):
            do("WRITE", records=[{"id": 1}])
    assert do("QUERY").records == [{"id": 1}] * made
    folder = Path(table._context.catalog.facts(table.name).location.removeprefix("file:"))
    assert len(list((folder / "data").iterdir())) == (way != "lost")
