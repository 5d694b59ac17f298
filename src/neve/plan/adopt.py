"""An existing folder of Parquet files as a table: its columns, its partitions, and what forbids to take it as it is.

Iceberg reads a column that partitions the table from the partition's value, never from the file. So a folder name that
says something else than the rows inside would change rows silently; and a file that numbers its columns is read by
those numbers, whatever the columns are called. Both are found here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from neve.errors import InvalidSchema, NeveError, Refused
from neve.model.layout import Transform
from neve.model.names import TableName, check_part
from neve.model.specs import AddColumn, Alteration, RenameColumn, TableSpec, check_spec, find_column
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type, fields_to_iceberg
from neve.plan.folders import Value, infer_type, key_type, partition_keys, partition_of, text_of, values_of

ADOPTED_FROM = "neve.adopted-from"
NAME_MAPPING = "schema.name-mapping.default"

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)\Z")
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a Parquet file says of itself. `path` is relative to the folder.

    `ids` are the numbers that the file gives its columns, by dotted path; empty when it gives none. `constants` are
    the columns that its statistics prove to hold one value only, NULL included.
    """

    path: str
    bytes: int
    rows: int
    columns: tuple[Field, ...]
    ids: Mapping[str, int]
    constants: Mapping[str, object]
    vectorised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedFile:
    """A file to add; `partition` as Iceberg reads partition values from text."""

    path: str
    bytes: int
    rows: int
    partition: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A column of a file that must be read to know whether it agrees with the folder's name."""

    path: str
    column: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    spec: TableSpec
    folder: str
    files: tuple[AdoptedFile, ...]
    empty_files: int
    doubts: tuple[Doubt, ...]
    properties: Mapping[str, str]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def plan_adoption(name: TableName, folder: str, footers: Sequence[Footer]) -> Adoption:
    """The table that the files make up. Files without rows give their columns, and are not added.

    Raises:
        InvalidSchema: columns of two files do not fit together, or cannot be columns of a table.
        Refused: a folder's name disagrees with the rows inside, or a file's column numbers with the table's.
    """
    keys = partition_keys([footer.path for footer in footers])
    columns = with_keys(merge_columns(footers), keys, footers)
    for column in _walk(columns):
        check_part(column, what="column")
    spec = TableSpec(name=name, columns=columns, partition_by=tuple(map(Transform, keys)))
    check_spec(spec)
    _check_ids(columns, footers)
    types = {key: key_type(find_column(columns, key)) for key in keys}
    filled = [footer for footer in footers if footer.rows]
    values = {footer.path: values_of(footer.path, types) for footer in filled}
    return Adoption(
        spec=spec,
        folder=folder,
        files=tuple(
            AdoptedFile(
                path=footer.path,
                bytes=footer.bytes,
                rows=footer.rows,
                partition=tuple(map(text_of, values[footer.path].values())),
            )
            for footer in filled
        ),
        empty_files=len(footers) - len(filled),
        doubts=tuple(doubt for footer in filled for doubt in _doubts(footer, values[footer.path])),
        properties={
            NAME_MAPPING: json.dumps(_mapping(_numbered(columns)), ensure_ascii=False),
            ADOPTED_FROM: folder,
            "gc.enabled": "false",  # Iceberg then never deletes a data file: these are not ours
            **({} if all(f.vectorised for f in filled) else {"read.parquet.vectorization.enabled": "false"}),
        },
    )


def check_held(doubt: Doubt, held: Iterable[object]) -> None:
    """Refuses a file whose column holds anything but the value of its folder's name."""
    for value in held:
        if value != doubt.value:
            raise Refused(
                f"{doubt.path}: the folder says {doubt.column} = {_shown(doubt.value)}, "
                f"but inside there is {_shown(value)}",
                hint="move the rows to the folder of their value, or rename the folder",
            )


def refuse_reused_names(properties: Mapping[str, str], alterations: Iterable[Alteration]) -> None:
    """Refuses a new column whose name the adopted files may give to another one, renamed or dropped since.

    Files that number no columns are read by name: the new column would show the other's values, which would vanish.
    """
    mapping = json.loads(properties.get(NAME_MAPPING, "[]"))
    for change in alterations:
        match change:
            case AddColumn(parent, column, _):
                parents, name, own = [*filter(None, parent.split("."))], column.name, None
            case RenameColumn(path, name):
                *parents, own = path.split(".")
            case _:
                continue
        known = _names_below(mapping, parents)
        if any(name in names and own not in names for names in known):
            raise Refused(
                f"the files that this table was made from know {'.'.join([*parents, name])} as another column",
                hint="choose a name that no column of this table ever had",
            )


def _names_below(mapping: list[Any], parents: Sequence[str]) -> list[list[str]]:
    """The names of each field of one level of a name mapping."""
    for parent in parents:
        mapping = next((field.get("fields", []) for field in mapping if parent in field["names"]), [])
    return [field["names"] for field in mapping]


# ---------------------------------------------------------------------------------------------------------- columns


class _Clash(Exception):
    def __init__(self, path: str, one: Type, other: Type) -> None:
        super().__init__(path)
        self.path, self.one, self.other = path, one, other


def merge_columns(footers: Sequence[Footer]) -> tuple[Field, ...]:
    """The columns of all files, in order of first appearance; numbers widen, anything else must be the same."""
    merged: tuple[Field, ...] = ()
    for footer in footers:
        try:
            merged = _merge_fields(merged, footer.columns, "")
        except _Clash:
            raise _first_clash(footers, footer) from None
    return merged


def _first_clash(footers: Sequence[Footer], last: Footer) -> NeveError:
    """The error for a file that does not fit, with the first file that it does not fit to."""
    for footer in footers:
        try:
            _merge_fields(footer.columns, last.columns, "")
        except _Clash as clash:
            return InvalidSchema(
                f"column {clash.path} is {clash.one} in {footer.path} and {clash.other} in {last.path}",
                hint="files of one table need types that are the same, or widen: int → bigint, float → double",
            )
    raise AssertionError("a clash always has two sides")


def _merge_fields(one: tuple[Field, ...], other: tuple[Field, ...], prefix: str) -> tuple[Field, ...]:
    fields = {field.name: field for field in one}
    for field in other:
        known = fields.get(field.name)
        kind = field.type if known is None else _merge(known.type, field.type, prefix + field.name)
        fields[field.name] = Field(field.name, kind)
    return tuple(fields.values())


def _merge(one: Type, other: Type, path: str) -> Type:
    match one, other:
        case Struct(left), Struct(right):
            return Struct(_merge_fields(left, right, f"{path}."))
        case ListOf(left), ListOf(right):
            return ListOf(_merge(left, right, f"{path}.element"))
        case MapOf(left_key, left), MapOf(right_key, right):
            return MapOf(_merge(left_key, right_key, f"{path}.key"), _merge(left, right, f"{path}.value"))
        case Primitive(left), Primitive(right) if wider := _wider(left, right):
            return Primitive(wider)
        case _:
            raise _Clash(path, one, other)


def _wider(one: str, other: str) -> str | None:
    if one == other:
        return one
    left, right = _DECIMAL.match(one), _DECIMAL.match(other)
    if left and right and left[2] == right[2]:
        return one if int(left[1]) > int(right[1]) else other
    return _WIDER.get(frozenset({one, other}))


def with_keys(columns: tuple[Field, ...], keys: tuple[str, ...], footers: Sequence[Footer]) -> tuple[Field, ...]:
    """The columns, and those that only the folders' names hold, with the type that all their values have."""
    inside = {column.name for column in columns}
    missing = [key for key in keys if key not in inside]
    found: dict[str, list[str]] = {key: [] for key in missing}
    for footer in footers:
        for key, value in partition_of(footer.path):
            if key in found and value is not None:
                found[key].append(value)
    return (*columns, *(Field(key, Primitive(infer_type(found[key]))) for key in missing))


def _doubts(footer: Footer, values: Mapping[str, Value]) -> Iterator[Doubt]:
    """Columns of a file that its statistics do not prove to agree; those that they prove to differ are refused."""
    inside = {column.name for column in footer.columns}
    for key, value in values.items():
        if key in inside:
            doubt = Doubt(path=footer.path, column=key, value=value)
            if key in footer.constants:
                check_held(doubt, [footer.constants[key]])
            else:
                yield doubt


# ---------------------------------------------------------------------------------------------------- column numbers


def _numbered(columns: tuple[Field, ...]) -> list[Any]:
    numbers = count(1)
    return fields_to_iceberg(columns, lambda: next(numbers))


def _mapping(fields: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Iceberg's name mapping: files that number no columns are read by these names."""
    return [{"field-id": field["id"], "names": [field["name"]], **_mapping_below(field["type"])} for field in fields]


def _mapping_below(kind: object) -> dict[str, Any]:
    below = _mapping(_below(kind))
    return {"fields": below} if below else {}


def _below(kind: object) -> list[dict[str, Any]]:
    match kind:
        case {"type": "struct", "fields": fields}:
            return list(fields)
        case {"type": "list", "element-id": number, "element": element}:
            return [{"id": number, "name": "element", "type": element}]
        case {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            return [{"id": key_id, "name": "key", "type": key}, {"id": value_id, "name": "value", "type": value}]
        case _:
            return []


def _ids(fields: Sequence[Mapping[str, Any]], prefix: str = "") -> Iterator[tuple[str, int]]:
    for field in fields:
        path = f"{prefix}{field['name']}"
        yield path, field["id"]
        yield from _ids(_below(field["type"]), f"{path}.")


def _check_ids(columns: tuple[Field, ...], footers: Sequence[Footer]) -> None:
    """A file that numbers its columns must number every one of them as the table will."""
    wanted = dict(_ids(_numbered(columns)))
    for footer in footers:
        if not footer.ids:
            continue
        for path, _ in _ids(_numbered(footer.columns)):
            if footer.ids.get(path) != wanted[path]:
                number = footer.ids.get(path, "none")
                raise Refused(
                    f"{footer.path} numbers its columns itself: {path} has field id {number}, and would need "
                    f"{wanted[path]}; Iceberg would read another column, or none",
                    hint="if the files belong to an Iceberg table, use `neve table register`; else write them anew",
                )


# --------------------------------------------------------------------------------------------------------- small words


def _walk(columns: tuple[Field, ...]) -> Iterator[str]:
    """Names of columns and of fields at any depth."""
    for column in columns:
        yield column.name
        yield from _walk_type(column.type)


def _walk_type(kind: Type) -> Iterator[str]:
    match kind:
        case Struct(fields):
            yield from _walk(fields)
        case ListOf(element):
            yield from _walk_type(element)
        case MapOf(key, value):
            yield from _walk_type(key)
            yield from _walk_type(value)
        case Primitive():
            pass


def _shown(value: object) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
