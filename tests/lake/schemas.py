"""Whether an event keeps OpenLineage's published schemas, of which `openlineage/` has copies (Apache-2.0).

As much of JSON Schema as they use.
What the schemas say and this does not know is an error, so that nothing passes unseen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

_FOLDER = Path(__file__).parent / "openlineage"
_SPOKEN_OF = {"description", "example", "examples", "title", "$schema", "$id", "$defs", "default", "contentEncoding"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def check_event(event: Mapping[str, Any]) -> None:
    """Against the schema that the event itself names, and each facet against its own."""
    _check_named(event, event["schemaURL"], "event")
    for where, facet in _facets(event, "event"):
        _check_named(facet, facet["_schemaURL"], where)


def _check_named(value: Any, address: str, where: str) -> None:
    published = json.loads((_FOLDER / address.partition("#")[0].rpartition("/")[2]).read_text())["$id"]
    assert address.partition("#")[0] == published, f"{where}: {address} is not the published {published}"
    _check(value, {"$ref": address}, "OpenLineage.json", where)


def _facets(value: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _facets(item, f"{where}.{key}")
    if isinstance(value, dict) and "_schemaURL" in value:
        yield where, value


def _check(value: Any, schema: Mapping[str, Any], file: str, where: str) -> None:
    for key, rule in schema.items():
        if key not in _SPOKEN_OF:
            _RULES[key](value, rule, schema, file, where)


def _ref(value: Any, rule: str, _: Any, file: str, where: str) -> None:
    address, _, pointer = rule.partition("#")
    file = address.rpartition("/")[2] or file
    held = json.loads((_FOLDER / file).read_text())
    for step in filter(None, pointer.split("/")):
        held = held[step]
    _check(value, held, file, where)


def _all_of(value: Any, rule: list[Any], _: Any, file: str, where: str) -> None:
    for part in rule:
        _check(value, part, file, where)


def _any_of(value: Any, rule: list[Any], schema: Any, file: str, where: str) -> None:
    (only,) = rule
    _check(value, only, file, where)


def _properties(value: Any, rule: Mapping[str, Any], _: Any, file: str, where: str) -> None:
    for name, part in rule.items():
        if name in value:
            _check(value[name], part, file, f"{where}.{name}")


def _others(value: Any, rule: Any, schema: Mapping[str, Any], file: str, where: str) -> None:
    for name in value.keys() - schema.get("properties", {}).keys():
        assert rule is not False, f"{where} has {name}"
        if isinstance(rule, dict):
            _check(value[name], rule, file, f"{where}.{name}")


def _required(value: Any, rule: list[str], _: Any, __: str, where: str) -> None:
    assert set(rule) <= value.keys(), f"{where} lacks {set(rule) - value.keys()}"


def _type(value: Any, rule: str, _: Any, __: str, where: str) -> None:
    assert isinstance(value, _TYPES[rule]), f"{where} is no {rule}: {value!r}"


def _items(value: Any, rule: Mapping[str, Any], _: Any, file: str, where: str) -> None:
    for place, item in enumerate(value):
        _check(item, rule, file, f"{where}[{place}]")


def _enum(value: Any, rule: list[Any], _: Any, __: str, where: str) -> None:
    assert value in rule, f"{where}: {value!r}"


def _format(value: str, rule: str, _: Any, __: str, where: str) -> None:
    match rule:
        case "uuid":
            assert str(UUID(value)) == value, where
        case "date-time":
            assert datetime.fromisoformat(value).tzinfo is not None, where
        case "uri":
            assert ":" in value, where
        case _:
            raise AssertionError(f"{where}: no format {rule}")


_RULES: Mapping[str, Callable[[Any, Any, Any, str, str], None]] = {
    "$ref": _ref,
    "allOf": _all_of,
    "anyOf": _any_of,
    "properties": _properties,
    "additionalProperties": _others,
    "required": _required,
    "type": _type,
    "items": _items,
    "enum": _enum,
    "format": _format,
}
