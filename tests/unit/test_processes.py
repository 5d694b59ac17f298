"""Whether a process that left its mark still runs: dead only where that is sure."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from neve.services import processes
from neve.services.processes import has_ended, this_process

SAY = "from neve.services.processes import this_process; print(this_process(), flush=True); input()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes in /proc")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        yield run
        run.kill()


def mark_of(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def test_a_process_that_was_killed_has_ended_though_nobody_asked_for_it(other: subprocess.Popen[str]) -> None:
    mark = mark_of(other)
    assert mark.split()[1] == str(other.pid)
    assert not has_ended(mark)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert has_ended(mark)
    other.wait()
    assert has_ended(mark)


def test_a_number_that_another_process_has_by_now(other: subprocess.Popen[str]) -> None:
    around, pid, began = mark_of(other).split()
    assert has_ended(f"{around} {pid} {int(began) - 1}")


def test_where_nobody_can_tell_it_runs(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another boot or machine, another container of this machine, no mark, a mark of a later version, no /proc here."""
    mark = mark_of(other)
    other.kill()
    other.wait()
    (around, pid, began), (boot, *spaces) = mark.split(), mark.split()[0].split("/")
    marks = [
        " ".join(["/".join(["another", *spaces]), pid, began]),
        " ".join(["/".join([boot, "pid:[1]", *spaces[1:]]), pid, began]),
        *(None, "", around, f"{around} x y", f"2 {mark}"),
    ]
    assert [text for text in marks if has_ended(text)] == []
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as where /proc is that of another namespace
    assert this_process() is None
    assert not has_ended(mark)


def test_a_process_itself_and_one_of_somebody_else_run() -> None:
    around = str(this_process()).split()[0]
    assert not has_ended(this_process())
    assert not has_ended(f"{around} 1 {processes._stat(1)[processes._BEGAN]}")
