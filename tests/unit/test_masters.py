"""Where copies run is decided by the address of Spark's master alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from neve.config import load_settings
from neve.engine.conf import is_local, master_of
from neve.plan.masters import copies_run, in_one_process, on_one_machine


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2, 3]"])
def test_without_executors_copies_run_in_threads(master: str) -> None:
    assert in_one_process(master)
    assert on_one_machine(master)
    assert copies_run(master) == "threads"


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,1024]", "spark://local:7077", "yarn", "k8s://https://local[1]", "localhost"]
)
def test_executors_make_copies_as_tasks(master: str) -> None:
    assert not in_one_process(master)
    assert on_one_machine(master) == (master.startswith("local-cluster"))
    assert copies_run(master) == "tasks"


def test_a_property_of_spark_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "neve.yaml").write_text("spark:\n  master: local[2]\n  conf: {spark.master: yarn}\n")
    loaded = load_settings(tmp_path, flags={}, env={})
    assert master_of(loaded) == "yarn"
    assert not is_local(loaded)
