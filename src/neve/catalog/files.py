"""Bytes of the warehouse without a JVM: local paths by the standard library, anything else by pyarrow's filesystems."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from neve.errors import StorageError
from neve.model.retention import Listed

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_REMOVERS = 8
_S3 = ("s3", "s3a", "s3n")


def local_path(location: str) -> Path | None:
    """The path of a local location (`/a/b`, `file:///a/b`, `file:/a/b`); None when it is elsewhere.

    >>> local_path("s3://bucket/x") is None, local_path("file:///a/b").as_posix(), local_path("/a#b").as_posix()
    (True, '/a/b', '/a#b')
    """
    if location.startswith("/"):
        return Path(location)
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None


def canonical(location: str) -> str:
    """One spelling for a file, however it is written: `file:/a`, `file:///a` and `/a`, `s3a://b/k` and `s3://b/k`.

    Its folder is followed through links; the file is not, as files are known by their own names.

    >>> canonical("s3a://b//k"), canonical("s3://b/k/")
    ('s3://b//k', 's3://b/k')
    """
    path = local_path(location)
    if path is not None:
        return str(_real_folder(str(path.parent)) / path.name)
    scheme, separator, rest = location.partition("://")
    return f"{'s3' if scheme in _S3 else scheme}{separator}{rest}".rstrip("/")


def canonical_folder(location: str) -> str:
    """The same for a folder, which is followed through links whole."""
    path = local_path(location)
    return canonical(location) if path is None else str(_real_folder(str(path)))


@lru_cache(maxsize=10_000)
def _real_folder(folder: str) -> Path:
    return Path(os.path.realpath(folder))


@dataclass(frozen=True)
class Files:
    """Read, list and remove under a location. `s3` holds pyarrow's S3FileSystem arguments."""

    s3: Mapping[str, str | bool] = field(default_factory=dict)

    @cached_property
    def _s3(self) -> FileSystem:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(**self.s3)

    def filesystem(self, location: str) -> tuple[FileSystem, str]:
        """The pyarrow filesystem of a location, and its path there."""
        path = local_path(location)
        if path is None:
            return self._s3, self._key(location)
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(path)

    def read(self, location: str) -> bytes:
        path = local_path(location)
        try:
            if path is not None:
                return path.read_bytes()
            with self._s3.open_input_stream(self._key(location)) as stream:
                content: bytes = stream.read()
                return content
        except OSError as exc:
            raise StorageError(f"cannot read {location}: {_why(exc)}") from exc

    @contextmanager
    def open(self, location: str) -> Iterator[BinaryIO]:
        """The file as a stream, for files that may be large."""
        path = local_path(location)
        try:
            with path.open("rb") if path is not None else self._s3.open_input_stream(self._key(location)) as stream:
                yield stream
        except OSError as exc:
            raise StorageError(f"cannot read {location}: {_why(exc)}") from exc

    def list_files(self, location: str) -> list[str]:
        """The files below a remote folder, or the one file that the location names."""
        from pyarrow.fs import FileSelector, FileType

        scheme = location.partition("://")[0]
        key = self._key(location)
        found = self._s3.get_file_info([key])[0]
        if found.type == FileType.File:
            return [location]
        listed = self._s3.get_file_info(FileSelector(key, allow_not_found=True, recursive=True))
        return [f"{scheme}://{info.path}" for info in listed if info.type == FileType.File]

    def listing(self, location: str) -> Iterator[Listed]:
        """Every file below a folder, hidden ones too, by its canonical path; none when there is no such folder."""
        path = local_path(location)
        try:
            yield from _walk(Path(canonical_folder(location))) if path is not None else self._listing_s3(location)
        except OSError as exc:
            raise StorageError(f"cannot list {location}: {_why(exc)}") from exc

    def _listing_s3(self, location: str) -> Iterator[Listed]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._key(location).rstrip("/"), allow_not_found=True, recursive=True)
        for info in self._s3.get_file_info(selector):
            if info.type == FileType.File:
                yield Listed(f"s3://{info.path}", info.size or 0, info.mtime)

    def write_new(self, location: str, content: bytes) -> None:
        """Writes a file that nobody has written before; the name must be unique by itself."""
        path = local_path(location)
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())  # the catalog must never point at what a power cut took
                return
            with self._s3.open_output_stream(self._key(location)) as stream:
                stream.write(content)
        except OSError as exc:
            raise StorageError(f"cannot write {location}: {_why(exc)}") from exc

    def remove(self, location: str) -> None:
        """Removes one file; gone already is no error."""
        path = local_path(location)
        try:
            if path is not None:
                path.unlink(missing_ok=True)
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of it
            else:
                self._s3.delete_file(self._key(location))
        except FileNotFoundError:
            return
        except OSError as exc:
            raise StorageError(f"cannot remove {location}: {_why(exc)}") from exc

    def remove_all(self, locations: Sequence[str]) -> list[str]:
        """Removes files, several at once where each takes a journey; those that could not be removed."""
        with ThreadPoolExecutor(_REMOVERS) as pool:
            done = pool.map(self._is_removed, locations)
            return [location for location, removed in zip(locations, done, strict=True) if not removed]

    def _is_removed(self, location: str) -> bool:
        try:
            self.remove(location)
        except StorageError:
            return False
        return True

    def size(self, location: str) -> int | None:
        """Bytes; None when it is not there."""
        path = local_path(location)
        try:
            if path is not None:
                return path.stat().st_size
            size: int | None = self._s3.get_file_info(self._key(location)).size
            return size
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StorageError(f"cannot look at {location}: {_why(exc)}") from exc

    @staticmethod
    def inside(folder: str) -> Callable[[str], bool]:
        """Whether a place lies in a folder, however both are written."""
        root = f"{canonical_folder(folder)}/"
        return lambda location: canonical(location).startswith(root)

    def exists(self, location: str) -> bool:
        path = local_path(location)
        if path is not None:
            return path.exists()
        from pyarrow.fs import FileType

        return bool(self._s3.get_file_info(self._key(location)).type != FileType.NotFound)

    def remove_tree(self, location: str, *, keep: tuple[str, ...] = ()) -> int:
        """Removes every file below a location but those whose names end so; how many went. None there is no error."""
        path = local_path(location)
        try:
            if path is not None:
                return _remove_local(path, keep)
            return self._remove_remote(location, keep)
        except OSError as exc:
            raise StorageError(
                f"cannot remove {location}: {_why(exc)}", hint="mend the cause and run the same command again"
            ) from exc

    def children(self, location: str) -> list[str]:
        """Names of the folders directly below a location that hold a file."""
        path = local_path(location)
        try:
            if path is not None:
                return sorted(child.name for child in path.iterdir() if _holds_a_file(child)) if path.is_dir() else []
            from pyarrow.fs import FileSelector, FileType

            found = self._s3.get_file_info(FileSelector(self._key(location), allow_not_found=True))
        except OSError as exc:
            raise StorageError(f"cannot list {location}: {_why(exc)}") from exc
        return sorted(info.base_name for info in found if info.type == FileType.Directory)

    def _remove_remote(self, location: str, keep: tuple[str, ...]) -> int:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._key(location), allow_not_found=True, recursive=True)
        paths = [info.path for info in self._s3.get_file_info(selector) if info.type == FileType.File]
        doomed = [path for path in paths if not path.endswith(keep)]
        for path in doomed:
            self._s3.delete_file(path)
        return len(doomed)

    @staticmethod
    def _key(location: str) -> str:
        scheme, _, key = location.partition("://")
        if scheme not in _S3:
            raise StorageError(f"cannot reach {location}", hint="a warehouse is a local folder or s3://bucket/prefix")
        return key


def _walk(folder: Path) -> Iterator[Listed]:
    """Links are not followed: what they lead to is somebody else's."""
    for at, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            path = Path(at, name)
            with suppress(FileNotFoundError):  # it goes while we look
                found = path.lstat()
                yield Listed(str(path), found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _holds_a_file(path: Path) -> bool:
    return path.is_dir() and any(names for _, _, names in os.walk(path))


def _remove_local(path: Path, keep: tuple[str, ...]) -> int:
    if not path.is_dir():
        return 0
    files = [Path(folder, name) for folder, _, names in os.walk(path, onerror=_raise) for name in names]
    files = [file for file in files if not file.name.endswith(keep)]
    for file in files:
        file.unlink(missing_ok=True)
    while not keep and path.is_dir():
        with suppress(FileNotFoundError):  # a rival removes the same tree
            shutil.rmtree(path)
    return len(files)


def _raise(exc: OSError) -> None:
    if not isinstance(exc, FileNotFoundError):
        raise exc


def _why(exc: OSError) -> str:
    return exc.strerror or str(exc)


Reader = Callable[[str], bytes]
