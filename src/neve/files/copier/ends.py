"""Where bytes come from and where they go: local files, and whatever pyarrow's file systems open.

A source knows its size and reads at any place; a target takes bytes in order. Nothing here knows Parquet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from neve.errors import AlreadyExists, NotFound, StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_BUFFER = 1 << 20


class Source(Protocol):
    """Bytes at any place. `name` is for messages; closing twice does no harm."""

    name: str
    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes.

        Raises:
            StorageError: they cannot be read, or are not there.
        """

    def arrow(self) -> Any:
        """What pyarrow reads the same file from."""

    def close(self) -> None: ...


class Target(Protocol):
    """Takes bytes in order. As a context it keeps the file when all went well, and removes it otherwise."""

    name: str
    position: int

    def write(self, data: bytes | memoryview) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LocalSource:
    """A file of this machine, read by one thread at a time.

    It is opened when it is first read, and anew when it is read once it was closed: a process may have few files open.
    """

    def __init__(self, path: Path | str) -> None:
        self.name = str(path)
        self._fd = -1
        with self._told():
            self._seen = Path(path).stat()
        self.size = self._seen.st_size

    @property
    def fd(self) -> int:
        if self._fd < 0:
            with self._told():
                self._fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
            if not os.path.samestat(os.fstat(self._fd), self._seen):
                raise StorageError(f"{self.name} was replaced while it was read")
        return self._fd

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as exc:
            raise NotFound(f"no file {self.name}") from exc
        except OSError as exc:
            raise StorageError(f"cannot open {self.name}: {exc.strerror}") from exc

    def read_at(self, offset: int, length: int) -> bytes:
        parts, missing = [], length
        with translated(f"cannot read {self.name}"):
            while missing:
                part = os.pread(self.fd, missing, offset + length - missing)
                if not part:
                    raise StorageError(f"{self.name} ended while it was read")
                parts.append(part)
                missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def arrow(self) -> Any:
        return self.name

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rest(source: Source) -> None:
    """Until its turn comes, a local file need not be open."""
    if isinstance(source, LocalSource):
        source.close()


class ArrowSource:
    """A file of any of pyarrow's file systems: S3, GCS, HDFS, memory."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.name = path
        self._filesystem = filesystem
        with translated(f"cannot open {path}"):
            self._file = filesystem.open_input_file(path)
            self.size = int(self._file.size())

    def read_at(self, offset: int, length: int) -> bytes:
        with translated(f"cannot read {self.name}"):
            data = bytes(self._file.read_at(length, offset))
        if len(data) != length:
            raise StorageError(f"{self.name} ended while it was read")
        return data

    def arrow(self) -> Any:
        return self._filesystem.open_input_file(self.name)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemorySource:
    """Bytes that are already here, in whatever holds them: Arrow's buffers too."""

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self._data = memoryview(data)
        self.size = self._data.nbytes

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self.view_at(offset, length))

    def view_at(self, offset: int, length: int) -> memoryview:
        """As `read_at`, but nothing is copied."""
        if offset < 0 or offset + length > self.size:
            raise StorageError(f"{self.name} ended while it was read")
        return self._data[offset : offset + length]

    def arrow(self) -> Any:
        import pyarrow as pa

        return pa.BufferReader(self._data)

    def close(self) -> None:
        """Nothing is open."""


class LocalTarget:
    """A new file of this machine. With `sync`, its bytes are on the disk when the context ends."""

    def __init__(self, path: Path | str, *, sync: bool = False) -> None:
        self.name = str(path)
        self.position = 0
        self._sync = sync
        self._pending = bytearray()
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError as exc:
            raise AlreadyExists(f"{self.name} exists already") from exc
        except OSError as exc:
            raise StorageError(f"cannot make {self.name}: {exc.strerror}") from exc

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        self.position += view.nbytes
        if view.nbytes >= _BUFFER:
            self.flush()
            self._hand_over(view)
            return
        self._pending += view
        if len(self._pending) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Hands over what was held back, so that the kernel may write behind it."""
        pending, self._pending = self._pending, bytearray()
        self._hand_over(memoryview(pending))

    def _hand_over(self, view: memoryview) -> None:
        with translated(f"cannot write {self.name}"):
            while view:
                view = view[os.write(self.fd, view) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException:
            Path(self.name).unlink(missing_ok=True)
            raise
        finally:
            os.close(self.fd)
        if kind is not None:
            Path(self.name).unlink(missing_ok=True)

    def _finish(self) -> None:
        self.flush()
        if self._sync:
            with translated(f"cannot write {self.name}"):
                os.fsync(self.fd)


class ArrowTarget:
    """A new file of any of pyarrow's file systems; one that is there is replaced, as object stores do."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.name = path
        self.position = 0
        self._filesystem = filesystem
        with translated(f"cannot make {path}"):
            self._stream = filesystem.open_output_stream(path)

    def write(self, data: bytes | memoryview) -> None:
        with translated(f"cannot write {self.name}"):
            self._stream.write(data)
        self.position += memoryview(data).nbytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with translated(f"cannot write {self.name}"):
            self._stream.close()
            if kind is not None:
                self._filesystem.delete_file(self.name)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of the operating system and of pyarrow as ours."""
    try:
        yield
    except FileNotFoundError as exc:
        raise NotFound(f"{what}: there is no such file") from exc
    except OSError as exc:
        raise StorageError(f"{what}: {str(exc).splitlines()[0]}") from exc
