"""The bytes of one folder: local by the standard library, S3 by pyarrow. Paths are relative, with `/`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Protocol

from neve.errors import Refused, StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


_JOURNEYS = 16
_BLOCK = 8 * 1024 * 1024
_REQUEST_TIMEOUT = 300.0
"""Seconds: S3 copies a large object before it answers."""
_LARGEST_COPY = 5 * 1024**3
"""From this size on S3 copies no object in one request."""


class Storage(Protocol):
    """What a crash-safe change needs of a folder. Every method raises StorageError when the storage fails."""

    @property
    def location(self) -> str: ...

    def walk(self, folder: str = "") -> Iterator[tuple[str, int]]:
        """Path and size of every file below a folder, hidden ones included; nothing when there is no such folder."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, content: bytes) -> None:
        """All or nothing, and still there after a power cut."""

    def move(self, source: str, target: str) -> None:
        """In one step where the storage can; a file at the target is replaced."""

    def put_away(self, path: str, trash: str) -> None:
        """Takes a file out of its place in one step; `trash` is where its bytes may wait for their end."""

    def bring(self, source: Path, path: str) -> None:
        """A local file moves here; whoever looks meanwhile may see a part of it."""

    def each(self, act: Callable[[str, str], None], pairs: Iterable[tuple[str, str]]) -> None:
        """One act for each pair of paths, in any order; several at once where each takes a journey."""

    def remove(self, path: str) -> None:
        """Gone already is no error."""

    def make_folders(self, paths: Iterable[str]) -> list[str]:
        """The folders that these files will lie in; those that had to be made."""

    def prune(self, folders: Iterable[str]) -> None:
        """Removes folders that hold nothing, and those above them that then hold nothing."""

    def clear(self, folder: str) -> None:
        """Removes all that a folder holds, but not the folder."""

    def is_used(self, folder: str) -> bool:
        """Whether there is such a folder, even an empty one."""

    def sync(self, paths: Iterable[str]) -> None:
        """The content of these files survives a power cut."""

    def sync_names(self, paths: Iterable[str]) -> None:
        """That these files are there, or are gone, survives a power cut."""

    def address(self, path: str) -> str:
        """Where another program finds the file."""

    def filesystem(self) -> tuple[FileSystem, str]:
        """pyarrow's filesystem, and the folder in it."""


@dataclass(frozen=True)
class LocalStorage:
    root: Path

    @property
    def location(self) -> str:
        return str(self.root)

    def walk(self, folder: str = "") -> Iterator[tuple[str, int]]:
        with _told("list", self.location):
            for place, folders, names in os.walk(self.root / folder, onerror=_raise):
                folders.sort()
                self._refuse_links(Path(place), folders)
                prefix = Path(place).relative_to(self.root).as_posix()
                for name in sorted(names):
                    path = name if prefix == "." else f"{prefix}/{name}"
                    with suppress(FileNotFoundError):
                        yield path, (self.root / path).stat().st_size

    def _refuse_links(self, place: Path, folders: list[str]) -> None:
        for name in folders:
            if (place / name).is_symlink():
                raise Refused(f"{place / name} is a link to a folder", hint="name the folder that it leads to")

    def exists(self, path: str) -> bool:
        return (self.root / path).is_file()

    def read(self, path: str) -> bytes:
        with _told("read", self.address(path)):
            return (self.root / path).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        target = self.root / path
        unfinished = target.with_name(f"{target.name}.tmp")
        with _told("write", str(target)):
            with unfinished.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(target)
            _sync_folder(target.parent)

    def move(self, source: str, target: str) -> None:
        with _told("move", self.address(source)):
            (self.root / target).parent.mkdir(parents=True, exist_ok=True)
            (self.root / source).replace(self.root / target)

    def put_away(self, path: str, trash: str) -> None:
        self.move(path, trash)

    def bring(self, source: Path, path: str) -> None:
        with _told("write", self.address(path)):
            shutil.move(source, self.root / path)

    def each(self, act: Callable[[str, str], None], pairs: Iterable[tuple[str, str]]) -> None:
        for one, other in pairs:
            act(one, other)

    def remove(self, path: str) -> None:
        with _told("remove", self.address(path)):
            (self.root / path).unlink(missing_ok=True)

    def make_folders(self, paths: Iterable[str]) -> list[str]:
        made: list[str] = []
        with _told("make folders in", self.location):
            for folder in sorted({path.rpartition("/")[0] for path in paths}):
                parts = [part for part in folder.split("/") if part]
                for end in range(1, len(parts) + 1):
                    name = "/".join(parts[:end])
                    if not (self.root / name).is_dir():
                        (self.root / name).mkdir()
                        made.append(name)
        return made

    def prune(self, folders: Iterable[str]) -> None:
        for folder in sorted(set(folders), key=len, reverse=True):
            for each in (folder, *map(str, Path(folder).parents)):
                try:
                    if each not in ("", "."):
                        (self.root / each).rmdir()
                except OSError:
                    break

    def clear(self, folder: str) -> None:
        with _told("clear", self.address(folder)):
            for place, folders, names in os.walk(self.root / folder, topdown=False, onerror=_raise):
                for name in names:
                    Path(place, name).unlink(missing_ok=True)
                for name in folders:
                    Path(place, name).rmdir()

    def discard(self, folder: str) -> None:
        """Removes a folder with all that it holds, and its own when nothing else is in it."""
        shutil.rmtree(self.root / folder, ignore_errors=True)
        with suppress(OSError):
            self.root.rmdir()

    def is_used(self, folder: str) -> bool:
        return (self.root / folder).is_dir()

    def sync(self, paths: Iterable[str]) -> None:
        for path in paths:
            with _told("write", self.address(path)), (self.root / path).open("rb") as stream:
                os.fsync(stream.fileno())

    def sync_names(self, paths: Iterable[str]) -> None:
        folders = {self.root}
        for path in paths:
            folders.update(self.root / parent for parent in Path(path).parents)
        with _told("write", self.location):
            for folder in sorted(folders, reverse=True):
                with suppress(FileNotFoundError):
                    _sync_folder(folder)

    def address(self, path: str) -> str:
        return str(self.root / path)

    def filesystem(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self.root)


@dataclass(frozen=True)
class RemoteStorage:
    """A prefix of a bucket. Objects come and go whole; a move is a copy and a removal, and folders do not exist.

    `guard` is asked before every step that changes something, and raises when this writer may not go on.
    pyarrow leaves an empty object in the place of a folder whose last file it removes; they go where folders would.
    """

    location: str
    s3: Mapping[str, str | bool]
    guard: Callable[[], None] = lambda: None

    @cached_property
    def _filesystem(self) -> FileSystem:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(**{"request_timeout": _REQUEST_TIMEOUT, **self.s3})

    def filesystem(self) -> tuple[FileSystem, str]:
        return self._filesystem, self.location.partition("://")[2].rstrip("/")

    def walk(self, folder: str = "") -> Iterator[tuple[str, int]]:
        from pyarrow.fs import FileSelector, FileType

        filesystem, root = self.filesystem()
        with _told("list", self.location):
            selector = FileSelector(f"{root}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
            for info in sorted(filesystem.get_file_info(selector), key=lambda info: info.path):
                if info.type == FileType.File:
                    yield info.path[len(root) + 1 :], info.size

    def exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        filesystem, root = self.filesystem()
        with _told("read", self.address(path)):
            return bool(filesystem.get_file_info(f"{root}/{path}").type == FileType.File)

    def read(self, path: str) -> bytes:
        filesystem, root = self.filesystem()
        with _told("read", self.address(path)), filesystem.open_input_stream(f"{root}/{path}") as stream:
            content: bytes = stream.read()
            return content

    def write(self, path: str, content: bytes) -> None:
        filesystem, root = self.filesystem()
        self.guard()
        with _told("write", self.address(path)), filesystem.open_output_stream(f"{root}/{path}") as stream:
            stream.write(content)

    def move(self, source: str, target: str) -> None:
        filesystem, root = self.filesystem()
        self.guard()
        with _told("move", self.address(source)):
            if filesystem.get_file_info(f"{root}/{source}").size < _LARGEST_COPY:
                filesystem.copy_file(f"{root}/{source}", f"{root}/{target}")
            else:
                with filesystem.open_input_stream(f"{root}/{source}") as stream:
                    self._upload(stream, target)
            self.guard()
            filesystem.delete_file(f"{root}/{source}")

    def put_away(self, path: str, trash: str) -> None:  # noqa: ARG002 - a removal is one step
        self.remove(path)

    def bring(self, source: Path, path: str) -> None:
        self.guard()
        with _told("write", self.address(path)), source.open("rb") as stream:
            self._upload(stream, path)
            source.unlink()

    def _upload(self, stream: IO[bytes], path: str) -> None:
        filesystem, root = self.filesystem()
        with filesystem.open_output_stream(f"{root}/{path}") as target:
            while block := stream.read(_BLOCK):
                target.write(block)

    def each(self, act: Callable[[str, str], None], pairs: Iterable[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(_JOURNEYS) as pool:
            for done in [pool.submit(act, one, other) for one, other in pairs]:
                done.result()

    def remove(self, path: str) -> None:
        filesystem, root = self.filesystem()
        self.guard()
        with _told("remove", self.address(path)), suppress(FileNotFoundError):
            filesystem.delete_file(f"{root}/{path}")

    def make_folders(self, paths: Iterable[str]) -> list[str]:  # noqa: ARG002 - objects need none
        return []

    def prune(self, folders: Iterable[str]) -> None:
        for folder in sorted(set(folders) - {""}, key=len, reverse=True):
            for each in (folder, *map(str, PurePosixPath(folder).parents)):
                if each == "." or not self._clear_empty(each):
                    break

    def _clear_empty(self, folder: str) -> bool:
        """Takes away what stands for a folder that holds nothing; whether it does."""
        if self.is_used(folder):
            return False
        self.clear(folder)
        return True

    def clear(self, folder: str) -> None:
        from pyarrow.fs import FileType

        filesystem, root = self.filesystem()
        self.guard()
        with _told("clear", self.address(folder)):
            if filesystem.get_file_info(f"{root}/{folder}").type == FileType.Directory:
                filesystem.delete_dir(f"{root}/{folder}")

    def is_used(self, folder: str) -> bool:
        return any(True for _ in self.walk(folder))

    def sync(self, paths: Iterable[str]) -> None:  # noqa: ARG002 - objects need none
        return

    def sync_names(self, paths: Iterable[str]) -> None:  # noqa: ARG002 - objects need none
        return

    def address(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise(exc: OSError) -> None:
    if not isinstance(exc, FileNotFoundError):
        raise exc


@contextmanager
def _told(verb: str, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StorageError(f"cannot {verb} {where}: {exc.strerror or exc}") from exc
