"""Makes one Parquet file of several without decoding any of them: row groups move as they are, the footer is new.

The output is laid out as: magic, then per row group its column chunks and Bloom filters, then all column indexes, all
offset indexes, the footer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from neve.errors import InvalidInput, Unsupported
from neve.files.copier.ahead import brought_near
from neve.files.copier.ends import LocalSource, MemorySource, Source, Target
from neve.files.copier.extra import ExtraColumn, Held, RowGroupAt
from neve.files.copier.footer import Footer, column_of, read_footer
from neve.files.copier.heading import compose_footer
from neve.files.copier.indexes import IndexReader
from neve.files.copier.metrics import TYPE_ORDER, column_metrics
from neve.files.copier.pages import pages_of
from neve.files.copier.rowgroups import ChunkAt, Output, copy_group, write_indexes
from neve.files.copier.thrift import Malformed, Struct
from neve.files.copier.words import MAGIC, Chunk, Column, File, Group, Stats
from neve.model.copying import CopyOptions, CopyResult, FileShape, Leaf
from neve.plan.copying import can_copy
from neve.plan.provenance import is_trusted

_NO_OPTIONS = CopyOptions()
_REENCODE = "such files must be re-encoded"
_READERS = 16


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a source, by number, in the order wanted; None means all."""

    source: Source
    row_groups: tuple[int, ...] | None = None


def copy(
    sources: Iterable[Source | Part],
    target: Target,
    *,
    options: CopyOptions = _NO_OPTIONS,
    extra_columns: Sequence[ExtraColumn] = (),
) -> CopyResult:
    """Writes the sources' row groups to the target, in order, with a footer of their own. Empty ones are left out.

    The caller opens and closes both ends; memory holds footers and indexes, and a few megabytes of rows.

    Raises:
        Unsupported: `can_copy` refuses, or an index of a source is damaged. What was written then is no Parquet file.
        InvalidInput: no source, a row group that is not there, or a column in `without` that nothing replaces.
        StorageError: a source or the target fails.
    """
    parts = [part if isinstance(part, Part) else Part(part) for part in sources]
    footers = _read_footers([part.source for part in parts])
    replaced = frozenset(extra.field_id for extra in extra_columns)
    if not parts or options.without - replaced:
        raise InvalidInput("a copy needs at least one file, and an extra column for each that it leaves out")
    options = replace(options, without=replaced)
    shapes = [footer.shape for footer in footers]
    if reason := can_copy(shapes, options) or _extra_problem(shapes, extra_columns):
        raise Unsupported(reason if isinstance(reason, str) else reason.detail, hint=_REENCODE)
    output = Output(target)
    target.write(MAGIC)
    with closing(brought_near([part.source for part in parts])) as near:
        for number, (part, footer, source) in enumerate(zip(parts, footers, near, strict=True)):
            with _damage_refused(source.name):
                _copy_part(output, number, replace(part, source=source), footer, extra_columns)
    write_indexes(output)
    footer_bytes = compose_footer(footers, output.groups, options, extra_columns)
    target.write(footer_bytes + len(footer_bytes).to_bytes(4, "little") + MAGIC)
    with _damage_refused(target.name):
        return _result(output, shapes[0], extra_columns, footer_bytes)


@contextmanager
def _damage_refused(name: str) -> Iterator[None]:
    """What is damaged in places that are looked at only on the way."""
    try:
        yield
    except Malformed as exc:
        raise Unsupported(f"{name}: {exc}", hint=_REENCODE) from exc


def _read_footers(sources: Sequence[Source]) -> list[Footer]:
    """Far sources are asked at once: each answer takes its time, and none needs another."""
    if all(isinstance(source, LocalSource | MemorySource) for source in sources):
        return [read_footer(source) for source in sources]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read_footer, sources))


def _extra_problem(shapes: Sequence[FileShape], extras: Sequence[ExtraColumn]) -> str | None:
    """Field ids go on all columns or on none: Iceberg reads a file with one by its ids, and finds nothing else."""
    for shape in shapes if extras else ():
        if not shape.has_field_ids:
            return f"{shape.path} has columns without field ids, and would lose them to a column that has one"
        taken = {leaf.path[0] for leaf in shape.leaves}
        for extra in extras:
            held = next((element for element in shape.elements if element.field_id == extra.field_id), None)
            if held is not None and held != extra.element:
                return f"{shape.path}: column {held.name} is {held.kind}, not {extra.element.kind}"
            if any(leaf.element.field_id == extra.field_id and len(leaf.path) > 1 for leaf in shape.leaves):
                return f"{shape.path}: field {extra.field_id} lies within another column"
            if held is None and extra.name in taken:
                return f"{shape.path} has a column {extra.name} without the field id {extra.field_id}"
    return None


def _copy_part(output: Output, number: int, part: Part, footer: Footer, extras: Sequence[ExtraColumn]) -> None:
    assert footer.tree is not None, "a file without a problem has a tree"  # noqa: S101
    groups = footer.tree.structs(File.ROW_GROUPS)
    starts = _running_rows(footer.shape)
    indexes = IndexReader(part.source, footer.tree)
    for index in _wanted(part, len(groups)):
        rows = groups[index].number(Group.ROWS)
        if not rows:
            continue
        own = [ChunkAt(part.source, indexes, chunk) for chunk in groups[index].structs(Group.COLUMNS)]
        if not is_trusted(footer.shape.created_by):
            _check_pages(own)
        kept, held = _parted(own, footer.shape.leaves, {extra.field_id for extra in extras})
        at = RowGroupAt(number, index, starts[index], rows, None)
        made = [_extra_chunk(extra, at, held.get(extra.field_id), kept) for extra in extras]
        copy_group(output, groups[index], [*kept, *made], changed=bool(made) or len(kept) != len(own))


def _check_pages(chunks: Iterable[ChunkAt]) -> None:
    """Old writers left bytes out of a chunk's length. Readers know them by name; a copy would cut the bytes off."""
    for chunk in chunks:
        for _ in pages_of(chunk.source, column_of(chunk.chunk)):
            pass


def _wanted(part: Part, groups: int) -> Sequence[int]:
    if part.row_groups is None:
        return range(groups)
    if len(set(part.row_groups)) < len(part.row_groups) or not set(part.row_groups) <= set(range(groups)):
        raise InvalidInput(f"{part.source.name} has row groups 0 to {groups - 1}; each can be taken once")
    return part.row_groups


def _running_rows(shape: FileShape) -> list[int]:
    starts = [0]
    for group in shape.row_groups:
        starts.append(starts[-1] + group.rows)
    return starts


def _parted(
    chunks: Sequence[ChunkAt], leaves: Sequence[Leaf], replaced: Collection[int]
) -> tuple[list[ChunkAt], dict[int, ChunkAt]]:
    """The chunks that stay, and those that extra columns take the place of, by field id."""
    kept, held = [], {}
    for chunk, leaf in zip(chunks, leaves, strict=True):
        if leaf.element.field_id is not None and leaf.element.field_id in replaced:
            held[leaf.element.field_id] = chunk
        else:
            kept.append(chunk)
    return kept, held


def _extra_chunk(extra: ExtraColumn, at: RowGroupAt, own: ChunkAt | None, others: Sequence[ChunkAt]) -> ChunkAt:
    if own is not None:
        statistics = column_of(own.chunk).struct(Column.STATISTICS) or Struct()
        at = replace(at, held=Held(statistics.integer(Stats.NULLS), lambda: _read_column(own.source, at, extra.name)))
    values = extra.values(at)
    if values is None and own is not None:
        return own
    if values is None or len(values) != at.rows:
        raise Unsupported(f"column {extra.name} has no values for row group {at.row_group} of source {at.source}")
    paged = any(Chunk.OFFSET_INDEX in other.chunk for other in others)
    source, footer = extra.encode(values, page_index=paged)
    (group,) = footer.structs(File.ROW_GROUPS)
    return ChunkAt(source, IndexReader(source, footer), group.structs(Group.COLUMNS)[0])


def _read_column(source: Source, at: RowGroupAt, name: str) -> object:
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.arrow()) as file:
        return file.read_row_group(at.row_group, columns=[name]).column(0).combine_chunks()


def _result(output: Output, shape: FileShape, extras: Sequence[ExtraColumn], footer: bytes) -> CopyResult:
    replaced = {extra.field_id for extra in extras}
    orders = shape.orders or (None,) * len(shape.leaves)
    columns = [
        (leaf, order) for leaf, order in zip(shape.leaves, orders, strict=True) if leaf.element.field_id not in replaced
    ]
    columns += [(Leaf(path=(extra.name,), element=extra.element), TYPE_ORDER) for extra in extras]
    chunks = [[column_of(chunk) for chunk in group.structs(Group.COLUMNS)] for group in output.groups]
    return CopyResult(
        rows=sum(group.number(Group.ROWS) for group in output.groups),
        bytes=output.target.position,
        row_groups=len(output.groups),
        split_offsets=tuple(output.starts),
        columns=tuple(
            column_metrics(leaf, order, [group[index] for group in chunks])
            for index, (leaf, order) in enumerate(columns)
        ),
        footer_bytes=len(footer),
    )
