"""Moves ranges of bytes from sources to a target: inside the kernel where both are local, as they lie where they are in
memory already, else in large reads ahead.

No way holds more than a few megabytes at a time, however large the range is.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from neve.errors import StorageError
from neve.files.copier.ends import LocalSource, LocalTarget, MemorySource, Source, Target, translated

_PIECE = 4 << 20
_AHEAD = 6
_KERNEL_AT_LEAST = 128 << 10
_KERNEL_AT_MOST = 1 << 30
_NOT_IN_KERNEL = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM)


class Range(NamedTuple):
    """Bytes of a file from `start` up to `end`."""

    start: int
    end: int


def move(source: Source, ranges: Iterable[Range], target: Target) -> None:
    """Appends the ranges to the target in the order given.

    Raises:
        StorageError: the source is shorter than a range says, or one of the two fails.
    """
    if isinstance(source, LocalSource):
        for span in ranges:
            _move_local(source, span, target)
        return
    if isinstance(source, MemorySource):
        for span in ranges:
            target.write(source.view_at(span.start, span.end - span.start))
        return
    pieces = [piece for span in ranges for piece in _pieces(span)]
    for data in _read_ahead(source, pieces) if len(pieces) > 1 else _read(source, pieces):
        target.write(data)


def _move_local(source: LocalSource, span: Range, target: Target) -> None:
    if span.end > os.fstat(source.fd).st_size:
        raise StorageError(f"{source.name} ended while it was read")
    start = span.start
    if isinstance(target, LocalTarget) and span.end - span.start >= _KERNEL_AT_LEAST:
        start = _move_in_kernel(source, span, target)
    for data in _read(source, _pieces(Range(start, span.end))):
        target.write(data)


def _move_in_kernel(source: LocalSource, span: Range, target: LocalTarget) -> int:
    """Copies as much as the kernel is willing to, and says how far that was."""
    target.flush()
    at = span.start
    if not hasattr(os, "copy_file_range"):
        return at
    with translated(f"cannot copy {source.name} to {target.name}"):
        while at < span.end:
            try:
                moved = os.copy_file_range(source.fd, target.fd, min(span.end - at, _KERNEL_AT_MOST), at)
            except OSError as exc:
                if exc.errno in _NOT_IN_KERNEL:
                    return at
                raise
            if not moved:
                return at
            at += moved
            target.position += moved
    return at


def _pieces(span: Range) -> Iterator[Range]:
    for start in range(span.start, span.end, _PIECE):
        yield Range(start, min(start + _PIECE, span.end))


def _read(source: Source, pieces: Iterable[Range]) -> Iterator[bytes]:
    for piece in pieces:
        yield source.read_at(piece.start, piece.end - piece.start)


def _read_ahead(source: Source, pieces: Iterable[Range]) -> Iterator[bytes]:
    """The bytes of the pieces, some of which are already under way while one is written."""
    waiting: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(_AHEAD) as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(source.read_at, piece.start, piece.end - piece.start))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
