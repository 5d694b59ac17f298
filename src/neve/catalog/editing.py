"""Metadata without some of its snapshots, or with other tags: the change as Iceberg makes it, on the JSON itself.

PyIceberg's own takes the parents off snapshots that stay, forgets partition statistics, and leaves holes in the log of
what was current, by which time travel would find the wrong snapshot. It also reads and writes every snapshot several
times over, which a tag that moves at each refresh should not cost.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

_PREVIOUS = "write.metadata.previous-versions-max"
_PREVIOUS_DEFAULT = 100
DELETE_OLD = "write.metadata.delete-after-commit.enabled"
Json = Mapping[str, Any]


def without_snapshots(metadata: Json, snapshots: Collection[int], references: Collection[str]) -> dict[str, Any]:
    """The metadata less these snapshots, these references, and what speaks of them alone."""
    gone = frozenset(snapshots)
    changed: dict[str, Any] = {
        "snapshots": [item for item in metadata.get("snapshots", ()) if item["snapshot-id"] not in gone],
        "refs": {name: ref for name, ref in metadata.get("refs", {}).items() if name not in references},
        "snapshot-log": _without_holes(metadata.get("snapshot-log", ()), gone),
    }
    for key in ("statistics", "partition-statistics"):
        if key in metadata:
            changed[key] = [item for item in metadata[key] if item["snapshot-id"] not in gone]
    return {**metadata, **changed}


def with_tags(metadata: Json, put: Mapping[str, int], remove: Collection[str]) -> dict[str, Any]:
    """The metadata with tags made or moved, and others gone.

    Raises:
        ValueError: there is no such snapshot, or a branch has the name.
    """
    known = {item["snapshot-id"] for item in metadata.get("snapshots", ())}
    refs = {name: ref for name, ref in metadata.get("refs", {}).items() if name not in remove or ref["type"] != "tag"}
    for tag, snapshot in put.items():
        if snapshot not in known:
            raise ValueError(f"cannot tag snapshot {snapshot}: there is none")
        if refs.get(tag, {"type": "tag"})["type"] != "tag":
            raise ValueError(f"{tag} is a branch")
        refs[tag] = {"snapshot-id": snapshot, "type": "tag"}
    return {**metadata, "refs": refs}


def succeeding(metadata: Json, before: Json, *, location: str, now_ms: int) -> dict[str, Any]:
    """Changed metadata as what comes after `before`, which lies at `location`."""
    log = {"metadata-log": _logged(before, location), "last-updated-ms": max(now_ms, before["last-updated-ms"])}
    return {**metadata, **log}


def next_location(properties: Mapping[str, str], folder: str, current: str) -> str:
    """Where the metadata after the one at `current` goes: a number higher, and a name that nobody else has."""
    place = properties.get("write.metadata.path", f"{folder}/metadata").rstrip("/")
    version = current.rsplit("/", 1)[-1].partition("-")[0].removeprefix("v")
    number = int(version) + 1 if version.isdecimal() else 1
    return f"{place}/{number:05d}-{uuid.uuid4()}.metadata.json"


def fallen_off(before: Json, after: Json) -> list[str]:
    """Earlier metadata files that the log names no more, where the table wants them removed."""
    if after.get("properties", {}).get(DELETE_OLD) != "true":
        return []
    kept = {entry["metadata-file"] for entry in after["metadata-log"]}
    return [entry["metadata-file"] for entry in before.get("metadata-log", ()) if entry["metadata-file"] not in kept]


def _without_holes(log: Collection[Json], gone: frozenset[int]) -> list[Json]:
    """What was current when, since the last of the snapshots that go: before it, the answer would be wrong."""
    found: list[Json] = []
    for entry in log:
        if entry["snapshot-id"] in gone:
            found.clear()
        else:
            found.append(entry)
    return found


def _logged(metadata: Json, location: str) -> list[Json]:
    """The log of earlier metadata files with this one, as many as the table keeps."""
    entry = {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": location}
    text = metadata.get("properties", {}).get(_PREVIOUS, "")
    most = max(int(text) if text.isdecimal() else _PREVIOUS_DEFAULT, 1)
    return [*metadata.get("metadata-log", ()), entry][-most:]
