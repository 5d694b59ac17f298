"""Group commit: writes that arrive while a commit of their table runs share the next one.

Nobody waits for company: the first write commits at once, alone. Each caller hears back only after the commit that
holds its rows; when that fails, all who shared it hear why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neve.services.operations.once import OnceKey

MOST_ROWS = 100_000
"""Of one commit, unless a single write has more."""

Row = dict[str, Any]


@dataclass(slots=True, eq=False)
class Pending:
    """A write on its way. Whoever commits it leaves its number among the table's writes, or what is wrong with it."""

    rows: Sequence[Row]
    key: OnceKey | None = None
    number: int = 0
    error: BaseException | None = None
    leads: bool = False
    woken: threading.Event = field(default_factory=threading.Event)


Commit = Callable[[Sequence[Pending]], None]


class Groups:
    """The writes that wait, by table."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Pending]] = {}
        self._lock = threading.Lock()

    def write(self, table: Hashable, pending: Pending, commit: Commit) -> None:
        """Returns when the rows are committed. `commit` is used for all who wait, by whoever's turn it is."""
        with self._lock:
            line = self._waiting.get(table)
            pending.leads = line is None
            if line is None:
                line = self._waiting[table] = []
            line.append(pending)
        if not pending.leads:
            pending.woken.wait()
        if pending.leads:
            self._lead(table, commit)
        if pending.error is not None:
            raise pending.error

    def _lead(self, table: Hashable, commit: Commit) -> None:
        """Commits for those who wait now, this thread's own among them; then it is the next one's turn."""
        with self._lock:
            group, rest = _cut(self._waiting[table])
            self._waiting[table] = rest
        error: BaseException | None = None
        try:
            commit(group)
        except BaseException as exc:  # noqa: BLE001 - it is raised again, by each who shared the commit
            error = exc
        with self._lock:
            if line := self._waiting[table]:
                line[0].leads = True
                line[0].woken.set()
            else:
                del self._waiting[table]
        for pending in group:
            pending.error = pending.error or error
            pending.woken.set()


def _cut(line: list[Pending]) -> tuple[list[Pending], list[Pending]]:
    """As many from the front as one commit takes, at least one."""
    rows = 0
    for place, pending in enumerate(line):
        rows += len(pending.rows)
        if place and rows > MOST_ROWS:
            return line[:place], line[place:]
    return line, []
