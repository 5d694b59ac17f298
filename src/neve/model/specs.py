"""What a table should be, as asked for, and the changes that can be asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from neve.errors import ColumnNotFound, InvalidSchema, nearest
from neve.model.layout import SortField, Transform
from neve.model.names import TableName, check_text
from neve.model.ranges import RANGE
from neve.model.splits import Key, check_points, key_type
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

ONLINE = "neve.online"
ROW_KEYS = "neve.row-keys"
SORT_KEYS = "neve.sort-keys"
RANGES = "neve.ranges"
RESERVED_COLUMNS = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
_TIMES = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_CUT = frozenset({"int", "long", "decimal", "string", "binary"})
_APPLIES = {
    "hour": _TIMES,
    **dict.fromkeys(("day", "month", "year"), _TIMES | {"date"}),
    "truncate": _CUT,
    "bucket": _CUT | _TIMES | {"date", "time", "uuid", "fixed"},
}
"""The types that Iceberg defines a transform for; one that is not named takes every type but nested ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    name: TableName
    columns: tuple[Field, ...]
    partition_by: tuple[Transform, ...] = ()
    sort_by: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    row_keys: tuple[str, ...] = ()
    sort_keys: tuple[str, ...] = ()
    split_points: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a column goes: first, or beside another one of the same level."""

    side: Literal["first", "before", "after"]
    column: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    path: str
    column: Field
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    path: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: str
    new_name: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    path: str
    position: Position


@dataclass(frozen=True, slots=True)
class SetType:
    path: str
    type: Type


@dataclass(frozen=True, slots=True)
class SetComment:
    path: str
    comment: str


@dataclass(frozen=True, slots=True)
class DropRequired:
    path: str


@dataclass(frozen=True, slots=True)
class SetPartitioning:
    transforms: tuple[Transform, ...]


@dataclass(frozen=True, slots=True)
class SetSortOrder:
    fields: tuple[SortField, ...]


ColumnChange = AddColumn | DropColumn | RenameColumn | MoveColumn | SetType | SetComment | DropRequired
Alteration = ColumnChange | SetPartitioning | SetSortOrder


def check_spec(spec: TableSpec) -> None:
    """Refuses a table that could not be written to or read back: no columns, names that meet, unknown columns."""
    if not spec.columns:
        raise InvalidSchema("a table needs at least one column", hint='give --schema "id bigint not null, …"')
    _check_distinct(spec.columns, "")
    for column in spec.columns:
        check_text(column.comment or "", what=f"the comment of {column.name}")
        if column.name.lower() in RESERVED_COLUMNS:
            raise InvalidSchema(f"{column.name} is the name of a metadata column", hint="choose another name")
    for transform, verb in ((t, v) for v, terms in _terms(spec).items() for t in terms):
        check_transform(transform, find_column(spec.columns, transform.column).type, verb=verb)
    check_partition_names(spec.partition_by, {column.name for column in spec.columns})
    _check_keys(spec)


def _check_keys(spec: TableSpec) -> None:
    for key in spec.row_keys:
        key_type(find_column(spec.columns, key))
    if spec.row_keys and any(column.name.lower() == RANGE for column in spec.columns):
        raise InvalidSchema(f"{RANGE} is the column that Névé keeps key ranges in", hint="choose another name")
    if spec.split_points and not spec.row_keys:
        raise InvalidSchema("split points divide the first row key, and there is none", hint="give --row-keys")
    if spec.sort_keys and not spec.row_keys:
        raise InvalidSchema("sort keys come after the row keys, and there are none", hint="give --row-keys")
    for key in spec.sort_keys:
        check_transform(Transform(key), find_column(spec.columns, key).type, verb="sort")
    if twice := _first_twice(key.lower() for key in (*spec.row_keys, *spec.sort_keys)):
        raise InvalidSchema(f"{twice} is a key twice", hint="name each column once")
    check_points(spec.split_points)


def in_ranges(spec: TableSpec) -> TableSpec:
    """A key-range table with its layout: a column for the range, files by range, rows in the order of the keys."""
    if not spec.row_keys:
        return spec
    if spec.partition_by or spec.sort_by:
        raise InvalidSchema(
            "row keys already say where a row lies: they take no partitioning and no sort order",
            hint="leave those out; --sort-keys orders rows of equal keys",
        )
    order = tuple(SortField(Transform(key)) for key in (*spec.row_keys, *spec.sort_keys))
    column = Field(RANGE, Primitive("int"), False, "the key range that the row was written for")
    return replace(spec, columns=(*spec.columns, column), partition_by=(Transform(RANGE),), sort_by=order)


def _terms(spec: TableSpec) -> dict[str, tuple[Transform, ...]]:
    return {"partition": spec.partition_by, "sort": tuple(sort.term for sort in spec.sort_by)}


def check_transform(transform: Transform, kind: Type, *, verb: str) -> None:
    """Refuses a transform of a type that Iceberg does not define it for.

    >>> check_transform(Transform("ts", "day"), Primitive("timestamptz"), verb="partition")
    """
    name = transform.function.partition("[")[0]
    word = kind.name.partition("(")[0] if isinstance(kind, Primitive) else ""
    if not word or word not in _APPLIES.get(name, {word}):
        raise InvalidSchema(f"cannot {verb} by {transform}: {transform.column} is a {kind}")


def check_partition_names(transforms: Sequence[Transform], columns: Collection[str]) -> None:
    """Partition fields have names too, which must be distinct, and no column's unless they are that column."""
    if twice := _first_twice(transform.field_name.lower() for transform in transforms):
        raise InvalidSchema(f"two partition fields would be called {twice}", hint="drop one of them")
    folded = {column.lower() for column in columns}
    for transform in transforms:
        if transform.function != "identity" and transform.field_name.lower() in folded:
            raise InvalidSchema(
                f"partitioning by {transform} makes a field {transform.field_name}, and a column has that name",
                hint="rename the column",
            )


def find_column(columns: tuple[Field, ...], path: str) -> Field:
    """The column at a dotted path, spelled exactly; else the error names the nearest ones."""
    paths = dict(walk(columns))
    if path in paths:
        return paths[path]
    raise ColumnNotFound(
        f"no column {path}", hint=nearest(path, paths) or f"columns: {', '.join(column.name for column in columns)}"
    )


def walk(columns: tuple[Field, ...], prefix: str = "", *, into_lists: bool = False) -> Iterator[tuple[str, Field]]:
    """Every column and struct field with its dotted path; if wanted, also what lists and maps hold."""
    for column in columns:
        yield prefix + column.name, column
        match column.type:
            case Struct(fields):
                yield from walk(fields, f"{prefix}{column.name}.", into_lists=into_lists)
            case ListOf(element) if into_lists:
                yield from walk((Field("element", element),), f"{prefix}{column.name}.", into_lists=True)
            case MapOf(_, value) if into_lists:
                yield from walk((Field("value", value),), f"{prefix}{column.name}.", into_lists=True)


def _check_distinct(columns: tuple[Field, ...], prefix: str) -> None:
    if twice := _first_twice(column.name.lower() for column in columns):
        raise InvalidSchema(f"column {prefix}{twice} is there twice", hint="Spark SQL does not tell cases apart")
    for column in columns:
        for fields in _structs(column.type):
            _check_distinct(fields, f"{prefix}{column.name}.")


def _structs(kind: Type) -> Iterator[tuple[Field, ...]]:
    """The fields of a struct, or of the structs in a list or map."""
    match kind:
        case Struct(fields):
            yield fields
        case ListOf(element, _):
            yield from _structs(element)
        case MapOf(key, value, _):
            yield from _structs(key)
            yield from _structs(value)


def _first_twice(items: Iterator[str]) -> str | None:
    return next((item for item, count in Counter(items).items() if count > 1), None)
