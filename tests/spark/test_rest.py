"""`/api/v1` over real Spark: rows as they come, and long work that goes on as a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.lake.serving import Answered, Client, serving

from neve.client import Client as Remote
from neve.http import create_app
from neve.lake import Lake, LakeTable
from neve.model.service import ServiceAddress

pytestmark = pytest.mark.spark
API = "/api/v1"
LINES = '{"id": 10, "name": "z"}\n'


def ended(client: Client, found: Answered) -> Any:
    assert found.status == 202, found.text
    for _ in range(1200):
        run = client.get(found.headers["location"]).json
        if run["state"] != "running":
            return run
        time.sleep(0.1)
    raise AssertionError("it goes on and on")


def test_rows_and_runs(
    spark_lake: Lake,
    quick: SparkSession,
    make_table: Callable[..., LakeTable],
    cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    table = make_table(rows="(1, 'a'), (2, NULL)")
    name, place = str(table.name), ".".join(table.name.namespace)
    first = table.history()[0].snapshot
    with serving(create_app(spark_lake)) as client:
        sql = f"SELECT id, id AS id, name, 0.10 AS d, array(name) AS l FROM {name} ORDER BY id"
        found = client.post(f"{API}/sql", {"sql": sql})
        assert (found.status, found.headers["content-type"]) == (200, "application/x-ndjson")
        assert found.text == cli("sql", sql, "-o", "jsonl")[1]
        many = client.post(f"{API}/sql", {"sql": "SELECT id FROM range(1000)", "limit": 600})
        assert [json.loads(line)["id"] for line in many.text.splitlines()] == [*range(600)]
        for wrong, status in (("SELECT nope", 404), (f"SELECT 1 / (id - 1) FROM {name} ORDER BY id", 502)):
            failed = client.post(f"{API}/sql", {"sql": wrong})
            assert (failed.status, failed.headers["content-type"]) == (status, "application/problem+json"), failed.text
        file = client.post(f"{API}/sql", {"sql": "SELECT * FROM text.`/etc/hostname`"})
        assert file.status >= 400

        spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (3, 'c')", write=True)
        changes = client.get(f"{API}/tables/{name}/changes?since={first}&columns=id")
        assert changes.text == '{"id": 3, "_w": 1}\n'
        assert client.get(f"{API}/tables/{name}/changes?since={table.history()[0].snapshot}").text == ""
        as_of = {"sql": f"SELECT count(*) AS n FROM {name}", "as_of": str(first)}
        assert client.post(f"{API}/sql", as_of).json == {"n": 2}

        spark_lake.tables.create(
            f"{place}.keyed", "k string not null, n int not null", row_keys=["k", "n"], split_points="m\n"
        )
        keyed = spark_lake.table(f"{place}.keyed")
        rows = "('a', 1), ('a,b', 2), ('m', 1), ('m', 3), ('z', 9)"
        spark_lake.sql(f"INSERT INTO {keyed.name.sql} (k, n) VALUES {rows}", write=True)
        address = f"http://127.0.0.1:{client.port}"
        remote = Remote(address).table(f"{place}.keyed")
        asks: list[tuple[list[str], dict[str, object]]] = [
            (["--key", "a", "--key", "m,3"], {"keys": ["a", ["m", 3]]}),
            (["--range", "b", "", "--limit", "2"], {"ranges": [["b", None]], "limit": 2}),
            (
                ["--range", "a", "m", "--exclude-low", "--include-high"],
                {"ranges": [["a", ["m"]]], "exclude_low": True, "include_high": True},
            ),
        ]
        for words, asked in asks:
            near = cli("table", "get", f"{place}.keyed", *words, "-o", "jsonl")[1]
            assert client.post(f"{API}/tables/{place}.keyed/get", asked).text == near != ""
            assert cli("table", "get", f"{place}.keyed", *words, "-o", "jsonl", "--server", address)[1] == near
        assert [*remote.get("a,b", ["m", 1])] == [{"k": "a,b", "n": 2}, {"k": "m", "n": 1}]
        assert [row["k"] for row in remote.range("m", with_low=False)] == ["z"]
        assert client.post(f"{API}/tables/{place}.keyed/get", {"keys": [["m", 1.5]]}).status == 422
        divided = remote.split(2, at="p")
        assert (divided.ranges[0].split_at, divided.files_moved) == ("p", 1)
        assert keyed.export_splits() == "m\np\n"

        declared = f"CREATE DYNAMIC TABLE {place}.d TARGET_LAG = '1 hour' AS SELECT id FROM {name} WHERE id > 1"
        made = ended(client, client.post(f"{API}/dynamic", {"sql": declared}))
        assert [row["action"] for row in made["result"]["answer"]] == ["create", "refresh"]
        again = ended(client, client.post(f"{API}/dynamic/refresh", {"names": [f"{place}.d"]}))
        assert [row["refresh"] for row in again["result"]["answer"]] == ["NO_DATA"]
        delivery = tmp_path / "in.csv"
        delivery.write_text("id,name\n7,x\n")
        spark_lake.tables.create(f"{place}.daily", "id bigint, name string, _ingest_date date")
        loaded = ended(
            client,
            client.post(f"{API}/tables/{place}.daily/ingest", {"sources": [str(delivery)], "date": "2026-11-16"}),
        )
        assert (loaded["state"], loaded["error_message"]) == ("succeeded", None)
        assert loaded["result"]["answer"]["rows_ingested"] == 1
        far = Remote(f"http://127.0.0.1:{client.port}").table(f"{place}.daily")
        again = far.ingest(delivery, date="2026-11-16")  # the same content, from elsewhere
        assert (again.rows_ingested, again.reason and again.reason.code) == (0, "same_content")
        delivery.write_text("id,name\n8,x\n9,y\n")
        assert far.ingest(delivery, date="2026-11-17", dry_run=True).dry_run is True
        assert far.ingest(delivery, date="2026-11-17").rows_ingested == 2
        sent = {"Content_Type": "application/x-ndjson; charset=utf-8"}
        lines = ended(client, client.ask("POST", f"{API}/tables/{place}.daily/ingest?date=2026-11-18", LINES, **sent))
        assert lines["result"]["answer"]["rows_ingested"] == 1
        held = sorted(map(tuple, spark_lake.sql(f"SELECT id, name FROM {place}.daily").collect()))
        assert held == [(7, "x"), (8, "x"), (9, "y"), (10, "z")]
        assert list((spark_lake.root / ".neve" / "uploads").iterdir()) == []


LOOKS = (
    "SELECT * FROM {} ORDER BY id",
    "SELECT * FROM {} WHERE false",
    "SELECT 1 AS a, 2 AS a, CAST(NULL AS INT) AS b, 1.50 AS c, X'00ff' AS d, DATE'2024-02-29' AS e, true AS f,"
    " TIMESTAMP'2024-02-29 12:00:00' AS g, map('k', 1.5D) AS h, named_struct('x', array(1, NULL)) AS i,"
    " double('NaN') AS j, 1e300D AS k, INTERVAL '1' DAY AS l, 'ü \"quoted\", comma' AS m, 9007199254740993 AS n",
    "DESCRIBE TABLE {}",
    "SELECT nope FROM {}",
    "SELECT * FROM text.`/etc/hostname` LIMIT 0",
    "SELECT 1; SELECT 2",
)
"""Looks of every kind; the last two are none that a service takes."""


def test_sql_in_a_lake_with_a_service_answers_as_without(
    spark_lake: Lake,
    quick: SparkSession,
    make_table: Callable[..., LakeTable],
    cli: Callable[..., tuple[int, str, str]],
) -> None:
    name = str(make_table(rows="(1, 'a'), (2, NULL)").name)
    address = ServiceAddress.file(spark_lake.root)
    with serving(create_app(spark_lake)) as client:
        address.parent.mkdir(exist_ok=True)
        address.write_text(ServiceAddress(url=f"http://127.0.0.1:{client.port}").model_dump_json())
        try:
            for look in LOOKS:
                for form in ("table", "json", "jsonl", "csv"):
                    words = ["sql", look.format(name), "-o", form]
                    assert cli(*words) == cli(*words, "--server", "off"), words
            asked = [line for line in client.get("/metrics").text.splitlines() if "/sql" in line]
            assert sum(int(line.split()[-1]) for line in asked) == 4 * (len(LOOKS) - 2), asked
            assert cli("sql", f"INSERT INTO {name} VALUES (3, 'c')", "--write")[0] == 0
            assert cli("sql", f"SELECT count(*) AS n FROM {name}", "-o", "csv")[1] == "n\n3\n"
        finally:
            address.unlink()
