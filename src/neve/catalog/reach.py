"""Which files a table's metadata leads to: manifest lists, manifests, data, deletes and statistics. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from neve.catalog.avro import read_records
from neve.catalog.files import Files
from neve.errors import StorageError
from neve.model.retention import StoredFile

_DELETED = 2
_UNREAD = (
    *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"),
    *("split_offsets", "key_metadata", "partitions"),
)
_READERS = 8
Json = Mapping[str, Any]
T = TypeVar("T")


@dataclass
class Reach:
    """Reads each file of metadata once, however many snapshots and tries there are."""

    files: Files
    _lists: dict[str, list[StoredFile]] = field(default_factory=dict)
    _manifests: dict[str, list[StoredFile]] = field(default_factory=dict)

    def only_through(self, metadata: Json, snapshots: frozenset[int]) -> list[StoredFile]:
        """The files that would be named by nothing any more without these snapshots; each once, by its path."""
        gone = [item for item in metadata.get("snapshots", ()) if item["snapshot-id"] in snapshots]
        kept = [item for item in metadata.get("snapshots", ()) if item["snapshot-id"] not in snapshots]
        self._read_lists(metadata.get("snapshots", ()))
        statistics = _less(_statistics(metadata, snapshots), _statistics(metadata, _ids(kept)))
        lists = _less(map(self._list, gone), map(self._list, kept))
        theirs = {file.path: file for item in kept for file in self._manifests_of(item)}
        manifests = _less((file for item in gone for file in self._manifests_of(item)), theirs.values())
        doomed = _less(self._live(manifests.values()), ())
        if doomed:
            for file in self._live(theirs.values()):
                doomed.pop(file.path, None)
        return [*doomed.values(), *manifests.values(), *lists.values(), *statistics.values()]

    def everything(self, metadata: Json) -> Iterator[StoredFile]:
        """Every file that some snapshot leads to; the same one may come more than once."""
        snapshots = metadata.get("snapshots", ())
        yield from _statistics(metadata, None)
        manifests: dict[str, StoredFile] = {}
        self._read_lists(snapshots)
        for item in snapshots:
            yield self._list(item)
            manifests |= {file.path: file for file in self._manifests_of(item)}
        yield from manifests.values()
        yield from self._live(manifests.values())

    def sized(self, file: StoredFile) -> StoredFile:
        """The same with its size, which metadata does not tell of a manifest list."""
        if file.kind != "manifest_list":
            return file
        return StoredFile(file.path, file.kind, self.files.size(file.path) or 0)

    @staticmethod
    def _list(snapshot: Json) -> StoredFile:
        return StoredFile(snapshot.get("manifest-list", ""), "manifest_list", 0)

    def _manifests_of(self, snapshot: Json) -> list[StoredFile]:
        """The manifests of a snapshot; the first format names them in the snapshot itself."""
        location = snapshot.get("manifest-list")
        if location is None:
            return [StoredFile(path, "manifest", self.files.size(path) or 0) for path in snapshot.get("manifests", ())]
        return self._lists[location]

    def _live(self, manifests: Iterable[StoredFile]) -> Iterator[StoredFile]:
        paths = [manifest.path for manifest in manifests]
        _read_ahead(self._manifests, paths, self._read_manifest)
        for path in paths:
            yield from self._manifests[path]

    def _read_lists(self, snapshots: Iterable[Json]) -> None:
        _read_ahead(
            self._lists, [item["manifest-list"] for item in snapshots if "manifest-list" in item], self._read_list
        )

    def _read_list(self, location: str) -> list[StoredFile]:
        try:
            return [
                StoredFile(record["manifest_path"], "manifest", record["manifest_length"])
                for record in read_records(location, self.files.read(location), without=_UNREAD)
            ]
        except (KeyError, TypeError) as exc:
            raise StorageError(f"{location} lists manifests that Névé cannot read ({exc!r})") from exc

    def _read_manifest(self, manifest: str) -> list[StoredFile]:
        try:
            return [
                StoredFile(
                    entry["data_file"]["file_path"],
                    "deletes" if entry["data_file"].get("content") else "data",
                    entry["data_file"]["file_size_in_bytes"],
                )
                for entry in read_records(manifest, self.files.read(manifest), without=_UNREAD)
                if entry["status"] != _DELETED
            ]
        except (KeyError, TypeError) as exc:
            raise StorageError(f"{manifest} lists files that Névé cannot read ({exc!r})") from exc


def _read_ahead(known: dict[str, T], locations: Iterable[str], read: Callable[[str], T]) -> None:
    """Reads what is not known yet, several at once: on an object store each is a journey of its own."""
    missing = [location for location in dict.fromkeys(locations) if location not in known]
    with ThreadPoolExecutor(_READERS) as pool:
        known.update(zip(missing, pool.map(read, missing), strict=True))


def _ids(snapshots: Iterable[Json]) -> frozenset[int]:
    return frozenset(item["snapshot-id"] for item in snapshots)


def _statistics(metadata: Json, snapshots: frozenset[int] | None) -> Iterator[StoredFile]:
    """Statistics of these snapshots, or all that are named."""
    for key in ("statistics", "partition-statistics"):
        for item in metadata.get(key, ()):
            if snapshots is None or item["snapshot-id"] in snapshots:
                yield StoredFile(item["statistics-path"], "statistics", item.get("file-size-in-bytes", 0))


def _less(files: Iterable[StoredFile], others: Iterable[StoredFile]) -> dict[str, StoredFile]:
    kept = {file.path for file in others}
    return {file.path: file for file in files if file.path and file.path not in kept}
