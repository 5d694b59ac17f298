"""Directory tables and landing files on S3, in a JVM of their own: other tests have none of its jars."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from tests.lake.buckets import later
from tests.s3 import Bucket, bucket, s3_server
from tests.spark.dynamic_oracle import INTERPRETED
from tests.spark.sales import COLUMNS, DATASET, Rows, model, write_days

from neve.lake import Lake
from neve.services.directory_tables.tables import contents, find

__all__ = ["bucket", "s3_server"]

LAYOUTS = [("parquet", "flat"), ("csv", "hive"), ("parquet", "hive"), ("csv", "flat")]
"""The last one is in the middle of a swap when its process dies."""


@pytest.mark.faults
def test_the_walk_through_of_the_document_on_s3_and_death_in_a_swap(tmp_path: Path, bucket: Bucket) -> None:
    root = tmp_path / "lake"
    Lake.create(root).close()
    (root / "neve.yaml").write_text(
        f"spark: {{driver_memory: 2g, conf: {json.dumps(INTERPRETED)}}}\n{bucket.settings()}"
    )
    with Lake(root) as lake:
        if missing := lake._context.session.jars().missing:
            pytest.skip(f"jars that could not be fetched: {', '.join(missing)}")
    (root / "dataset.yaml").write_text(DATASET)
    for format, strategy in LAYOUTS:  # noqa: A001
        (root / f"{format}_{strategy}.yaml").write_text(
            f"name: {format}_{strategy}\npartitioning: {{strategy: {strategy}}}\n"
            f"storage: {{type: s3, base_path: 's3://{bucket.name}/{format}_{strategy}', format: {format}}}\n"
            f"ingestion: {{dataset_config: dataset.yaml}}\n"
        )
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 4)
    for path in paths:
        bucket.put(f"landing/a b/{path.name}", path.read_bytes())
    old = expected(paths)
    write_days(tmp_path / "landing", date(2024, 1, 2), 1, rows=9, seed=6)
    bucket.put(f"again/{paths[1].name}", paths[1].read_bytes())
    new = expected(paths)

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.spark.test_s3_tables import walk; walk()",
            str(root),
            bucket.name,
            str(old),
            str(new),
            str(len(old)),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-3000:]
    for number, (kind, strategy) in enumerate(LAYOUTS[:-1]):
        assert seen_outside(bucket, f"{kind}_{strategy}", kind, tmp_path / f"out{number}") == new
    half = bucket.paths("csv_flat")
    assert [path for path in half if path.startswith("_neve/")], "it died too late"
    with Lake(root) as lake:
        context = later(lake)
        table = find(context, lake.table("csv_flat").name)
        assert table is not None
        assert [file.path for file in contents(context, table).files] == ["2024-01.csv"]
        assert [run.state for run in lake.runs.list(kind="compact", table="csv_flat")] == ["succeeded", "succeeded"]
        context.close()
    assert seen_outside(bucket, "csv_flat", "csv", tmp_path / "last") == new
    assert bucket.paths("csv_flat") == ["2024-01.csv", "_neve_ledger.json", *kept()]


def kept() -> list[str]:
    return [f"_sources/2024-01-0{day}.csv.kept" for day in range(1, 5)]


def expected(paths: list[Path]) -> Rows:
    return sorted((row for path in paths for row in model(path)[0]), key=repr)


def seen_outside(bucket: Bucket, folder: str, kind: str, target: Path) -> Rows:
    reader = "read_parquet" if kind == "parquet" else "read_csv"
    with duckdb.connect() as database:
        where = bucket.download(folder, target)
        found = database.execute(f"SELECT {COLUMNS} FROM {reader}('{where}/**/*.{kind}')").fetchall()
    return sorted(found, key=repr)


# --------------------------------------------------------------------------------------------------- in its own process


def walk() -> None:
    root, name, old, new, rows = sys.argv[1:]
    with Lake(root) as lake:
        for kind, strategy in LAYOUTS:
            walk_through(lake, f"{kind}_{strategy}", name, (old, new, int(rows)), die=(kind, strategy) == LAYOUTS[-1])


def walk_through(lake: Lake, name: str, store: str, model: tuple[str, str, int], *, die: bool) -> None:
    old, new, rows = model
    lake.tables.create(str(lake.root / f"{name}.yaml"))
    table = lake.table(name)
    landing = f"s3://{store}/landing"
    receipt = table.ingest(f"{landing}/*/sales_*.csv", date_from_name="sales_{date}.csv")
    assert (receipt.files_read, [row.action for row in receipt.dates]) == (4, ["load"] * 4)
    assert table.ingest(landing, date_from_name="sales_{date}.csv").run_id is None
    assert rows_of(lake, name) == old
    assert (table.status().ingestion.total_ingestions, len(table.files())) == (4, 4)
    if name.startswith("parquet"):
        _take_dates_out(lake, [row.path for row in table.files()])
    done = table.compact("2024-01")
    assert (done.files_before, done.files_after, done.rows) == (
        4,
        1,
        rows,
    )
    assert rows_of(lake, name) == old
    again = table.ingest(f"s3://{store}/again", date_from_name="sales_{date}.csv")
    assert [row.action for row in again.dates] == ["replace"]
    assert (rows_of(lake, name), len(table.files())) == (new, 2)
    assert all(row.state == "ok" for row in table.verify())
    if die:
        _die_in_the_swap()
    table.compact("2024-01", delete_source=True)
    assert rows_of(lake, name) == new
    assert all(row.state == "ok" for row in table.verify())
    assert table.compact("2024-01").run_id is None


def rows_of(lake: Lake, name: str) -> str:
    return str(sorted(map(tuple, lake.sql(f"SELECT {COLUMNS} FROM {name}").collect()), key=repr))


def _take_dates_out(lake: Lake, paths: list[str]) -> None:
    """As another tool would write the files anew: their names alone say of which day they are."""
    for path in paths:
        filesystem, key = lake._context.catalog.files.filesystem(path)
        with filesystem.open_input_file(key) as file:
            rows = pq.read_table(file).drop_columns(["_ingest_date"])
        with filesystem.open_output_stream(key) as file:
            pq.write_table(rows, file)


def _die_in_the_swap() -> None:
    from neve.directory import journal

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    journal.roll_forward = die  # type: ignore[assignment]
