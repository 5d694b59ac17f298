"""kill −9 in the middle of an ingest: before its rows are published, and between that and the log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neve.lake import Lake, LakeTable

SCRIPT = """
import os, signal, sys
from neve import Lake
from neve.services import ingest as service

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(service, sys.argv[1], die)
Lake(sys.argv[2]).table(sys.argv[3]).ingest(sys.argv[4], date="2024-01-01")
"""


@pytest.mark.faults
@pytest.mark.parametrize(("step", "published"), [("publish", False), ("log_ingest", True)])
def test_an_ingest_that_was_killed_is_loaded_once(
    spark_lake: Lake, namespace: str, tmp_path: Path, step: str, published: bool
) -> None:
    source = tmp_path / "a.csv"
    source.write_text("id\n1\n2\n2\n")
    spark_lake.tables.create(f"{namespace}.t", "id bigint")
    table = spark_lake.table(f"{namespace}.t")
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, step, str(spark_lake.root), str(table.name), str(source)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
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


def count(lake: Lake, table: LakeTable) -> int:
    return int(lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0])
