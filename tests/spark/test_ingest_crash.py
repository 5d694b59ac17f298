"""kill −9 in the middle of an ingest, before its rows are published or after; and answers that are lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from neve.engine.errors import from_java
from neve.engine.staging import Branch, publish
from neve.errors import CommitUnknown
from neve.lake import Lake, LakeTable

SCRIPT = """
import importlib, os, signal, sys
from neve import Lake

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

module, _, name = sys.argv[1].rpartition(".")
setattr(importlib.import_module(f"neve.services.{module}"), name, die)
Lake(sys.argv[2]).table(sys.argv[3]).ingest(sys.argv[4], date_from_name="{date}.csv")
"""


def kill_at(step: str, lake: Lake, table: LakeTable | str, sources: str) -> None:
    """An ingest in a process of its own that dies where it would take a step."""
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, step, str(lake.root), str(getattr(table, "name", table)), sources],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()


@pytest.mark.faults
@pytest.mark.parametrize(("step", "published"), [("ingest.publish", False), ("ingest.log_ingest", True)])
def test_an_ingest_that_was_killed_is_loaded_once(
    spark_lake: Lake, namespace: str, tmp_path: Path, step: str, published: bool
) -> None:
    source = tmp_path / "2024-01-01.csv"
    source.write_text("id\n1\n2\n2\n")
    spark_lake.tables.create(f"{namespace}.t", "id bigint")
    table = spark_lake.table(f"{namespace}.t")
    kill_at(step, spark_lake, table, str(source))
    assert count(spark_lake, table) == (3 if published else 0)
    receipt = table.ingest(source, date="2024-01-01")
    assert (receipt.run_id is None) == published
    assert count(spark_lake, table) == 3
    table.set({"any.change": "settles the dead run"})
    assert [row.kind for row in table.references()] == ["branch"], "only main is left"
    (logged,) = spark_lake._context.store.ingestions.for_table(table.name.short)
    assert (logged.status, logged.rows_ingested) == ("success", 3)
    states = [run.state for run in spark_lake.runs.list(table=str(table.name), kind="ingest")]
    assert "running" not in states


@pytest.mark.faults
@pytest.mark.parametrize(
    ("storage", "step", "published"),
    [
        ("{{format: iceberg}}", "ingest.publish", False),
        ("{{format: iceberg}}", "rejected.pick", True),
        ("{{format: iceberg}}", "ingest.log_ingest", True),
        ("{{format: parquet, base_path: {0}/t}}", "directory_tables.ingest.day_path", False),
        ("{{format: parquet, base_path: {0}/t}}", "rejected.pick", True),
    ],
)
def test_rejected_rows_of_several_dates_are_kept_once(
    spark_lake: Lake, namespace: str, tmp_path: Path, *, storage: str, step: str, published: bool
) -> None:
    """Those of a load that never came to be are not there, not even before the next command; nor are any lost."""
    config, landing = tmp_path / "t.yaml", tmp_path / "landing"
    config.write_text(f"name: {namespace}.t\nstorage: {storage.format(tmp_path)}\ncolumns: {{id: bigint, v: string}}\n")
    spark_lake.tables.create(str(config))
    landing.mkdir()
    for day, rows in {1: "1,a\nx,b\ny,c", 2: "2,d\nz,e", 3: "3,f"}.items():
        (landing / f"2024-01-0{day}.csv").write_text(f"id,v\n{rows}\n")
    table = spark_lake.table(str(config))
    kill_at(step, spark_lake, str(config), str(landing))
    if not published:
        assert raw(spark_lake, namespace) == []
    with Lake(spark_lake.root) as later:
        assert (later.table(str(config)).ingest(landing, date_from_name="{date}.csv").run_id is None) == published
    assert raw(spark_lake, namespace) == ["x", "y", "z"]
    assert [row.kind for row in spark_lake.table(f"{namespace}.t__rejected").references()] == ["branch"]
    status = table.status().ingestion
    assert (status.total_ingestions, status.total_rows, status.rows_rejected) == (3, 3, 3)
    assert [(row.state, row.logged) for row in table.verify()] == [("ok", 1)] * 3
    *_, killed = spark_lake.runs.list(table=f"{namespace}.t", kind="ingest")
    assert killed.state == ("succeeded" if published else "failed")
    assert published or not killed.result


def raw(lake: Lake, namespace: str) -> list[str]:
    """What was rejected, by the value that is none."""
    found = lake.sql(f"SELECT get_json_object(raw, '$.id') FROM {namespace}.t__rejected ORDER BY 1").collect()
    return [row[0] for row in found]


def count(lake: Lake, table: LakeTable) -> int:
    return int(lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0])


@pytest.mark.parametrize("made", [True, False])
def test_a_load_whose_answer_was_lost_is_done_exactly_once(
    spark_lake: Lake,
    make_table: Callable[..., LakeTable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    made: bool,
) -> None:
    """What was published counts, with its rejected rows; where nobody can tell, the same command settles it."""
    table, source = make_table(), tmp_path / "in.csv"
    source.write_text("id,name\n1,a\nx,b\n")

    def lose(spark: SparkSession, branch: Branch, **how: Any) -> int:
        if made:
            publish(spark, branch, **how)
        raise from_java(": org.apache.iceberg.exceptions.CommitStateUnknownException: the line went dead")

    with monkeypatch.context() as patched:
        patched.setattr("neve.services.ingest.publish", lose)
        if made:
            first = table.ingest(source, date="2024-01-01")
            assert (first.rows_ingested, first.rows_rejected, first.snapshot_after) == (
                1,
                1,
                table.history()[0].snapshot,
            )
        else:
            with pytest.raises(CommitUnknown, match="went dead"):
                table.ingest(source, date="2024-01-01")
            assert [row for row in table.references() if row.kind == "branch" and row.name != "main"] == []
    again = table.ingest(source, date="2024-01-01")
    assert [row.action for row in again.dates] == ["skip" if made else "load"]
    assert [row[0] for row in table.query("SELECT id FROM t").collect()] == [1]
    rejected = spark_lake.sql(f"SELECT raw FROM {table.name.sql.replace('`t`', '`t__rejected`')}").collect()
    assert [row[0] for row in rejected] == ['{"id":"x","name":"b"}']
    assert [row.state for row in table.verify()] == ["ok"]
    runs = [run.state for run in spark_lake.runs.list(table=table.name.short, kind="ingest")]
    assert runs == (["succeeded"] if made else ["succeeded", "failed"])
