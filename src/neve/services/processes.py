"""Whether a process of this machine that left its number somewhere still runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

_CLOCK_ERROR = timedelta(seconds=5)
_STATE, _BEGAN = 0, 19
"""Places in /proc/PID/stat, after the name."""
_DEAD = frozenset("ZXx")
"""Killed, whether or not its parent has asked for it."""


def is_alive(pid: int, since: datetime) -> bool:
    """Whether the process that had this number then still is. One that began later has only inherited its number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    began = _began(pid)
    return began is None or began <= since + _CLOCK_ERROR


def this_process() -> str | None:
    """What tells `has_ended` of this process: machine, namespaces, number, its beginning. None without Linux's /proc.

    The same number may be another process later, or in another container of the same machine at the same time.
    """
    try:
        if Path("/proc/self").readlink().name != str(os.getpid()):  # of another namespace than ours
            return None
        return f"{_surroundings()} {os.getpid()} {_stat(os.getpid())[_BEGAN]}"
    except (OSError, IndexError):
        return None


def has_ended(process: str | None) -> bool:
    """Whether a process that said this of itself surely runs no more; False where nobody here can tell."""
    here, (around, pid, began) = this_process(), _parts(process)
    if here is None or not around or around != _parts(here)[0]:
        return False
    try:
        os.kill(int(pid), 0)
        found = _stat(int(pid))
        return found[_BEGAN] != began or found[_STATE] in _DEAD
    except ProcessLookupError:
        return True
    except (OSError, IndexError, ValueError):
        return False


def _parts(process: str | None) -> tuple[str, str, str]:
    around, _, rest = (process or "").partition(" ")
    pid, _, began = rest.partition(" ")
    return around, pid, began


def _surroundings() -> str:
    """This boot of this machine, and the namespaces in which numbers and times of processes have their meaning."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    spaces = [Path(f"/proc/self/ns/{kind}") for kind in ("pid", "time")]
    return "/".join([boot, *(str(space.readlink()) for space in spaces if space.exists())])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat that follow the name."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def _began(pid: int) -> datetime | None:
    """When a process began, from Linux's /proc; None where that does not tell."""
    try:
        boot = next(line for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines() if "btime" in line)
        ticks = int(_stat(pid)[_BEGAN]) / os.sysconf("SC_CLK_TCK")
        return datetime.fromtimestamp(int(boot.split()[1]) + ticks, UTC)
    except (OSError, StopIteration, IndexError, ValueError):
        return None
