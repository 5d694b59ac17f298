"""Columns that no source has, or that are to be told anew: pyarrow encodes them, and their chunks are stitched in.

Made for row lineage (see `lineage`), which must be written out when rows move to another file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from neve.files.copier.elements import element_of, schema_list
from neve.files.copier.ends import MemorySource, Source
from neve.files.copier.footer import Footer, read_footer
from neve.files.copier.thrift import Malformed, Struct
from neve.files.copier.words import File
from neve.model.copying import Element

_PAGE_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Held:
    """A source's own values of an extra column. `nulls` is None when its statistics do not count them."""

    nulls: int | None
    read: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RowGroupAt:
    """A row group on its way: the number of its source, its number there, and the rows of the source before it."""

    source: int
    row_group: int
    first_row: int
    rows: int
    held: Held | None


@dataclass(frozen=True, kw_only=True)
class ExtraColumn:
    """A column to stitch in behind the others. `kind` is the pyarrow type of its values, which may be NULL.

    `values` gives a pyarrow array as long as the row group; or None, to copy the values that the source holds.
    A source holds the column when one of its columns has the same field id.
    """

    name: str
    field_id: int
    kind: Any
    values: Callable[[RowGroupAt], Any | None]
    encoding: str | None = None
    compression: str = "none"

    @property
    def field(self) -> Any:
        """The column as pyarrow tells it."""
        import pyarrow as pa

        return pa.field(self.name, self.kind, metadata={"PARQUET:field_id": str(self.field_id)})

    @cached_property
    def node(self) -> Struct:
        """The column as a schema tells it."""
        footer = self._encoded([], page_index=False)[1]
        return schema_list(_tree(footer).raw(File.SCHEMA) or b"")[1]

    @cached_property
    def element(self) -> Element:
        return element_of(self.node)

    def encode(self, values: Any, *, page_index: bool) -> tuple[Source, Struct]:
        """The values as one column chunk in a file of its own, and the tree of that file's footer."""
        source, footer = self._encoded(values, page_index=page_index)
        return source, _tree(footer)

    def _encoded(self, values: Any, *, page_index: bool) -> tuple[Source, Footer]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table([pa.array([], self.kind) if len(values) == 0 else values], schema=pa.schema([self.field])),
            sink,
            row_group_size=max(1, len(values)),
            compression=self.compression,
            use_dictionary=self.encoding is None,
            column_encoding={self.name: self.encoding} if self.encoding else None,
            store_schema=False,
            write_page_index=page_index,
            max_rows_per_page=_PAGE_ROWS,
        )
        source = MemorySource(f"column {self.name}", sink.getvalue())
        return source, read_footer(source)


def _tree(footer: Footer) -> Struct:
    if footer.tree is None:
        raise Malformed(str(footer.shape.problem))
    return footer.tree
