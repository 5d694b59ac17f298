"""Who may change a folder, and when others may look: locks that die with their process.

A local folder has two, both `flock` on folders that are there anyway, so that a look leaves no trace and needs no right
to write: the hidden folder of a change says that somebody writes, the data folder itself that files change places.
They are always taken in this order. Where `flock` does not reach, such as S3, the caller brings a lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from neve.errors import LeaseHeld, NotFound, StorageError, Unsupported

_PAUSE = 0.02


class Lock(Protocol):
    """`patience` in seconds; LeaseHeld is raised when it ends first."""

    @property
    def halts_readers(self) -> bool:
        """Whether nobody looks while somebody swaps. Where not, who looks must look twice."""

    def check(self) -> None:
        """Before each step of a change: raises LeaseHeld when this writer overslept and lost its right to go on."""

    def writing(self, *, patience: float) -> AbstractContextManager[None]:
        """One writer at a time, from its first staged file until nothing of it is left."""

    def swapping(self) -> AbstractContextManager[None]:
        """Nobody looks while files change places."""

    def reading(self) -> AbstractContextManager[None]:
        """No file changes its place meanwhile; many may look at once."""


@dataclass(frozen=True)
class FolderLock:
    """Locks of a local folder; `hidden` is the folder of changes inside it, made when it is needed."""

    folder: Path
    hidden: Path
    patience: float = 600.0
    """How long a swap waits for those who look, and they for a swap."""
    halts_readers: ClassVar[bool] = True

    def check(self) -> None:
        """The kernel takes this lock away from the dead alone."""

    @contextmanager
    def writing(self, *, patience: float) -> Iterator[None]:
        deadline = time.monotonic() + patience
        while True:
            descriptor = self._open_hidden()
            if descriptor is None:
                continue
            try:
                _take(descriptor, fcntl.LOCK_EX, deadline, f"{self.folder} is being changed by another process")
                if _is_still(descriptor, self.hidden):
                    try:
                        yield
                    finally:
                        _remove_if_empty(self.hidden)  # only ever by its holder
                    return
            finally:
                os.close(descriptor)

    def swapping(self) -> AbstractContextManager[None]:
        return self._on_folder(fcntl.LOCK_EX, "is being read by another process")

    def reading(self) -> AbstractContextManager[None]:
        return self._on_folder(fcntl.LOCK_SH, "is being changed by another process")

    @contextmanager
    def _on_folder(self, kind: int, held: str) -> Iterator[None]:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError) as exc:
                raise NotFound(f"no folder {self.folder}") from exc
            try:
                _take(descriptor, kind, deadline, f"{self.folder} {held}")
                if _is_still(descriptor, self.folder):
                    yield
                    return
            finally:
                os.close(descriptor)

    def _open_hidden(self) -> int | None:
        """None when a rival took it away in between."""
        try:
            self.hidden.mkdir(exist_ok=True)
            return os.open(self.hidden, os.O_RDONLY | os.O_DIRECTORY)
        except (FileExistsError, FileNotFoundError) as exc:
            if not self.folder.is_dir():
                raise NotFound(f"no folder {self.folder}") from exc
            if self.hidden.is_file():
                raise StorageError(f"{self.hidden} is a file, where Névé keeps changes that are under way") from exc
            return None
        except OSError as exc:
            raise StorageError(f"cannot write in {self.folder}: {exc.strerror}") from exc


@dataclass(frozen=True)
class NoLock:
    """Nobody says who else writes: looking is allowed, writing is not."""

    location: str
    halts_readers: ClassVar[bool] = False

    def check(self) -> None:
        """Nobody who may write asks."""

    def writing(self, *, patience: float) -> AbstractContextManager[None]:  # noqa: ARG002 - there is nothing to wait for
        raise Unsupported(
            f"{self.location} has no locks of its own, so two writers could lose each other's rows",
            hint="change it through a lake, whose leases keep writers apart",
        )

    def swapping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()


def _take(descriptor: int, kind: int, deadline: float, held: str) -> None:
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError as exc:
            if time.monotonic() >= deadline:
                raise LeaseHeld(held, hint="wait for it to finish, then run the command again") from exc
            time.sleep(_PAUSE)
        except OSError as exc:
            raise StorageError(f"this filesystem gives no locks: {exc.strerror}") from exc


def _is_still(descriptor: int, folder: Path) -> bool:
    """Whether the folder that was opened is the one that has the name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
