"""kill −9 at each step of a compaction: rows and lineage stay, the next one works, and only orphans are left behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.attached import KILLED, Attached

from neve.lake import Lake, LakeTable
from neve.services.leases import TTL

MOST = 40  # effects of a compaction: more, and it does not end


@pytest.mark.faults
def test_a_compaction_that_was_killed_costs_nothing(
    spark_lake: Lake,
    quick: SparkSession,
    make_table: Callable[..., LakeTable],
    attached: Attached,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One partition is encoded by the process itself; rows of the other are deleted, so Spark rewrites it."""
    table = make_table("t", "id bigint, part string", partition_by=("part",))

    def rows() -> list[str]:
        found = quick.sql(f"SELECT id, part, _row_id, _last_updated_sequence_number FROM {table.name.sql}")
        return sorted(map(repr, found.collect()))

    left, now, ahead = 0, spark_lake._context.clock, timedelta()
    monkeypatch.setattr(spark_lake._context, "clock", lambda: now() + ahead)
    for step in itertools.count(1):
        assert step < MOST
        quick.sql(f"INSERT INTO {table.name.sql} SELECT id + {step * 10}, concat('p', id % 2) FROM range(8)")
        quick.sql(f"DELETE FROM {table.name.sql} WHERE id = {step * 10 + 1}")
        before = rows()
        ahead += 2 * TTL
        ended = attached.compact(spark_lake.root, table.name.short, die_at=step, later=ahead.total_seconds())
        assert rows() == before, step
        if ended != KILLED:
            break
        if step % 3 == 0:  # otherwise the next one meets what others have left
            ahead += 2 * TTL
            table.compact(force=True)
            assert rows() == before, step
            assert len([row for row in table.files() if row.content == "data"]) == 2, step
            left += len(_loose(spark_lake, quick, table))
    assert step > 5, "it died at several steps"
    assert left, "files that were written and not committed"
    assert {run.state for run in spark_lake.runs.list(table=table.name.short, kind="compact")} == {
        "succeeded",
        "failed",
    }
    ahead += timedelta(days=8)
    found = {row.path for row in table.orphans().orphans if row.kind == "data"}
    assert found == _loose(spark_lake, quick, table)


def _loose(lake: Lake, spark: SparkSession, table: LakeTable) -> set[str]:
    """Data files that no snapshot names."""
    folder = Path(lake._context.catalog.facts(table.name).location.removeprefix("file:"))
    named = {Path(row.file_path.removeprefix("file:")) for row in spark.table(f"{table.name.sql}.all_files").collect()}
    return {str(path) for path in (folder / "data").rglob("*.parquet") if path not in named}
