"""Nested columns of files beside those of a table: which fields are new, and what cannot be loaded. Pure."""

from __future__ import annotations

from dataclasses import replace

from neve.errors import InvalidSchema, Unsupported
from neve.model.specs import AddColumn
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type
from neve.plan.tables import holds_all_of

_READ_EXACTLY = {"boolean", "int", "long", "float", "double", "string"}
"""What Spark reads from JSON as it is written, or not at all; it rounds decimals and cuts the ends of dates."""


def extend(held: Type, found: Type, path: str, *, parsed: bool) -> tuple[Type, list[AddColumn]]:
    """The type that holds both what a table has and what its files bring, and the fields that are new to the table.

    `parsed` values are read as the table has them, and rows whose values do not fit are rejected one by one.

    Raises:
        InvalidSchema: the files have something at a place where the table has something else.
    """
    match held, found:
        case Struct(), Struct():
            return _extend_struct(held, found, path, parsed=parsed)
        case ListOf(), ListOf():
            element, added = extend(held.element, found.element, f"{path}.element", parsed=parsed)
            return replace(held, element=element), added
        case MapOf(), Struct() if parsed:  # JSON has one word for both
            return _extend_map(held, [field.type for field in found.fields], path, parsed=parsed)
        case MapOf(), MapOf() if held.key == found.key:
            return _extend_map(held, [found.value], path, parsed=parsed)
        case Primitive(), Primitive() if parsed or holds_all_of(held, found):
            return held, []
        case ((Struct() | ListOf() | MapOf()), Primitive()) if parsed:
            return held, []
    raise InvalidSchema(
        f"{path} is {found} in the files, but {held} in the table",
        hint="name the columns to load in a dataset config, or leave these files out",
    )


def _extend_struct(held: Struct, found: Struct, path: str, *, parsed: bool) -> tuple[Struct, list[AddColumn]]:
    known = {field.name.casefold(): field for field in held.fields}
    fields, added = dict(known), []
    for field in found.fields:
        folded = field.name.casefold()
        if folded in known:
            kind, inside = extend(known[folded].type, field.type, f"{path}.{known[folded].name}", parsed=parsed)
            fields[folded] = replace(known[folded], type=kind)
            added += inside
        else:
            fields[folded] = field
            added.append(AddColumn(path, field))
    return Struct(tuple(fields.values())), added


def _extend_map(held: MapOf, values: list[Type], path: str, *, parsed: bool) -> tuple[MapOf, list[AddColumn]]:
    added: list[AddColumn] = []
    kind: Type = held.value
    for value in values:
        kind, inside = extend(kind, value, f"{path}.value", parsed=parsed)
        added += inside
    return replace(held, value=kind), added


def check_parsed(path: str, kind: Type) -> None:
    """Refuses leaves of a nested column that are not read exactly from JSON."""
    match kind:
        case Struct(fields):
            for field in fields:
                check_parsed(f"{path}.{field.name}", field.type)
        case ListOf(element):
            check_parsed(f"{path}.element", element)
        case MapOf(key, value):
            check_parsed(f"{path}.key", key)
            check_parsed(f"{path}.value", value)
        case Primitive(name) if name not in _READ_EXACTLY:
            raise Unsupported(
                f"{path} is {kind}, which is not read exactly from inside JSON",
                hint="make it string or double, load parquet files, or name the columns to load in a dataset config",
            )


def as_text(kind: Type) -> Type:
    """The same structure, every leaf a text."""
    match kind:
        case Struct(fields):
            return Struct(tuple(Field(field.name, as_text(field.type)) for field in fields))
        case ListOf(element):
            return ListOf(as_text(element))
        case MapOf(key, value):
            return MapOf(key, as_text(value))
        case _:
            return Primitive("string")
