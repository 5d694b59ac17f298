"""How many rows a commit added and removed, by its own word. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from neve.model.facts import Snapshot

_APPEND = "append"
_MODES = ("write.delete.mode", "write.update.mode", "write.merge.mode")
_IN_PLACE = "merge-on-read"


def rows_changed(snapshot: Snapshot, properties: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Rows that came and rows that went; None where the table's files may have been written anew with rows that stayed.

    A deletion vector takes the place of another of the same file, so what that one held is no news.
    """
    if snapshot.operation != _APPEND and any(properties.get(mode) != _IN_PLACE for mode in _MODES):
        return None, None
    gone = _number(snapshot, "deleted-records") - _number(snapshot, "removed-position-deletes")
    return _number(snapshot, "added-records"), gone + _number(snapshot, "added-position-deletes")


def _number(snapshot: Snapshot, key: str) -> int:
    return int(snapshot.summary.get(key, 0))
