"""Brings far and small files near while others are written: on an object store every request waits, however small."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from neve.files.copier.ends import LocalSource, MemorySource, Source, rest

_SMALL = 16 << 20
_BUDGET = 32 << 20
_AT_ONCE = 16


def brought_near(sources: Sequence[Source]) -> Generator[Source]:
    """Each source in turn; a far one of up to 16 MB comes as bytes, read in one request ahead of its turn.

    About 32 MB are held or under way at a time. Local and large sources come as they are; local ones are closed after
    their turn.
    """
    if not any(_is_far_and_small(source) for source in sources):
        for source in sources:
            yield source
            rest(source)
        return
    waiting: deque[tuple[Source, Future[Source]]] = deque()
    coming = deque(sources)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            while coming or waiting:
                while coming and (not waiting or _has_room(waiting, coming[0])):
                    source = coming.popleft()
                    waiting.append((source, pool.submit(_near, source)))
                yield waiting.popleft()[1].result()
        finally:
            for _, future in waiting:
                future.cancel()


def _is_far_and_small(source: Source) -> bool:
    return not isinstance(source, LocalSource | MemorySource) and source.size <= _SMALL


def _has_room(waiting: Sequence[tuple[Source, Future[Source]]], source: Source) -> bool:
    held = sum(other.size for other, _ in waiting if _is_far_and_small(other))
    return len(waiting) < _AT_ONCE and (held + source.size <= _BUDGET or not _is_far_and_small(source))


def _near(source: Source) -> Source:
    return MemorySource(source.name, source.read_at(0, source.size)) if _is_far_and_small(source) else source
