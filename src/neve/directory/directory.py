"""A folder of data files as one thing: what it holds, and changes that happen whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from neve.config import LoadedSettings
from neve.config.connections import arrow_s3
from neve.directory.change import Change, carry_out
from neve.directory.journal import HIDDEN, JOURNAL, LEDGER, clear_up, recover
from neve.directory.locks import FolderLock, Lock, NoLock
from neve.directory.storage import LocalStorage, RemoteStorage, Storage
from neve.errors import Conflict, LeaseHeld, NotFound, StorageError, Unsupported
from neve.model.directories import DataFile
from neve.plan.folders import is_ignored

FileFormat = Literal["parquet", "csv"]
_PATIENCE = 90.0
"""Seconds; a lease of somebody who died is over before."""
_ENDINGS = {"parquet": (".parquet", ".parq", ".pq"), "csv": (".csv", ".csv.gz")}


def open_directory(
    location: str | Path,
    settings: LoadedSettings | None = None,
    *,
    format: FileFormat = "parquet",  # noqa: A002 - the word that users say
    lock: Lock | None = None,
    create: bool = False,
) -> Directory:
    """A folder, local or s3://…; what a process that died had begun in it is ended first.

    On S3 a writer must bring a `lock`, and `settings` say how the store is reached.

    Raises:
        NotFound: there is no such folder, and `create` does not ask for one.
    """
    place = str(location)
    if "://" in place:
        if not place.startswith("s3"):
            raise Unsupported(f"cannot reach {place}", hint="a folder is a local path or s3://bucket/prefix")
        lock = lock or NoLock(place)
        remote = RemoteStorage(place.rstrip("/"), {} if settings is None else arrow_s3(settings), lock.check)
        return Directory(remote, lock, format=format)
    root = Path(place).expanduser().absolute()
    if root.is_file():
        raise NotFound(f"{root} is a file, not a folder", hint="name the folder that holds the files")
    if create:
        _make(root)
    if not root.is_dir():
        raise NotFound(f"no folder {root}")
    return Directory(LocalStorage(root), lock or FolderLock(root, root / HIDDEN), format=format)


class Seen(NamedTuple):
    """What a folder holds at one moment; `ledger` is what it keeps about itself, None when nobody wrote any."""

    files: list[DataFile]
    ledger: bytes | None


class Directory:
    """Made by `open_directory`."""

    def __init__(self, storage: Storage, lock: Lock, *, format: FileFormat = "parquet") -> None:  # noqa: A002
        self.storage = storage
        self.format = format
        self._lock = lock
        self.recover()

    @property
    def location(self) -> str:
        return self.storage.location

    def recover(self) -> bool:
        """Ends what a process that died had begun; whether it had committed. A living writer is left alone.

        Raises:
            StorageError: a committed change must be carried out, and this process cannot.
        """
        if not self.storage.is_used(HIDDEN):
            return False
        committed = self.storage.exists(JOURNAL)
        try:
            with self._lock.writing(patience=_PATIENCE if committed else 0.0), self._lock.swapping():
                return recover(self.storage)
        except (LeaseHeld, StorageError, Unsupported):
            if committed and self.storage.exists(JOURNAL):
                raise
            return False  # somebody is at work, or we may only look: what is staged is nobody's rows yet

    def files(self) -> list[DataFile]:
        """The data files by path, with their sizes, as of one moment between two changes."""
        return self.look().files

    def look(self) -> Seen:
        """The data files and the ledger, as of one moment between two changes."""
        with self._steady() as seen:
            return seen

    @contextmanager
    def reading(self) -> Iterator[list[DataFile]]:
        """The data files; if the lock can do that, those who change the folder wait until the block ends."""
        with self._steady() as seen:
            yield seen.files

    @contextmanager
    def _steady(self) -> Iterator[Seen]:
        while True:
            with self._lock.reading():
                if not self.storage.exists(JOURNAL):
                    seen = self._see()
                    if self._lock.halts_readers or self._is_stable(seen):
                        yield seen
                        return
            if self.storage.exists(JOURNAL):
                self._end_unfinished()

    @contextmanager
    def change(self, run_id: str, *, patience: float = 0.0) -> Iterator[Change]:
        """One change: it happens when the block ends, and not at all when it fails.

        Raises:
            LeaseHeld: another process changes the folder, and still does after `patience` seconds.
            AlreadyExists: a published name is taken by a file that the change does not remove.
            StalePlan: a file to be removed has gone.
        """
        with self._lock.writing(patience=patience):
            if self.storage.exists(JOURNAL):
                with self._lock.swapping():
                    recover(self.storage)
            clear_up(self.storage)
            change = Change(self.storage, run_id)
            try:
                yield change
                journal = change.prepare()
                if journal is not None:
                    with self._lock.swapping():
                        carry_out(self.storage, journal)
            finally:
                self._tidy()

    def _tidy(self) -> None:
        """Nothing staged is left, unless a committed change could not be carried out: the next one does that."""
        if not self.storage.exists(JOURNAL):
            clear_up(self.storage)

    def _see(self) -> Seen:
        paths = dict(self.storage.walk())
        files = sorted(
            DataFile(path=path, bytes=size)
            for path, size in paths.items()
            if not any(map(is_ignored, path.split("/"))) and self._is_data(path)
        )
        return Seen(files, self.storage.read(LEDGER) if LEDGER in paths else None)

    def _is_data(self, path: str) -> bool:
        """By the ending; Hive gives its Parquet files none."""
        name = path.rpartition("/")[2].lower()
        return name.endswith(_ENDINGS[self.format]) or (self.format == "parquet" and "." not in name)

    def _is_stable(self, seen: Seen) -> bool:
        """Without a lock: nothing has moved while we looked. A ledger names its run, so no two are alike."""
        return not self.storage.exists(JOURNAL) and self._see() == seen

    def _end_unfinished(self) -> None:
        """A journal that its writer left; a living writer clears it before anyone else can look."""
        if not self.recover() and self.storage.exists(JOURNAL):
            raise Conflict(
                f"a change of {self.location} is committed but not carried out",
                hint="open it once through whoever may write there",
            )


def _make(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageError(f"cannot make the folder {root}: {exc.strerror}") from exc
