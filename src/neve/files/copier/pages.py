"""Walks the pages of a column chunk by their headers, without unpacking them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neve.files.copier.ends import Source
from neve.files.copier.footer import chunk_range
from neve.files.copier.thrift import FLAT, Malformed, Nest, Struct, read_struct
from neve.files.copier.words import Column

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
_TYPE, _PACKED, _DATA_HEADER, _DATA_V2_HEADER = 1, 3, 5, 8
_PAGE_NEST: Nest = {_DATA_HEADER: FLAT, _DATA_V2_HEADER: FLAT}
_GUESS = 256
_LARGEST_HEADER = 16 << 20


@dataclass(frozen=True, slots=True)
class PageAt:
    """A page: where its header starts, where it ends, and how many values it holds."""

    kind: int
    start: int
    end: int
    values: int


def pages_of(source: Source, column: Struct) -> Iterator[PageAt]:
    """The pages of a chunk, one after the other.

    Raises:
        Malformed: they do not fill the chunk exactly, or do not hold as many values as it should.
    """
    held = chunk_range(column)
    at, values, first = held.start, 0, None
    while at < held.end:
        header, length = _header(source, at, held.end)
        page = PageAt(header.number(_TYPE), at, at + length + header.number(_PACKED), _values(header))
        if page.kind not in (DATA, INDEX, DICTIONARY, DATA_V2) or page.end > held.end or page.end <= at:
            raise Malformed("a page is not of a known kind, or reaches beyond its column")
        if page.kind in (DATA, DATA_V2):
            first = at if first is None else first
            values += page.values
        yield page
        at = page.end
    if first != column.number(Column.DATA_PAGE) or values != column.number(Column.VALUES):
        raise Malformed(f"its pages hold {values} values, and it should hold {column.number(Column.VALUES)}")


def _header(source: Source, at: int, end: int) -> tuple[Struct, int]:
    """A page's header; how long it is, only reading it tells."""
    size = _GUESS
    while True:
        data = source.read_at(at, min(size, end - at))
        try:
            return read_struct(data, nest=_PAGE_NEST)
        except Malformed:
            if len(data) == end - at or size >= _LARGEST_HEADER:
                raise
        size *= 16


def _values(header: Struct) -> int:
    data = header.struct(_DATA_HEADER) or header.struct(_DATA_V2_HEADER)
    return 0 if data is None else data.number(1)
