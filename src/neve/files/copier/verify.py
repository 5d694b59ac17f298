"""Proves that an output holds what its sources hold: by its footer, by its pages, or by every row.

A copy is trusted because it is checked: the footer is read back from the bytes that were written, not from what we
meant to write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Literal

from neve.errors import Unsupported
from neve.files.copier.ends import Source
from neve.files.copier.footer import Footer, column_of, kept_groups, read_footer
from neve.files.copier.indexes import IndexReader, bloom_range
from neve.files.copier.pages import pages_of
from neve.files.copier.thrift import Malformed, Struct
from neve.files.copier.words import Column, Group
from neve.model.results import Reason

Depth = Literal["footer", "pages", "rows"]
_SAME = (Column.TYPE, Column.CODEC, Column.VALUES, Column.UNCOMPRESSED, Column.COMPRESSED, Column.STATISTICS)


def verify(
    sources: Sequence[Source], target: Source, *, depth: Depth = "footer", without: Collection[int] = ()
) -> Reason | None:
    """What is wrong with an output that should hold all rows of its sources; None when nothing is.

    Columns that the output has beyond its sources are passed over, and those whose field ids are in `without`.

    "footer" compares every column chunk's counts, sizes and statistics, and reads indexes; "pages" also walks the pages
    without unpacking them; "rows" also compares the rows themselves as a bag, with pyarrow, and is slow.
    """
    held, footers = read_footer(target), [read_footer(source) for source in sources]
    found = held.shape.problem or _compare(footers, held, without)
    if found is None:
        found = _contents(target, held, pages=depth != "footer")
    if found is None and depth == "rows":
        found = _rows(sources, target, _shared(footers, without))
    return found


def _compare(footers: Sequence[Footer], target: Footer, without: Collection[int]) -> Reason | None:
    problem = next((footer.shape.problem for footer in footers if footer.shape.problem is not None), None)
    if problem is not None:
        return problem
    wanted = sum(footer.shape.rows for footer in footers)
    if target.shape.rows != wanted:
        return _wrong(target, f"it holds {target.shape.rows} rows, and its sources {wanted}")
    ours, theirs = list(_groups([target], without)), list(_groups(footers, without))
    if len(ours) != len(theirs):
        return _wrong(target, f"it has {len(ours)} row groups, and its sources {len(theirs)}")
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        unlike = [path for path in other if one.get(path) != other[path]]
        if unlike:
            return _wrong(target, f"column {'.'.join(unlike[0])} of row group {number} is not its source's")
    return None


def _groups(footers: Iterable[Footer], without: Collection[int]) -> Iterator[dict[tuple[str, ...], list[object]]]:
    for footer in footers:
        for _, group in kept_groups(_tree(footer)):
            yield {
                leaf.path: [column_of(chunk).get(field) for field in _SAME]
                for leaf, chunk in zip(footer.shape.leaves, group.structs(Group.COLUMNS), strict=True)
                if leaf.element.field_id not in without
            }


def _tree(footer: Footer) -> Struct:
    return Struct() if footer.tree is None else footer.tree


def _contents(source: Source, footer: Footer, *, pages: bool) -> Reason | None:
    reader = IndexReader(source, _tree(footer))
    for number, group in kept_groups(_tree(footer)):
        for leaf, chunk in zip(footer.shape.leaves, group.structs(Group.COLUMNS), strict=True):
            try:
                reader.read(chunk, moved=0)
                bloom_range(source, column_of(chunk))
                if pages:
                    list(pages_of(source, column_of(chunk)))
            except (Malformed, Unsupported) as exc:
                return _wrong(footer, f"column {'.'.join(leaf.path)} of row group {number}: {exc}")
    return None


def _shared(footers: Sequence[Footer], without: Collection[int]) -> list[str]:
    leaves = footers[0].shape.leaves if footers else ()
    return list(dict.fromkeys(leaf.path[0] for leaf in leaves if leaf.element.field_id not in without))


def _rows(sources: Sequence[Source], target: Source, columns: Sequence[str]) -> Reason | None:
    wanted = sum(content_hash(source, columns) for source in sources) % _MODULUS
    if content_hash(target, columns) == wanted:
        return None
    return Reason(code="wrong_copy", detail=f"{target.name}: its rows are not those of its sources")


_MODULUS = 1 << 128


def content_hash(source: Source, columns: Sequence[str]) -> int:
    """A number for the bag of rows in a file, in whatever order they are: hashes of bags add up."""
    import pyarrow.parquet as pq

    total = 0
    with pq.ParquetFile(source.arrow()) as file:
        for batch in file.iter_batches():
            values = [batch.column(name).to_pylist() for name in columns]
            total += sum(_row_hash(row) for row in zip(*values, strict=True))
    return total % _MODULUS


def _row_hash(row: tuple[Any, ...]) -> int:
    return int.from_bytes(blake2b(repr(row).encode(errors="surrogatepass"), digest_size=16).digest())


def _wrong(footer: Footer, detail: str) -> Reason:
    return Reason(code="wrong_copy", detail=f"{footer.shape.path}: {detail}")
