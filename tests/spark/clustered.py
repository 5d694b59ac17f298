"""A Spark with two executors, in a process of its own: what copies do there, told as JSON for test_executors.py.

    python -m tests.spark.clustered FOLDER

The folder holds plain folders of files, made by the test; the lake is made here.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.spark.dynamic_oracle import INTERPRETED

from neve.catalog.files import Files
from neve.engine.executors import run_tasks
from neve.errors import NeveError, Unsupported
from neve.lake import Lake, LakeTable
from neve.model.copying import CopyOptions, CopyResult
from neve.parquet import ParquetCompactor, Repartitioner
from neve.plan import rewrite_groups
from neve.services import copy_tasks
from neve.services.copies import FileCopy
from neve.services.rewrites import work

MASTER = "local-cluster[2,1,1024]"
SEEN = "*, _row_id, _last_updated_sequence_number"
_real = copy_tasks.copy_in_task


# ------------------------------------------------------------------------------------------ what tasks do, on executors


def whereabouts(unit: int, attempt: int) -> tuple[int, int, int]:
    time.sleep(0.5)
    return unit, os.getpid(), os.getppid()


def refuse(unit: int, attempt: int) -> int:
    if unit == 1:
        raise Unsupported("this one is not for us", hint="take the safe way")
    return unit


def break_down(unit: int, attempt: int) -> int:
    raise ZeroDivisionError("no error of Névé's")


def linger(place: str, attempt: int) -> None:
    Path(place, f"{attempt}.begun").touch()
    time.sleep(60)


def die_first(copy: FileCopy, attempt: int) -> CopyResult:
    """An executor's Python that is killed while it writes, once."""
    if attempt == 0:
        Path(copy_tasks.attempted(copy.target, attempt).removeprefix("file:")).write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return _real(copy, attempt)


def see_no_files(copy: FileCopy, attempt: int) -> CopyResult:
    """An executor on a machine that does not share the disk."""
    return _real(replace(copy, sources=tuple(f"/elsewhere{source}" for source in copy.sources)), attempt)


# --------------------------------------------------------------------------------------------------------- what is told


def attempt(do: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"done": do()}
    except NeveError as exc:
        return {"error": exc.code, "message": exc.message, "hint": exc.hint}


def tell_tasks(lake: Lake, folder: Path) -> dict[str, Any]:
    spark = lake.spark
    answers = run_tasks(spark, [0, 1, 2], refuse)
    lingering = folder / "lingering"
    lingering.mkdir()
    broken = attempt(lambda: run_tasks(spark, [str(lingering)], linger) if cancel_soon(lake, lingering) else None)
    return {
        "driver": os.getpid(),
        "executors": [answer.value for answer in run_tasks(spark, range(4), whereabouts)],
        "values": [answer.value for answer in answers],
        "error": [type(answers[1].error).__name__, answers[1].error.message, answers[1].error.hint],  # type: ignore[union-attr]
        "broken": attempt(lambda: run_tasks(spark, [0], break_down)),
        "cancelled": broken,
        "active": active_tasks(lake),
    }


def cancel_soon(lake: Lake, lingering: Path) -> bool:
    def cancel() -> None:
        while not list(lingering.iterdir()):
            time.sleep(0.05)
        lake.spark.sparkContext.cancelAllJobs()

    threading.Thread(target=cancel).start()
    return True


def active_tasks(lake: Lake) -> int:
    java: Any = lake.spark.sparkContext
    infos = java._jsc.sc().statusTracker().getExecutorInfos()
    return sum(info.numRunningTasks() for info in infos)


def compact(lake: Lake, folder: Path, told: list[str]) -> dict[str, Any]:
    """Of a plain folder; what is left of it and beside it."""
    before, jobs = len(told), count_jobs(lake)
    done = attempt(lambda: ParquetCompactor(folder, lake=lake).compact()["files_after"])
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {**done, "left": left, "told": told[before:], "jobs": count_jobs(lake) - jobs}


def repartition(lake: Lake, source: Path, target: Path) -> dict[str, Any]:
    jobs = count_jobs(lake)
    done = attempt(lambda: Repartitioner(source, target, ["k"], lake=lake).repartition()["files_written"])
    return {**done, "jobs": count_jobs(lake) - jobs}


def count_jobs(lake: Lake) -> int:
    java: Any = lake.spark.sparkContext
    return int(java._jsc.sc().statusStore().jobsList(None).size())


def without_neve(lake: Lake, folder: Path, told: list[str]) -> dict[str, Any]:
    """Executors whose Python has nothing installed."""
    bare = folder.parent / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    context, before = lake.spark.sparkContext, lake.spark.sparkContext.pythonExec
    context.pythonExec = str(bare)
    try:
        return compact(lake, folder, told)
    finally:
        context.pythonExec = before


# --------------------------------------------------------------------------------------------------------------- tables


def fill(lake: Lake) -> LakeTable:
    """Three partitions to copy, one with updated rows, and one with a file of deleted rows, which a copy would keep."""
    lake.tables.create("t", "id bigint, part string, s string", partition_by=["part"])
    table = lake.table("t")
    name = table.name.sql
    lake.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')", write=True)
    for first in (0, 300, 600):
        values = "nullif(id, -1), nullif(concat('p', id % 3), ''), nullif(concat('s', id), '')"
        rows = f"SELECT {values} FROM range({first}, {first + 300}, 1, 1)"
        lake.sql(f"INSERT INTO {name} {rows}", write=True)
    lake.sql(f"UPDATE {name} SET s = 'changed' WHERE id = 4", write=True)
    lake.sql(f"DELETE FROM {name} WHERE id = 302", write=True)
    return table


def seen(lake: Lake, table: LakeTable) -> list[str]:
    return sorted(map(repr, lake.sql(f"SELECT {SEEN} FROM {table.name.sql}").collect()))


def files_of(lake: Lake, table: LakeTable) -> list[list[str]]:
    """Partition, name and content of each file, and what the manifest says."""
    return sorted(
        [
            entry.partition,
            Path(entry.path).name,
            hashlib.sha256(Path(entry.path.removeprefix("file:")).read_bytes()).hexdigest(),
            repr(entry.metrics),
        ]
        for entry in lake._context.catalog.table_files(table.name).data
    )


def on_disk(lake: Lake, table: LakeTable) -> list[str]:
    location = lake._context.catalog.facts(table.name).location
    return sorted(found.path for found in lake._context.catalog.files.listing(f"{location}/data"))


def tell_tables(lake: Lake, told: list[str]) -> dict[str, Any]:
    vars(rewrite_groups)["MIN_ROW_GROUP_BYTES"] = 0
    table = fill(lake)
    rows, files = seen(lake, table), on_disk(lake, table)
    snapshot = lake._context.catalog.facts(table.name).current_snapshot_id
    copy_tasks.copy_in_task = fail_one
    failed = attempt(lambda: table.compact().compacted)
    failed |= {"same": (seen(lake, table), on_disk(lake, table)) == (rows, files)}
    copy_tasks.copy_in_task = _real
    by_tasks = table.compact()
    report = {
        "failed": failed,
        "mechanics": sorted((group.partition, group.mechanic) for group in by_tasks.groups),
        "lineage stays": seen(lake, table) == rows,
        "by tasks": files_of(lake, table),
    }
    table.rollback(str(snapshot))
    vars(work)["executors_of"] = lambda _: None
    table.compact()
    return report | {"by threads": files_of(lake, table), "same rows": seen(lake, table) == rows}


def fail_one(copy: FileCopy, attempt: int) -> CopyResult:
    """One of two copies fails once both are written."""
    result = _real(copy, attempt)
    if "part=p1" in copy.target:
        raise Unsupported("an index is damaged", hint="such files must be re-encoded")
    return result


# ------------------------------------------------------------------------------------------------------------------- S3


def tell_s3(lake: Lake, folder: Path) -> dict[str, Any]:
    """Executors have the keys and the address that the driver has, and nothing shows the keys."""
    from moto.server import ThreadedMotoServer
    from pyarrow.fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    s3: dict[str, Any] = {"access_key": "ada", "secret_key": "s3cret", "region": "eu-west-1", "scheme": "http"}
    s3["endpoint_override"] = f"127.0.0.1:{port}"
    filesystem = S3FileSystem(**s3, allow_bucket_creation=True)
    filesystem.create_dir("bucket")
    sources = sorted(folder.glob("*.parquet"))
    for source in sources:
        with filesystem.open_output_stream(f"bucket/{source.name}") as stream:
            stream.write(source.read_bytes())
    copy = FileCopy(
        of="t",
        sources=tuple(f"s3://bucket/{source.name}" for source in sources),
        target="s3://bucket/out.parquet",
        options=CopyOptions(),
    )
    executors = copy_tasks.Executors(lake.spark, Files(s3), lambda _: None, lambda _: None)
    made = copy_tasks.copy_by_tasks(executors, [copy])[0]
    assert made is not None
    size = filesystem.get_file_info("bucket/0-out.parquet").size
    server.stop()
    return {"path": made.path, "size": [made.result.bytes, size], "shown": "s3cret" in repr(replace(copy, s3=s3))}


def main(folder: Path) -> None:
    told: list[str] = []
    Lake.create(folder / "lake").close()
    (folder / "lake" / "neve.yaml").write_text(
        json.dumps({"spark": {"master": MASTER, "driver_memory": "1g", "shuffle_partitions": 2, "conf": INTERPRETED}})
    )
    with Lake(folder / "lake", tell=told.append) as lake:
        report: dict[str, Any] = {"tasks": tell_tasks(lake, folder)}
        report["by-tasks"] = compact(lake, folder / "by-tasks", told)
        report["damaged"] = compact(lake, folder / "damaged", told)
        report["bare"] = without_neve(lake, folder / "bare", told)
        copy_tasks.copy_in_task = see_no_files
        report["unshared"] = compact(lake, folder / "unshared", told)
        copy_tasks.copy_in_task = die_first
        report["killed"] = compact(lake, folder / "killed", told)
        copy_tasks.copy_in_task = _real
        report["repartition"] = repartition(lake, folder / "s3", folder / "parted")
        report["s3"] = tell_s3(lake, folder / "s3")
        report["table"] = tell_tables(lake, told)
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    from tests.spark import clustered  # what tasks do is found there by its name

    clustered.main(Path(sys.argv[1]))
