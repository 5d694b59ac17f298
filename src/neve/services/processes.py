"""Whether a process of this machine that left its number somewhere still runs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

_CLOCK_ERROR = timedelta(seconds=5)


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


def _began(pid: int) -> datetime | None:
    """When a process began, from Linux's /proc; None where that does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines() if "btime" in line)
        ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return datetime.fromtimestamp(int(boot.split()[1]) + ticks, UTC)
    except (OSError, StopIteration, IndexError, ValueError):
        return None
