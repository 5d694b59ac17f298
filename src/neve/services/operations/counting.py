"""How many writes there were, and at every Nth of them how many small files."""

from __future__ import annotations

import threading
from collections import Counter

from neve.model.names import TableName
from neve.plan.measures import MIB, small_file_bytes
from neve.services.context import Context
from neve.services.operations.grouping import Groups


class Writes:
    """The writes of this process: those that wait, and how many there were by table.

    Metadata is looked at every Nth time alone, and nothing is rewritten.
    """

    def __init__(self) -> None:
        self._counts: Counter[TableName] = Counter()
        self._lock = threading.Lock()
        self.groups = Groups()

    def small_files(self, context: Context, name: TableName) -> int | None:
        """Counts a write; the table's small files, or None when it is not their turn."""
        settings = context.loaded.settings
        with self._lock:
            self._counts[name] += 1
            turn = self._counts[name] % settings.compaction.opportunistic_check_interval == 0
        if not turn or not settings.compaction.enabled:
            return None
        target = settings.write.target_file_size_mb * MIB
        limit = small_file_bytes(settings.compaction.small_file_threshold_mb, target)
        return context.catalog.table_files(name).below(limit)
