"""At every Nth write of a table, how many small files it has: from metadata alone, and nothing is rewritten."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from neve.model.changes import Manifest
from neve.model.facts import TableFacts
from neve.plan.measures import MIB, small_file_bytes
from neve.services.context import Context


@dataclass(slots=True)
class _Known:
    """What was counted of a table: when that began, and the sizes of files by the manifest that lists them."""

    began: float = 0.0
    small: int = 0
    sizes: dict[str, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class SmallFiles:
    """The small files of tables. A manifest never changes, so each is read once; who asks at once shares a count."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def at(self, context: Context, facts: TableFacts, number: int) -> int | None:
        """How many there are now, if it is the turn of this write to be told, else None."""
        settings = context.loaded.settings
        if number % settings.compaction.opportunistic_check_interval or not settings.compaction.enabled:
            return None
        target = settings.write.target_file_size_mb * MIB
        limit = small_file_bytes(settings.compaction.small_file_threshold_mb, target)
        with self._lock:
            known = self._known.setdefault(facts.uuid, _Known())
        asked = time.monotonic()
        with known.lock:
            if known.began < asked:
                began = time.monotonic()
                known.small = self._count(context, facts, known, limit)
                known.began = began
            return known.small

    @staticmethod
    def _count(context: Context, facts: TableFacts, known: _Known, limit: int) -> int:
        from neve.engine.appending import current_manifests

        location = current_manifests(context.session.spark, facts.name)
        manifests = [] if location is None else context.catalog.manifests_in(location)
        known.sizes = {
            manifest.path: known.sizes.get(manifest.path) or _sizes(context, manifest)
            for manifest in manifests
            if not manifest.deletes
        }
        return sum(size < limit for sizes in known.sizes.values() for size in sizes)


def _sizes(context: Context, manifest: Manifest) -> list[int]:
    return [file.bytes for file in context.catalog.manifest_files(manifest)]
