"""A table as document 003 describes one, to and from ours. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from neve.errors import InvalidInput, InvalidSchema
from neve.model.facts import TableFacts
from neve.model.layout import Transform
from neve.model.names import check_part
from neve.model.operations import CreateTable, FieldSpec, PartitionField
from neve.model.specs import TableSpec, find_column
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type
from neve.plan.records import visible
from neve.sql.columns import parse_type
from neve.sql.records import DELETED_AT

PRIMARY_KEY = "neve.primary-key"
_WORDS = {"integer": "int", "long": "bigint", "decimal": "decimal(38,18)"}
_SHOWN = {"int": "integer", "long": "long", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
_CODEC = "write.parquet.compression-codec"


def spec_of(request: CreateTable) -> TableSpec:
    """The table that is asked for, with a hidden column for when a row was deleted."""
    columns = tuple(_field(name, spec) for name, spec in request.columns.fields.items())
    for column in columns:
        if column.name.startswith("_neve"):
            raise InvalidSchema(f"{column.name} is a name that Névé keeps for itself", hint="choose another")
    partitions = request.partition.partitions if request.partition else []
    compression = request.properties.compression
    return TableSpec(
        name=request.name,
        columns=(*columns, Field(DELETED_AT, Primitive("timestamptz"), False, "when the row was deleted")),
        partition_by=tuple(map(_transform, partitions)),
        properties={_CODEC: compression} if compression else {},
        comment=request.properties.description,
    )


def own_properties(request: CreateTable) -> dict[str, str]:
    """What the table remembers of the request beyond its columns."""
    key = request.columns.primary_key
    if not key:
        return {}
    columns = tuple(_field(name, spec) for name, spec in request.columns.fields.items())
    for name in key:
        kind = find_column(columns, name).type
        if not isinstance(kind, Primitive) or ("." in name and name not in request.columns.fields):
            raise InvalidSchema(f"schema.primary_key: {name} is a {kind}", hint="a key is made of plain columns")
    if len(set(key)) < len(key):
        raise InvalidSchema("schema.primary_key names a column twice")
    return {PRIMARY_KEY: json.dumps(key)}


def primary_key(facts: TableFacts) -> tuple[str, ...]:
    """The columns that tell rows apart; none when the table was made without."""
    return tuple(map(str, json.loads(facts.properties.get(PRIMARY_KEY, "[]"))))


def needed_key(facts: TableFacts) -> tuple[str, ...]:
    key = primary_key(facts)
    if not key:
        raise InvalidInput(
            f"{facts.name} has no primary key, so it is not known which record is meant",
            hint="make it with schema.primary_key, or use UPDATE and WRITE",
        )
    return key


def check_same(facts: TableFacts, asked: CreateTable) -> None:
    """Raises InvalidInput where a table is not as a request says: the first write makes it, and none alters it."""
    wanted, hint = spec_of(asked), "leave it out, or see DESCRIBE_TABLE for what the table has"
    fields = {column.name: _described(column.type, required=column.required) for column in visible(wanted.columns)}
    found = described_schema(facts)
    for name in {**fields, **found["fields"]}:
        if fields.get(name) != found["fields"].get(name):
            raise InvalidInput(f"schema.fields.{name}: {facts.name} has it otherwise", hint=hint)
    if asked.columns.primary_key != found["primary_key"]:
        raise InvalidInput(f"schema.primary_key: {facts.name} has another", hint=hint)
    if asked.partition is not None and wanted.partition_by != facts.partition_by:
        raise InvalidInput(f"partition: {facts.name} is partitioned otherwise", hint=hint)
    for word, key in (("compression", _CODEC), ("description", "comment")):
        given = getattr(asked.properties, word)
        if given is not None and given != facts.properties.get(key):
            raise InvalidInput(f"properties.{word}: {facts.name} has {facts.properties.get(key)}", hint=hint)


def _field(name: str, spec: FieldSpec) -> Field:
    return Field(check_part(name, what="column"), _type(spec), spec.is_required)


def _type(spec: FieldSpec | str) -> Type:
    if isinstance(spec, str):
        return parse_type(_WORDS.get(spec, spec))
    if spec.items is not None:
        return ListOf(_type(spec.items), _is_required(spec.items))
    if spec.key_type is not None and spec.value_type is not None:
        return MapOf(_type(spec.key_type), _type(spec.value_type), _is_required(spec.value_type))
    if spec.fields is not None:
        return Struct(tuple(_field(name, inner) for name, inner in spec.fields.items()))
    return _type(spec.type)


def _is_required(spec: FieldSpec | str) -> bool:
    return isinstance(spec, FieldSpec) and spec.is_required


def _transform(asked: PartitionField) -> Transform:
    function = f"bucket[{asked.num_buckets}]" if asked.transform == "bucket" else asked.transform
    found = Transform(asked.field, function)
    if asked.name is not None and asked.name != found.field_name:
        raise InvalidInput(
            f"partition.partitions: a partition by {found} is called {found.field_name}, not {asked.name}",
            hint="leave its name out",
        )
    return found


def described_schema(facts: TableFacts) -> dict[str, Any]:
    """The columns as CREATE_TABLE takes them."""
    fields = {column.name: _described(column.type, required=column.required) for column in visible(facts.columns)}
    return {"fields": fields, "primary_key": list(primary_key(facts))}


def described_partition(facts: TableFacts) -> dict[str, Any]:
    return {"partitions": [_described_transform(each) for each in facts.partition_by]}


def _described(kind: Type, *, required: bool) -> dict[str, Any]:
    words: Mapping[str, Any]
    match kind:
        case Primitive(name):
            words = {"type": _SHOWN.get(name, str(kind))}
        case ListOf(element, inner):
            words = {"type": "array", "items": _described(element, required=inner)}
        case MapOf(key, value, inner):
            words = {"type": "map", "key_type": str(key), "value_type": _described(value, required=inner)}
        case Struct(fields):
            words = {
                "type": "struct",
                "fields": {each.name: _described(each.type, required=each.required) for each in fields},
            }
    return {**words, "required": required}


def _described_transform(each: Transform) -> dict[str, Any]:
    name, _, size = each.function.rstrip("]").partition("[")
    return {"field": each.column, "transform": name, **({"num_buckets": int(size)} if name == "bucket" else {})}
