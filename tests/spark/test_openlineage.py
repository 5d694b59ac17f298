"""OpenLineage events of real work: an ingest, the refresh of a table over it, and a compaction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.lake.schemas import check_event

from neve.lake import Lake
from neve.observe.sending import Sender


def test_an_ingest_a_refresh_and_a_compaction_are_told(
    spark_lake: Lake, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"
    sender = Sender(url=None, key=None, file=file, tell=pytest.fail)
    monkeypatch.setitem(spark_lake._context.__dict__, "events", sender)
    (tmp_path / "in_2024-01-01.csv").write_text("id,v\n1,a\n2,b\n")
    config = tmp_path / "sales.yaml"
    config.write_text(f"name: {namespace}.sales\ncolumns: {{id: bigint, v: string}}\n")
    spark_lake.tables.create(str(config))
    sales = spark_lake.table(str(config))
    loaded = sales.ingest(tmp_path / "in_*.csv", date="2024-01-01")
    query = f"SELECT v, count(*) AS n FROM {namespace}.sales GROUP BY v"
    spark_lake.dynamic.create(f"CREATE DYNAMIC TABLE {namespace}.counts TARGET_LAG = '1 hour' AS {query}")
    (tmp_path / "in_2024-01-02.csv").write_text("id,v\n3,b\n")
    sales.ingest(tmp_path / "in_2024-01-02.csv", date="2024-01-02")
    refreshed = spark_lake.dynamic(f"{namespace}.counts").refresh()
    compacted = sales.compact("2024-01")
    sender.close()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        check_event(event)
    told = {event["run"]["facets"]["neve_run"]["runId"]: event for event in events if event["eventType"] == "COMPLETE"}
    ingest, refresh, compact = (told[str(run)] for run in (loaded.run_id, refreshed.run_id, compacted.run_id))
    assert [item["name"] for item in ingest["inputs"]] == [str(tmp_path / "in_2024-01-01.csv")]
    assert ingest["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert [item["name"] for item in refresh["inputs"]] == [f"{namespace}.sales"]
    assert [item["name"] for item in refresh["outputs"]] == [f"{namespace}.counts"]
    assert refresh["job"]["facets"]["sql"]["query"] == query
    assert compact["inputs"][0]["name"] == compact["outputs"][0]["name"] == f"{namespace}.sales"
    assert compact["outputs"][0]["facets"]["version"]["datasetVersion"] == str(compacted.snapshot_after)
    starts = [event["run"]["runId"] for event in events if event["eventType"] == "START"]
    assert sorted(starts) == sorted(event["run"]["runId"] for event in told.values()), "each run begins and ends once"
