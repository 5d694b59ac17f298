"""Copies as tasks of a Spark with two executors: what comes of them is what threads make, and nothing is left over.

A process has one Spark, so that one works in a process of its own (clustered.py), once for all tests here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import digests

from neve.parquet import ParquetCompactor

_FOLDERS = ("by-tasks", "by-threads", "bare", "unshared", "killed", "damaged", "s3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same three files in folders of several names, all of them to copy; in one of them a file is damaged."""
    root = tmp_path_factory.mktemp("clustered")
    random, first = Random(7), root / _FOLDERS[0]
    first.mkdir()
    for number in range(3):
        table = pa.table({"id": [random.getrandbits(62) for _ in range(150_000)], "k": [1] * 150_000})
        pq.write_table(table, first / f"f{number}.parquet", compression="zstd")
    for name in _FOLDERS[1:]:
        shutil.copytree(first, root / name)
    _damage(root / "damaged" / "f2.parquet")
    return root


def _damage(file: Path) -> None:
    """The head of a page is cut up, which a footer does not show."""
    start = pq.read_metadata(file).row_group(0).column(0).data_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + 8] = b"\xff" * 8
    file.write_bytes(content)


@pytest.fixture(scope="module")
def before(folder: Path) -> dict[str, dict[str, str]]:
    return {name: digests(folder / name) for name in _FOLDERS}


@pytest.fixture(scope="module")
def report(folder: Path, before: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.clustered", str(folder)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},  # of the tests alone: Névé is installed
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return told


def test_tasks_run_on_executors(report: dict[str, Any]) -> None:
    """In processes of executors, one task for each unit, answers in the order of the units."""
    tasks = report["tasks"]
    assert [unit for unit, _, _ in tasks["executors"]] == [0, 1, 2, 3]
    processes = {parent for _, _, parent in tasks["executors"]}
    assert len(processes) == 2
    assert tasks["driver"] not in processes | {process for _, process, _ in tasks["executors"]}


def test_errors_come_back_as_they_are(report: dict[str, Any]) -> None:
    tasks = report["tasks"]
    assert tasks["values"] == [0, None, 2], "the others are done all the same"
    assert tasks["error"] == ["Unsupported", "this one is not for us", "take the safe way"]
    assert tasks["broken"]["error"] == "job_failed"
    assert "no error of Névé's" in tasks["broken"]["message"]


def test_a_cancelled_job_leaves_no_task_at_work(report: dict[str, Any]) -> None:
    assert report["tasks"]["cancelled"]["error"] == "job_failed"
    assert report["tasks"]["active"] == 0


def test_a_plain_folder_is_what_threads_make_of_it(report: dict[str, Any], folder: Path) -> None:
    """Byte for byte, but for the run that footers name."""
    assert report["by-tasks"]["done"] == ParquetCompactor(folder / "by-threads").compact()["files_after"] == 1
    assert report["by-tasks"]["jobs"] == 1, "of Spark, for all copies"
    (ours,), (theirs,) = ([*(folder / name).iterdir()] for name in _FOLDERS[:2])
    assert ours.stat().st_size == theirs.stat().st_size
    assert _body(ours) == _body(theirs)
    assert pq.read_table(ours).equals(pq.read_table(theirs))


def test_a_repartition_copies_by_tasks_too(report: dict[str, Any], folder: Path) -> None:
    assert report["repartition"] == {"done": 1, "jobs": 1}
    (file,) = (folder / "parted" / "k=1").iterdir()
    assert _body(file) == _body(next((folder / "by-tasks").iterdir()))


def _body(file: Path) -> bytes:
    """All but the footer."""
    content = file.read_bytes()
    return content[: -8 - int.from_bytes(content[-8:-4], "little")]


def test_an_error_in_a_task_leaves_all_as_it_was(
    report: dict[str, Any], folder: Path, before: dict[str, dict[str, str]]
) -> None:
    assert report["damaged"]["error"] == "check_failed"
    assert "nothing was changed" in report["damaged"]["hint"]
    assert digests(folder / "damaged") == before["damaged"]


@pytest.mark.parametrize(
    ("name", "why"), [("bare", "No module named 'neve'; PYSPARK_PYTHON names"), ("unshared", "no file /elsewhere")]
)
def test_what_executors_cannot_do_is_done_here(
    report: dict[str, Any], folder: Path, before: dict[str, dict[str, str]], name: str, why: str
) -> None:
    assert report[name]["done"] == 1
    assert len(report[name]["left"]) == 1
    (line,) = [line for line in report[name]["told"] if "not by Spark's executors" in line]
    assert line.startswith("1 of 1 file copied by this process")
    assert why in line
    assert pq.read_table(folder / name).num_rows == 450_000


def test_an_attempt_that_was_killed_leaves_nothing(report: dict[str, Any], folder: Path) -> None:
    assert report["killed"]["done"] == 1
    assert len(report["killed"]["left"]) == 1
    assert not [line for line in report["killed"]["told"] if "by this process" in line]
    assert pq.read_table(folder / "killed").num_rows == 450_000


def test_a_table_is_what_threads_make_of_it(report: dict[str, Any]) -> None:
    """Rows, their ids and their times of change; the files' bytes, and what manifests say of them."""
    table = report["table"]
    assert table["lineage stays"]
    assert table["same rows"]
    mechanics = [["part=p0", "copy"], ["part=p1", "copy"], ["part=p2", "copy"], ["part=p2", "spark"]]
    assert table["mechanics"] == mechanics, "deleted rows go the safe way"
    copied = [file for file in table["by tasks"] if file[1].startswith("0-")]
    assert [partition for partition, *_ in copied] == ["part=p0", "part=p1", "part=p2"]
    by_threads = [file for file in table["by threads"] if file[1].endswith("-neve.parquet")]
    assert [(place, *held) for place, _, *held in copied] == [(place, *held) for place, _, *held in by_threads]


def test_a_failed_copy_of_a_table_leaves_no_file(report: dict[str, Any]) -> None:
    failed = report["table"]["failed"]
    assert (failed["error"], failed["message"]) == ("unsupported", "an index is damaged")
    assert failed["same"]


def test_executors_reach_s3_as_the_driver_does(report: dict[str, Any]) -> None:
    made = report["s3"]
    assert made["path"] == "s3://bucket/0-out.parquet"
    assert made["size"][0] == made["size"][1] > 0
    assert not made["shown"]
