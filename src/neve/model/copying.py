"""Row-group copy: what a Parquet file is made of, what goes together into which output, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neve.model.results import Reason

ARROW_SCHEMA = "ARROW:schema"
PANDAS = "pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One node of a Parquet schema, in the file's order (depth first, the root left out).

    `logical` is the type's meaning in words; the older way to write a meaning gives the same word as the newer one
    where the format says that both are the same. `unknown` are fields that we cannot name, as they stand.
    """

    name: str
    physical: str | None
    length: int = 0
    repetition: str = "required"
    children: int = 0
    logical: str = ""
    field_id: int | None = None
    unknown: bytes = b""

    @property
    def kind(self) -> str:
        """The type in words: `optional INT64 timestamp(micros, utc)`."""
        physical = "group" if self.physical is None else self.physical
        sized = f"{physical}({self.length})" if self.length else physical
        numbered = "" if self.field_id is None else f"field {self.field_id}"
        return " ".join(word for word in (self.repetition, sized, self.logical, numbered) if word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column that holds values: its path from the root, and its element.

    `repeated` says that a row may hold several values, or none, for it lies in a list or map.
    """

    path: tuple[str, ...]
    element: Element
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupShape:
    """Bytes are those of the column chunks, packed as they are in the file; and unpacked, where the file says."""

    rows: int
    bytes: int
    unpacked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """What a Parquet file's footer says. Where `problem` is set, the file cannot be copied, and the rest may be empty.

    `metadata` are the key-value pairs; ARROW:schema and pandas are brought to a form that does not depend on the
    number of rows. `orders` say how each column's statistics are to be compared; None when the file does not say.
    """

    path: str
    bytes: int
    footer_bytes: int = 0
    rows: int = 0
    version: int = 0
    created_by: str | None = None
    elements: tuple[Element, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    orders: tuple[str, ...] | None = None
    row_groups: tuple[RowGroupShape, ...] = ()
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    codecs: tuple[frozenset[str], ...] = ()
    encrypted: bool = False
    page_index: bool = False
    bloom_filters: bool = False
    problem: Reason | None = None

    @property
    def data_bytes(self) -> int:
        """What a copy of the file moves: its column chunks without the footer and the indexes."""
        return sum(group.bytes for group in self.row_groups)

    @property
    def unpacked_bytes(self) -> int:
        """What the column chunks come to in memory, or about that."""
        return sum(max(group.unpacked, group.bytes) for group in self.row_groups)

    @property
    def has_field_ids(self) -> bool:
        """Whether every column, and every group but the inner one of a list or map, carries a field id."""
        return all(
            element.field_id is not None
            for element in self.elements
            if element.physical is not None or element.repetition != "repeated"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """What may differ between the sources of one output, and what its footer says in their place.

    `ignore` are keys of the files' metadata that may differ, and are then left out; `put` are keys that the output gets
    whatever the sources say. `without` are field ids of columns that extra columns take the place of.
    """

    ignore: frozenset[str] = frozenset()
    put: Mapping[str, str] = field(default_factory=dict)
    without: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyGroup:
    """Files that become one, in this order."""

    files: tuple[str, ...]
    rows: int
    bytes: int
    row_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCopied:
    """A file that is re-encoded or left alone, and why."""

    path: str
    bytes: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """`groups` are copied; `reencode` needs an engine that decodes; `left` stays as it is."""

    groups: tuple[CopyGroup, ...] = ()
    reencode: tuple[NotCopied, ...] = ()
    left: tuple[NotCopied, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetrics:
    """One leaf column of an output over all its row groups; None is what the statistics do not tell.

    `lower` and `upper` are values as Parquet's statistics write them (PLAIN, without a length): they bound all values
    that are neither NULL nor NaN, and may be cut short where `exact` is false.
    """

    path: tuple[str, ...]
    field_id: int | None
    physical: str
    logical: str
    size: int
    values: int
    nulls: int | None
    nans: int | None
    lower: bytes | None
    upper: bytes | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """A finished output. `split_offsets` are where its row groups start."""

    rows: int
    bytes: int
    row_groups: int
    split_offsets: tuple[int, ...]
    columns: tuple[ColumnMetrics, ...]
    footer_bytes: int
