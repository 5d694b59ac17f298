"""A file's footer: read from its end, checked in every number that a copy relies on, and told as a FileShape.

Parquet has no checksum of the footer, so the checks are what stands between a damaged file and an output that looks
whole: every column chunk must lie inside the file and beside the others, and all counts must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from neve.files.copier.elements import read_schema, text_of
from neve.files.copier.ends import Source, rest
from neve.files.copier.metadata import settled
from neve.files.copier.thrift import Malformed, Struct, read_struct
from neve.files.copier.transfer import Range
from neve.files.copier.words import (
    CODECS,
    ENCRYPTED_MAGIC,
    FILE_NEST,
    KNOWN,
    MAGIC,
    PHYSICAL,
    TAIL,
    Chunk,
    Column,
    File,
    Group,
    Pair,
)
from neve.model.copying import FileShape, Leaf, RowGroupShape
from neve.model.results import Reason

_GUESS = 64 << 10
_VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself, and the tree to write it anew from: None where the shape names a problem."""

    shape: FileShape
    tree: Struct | None


class _Unfit(Malformed):
    """A file that must not be copied, though it may be a good one; `code` says for which reason."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def inspect(source: Source) -> FileShape:
    """What a Parquet file's footer says, from one or two reads at its end. A file that cannot be copied says why.

    Raises:
        StorageError: the file cannot be read at all.
    """
    return read_footer(source).shape


def read_footer(source: Source) -> Footer:
    """As `inspect`, with what a copy needs. The source rests after: of many, a copy opens one at a time."""
    try:
        data = _footer_bytes(source)
        tree, end = read_struct(data, nest=FILE_NEST)
        if File.ENCRYPTION in tree or File.SIGNING_KEY in tree:
            raise _Unfit("encrypted", "its columns are encrypted, or its footer is signed")
        if end != len(data):
            raise _Unfit("corrupt", "its footer is followed by bytes that belong to nothing")
        return Footer(_shape(source, tree, len(data)), tree)
    except _Unfit as exc:
        problem = Reason(code=exc.code, detail=f"{source.name}: {exc}")
    except Malformed as exc:
        problem = Reason(code="corrupt", detail=f"{source.name}: its footer is damaged: {exc}")
    finally:
        rest(source)
    encrypted = problem.code == "encrypted"
    return Footer(FileShape(path=source.name, bytes=source.size, encrypted=encrypted, problem=problem), None)


def _footer_bytes(source: Source) -> bytes:
    if source.size < len(MAGIC) + TAIL:
        raise _Unfit("not_parquet", f"{source.size} bytes are too few for a Parquet file")
    end = source.read_at(source.size - min(_GUESS, source.size), min(_GUESS, source.size))
    if end[-4:] == ENCRYPTED_MAGIC:
        raise _Unfit("encrypted", "its footer is encrypted")
    if end[-4:] != MAGIC:
        raise _Unfit("not_parquet", "it does not end as a Parquet file does; it may be cut short")
    length = int.from_bytes(end[-TAIL:-4], "little")
    if length > source.size - len(MAGIC) - TAIL:
        raise _Unfit("corrupt", f"its footer of {length} bytes would be larger than the file")
    if length + TAIL <= len(end):
        return end[-TAIL - length : -TAIL]
    return source.read_at(source.size - TAIL - length, length)


def _shape(source: Source, tree: Struct, footer_bytes: int) -> FileShape:
    _check_known(tree, File)
    if (version := tree.number(File.VERSION)) not in _VERSIONS:
        raise _Unfit("unknown_version", f"version {version} of the format is not known")
    elements, leaves = read_schema(tree.raw(File.SCHEMA) or b"")
    groups = tree.structs(File.ROW_GROUPS)
    _check_groups(groups, leaves, source.size - TAIL - footer_bytes)
    rows = sum(group.number(Group.ROWS) for group in groups)
    if rows != tree.number(File.ROWS):
        raise _Unfit("corrupt", f"it speaks of {tree.number(File.ROWS)} rows, and its row groups of {rows}")
    chunks = [chunk for group in groups for chunk in group.structs(Group.COLUMNS)]
    return FileShape(
        path=source.name,
        bytes=source.size,
        footer_bytes=footer_bytes,
        rows=rows,
        version=version,
        created_by=_text(tree.binary(File.CREATED_BY)),
        elements=elements,
        leaves=leaves,
        orders=_orders(tree, leaves),
        row_groups=tuple(_group_shape(group) for group in groups),
        metadata=_metadata(tree),
        codecs=_codecs(groups, len(leaves)),
        page_index=any(Chunk.OFFSET_INDEX in chunk for chunk in chunks),
        bloom_filters=any(Column.BLOOM in column_of(chunk) for chunk in chunks),
    )


def column_of(chunk: Struct) -> Struct:
    """The metadata of a column chunk."""
    column = chunk.struct(Chunk.COLUMN)
    if column is None:
        raise _Unfit("encrypted", "a column's metadata is not in the footer")
    return column


def chunk_range(column: Struct) -> Range:
    """Where a column chunk's pages lie."""
    start = column.number(Column.DATA_PAGE)
    if dictionary := column.integer(Column.DICTIONARY_PAGE):
        if dictionary >= start:
            raise _Unfit("corrupt", "a dictionary lies behind the pages that need it")
        start = dictionary
    return Range(start, start + column.number(Column.COMPRESSED))


def _check_groups(groups: Sequence[Struct], leaves: Sequence[Leaf], data_end: int) -> None:
    ranges = []
    for group in groups:
        _check_known(group, Group)
        chunks = group.structs(Group.COLUMNS)
        rows = group.number(Group.ROWS)
        if len(chunks) != len(leaves) or rows < 0:
            raise _Unfit("corrupt", f"a row group has {len(chunks)} columns, and the schema {len(leaves)}")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            column = _checked_column(chunk, leaf, rows)
            if rows:
                ranges.append(chunk_range(column))
    ranges.sort()
    if ranges and (ranges[0].start < len(MAGIC) or ranges[-1].end > data_end):
        raise _Unfit("corrupt", "a column lies outside of the file")
    if any(one.end > other.start or one.end <= one.start for one, other in pairwise([*ranges, Range(data_end, 0)])):
        raise _Unfit("corrupt", "two columns lie in the same place")


def _checked_column(chunk: Struct, leaf: Leaf, rows: int) -> Struct:
    _check_known(chunk, Chunk)
    if Chunk.FILE_PATH in chunk:
        raise _Unfit("external_columns", "its columns lie in other files")
    if Chunk.CRYPTO in chunk or Chunk.ENCRYPTED_COLUMN in chunk:
        raise _Unfit("encrypted", f"column {'.'.join(leaf.path)} is encrypted")
    column = column_of(chunk)
    _check_known(column, Column)
    path = tuple(map(text_of, column.binaries(Column.PATH)))
    physical = column.number(Column.TYPE)
    if path != leaf.path or not 0 <= physical < len(PHYSICAL) or PHYSICAL[physical] != leaf.element.physical:
        raise _Unfit("corrupt", f"column {'.'.join(path)} is not what the schema says")
    if not 0 <= column.number(Column.CODEC) < len(CODECS):
        raise _Unfit("unknown_codec", f"codec {column.number(Column.CODEC)} is not known")
    values = column.number(Column.VALUES)
    if values < rows or (values > rows and not leaf.repeated):
        raise _Unfit("corrupt", f"column {'.'.join(path)} has {values} values in {rows} rows")
    return column


def _check_known(struct: Struct, words: type[File] | type[Group] | type[Chunk] | type[Column]) -> None:
    if not KNOWN[words].issuperset(struct):
        field = min(set(struct) - KNOWN[words])
        raise _Unfit("unknown_field", f"field {field} of its {words.__name__.lower()} metadata is not known")


def _group_shape(group: Struct) -> RowGroupShape:
    size = sum(column_of(chunk).number(Column.COMPRESSED) for chunk in group.structs(Group.COLUMNS))
    unpacked = group.integer(Group.UNCOMPRESSED) or 0
    return RowGroupShape(rows=group.number(Group.ROWS), bytes=size, unpacked=unpacked)


def _codecs(groups: Sequence[Struct], leaves: int) -> tuple[frozenset[str], ...]:
    found: list[set[str]] = [set() for _ in range(leaves)]
    for group in groups:
        for index, chunk in enumerate(group.structs(Group.COLUMNS)):
            found[index].add(CODECS[column_of(chunk).number(Column.CODEC)])
    return tuple(map(frozenset, found))


def _orders(tree: Struct, leaves: Sequence[Leaf]) -> tuple[str, ...] | None:
    if File.COLUMN_ORDERS not in tree:
        return None
    orders = tuple(_order(order) for order in tree.structs(File.COLUMN_ORDERS))
    if len(orders) != len(leaves):
        raise _Unfit("corrupt", f"it orders {len(orders)} columns, and the schema has {len(leaves)}")
    return orders


def _order(order: Struct) -> str:
    return " ".join(f"{field}:{(order.raw(field) or b'').hex()}" for field in sorted(order))


def _metadata(tree: Struct) -> dict[str, str | None]:
    pairs = [(_text(pair.binary(Pair.KEY)), _text(pair.binary(Pair.VALUE))) for pair in tree.structs(File.METADATA)]
    metadata = {key: settled(key, value) for key, value in pairs if key is not None}
    if len(metadata) != len(pairs):
        raise _Unfit("unknown_metadata", "a key of its metadata comes twice")
    return metadata


def _text(value: bytes | None) -> str | None:
    return None if value is None else text_of(value)


def kept_groups(tree: Struct) -> Iterator[tuple[int, Struct]]:
    """The row groups that hold rows, with their numbers."""
    for number, group in enumerate(tree.structs(File.ROW_GROUPS)):
        if group.number(Group.ROWS):
            yield number, group
