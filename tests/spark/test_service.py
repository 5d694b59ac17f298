"""The service over real Spark: document 003's operations, by HTTP.

The cases of the notes, by which the document's origin was tried, and who holds them:

 1 made once, 2 written and found, 3 updated, 5 stale values, 6 soft deletes, 7 equal records, 12 confirmation:
   test_the_life_of_records
 4 a row that is updated often: test_a_row_that_is_updated_often_is_one_row
 8 the fifth write, 9 below the threshold, 18 compaction beside writes: test_the_lines_of_the_document_run_unchanged
 9 an empty table, 10 retention, 11 partition, files, size: test_compaction_takes_what_it_is_told_to
13 what makes no sense, 17 no such table: test_what_is_wrong_is_named (tests/lake/test_database.py)
14 nested values: test_values_come_and_go_exactly
15 names of tenants: test_names_of_tenants_never_meet (tests/lake/test_database.py)
16 keys that may only read: the tests of keys
19 every word honoured or refused: test_questions_are_answered, and that of 13
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from tests.lake.serving import Answered, Client, serving

from neve.engine import statements
from neve.http import create_app
from neve.lake import Lake
from neve.model.names import TableName

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def client(spark_lake: Lake) -> Iterator[Client]:
    with serving(create_app(spark_lake)) as opened:
        yield opened


USERS = {
    "fields": {"name": {"type": "string", "required": True}, "email": {"type": "string"}, "age": {"type": "integer"}}
}
ALICE, BOB, CHARLIE = (
    {"name": name, "email": f"{name}@x", "age": age} for name, age in (("Alice", 30), ("Bob", 25), ("Charlie", 35))
)


def where(field: str, value: object, operator: str = "eq") -> list[dict[str, object]]:
    return [{"field": field, "operator": operator, "value": value}]


def test_the_life_of_records(client: Client, namespace: str) -> None:
    """Cases 1 to 7 and 12 of the notes: what the origin of the document does wrong."""

    def do(operation: str, **words: object) -> dict[str, object]:
        found = client.do(operation, tenant_id="acme", namespace=namespace, table="users", **words)
        assert found["metadata"]["request_id"]
        return {key: value for key, value in found.items() if key not in ("metadata", "query_metadata", "success")}

    def names(**words: object) -> list[object]:
        records = do("QUERY", sort=[{"field": "name"}], **words)["records"]
        return [record["name"] for record in records]  # type: ignore[attr-defined]

    assert do("CREATE_TABLE", schema=USERS) == {"table_created": True, "table_existed": False}
    assert do("CREATE_TABLE", schema=USERS) == {"table_created": False, "table_existed": True}
    again = client.post(
        "/database",
        {
            "operation": "CREATE_TABLE",
            "tenant_id": "acme",
            "namespace": namespace,
            "table": "users",
            "schema": USERS,
            "if_not_exists": False,
        },
    )
    assert (again.status, again.json["error"]["code"]) == (409, "TABLE_EXISTS")
    assert do("WRITE", records=[ALICE, BOB, CHARLIE])["records_written"] == 3
    assert do("QUERY", filters=where("name", "Alice"))["records"] == [ALICE]
    before = client.do("DESCRIBE_TABLE", tenant_id="acme", namespace=namespace, table="users")["snapshot"]

    assert do("UPDATE", updates={"age": 31}, filters=where("name", "Alice")) == {"records_updated": 1}
    assert do("UPDATE", updates={"age": 99}, filters=where("age", 30)) == {"records_updated": 0}
    assert do("QUERY", filters=where("name", "Alice"))["records"] == [{**ALICE, "age": 31}]
    assert do("QUERY", filters=where("name", "Alice"), as_of=before)["records"] == [ALICE]

    assert do("DELETE", filters=where("name", "Charlie")) == {"records_deleted": 1}
    assert names() == ["Alice", "Bob"]
    assert names(include_deleted=True) == ["Alice", "Bob", "Charlie"]
    assert do("DELETE", filters=where("name", "Charlie")) == {"records_deleted": 0}
    assert do("UPDATE", updates={"age": 1}, filters=where("name", "Charlie")) == {"records_updated": 0}
    assert do("WRITE", records=[CHARLIE, CHARLIE])["records_written"] == 2
    assert names() == ["Alice", "Bob", "Charlie", "Charlie"]

    refused = client.post(
        "/database",
        {
            "operation": "HARD_DELETE",
            "tenant_id": "acme",
            "namespace": namespace,
            "table": "users",
            "filters": where("name", "Charlie"),
        },
    )
    assert (refused.status, refused.json["error"]["code"]) == (412, "CONFIRMATION_REQUIRED")
    assert do("HARD_DELETE", filters=where("name", "Charlie"), confirm=True)["records_deleted"] == 3
    assert names(include_deleted=True) == ["Alice", "Bob"]
    assert do("WRITE", records=[BOB], mode="overwrite")["records_written"] == 1
    assert names() == ["Bob"]
    assert do("DROP_TABLE") == {
        "table_dropped": True,
        "purged": False,
        "undo": f"neve table undelete acme.{namespace}.users",
    }


@pytest.fixture
def do(client: Client, namespace: str) -> Callable[..., Any]:
    """An operation on one table of this test's own."""

    def do(operation: str, **words: object) -> Any:
        found = client.do(operation, namespace=namespace, table="t", **words)
        assert found["success"], found
        return found

    return do


def test_a_row_that_is_updated_often_is_one_row(do: Callable[..., Any]) -> None:
    """Its versions are snapshots."""
    do(
        "CREATE_TABLE",
        schema={"fields": {"id": {"type": "long"}, "price": {"type": "decimal(10,2)"}, "stock": {"type": "integer"}}},
    )
    do("WRITE", records=[{"id": 1, "price": "999.99", "stock": 5}, {"id": 2, "price": "999.99", "stock": 1}])
    seen = []
    for updates in ({"price": "899.99"}, {"price": "799.99"}, {"stock": 100}):
        seen.append(do("DESCRIBE_TABLE")["snapshot"])
        assert do("UPDATE", updates=updates, filters=where("id", 1))["records_updated"] == 1
    assert do("QUERY", filters=where("id", 1))["records"] == [{"id": 1, "price": "799.99", "stock": 100}]
    assert do("QUERY", filters=where("price", "899.99"))["records"] == []
    before = [do("QUERY", filters=where("id", 1), as_of=snapshot)["records"] for snapshot in seen]
    assert [rows[0]["price"] for rows in before] == ["999.99", "899.99", "799.99"]
    assert [len(rows) for rows in before] == [1, 1, 1]
    net = do("QUERY", between_times=[seen[0], do("DESCRIBE_TABLE")["snapshot"]], sort=[{"field": "_w"}])["records"]
    first, last = (
        {"id": 1, "price": "999.99", "stock": 5, "_w": -1},
        {"id": 1, "price": "799.99", "stock": 100, "_w": 1},
    )
    assert net == [first, last]
    do("DELETE", filters=where("id", 2))
    gone = {"projection": ["id", "_w"], "filters": where("_w", 0, "lt")}
    now = do("DESCRIBE_TABLE")["snapshot"]
    assert do("QUERY", between_times=[seen[2], now], **gone, sort=[{"field": "id"}])["records"] == [
        {"id": 1, "_w": -1},
        {"id": 2, "_w": -1},
    ]
    assert do("QUERY", between_times=[now, now])["records"] == []


def test_compaction_takes_what_it_is_told_to(do: Callable[..., Any]) -> None:
    """One partition, so many files, none of an empty table; snapshots as long as they are to be kept."""
    fields = {"id": {"type": "long"}, "region": {"type": "string"}}
    do("CREATE_TABLE", schema={"fields": fields}, partition={"partitions": [{"field": "region"}]})
    assert do("COMPACT")["reason"] == "No files to compact"
    for number in range(4):
        do("WRITE", records=[{"id": number, "region": region} for region in ("eu", "us")])
    rows = do("QUERY", sort=[{"field": "id"}, {"field": "region"}])["records"]
    first = do("DESCRIBE_TABLE")["snapshot"]
    done = do("COMPACT", force=True, partition_filter={"region": "eu"}, max_files=3)
    assert [done["stats"][key] for key in ("files_before", "files_after", "files_compacted")] == [8, 6, 3]
    assert done["stats"]["snapshots_expired"] == 0  # all are younger than a week
    assert do("QUERY", as_of=first, sort=[{"field": "id"}, {"field": "region"}])["records"] == rows
    done = do(
        "COMPACT", force=True, partition_filter={"region": "us"}, target_file_size_mb=1, snapshot_retention_hours=0
    )
    assert [done["stats"][key] for key in ("files_before", "files_after", "files_compacted")] == [6, 3, 4]
    assert done["stats"]["snapshots_expired"] > 0
    assert do("QUERY", sort=[{"field": "id"}, {"field": "region"}])["records"] == rows


def test_a_question_is_answered_whatever_expires_under_it(
    do: Callable[..., Any], client: Client, namespace: str, spark_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try loses its files. The second is told of, so that those stay until it is answered."""
    do("CREATE_TABLE", schema={"fields": {"id": {"type": "long"}}})
    do("WRITE", records=[{"id": 1}])
    iterate, tries = statements._iterate, list[int]()

    def iterate_late(frame: DataFrame, **words: Any) -> Any:
        """Planned; then every file that it is to read is rewritten, and what can expire has."""
        cast(Any, frame)._jdf.queryExecution().executedPlan().toString()
        tries.append(len(tries))
        do("WRITE", records=[{"id": 1}])
        do("COMPACT", force=True, snapshot_retention_hours=0)
        return iterate(frame, **words)

    monkeypatch.setattr(statements, "_iterate", iterate_late)
    assert do("QUERY")["records"] == [{"id": 1}] * 2
    assert len(tries) == 2
    counted = do_sql(client, namespace, "SELECT count(*) AS n FROM t WHERE id IN (SELECT id FROM t)")
    assert (counted, len(tries)) == ([{"n": 4}], 4)
    monkeypatch.undo()
    assert spark_lake._context.store.readers.of(spark_lake._context.catalog.facts(table_of(namespace)).uuid) == ()


def do_sql(client: Client, namespace: str, text: str) -> Any:
    found = client.do("EXECUTE_SQL", namespace=namespace, sql=text)
    assert found["success"], found
    return found["records"]


def table_of(namespace: str) -> TableName:
    return TableName((namespace,), "t")


HOSTILE = [
    "O'Neil",
    'a"b`c',
    "back\\slash \\n \\' %_",
    "line\nbreak\ttab\r\0",
    "'; DROP TABLE t; --",
    "é 🎿 \u2028",
    "",
    "${x} :y ? {{z}}",
]
TYPES = {
    "fields": {
        "id": {"type": "long", "required": True},
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "dec": {"type": "decimal(38,10)"},
        "f": {"type": "float"},
        "d": {"type": "double"},
        "ok": {"type": "boolean"},
        "day": {"type": "date"},
        "at": {"type": "timestamp"},
        "local": {"type": "timestamp_ntz"},
        "raw": {"type": "binary"},
        "tags": {"type": "array", "items": "string"},
        "m": {"type": "map", "key_type": "integer", "value_type": {"type": "decimal(5,2)"}},
        "home": {
            "type": "struct",
            "fields": {"state": {"type": "string"}, "geo": {"type": "array", "items": "double"}},
        },
        "items": {
            "type": "array",
            "items": {"type": "struct", "fields": {"sku": {"type": "string"}, "n": {"type": "integer"}}},
        },
    },
    "primary_key": ["id"],
}
FULL = {
    "s": "x",
    "i": -(2**31),
    "dec": "1234567890123456789012345678.0123456789",
    "f": 0.1,
    "d": 1e-300,
    "ok": True,
    "day": "1582-10-04",
    "at": "1899-12-31T23:59:59.999999+00:00",
    "local": "2026-03-29T02:30:00",
    "raw": "00ff10",
    "tags": ["a", None, ""],
    "m": {"1": "1.50", "-2": None},
    "home": {"state": "CA", "geo": [1.5, "NaN", "-Infinity"]},
    "items": [{"sku": "a", "n": 1}, {"sku": None, "n": None}, {"sku": "c", "n": 3}],
}


def test_values_come_and_go_exactly(client: Client, namespace: str) -> None:
    def do(operation: str, **words: object) -> Any:
        found = client.do(operation, namespace=namespace, table="v", **words)
        assert found["success"], found
        return found

    def rows(**words: object) -> Any:
        return do("QUERY", sort=[{"field": "id"}], **words)["records"]

    do("CREATE_TABLE", schema=TYPES, partition={"partitions": [{"field": "at", "transform": "day"}]})
    nothing = dict.fromkeys(FULL)
    sent = [
        {"id": 1, **FULL},
        {"id": 2, **nothing},
        *({"id": 10 + n, **nothing, "s": s} for n, s in enumerate(HOSTILE)),
        *({"id": 20 + n, **nothing, "dec": dec} for n, dec in enumerate(("-0.0000000001", "0.0000000000"))),
    ]
    assert do("WRITE", records=sent)["records_written"] == len(sent)
    assert rows() == sent
    for number, text in enumerate(HOSTILE):
        assert [row["id"] for row in rows(filters=where("s", text))] == [10 + number]
    assert len(rows(filters=where("s", HOSTILE, "in"))) == len(HOSTILE)
    for field in ("i", "dec", "f", "d", "ok", "day", "at", "local", "raw", "home.state"):
        value = FULL["home"]["state"] if field == "home.state" else FULL[field]  # type: ignore[index]
        assert [row["id"] for row in rows(filters=where(field, value), projection=["id"])] == [1], field

    assert do("UPDATE", updates=FULL, filters=where("id", 2))["records_updated"] == 1
    assert rows(filters=where("id", 3, "lt")) == [{"id": 1, **FULL}, {"id": 2, **FULL}]
    put = [
        {"id": 2, "s": HOSTILE[2], "m": {}, "tags": []},
        {"id": 3, "s": HOSTILE[3], "m": {"7": "0.01"}, "tags": None},
    ]
    do("DELETE", filters=where("id", 1))
    done = do("UPSERT", records=put)
    assert [done[key] for key in ("records_inserted", "records_updated", "total_affected")] == [1, 1, 2]
    assert rows(filters=where("id", 4, "lt")) == [{"id": 2, **FULL, **put[0]}, {"id": 3, **nothing, **put[1]}]
    # a deleted key is free again, and what was deleted stays as it was
    assert do("WRITE", mode="upsert", records=[{"id": 1, "s": "new"}])["records_written"] == 1
    assert rows(filters=where("id", 1)) == [{"id": 1, **nothing, "s": "new"}]
    assert len(rows(filters=where("id", 1), include_deleted=True)) == 2
    # by filters instead of a key: rows that match are updated, and records come where none does
    seen = {"records": [{"id": 30, "s": "first"}], "updates": {"s": "again"}, "filters": where("id", 30)}
    for round_ in ("first", "again"):
        done = do("UPSERT", **seen)
        assert (done["records_inserted"], done["records_updated"]) == ((1, 0) if round_ == "first" else (0, 1))
        assert [row["s"] for row in rows(filters=where("id", 30))] == [round_]
    do("DELETE", filters=where("id", 30))
    assert do("UPSERT", **seen)["records_inserted"] == 1
    bad = client.post(
        "/database", {"operation": "UPSERT", "namespace": namespace, "table": "v", **seen, "records": [{}]}
    )
    assert (bad.status, bad.json["error"]["message"]) == (422, "records[0].id: a value is required")
    bad = client.post(
        "/database", {"operation": "WRITE", "namespace": namespace, "table": "v", "records": [{"id": 99}, {"id": "x"}]}
    )
    assert (bad.status, bad.json["error"]["message"]) == (422, "records[1].id: 'x' is no bigint")
    assert rows(filters=where("id", 99)) == []


def test_rows_are_exported_as_csv(client: Client, namespace: str) -> None:
    def export(**words: object) -> Any:
        return client.do("EXPORT_CSV", namespace=namespace, table="x", **words)

    def fetched(done: Any) -> list[list[str]]:
        found = client.get(done["download_url"])
        assert (found.status, int(found.headers["content-length"])) == (200, done["bytes"])
        return list(csv.reader(io.StringIO(found.text, newline=""), strict=True))

    fields = {name: kind for name, kind in TYPES["fields"].items() if name in CSV}  # type: ignore[attr-defined]
    client.do("CREATE_TABLE", namespace=namespace, table="x", schema={"fields": fields})
    nothing, texts = dict.fromkeys(CSV), [*HOSTILE, " spaces ", "a,b", "\r"]
    full = {name: FULL[name] for name in CSV if name != "id"}
    records = [
        {"id": 1, **full},
        *({**nothing, "id": 2 + n, "s": s} for n, s in enumerate(texts)),
        {**nothing, "id": 99},
    ]
    client.do("WRITE", namespace=namespace, table="x", records=records)
    done = export(sort=[{"field": "id", "order": "desc"}], filename="all rows.csv")
    assert (done["rows_exported"], done["filename"]) == (len(records), "all rows.csv")
    header, *rows = fetched(done)
    assert header == list(fields)
    assert rows[-1] == [CSV[name] for name in fields]
    assert [row[header.index("s")] for row in rows[1:-1]] == texts[::-1]
    assert client.get(done["download_url"]).text.splitlines()[1].endswith("99" + "," * (len(header) - 1))
    assert fetched(export(projection=["id"], sort=[{"field": "id"}], limit=2, include_header=False)) == [["1"], ["2"]]
    client.do("DELETE", namespace=namespace, table="x", filters=where("id", 2, "gt"))
    ids = {"projection": ["id"], "sort": [{"field": "id"}], "include_header": False}
    assert len(fetched(export(**ids))) == 2
    assert len(fetched(export(**ids, include_deleted=True))) == len(records)
    none = export(filters=where("id", -1))
    assert (none["rows_exported"], fetched(none)) == (0, [header])
    assert client.do("EXPORT_CSV", namespace=namespace, table="x", filters=where("nosuch", 1))["success"] is False


CSV = {
    "id": "1",
    "s": "x",
    "dec": "1234567890123456789012345678.0123456789",
    "d": "1.0E-300",
    "ok": "true",
    "day": "1582-10-04",
    "at": "1899-12-31T23:59:59.999999+00:00",
    "local": "2026-03-29T02:30:00.000000",
    "raw": "00ff10",
    "tags": '["a",null,""]',
}


def test_questions_are_answered(client: Client, namespace: str) -> None:
    def ask(**words: object) -> Any:
        return client.do("QUERY", namespace=namespace, table="q", **words)

    fields = {
        "id": {"type": "long"},
        "g": {"type": "string"},
        "v": {"type": "decimal(10,2)"},
        "at": {"type": "timestamp"},
    }
    client.do("CREATE_TABLE", namespace=namespace, table="q", schema={"fields": fields})
    records = [{"id": n, "g": "abc"[n % 3], "v": f"{n}.50", "at": f"2026-0{1 + n % 2}-03T04:05:06Z"} for n in range(9)]
    client.do("WRITE", namespace=namespace, table="q", records=[*records, {"id": 9}])

    functions: list[dict[str, object]] = [
        {"function": name, "field": "v", "alias": name} for name in ("sum", "avg", "min", "max", "median")
    ]
    functions += [
        {"function": "count"},
        {"function": "percentile", "field": "v", "percentile_value": 0.5, "alias": "p"},
    ]
    found = ask(aggregations=functions, group_by=["g"], having=where("count", 1, "gt"), sort=[{"field": "g"}])
    assert found["records"][0] == {
        "g": "a", "sum": "10.50", "avg": "3.500000", "min": "0.50", "max": "6.50", "median": 3.5, "count": 3, "p": 3.5,
    }  # fmt: skip
    assert [row["g"] for row in found["records"]] == ["a", "b", "c"]
    assert ask(aggregations=[{"function": "count", "field": "g", "distinct": True}])["records"] == [{"count_g": 3}]
    page = ask(projection=["id"], sort=[{"field": "v", "order": "desc", "nulls_first": True}], limit=3, offset=1)
    assert [row["id"] for row in page["records"]] == [8, 7, 6]
    assert page["query_metadata"]["row_count"] == 3
    assert page["query_metadata"]["warnings"] == []
    assert ask(limit=1, offset=1)["query_metadata"]["warnings"] != []
    projection = [
        {"field": "g", "upper": True, "alias": "u"},
        {"field": "at", "alias": "m", "date_trunc": "month"},
        {"field": "at", "alias": "text", "date_format": "yyyy/MM"},
        {"field": "at", "alias": "year", "extract": "year"},
        {"field": "v", "alias": "cast", "cast": "integer"},
    ]
    first = ask(projection=projection, filters=where("id", 1))["records"]
    assert first == [{"u": "B", "m": "2026-02-01T00:00:00+00:00", "text": "2026/02", "year": 2026, "cast": 1}]
    assert len(ask(projection=["g"], distinct=True)["records"]) == 4
    assert len(ask(filters=where("g", "_", "like"))["records"]) == 9
    assert "BatchScan" in ask(explain=True)["plan"]
    names = {"fields": {"g": {"type": "string"}, "name": {"type": "string"}}}
    client.do("CREATE_TABLE", namespace=namespace, table="names", schema=names)
    known = [{"g": "a", "name": "A"}, {"g": "b", "name": "B"}, {"g": "c", "name": "gone"}, {"g": "z", "name": "Z"}]
    client.do("WRITE", namespace=namespace, table="names", records=known)
    client.do("DELETE", namespace=namespace, table="names", filters=where("g", "c"))
    on = [{"left_field": "g", "right_field": "g"}]
    by_name = [{"field": "names.name", "nulls_first": True}, {"field": "id", "nulls_first": True}]
    for kind, expected in (("left", "----AAABBB"), ("full", "----AAABBBZ")):
        joined = ask(join=[{"table": "names", "type": kind, "on": on}], projection=["id", "names.name"], sort=by_name)
        assert "".join(row["names.name"] or "-" for row in joined["records"]) == expected
    whole = ask(join=[{"table": "names", "alias": "n", "on": on}], filters=where("n.name", "B"), sort=[{"field": "id"}])
    assert whole["records"][0] == {**records[1], "at": "2026-02-03T04:05:06+00:00", "n": {"g": "b", "name": "B"}}
    counted = ask(join=[{"table": "names", "type": "cross"}], aggregations=[{"function": "count"}])
    assert counted["records"] == [{"count": 30}]
    late = client.post(
        "/database", {"operation": "QUERY", "namespace": namespace, "table": "q", "as_of": "2020-01-01T00:00Z"}
    )
    assert (late.status, late.json["error"]["code"]) == (404, "SNAPSHOT_NOT_FOUND")

    def sql(text: str, **words: object) -> Answered:
        return client.post("/database", {"operation": "EXECUTE_SQL", "namespace": namespace, "sql": text, **words})

    assert sql("SELECT count(*) AS n FROM q WHERE id > ? AND g = ?", params=[3, "a"]).json["records"] == [{"n": 1}]
    assert sql("SELECT :a AS a", params={"a": "x' OR 1"}).json["records"] == [{"a": "x' OR 1"}]
    for text in ("TRUNCATE TABLE q", "WITH a AS (SELECT 1) INSERT INTO q SELECT 1, '', 1, now()", "SET", "CALL x()"):
        assert sql(text).json["error"]["code"] == "NEEDS_WRITE", text
    program = "SELECT TRANSFORM(id) USING 'cat' AS (id bigint) FROM q"
    for text in (
        f"WITH a AS ({program}) SELECT * FROM a",
        f"SELECT * FROM q WHERE id IN ({program})",
        f"INSERT INTO q (id) {program}",
        f"INSERT INTO q (id) WITH a AS ({program}) SELECT id FROM a",
        f"DELETE FROM q WHERE id IN ({program})",
        f"MERGE INTO q USING ({program}) s ON q.id = s.id WHEN MATCHED THEN DELETE",
    ):
        ran = sql(text)
        assert (ran.status, ran.json["error"]["code"] in ("NEEDS_WRITE", "REFUSED", "UNSUPPORTED")) == (412, True), text
    came = sql("INSERT INTO q VALUES (?, 'z', 1.25, CAST(? AS timestamp))", params=[100, "2026-01-01"]).json
    assert came["success"], came
    assert (came["rows_added"], came["rows_removed"], came["records"]) == (1, 0, [])
    assert sql("DELETE FROM q WHERE id = 100").json["rows_removed"] == 1
    for text in ("SELECT * FROM text.`/etc/hostname`", "SELECT * FROM iceberg.`/etc`", "SELECT * FROM json.`x`"):
        assert sql(text).json["success"] is False, text
    assert sql("SELECT 1; SELECT 2").status == 422
    assert sql("SELECT '${env:HOME}'").status == 422
    slow = "SELECT count(*) FROM range(100000000) a JOIN range(100000) b ON a.id % 7 = b.id % 5"
    over = sql(slow, timeout_ms=700)
    assert (over.status, over.json["error"]["code"]) == (504, "TIMED_OUT")
    assert sql("SELECT 1 AS n").json["records"] == [{"n": 1}]


GUIDE = r"""
curl -X POST http://localhost:8080/2015-03-31/functions/function/invocations \
  -H "Content-Type: application/json" \
  -d '{
    "httpMethod": "POST",
    "path": "/database",
    "body": "{\"operation\": \"CREATE_TABLE\", \"tenant_id\": \"test-tenant\", \"namespace\": \"default\", \"table\": \"test_users\", \"schema\": {\"fields\": {\"name\": {\"type\": \"string\", \"required\": true}, \"age\": {\"type\": \"integer\", \"required\": false}}}, \"if_not_exists\": true}"
  }'
for i in {1..5}; do
  curl -X POST http://localhost:8080/2015-03-31/functions/function/invocations \
    -H "Content-Type: application/json" \
    -d "{\"httpMethod\":\"POST\",\"path\":\"/database\",\"body\":\"{\\\"operation\\\":\\\"WRITE\\\",\\\"tenant_id\\\":\\\"test-tenant\\\",\\\"namespace\\\":\\\"default\\\",\\\"table\\\":\\\"test_users\\\",\\\"records\\\":[{\\\"name\\\":\\\"User-$i\\\",\\\"age\\\":$((20+i))}]}\"}" \
    | jq '.body | fromjson | {compaction_recommended, small_files_count}'
  sleep 10
done
curl -X POST http://localhost:8080/2015-03-31/functions/function/invocations \
  -H "Content-Type: application/json" \
  -d '{
    "httpMethod": "POST",
    "path": "/database",
    "body": "{\"operation\": \"COMPACT\", \"tenant_id\": \"test-tenant\", \"namespace\": \"default\", \"table\": \"test_users\", \"force\": true, \"expire_snapshots\": false}"
  }' | jq '.body | fromjson | .stats'
"""  # noqa: E501
"""The lines that document 003 gives to be typed."""


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_lines_of_the_document_run_unchanged(client: Client, spark_lake: Lake) -> None:
    """But for the port, which is taken on a machine that serves; and nobody sleeps."""
    script = "set -euo pipefail; sleep() { :; }\n" + GUIDE.replace(":8080/", f":{client.port}/")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    told = [*json_stream(done.stdout)]
    created = json.loads(told[0]["body"])
    assert (told[0]["statusCode"], created["success"], created["table_created"]) == (200, True, True)
    quiet = {"compaction_recommended": False, "small_files_count": None}
    assert told[1:6] == [quiet] * 4 + [{"compaction_recommended": True, "small_files_count": 5}]
    stats = told[6]
    assert [stats[key] for key in ("files_before", "files_after", "files_compacted", "files_removed")] == [5, 1, 5, 5]
    assert stats["bytes_saved"] == stats["bytes_before"] - stats["bytes_after"]
    assert set(stats) == {
        "files_before", "files_after", "files_compacted", "files_removed", "bytes_before", "bytes_after",
        "bytes_saved", "snapshots_expired", "compaction_time_ms", "small_files_remaining",
    }  # fmt: skip
    users = {"tenant_id": "test-tenant", "namespace": "default", "table": "test_users"}
    found = client.do("QUERY", **users, sort=[{"field": "age"}])["records"]
    assert found == [{"name": f"User-{n}", "age": 20 + n} for n in range(1, 6)]
    with ThreadPoolExecutor(8) as pool:  # side by side, beside a compaction
        extra = [pool.submit(client.do, "WRITE", **users, records=[{"name": "x", "age": n}]) for n in range(100, 108)]
        client.do("COMPACT", **users, force=True)
        assert all(each.result()["records_written"] == 1 for each in extra)
    made = spark_lake.runs.list(table="`test-tenant`.default.test_users", kind="write")
    assert 5 < len(made) < 5 + len(extra)  # those that came while one committed shared the next
    assert sum(run.result["rows"] for run in made if run.result) == 5 + len(extra)  # type: ignore[misc]
    ages = client.do("QUERY", **users, projection=["age"], sort=[{"field": "age"}])["records"]
    assert [row["age"] for row in ages] == [*range(21, 26), *range(100, 108)]
    client.do("COMPACT", **users, force=True)
    again = client.do("COMPACT", **users)
    assert (again["compacted"], again["reason"]) == (False, "Only 1 small files (threshold: 3)")


def json_stream(text: str) -> Iterator[Any]:
    """The JSON values that follow each other in a text."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text.rstrip()):
        place += len(text[place:]) - len(text[place:].lstrip())
        value, place = decoder.raw_decode(text, place)
        yield value
