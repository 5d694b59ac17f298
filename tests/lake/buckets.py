"""Folders in a bucket: changes of them, and processes that die before a given request to the store."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from neve.directory import Directory, open_directory
from neve.directory.storage import RemoteStorage
from neve.lake import Lake
from neve.services.context import Context
from neve.services.directory_tables.locks import LeaseLock

_REQUESTS = ("copy_file", "delete_file", "delete_dir", "open_output_stream")


def open_folder(context: Context, location: str) -> Directory:
    return open_directory(location, context.loaded, lock=LeaseLock(context, location))


def later(lake: Lake, minutes: int = 2) -> Context:
    """The lake in some minutes: leases of the dead are over."""
    return Context(lake._context.loaded, clock=lambda: datetime.now(UTC) + timedelta(minutes=minutes))


def change_all(directory: Directory, run_id: str = "R1") -> None:
    """One file gets new content, one comes in a new partition, one goes with its partition, one is kept aside."""
    with directory.change(run_id) as change:
        for name, text in {"k=1/a.parquet": b"a2", "k=3/c.parquet": b"c1"}.items():
            change.write(name, text)
        change.remove("k=1/a.parquet")
        change.remove("k=2/b.parquet")
        change.keep("k=1/d.parquet")
        change.write_ledger(run_id.encode())


def change_and_die(place: str) -> None:
    """Changes a folder and dies before the nth request that changes something; `place` is lake, folder and n."""
    root, location, requests = place.split("|")
    with Lake(root) as lake:
        directory = open_folder(lake._context, location)
        _die_before(int(requests))
        change_all(directory)


def open_and_die(place: str) -> None:
    root, location, requests = place.split("|")
    with Lake(root) as lake:
        _die_before(int(requests))
        open_folder(later(lake), location)


def add_to_number(place: str) -> None:
    """Ten changes, each of which adds one to the number in a file: a lost change would show."""
    root, location = place.split("|")
    with Lake(root) as lake:
        directory = open_folder(lake._context, location)
        for number in range(10):
            with directory.change(f"{os.getpid()}-{number}", patience=60) as change:
                before = int(directory.storage.read("n.csv"))
                change.remove("n.csv")
                change.write("n.csv", str(before + 1).encode())


def _die_before(requests: int) -> None:
    left = requests
    of_storage = RemoteStorage.filesystem

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)

        return wrapped

    class Watched:
        def __init__(self, filesystem: Any) -> None:
            self._filesystem = filesystem

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._filesystem, name)
            return before(found) if name in _REQUESTS else found

    def watched(storage: RemoteStorage) -> tuple[Any, str]:
        filesystem, root = of_storage(storage)
        return Watched(filesystem), root

    RemoteStorage.filesystem = watched  # type: ignore[method-assign, assignment]
