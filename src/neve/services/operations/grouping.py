"""Group commit: writes that arrive while a commit of their table runs share the next one.

Nobody waits for company: the first write commits at once, alone. Each caller hears back only after the commit that
holds its rows; when that fails, all who shared it hear why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 100_000
"""Of one commit, unless a single write has more."""

Row = dict[str, Any]
Commit = Callable[[list[Row]], None]


@dataclass(slots=True)
class _Entry:
    """A write that waits: until it is done, or until it is its turn to commit."""

    rows: Sequence[Row]
    woken: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    error: BaseException | None = None


class Groups:
    """The writes that wait, by table."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[_Entry]] = {}
        self._lock = threading.Lock()

    def write(self, table: Hashable, rows: Sequence[Row], commit: Commit) -> None:
        """Returns when the rows are committed. `commit` is used for all who wait, by whoever's turn it is."""
        entry = _Entry(rows)
        with self._lock:
            line = self._waiting.get(table)
            entry.leads = line is None
            if line is None:
                line = self._waiting[table] = []
            line.append(entry)
        if not entry.leads:
            entry.woken.wait()
        if entry.leads:
            self._lead(table, commit)
        if entry.error is not None:
            raise entry.error

    def _lead(self, table: Hashable, commit: Commit) -> None:
        """Commits for those who wait now, this thread's own among them; then it is the next one's turn."""
        with self._lock:
            group, rest = _cut(self._waiting[table])
            self._waiting[table] = rest
        error: BaseException | None = None
        try:
            commit([row for entry in group for row in entry.rows])
        except BaseException as exc:  # noqa: BLE001 - it is raised again, by each who shared the commit
            error = exc
        with self._lock:
            if line := self._waiting[table]:
                line[0].leads = True
                line[0].woken.set()
            else:
                del self._waiting[table]
        for entry in group:
            entry.error = error
            entry.woken.set()


def _cut(line: list[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
    """As many from the front as one commit takes, at least one."""
    rows = 0
    for place, entry in enumerate(line):
        rows += len(entry.rows)
        if place and rows > MOST_ROWS:
            return line[:place], line[place:]
    return line, []
