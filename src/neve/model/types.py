"""Column types as a small tree, between three spellings: SQL words, Iceberg's JSON, and what is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from neve.errors import InvalidSchema
from neve.model.names import quote

# Iceberg's word → the word that Spark SQL users know.
_SHOWN = {
    "long": "bigint",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "timestamptz_ns": "timestamp_ns",
    "timestamp_ns": "timestamp_ntz_ns",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)\Z")
IcebergJson = str | bool | int | Mapping[str, "IcebergJson"] | list["IcebergJson"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A leaf, by Iceberg's name: `long`, `string`, `decimal(10,2)`…"""

    name: str

    def __str__(self) -> str:
        if match := _DECIMAL.match(self.name):
            return f"decimal({match[1]},{match[2]})"
        return _SHOWN.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class ListOf:
    element: Type
    element_required: bool = False

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapOf:
    key: Type
    value: Type
    value_required: bool = False

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    required: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        inner = ",".join(f"{f.name}:{f.type}{' not null' if f.required else ''}" for f in self.fields)
        return f"struct<{inner}>"


Type = Primitive | ListOf | MapOf | Struct


def holds_map(kind: Type | None) -> bool:
    """Whether the type is a map, or has one inside: such values are neither compared nor grouped by Spark.

    >>> holds_map(ListOf(MapOf(Primitive("int"), Primitive("int")))), holds_map(ListOf(Primitive("int")))
    (True, False)
    """
    match kind:
        case MapOf():
            return True
        case ListOf(element=inner):
            return holds_map(inner)
        case Struct(fields=fields):
            return any(holds_map(field.type) for field in fields)
    return False


def spelled(kind: Type) -> str:
    """A type as Spark SQL reads it back, names quoted; what must not be NULL is left to the table.

    >>> spelled(Struct((Field("a b", ListOf(Primitive("long"))),)))
    'struct<`a b`:array<bigint>>'
    """
    match kind:
        case Struct(fields):
            return f"struct<{','.join(f'{quote(field.name)}:{spelled(field.type)}' for field in fields)}>"
        case ListOf(element):
            return f"array<{spelled(element)}>"
        case MapOf(key, value):
            return f"map<{spelled(key)},{spelled(value)}>"
        case Primitive():
            return str(kind)


def to_iceberg(kind: Type, new_id: Callable[[], int]) -> IcebergJson:
    """The type in Iceberg's JSON; nested fields take their ids from `new_id`."""
    match kind:
        case Primitive(name):
            return name
        case ListOf(element, element_required):
            element_id = new_id()
            return {
                "type": "list",
                "element-id": element_id,
                "element": to_iceberg(element, new_id),
                "element-required": element_required,
            }
        case MapOf(key, value, value_required):
            key_id, value_id = new_id(), new_id()
            return {
                "type": "map",
                "key-id": key_id,
                "key": to_iceberg(key, new_id),
                "value-id": value_id,
                "value": to_iceberg(value, new_id),
                "value-required": value_required,
            }
        case Struct(fields):
            return {"type": "struct", "fields": fields_to_iceberg(fields, new_id)}


def fields_to_iceberg(fields: tuple[Field, ...], new_id: Callable[[], int]) -> list[IcebergJson]:
    """Fields of one level in Iceberg's JSON: this level's ids first, then those below, as Iceberg numbers them."""
    ids = [new_id() for _ in fields]
    return [
        {
            "id": field_id,
            "name": field.name,
            "type": to_iceberg(field.type, new_id),
            "required": field.required,
            **({"doc": field.comment} if field.comment else {}),
        }
        for field_id, field in zip(ids, fields, strict=True)
    ]


def from_iceberg(json: object) -> Type:
    """The type that Iceberg's JSON spells."""
    if isinstance(json, str):
        return Primitive(json)
    if not isinstance(json, Mapping):
        raise InvalidSchema(f"not an Iceberg type: {json!r}")
    match json["type"]:
        case "list":
            return ListOf(from_iceberg(json["element"]), bool(json["element-required"]))
        case "map":
            return MapOf(from_iceberg(json["key"]), from_iceberg(json["value"]), bool(json["value-required"]))
        case "struct":
            return Struct(tuple(field_from_iceberg(field) for field in json["fields"]))
        case other:
            raise InvalidSchema(f"not an Iceberg type: {other!r}")


def field_from_iceberg(json: Mapping[str, object]) -> Field:
    """One field of an Iceberg schema."""
    doc = json.get("doc")
    return Field(
        str(json["name"]), from_iceberg(json["type"]), bool(json["required"]), None if doc is None else str(doc)
    )
