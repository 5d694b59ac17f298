"""Puts row groups into an output: their bytes as they are, and every place in their metadata where it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from neve.files.copier.ends import Source, Target
from neve.files.copier.footer import chunk_range, column_of
from neve.files.copier.indexes import IndexReader, PageIndex, bloom_range
from neve.files.copier.thrift import I16, I32, I64, Struct
from neve.files.copier.transfer import Range, move
from neve.files.copier.words import Chunk, Column, Group


@dataclass(frozen=True, slots=True)
class ChunkAt:
    """A column chunk and the file that holds it."""

    source: Source
    indexes: IndexReader | None
    chunk: Struct


@dataclass(slots=True)
class Output:
    """What has been written so far, and what the footer will need."""

    target: Target
    groups: list[Struct] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    indexed: list[tuple[Struct, PageIndex]] = field(default_factory=list)


def copy_group(output: Output, group: Struct, columns: Sequence[ChunkAt], *, changed: bool) -> None:
    """Appends a row group made of these chunks. `changed` says that they are not all those it had, and no others."""
    start = output.target.position
    moved = _move_chunks(output.target, columns)
    for column, by in zip(columns, moved, strict=True):
        _place_chunk(output, column, by)
    for column in columns:
        _move_bloom(output.target, column)
    metadata = [column_of(column.chunk) for column in columns]
    group.put_structs(Group.COLUMNS, [column.chunk for column in columns])
    if changed:
        group.put(Group.UNCOMPRESSED, I64, sum(column.number(Column.UNCOMPRESSED) for column in metadata))
        group.drop(Group.SORTING)
    group.put(Group.FILE_OFFSET, I64, start)
    group.put(Group.COMPRESSED, I64, sum(column.number(Column.COMPRESSED) for column in metadata))
    group.put(Group.ORDINAL, I16, len(output.groups))
    output.groups.append(group)
    output.starts.append(start)


def _move_chunks(target: Target, columns: Sequence[ChunkAt]) -> list[int]:
    """Moves the chunks in the order that they lie in, neighbours in one go; says how far each has moved."""
    moved = [0] * len(columns)
    ranges = [chunk_range(column_of(column.chunk)) for column in columns]
    turns = {id(column.source): turn for turn, column in reversed(list(enumerate(columns)))}
    order = sorted(range(len(columns)), key=lambda index: (turns[id(columns[index].source)], ranges[index]))
    for run in _neighbours(order, columns, ranges):
        span = Range(ranges[run[0]].start, ranges[run[-1]].end)
        for index in run:
            moved[index] = target.position - span.start
        move(columns[run[0]].source, [span], target)
    return moved


def _neighbours(order: Iterable[int], columns: Sequence[ChunkAt], ranges: Sequence[Range]) -> Iterator[list[int]]:
    run: list[int] = []
    for index in order:
        last = run[-1] if run else None
        if last is not None and (
            columns[last].source is not columns[index].source or ranges[last].end != ranges[index].start
        ):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _place_chunk(output: Output, held: ChunkAt, moved: int) -> None:
    """Tells a chunk's metadata where its pages are now, and keeps its page index for the end."""
    chunk, column = held.chunk, column_of(held.chunk)
    if held.indexes is not None and (Chunk.OFFSET_INDEX in chunk or Chunk.COLUMN_INDEX in chunk):
        output.indexed.append((chunk, held.indexes.read(chunk, moved=moved)))
    for place in (Column.DATA_PAGE, Column.INDEX_PAGE, Column.DICTIONARY_PAGE):
        if old := column.integer(place):
            column.put(place, I64, old + moved)
    chunk.put(Chunk.FILE_OFFSET, I64, 0)
    chunk.drop(Chunk.OFFSET_INDEX, Chunk.OFFSET_INDEX_LENGTH, Chunk.COLUMN_INDEX, Chunk.COLUMN_INDEX_LENGTH)


def _move_bloom(target: Target, held: ChunkAt) -> None:
    column = column_of(held.chunk)
    span = bloom_range(held.source, column)
    if span is not None:
        column.put(Column.BLOOM, I64, target.position)
        column.put(Column.BLOOM_LENGTH, I32, span.end - span.start)
        move(held.source, [span], target)


def write_indexes(output: Output) -> None:
    """Appends the page indexes of all row groups, and tells their chunks where they are."""
    for chunk, index in output.indexed:
        if index.column is not None:
            chunk.put(Chunk.COLUMN_INDEX, I64, output.target.position)
            chunk.put(Chunk.COLUMN_INDEX_LENGTH, I32, len(index.column))
            output.target.write(index.column)
    for chunk, index in output.indexed:
        if index.offsets is not None:
            chunk.put(Chunk.OFFSET_INDEX, I64, output.target.position)
            chunk.put(Chunk.OFFSET_INDEX_LENGTH, I32, len(index.offsets))
            output.target.write(index.offsets)
