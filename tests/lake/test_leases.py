"""A lease of a process that was killed: others on the same machine need not wait until it runs out."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

from neve.errors import LeaseHeld
from neve.lake import Lake
from neve.model.runs import Lease
from neve.services.directory_tables.locks import LeaseLock
from neve.services.leases import leased

NAME = "compaction of default.t"
HOLD = """
import sys
from neve.lake import Lake
from neve.services.leases import leased
with Lake(sys.argv[1]) as lake, leased(lake._context, sys.argv[2]):
    print("held", flush=True)
    input()
"""


@pytest.fixture
def holder(lake: Lake) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease, and is to be killed."""
    words = [sys.executable, "-c", HOLD, str(lake.root), NAME]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_a_lease_is_taken_over_as_soon_as_its_holder_is_dead(lake: Lake, holder: subprocess.Popen[str]) -> None:
    leases, said = lake._context.store.leases, list[str]()
    lake._context.tell = said.append
    with pytest.raises(LeaseHeld, match=f"process {holder.pid} on"), leased(lake._context, NAME):
        pass
    old = leases.held(NAME)
    assert isinstance(old, Lease)
    kill(holder)
    with leased(lake._context, NAME) as new:
        assert new.fence > old.fence, "the dead one can do nothing more"
        assert leases.release(old) is False
        with pytest.raises(LeaseHeld), leased(lake._context, NAME):
            pass
    assert said == [f"{old.owner} died while it held {NAME}: taken over"]
    assert leases.held(NAME) is None


@pytest.mark.parametrize("process", ["another-machine/pid:[4026531836] 1 1", None])
def test_a_holder_elsewhere_keeps_its_lease(lake: Lake, holder: subprocess.Popen[str], process: str | None) -> None:
    with sqlite3.connect(lake.root / ".metadata.db") as database:
        database.execute("UPDATE leases SET process = ?", [process])
    kill(holder)
    with pytest.raises(LeaseHeld), leased(lake._context, NAME):
        pass


def test_what_a_dead_holder_has_asked_of_a_store_may_be_on_its_way(lake: Lake, holder: subprocess.Popen[str]) -> None:
    with sqlite3.connect(lake.root / ".metadata.db") as database:
        database.execute("UPDATE leases SET name = 'directory s3://bucket/days'")
    kill(holder)
    with pytest.raises(LeaseHeld), LeaseLock(lake._context, "s3://bucket/days").writing(patience=0):
        pass
