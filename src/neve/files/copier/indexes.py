"""Page indexes and Bloom filters: small structures behind the rows, which the footer points at.

A column index holds values only, and is moved as it stands; an offset index holds the place of every page, and is
shifted with the pages. Bloom filters are moved as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neve.errors import Unsupported
from neve.files.copier.ends import Source
from neve.files.copier.footer import chunk_range, column_of
from neve.files.copier.thrift import I64, Malformed, Struct, read_struct, write_struct
from neve.files.copier.transfer import Range
from neve.files.copier.words import (
    COLUMN_INDEX_FIELDS,
    KNOWN,
    OFFSETS_NEST,
    Chunk,
    Column,
    File,
    Group,
    Offsets,
    Page,
)

_READ_THROUGH = 1 << 20
_BLOOM_HEADER = 64
_LONGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class PageIndex:
    """The index of one column chunk as it goes into the output; writers may leave either half out."""

    column: bytes | None
    offsets: bytes | None


class IndexReader:
    """Page indexes of one file. They lie side by side before the footer, and come in one read where they do."""

    def __init__(self, source: Source, tree: Struct) -> None:
        self._source = source
        self._held = b""
        self._start = 0
        ranges = [span for chunk in _chunks(tree) for span in _index_ranges(source, chunk)]
        if ranges:
            start, end = min(span.start for span in ranges), max(span.end for span in ranges)
            if end - start <= 2 * sum(span.end - span.start for span in ranges) + _READ_THROUGH:
                self._held, self._start = source.read_at(start, end - start), start

    def read(self, chunk: Struct, *, moved: int) -> PageIndex:
        """The index of a chunk whose pages move by so many bytes.

        Raises:
            Unsupported: the index is damaged, or holds what we do not know.
        """
        column = self._bytes(chunk, Chunk.COLUMN_INDEX, Chunk.COLUMN_INDEX_LENGTH)
        offsets = self._bytes(chunk, Chunk.OFFSET_INDEX, Chunk.OFFSET_INDEX_LENGTH)
        try:
            if column is not None:
                _check_column_index(column)
            return PageIndex(column, None if offsets is None else _shifted(offsets, chunk, moved))
        except Malformed as exc:
            raise Unsupported(f"{self._source.name}: a page index is damaged: {exc}") from exc

    def _bytes(self, chunk: Struct, place: Chunk, length: Chunk) -> bytes | None:
        if place not in chunk:
            return None
        span = _range(self._source, chunk, place, length)
        at = span.start - self._start
        if at >= 0 and at + span.end - span.start <= len(self._held):
            return self._held[at : at + span.end - span.start]
        return self._source.read_at(span.start, span.end - span.start)


def bloom_range(source: Source, column: Struct) -> Range | None:
    """Where a chunk's Bloom filter lies. Older writers leave its length out; its own header tells it.

    Raises:
        Unsupported: there is no Bloom filter where the footer says.
    """
    place = column.integer(Column.BLOOM)
    if place is None:
        return None
    try:
        if not 4 <= place < source.size:
            raise Malformed("it lies outside of the file")
        header, end = read_struct(source.read_at(place, min(_BLOOM_HEADER, source.size - place)))
        length = end + header.number(1)
        if column.integer(Column.BLOOM_LENGTH) not in (None, length):
            raise Malformed("its length is not what the footer says")
        if header.number(1) <= 0 or place + length > source.size:
            raise Malformed("it is longer than the file")
    except Malformed as exc:
        raise Unsupported(f"{source.name}: a Bloom filter is damaged: {exc}") from exc
    return Range(place, place + length)


def _chunks(tree: Struct) -> Iterator[Struct]:
    for group in tree.structs(File.ROW_GROUPS):
        yield from group.structs(Group.COLUMNS) if group.number(Group.ROWS) else ()


def _index_ranges(source: Source, chunk: Struct) -> Iterator[Range]:
    if Chunk.COLUMN_INDEX in chunk:
        yield _range(source, chunk, Chunk.COLUMN_INDEX, Chunk.COLUMN_INDEX_LENGTH)
    if Chunk.OFFSET_INDEX in chunk:
        yield _range(source, chunk, Chunk.OFFSET_INDEX, Chunk.OFFSET_INDEX_LENGTH)


def _range(source: Source, chunk: Struct, place: Chunk, length: Chunk) -> Range:
    start, size = chunk.number(place), chunk.integer(length) or 0
    if start < 4 or size <= 0 or start + size > source.size:
        raise Unsupported(f"{source.name}: a page index lies outside of the file")
    return Range(start, start + size)


def _check_column_index(data: bytes) -> None:
    index, end = read_struct(data)
    if end != len(data) or not COLUMN_INDEX_FIELDS.issuperset(index):
        raise Malformed("it holds what is not known")


def _shifted(data: bytes, chunk: Struct, moved: int) -> bytes:
    index, end = read_struct(data, nest=OFFSETS_NEST)
    if end != len(data) or not KNOWN[Offsets].issuperset(index):
        raise Malformed("it holds what is not known")
    held = chunk_range(column_of(chunk))
    for page in index.structs(Offsets.PAGES):
        start = page.number(Page.OFFSET)
        if not KNOWN[Page].issuperset(page) or start < held.start or start + page.number(Page.SIZE) > held.end:
            raise Malformed("a page lies outside of its column")
        page.put(Page.OFFSET, I64, start + moved)
    return write_struct(index)
