"""Many writers at once, in one process and in several: each row that was acknowledged is there, once; none fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from neve.lake import Lake, LakeTable

RowsOf = Callable[..., list[tuple[int, ...]]]
APPEND = """
import json, sys
from neve.lake import Lake
with Lake(sys.argv[1]) as lake:
    lake.spark
    print("ready", flush=True)
    sys.stdin.readline()
    done = []
    for number in range(20):
        row = int(sys.argv[3]) * 1000 + number
        lake.sql(f"INSERT INTO {sys.argv[2]} VALUES ({row}, 'p')", write=True)
        done.append(row)
    print(json.dumps(done))
"""


def test_twenty_threads_append_ten_times_each(
    spark_lake: Lake, make_table: Callable[..., LakeTable], rows_of: RowsOf
) -> None:
    table = make_table("t")

    def append(writer: int) -> list[int]:
        done = []
        for number in range(10):
            row = writer * 1000 + number
            spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES ({row}, 't')", write=True)
            done.append(row)
        return done

    with ThreadPoolExecutor(20) as pool:
        acknowledged = [row for rows in pool.map(append, range(20)) for row in rows]
    assert len(acknowledged) == 200
    assert sorted(row[0] for row in rows_of(table, "id")) == sorted(acknowledged)
    details = table.show()
    assert (details.rows, details.snapshots) == (200, 200)
    assert len({row[0] for row in rows_of(table, "_row_id")}) == 200


@pytest.mark.faults
def test_three_processes_append_twenty_times_each(
    spark_lake: Lake, make_table: Callable[..., LakeTable], rows_of: RowsOf
) -> None:
    table = make_table("t")
    environment = {**os.environ, "NEVE_SPARK__DRIVER_MEMORY": "1g"}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, str(spark_lake.root), table.name.sql, str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for writer in range(3)
    ]
    for writer in writers:  # all have started before any writes
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    answers = [writer.communicate() for writer in writers]
    assert [(writer.returncode, err) for writer, (_, err) in zip(writers, answers, strict=True)] == [(0, "")] * 3
    acknowledged = [row for out, _ in answers for row in json.loads(out)]
    assert len(acknowledged) == 60
    assert sorted(row[0] for row in rows_of(table, "id")) == sorted(acknowledged)
    assert table.show().snapshots == 60
