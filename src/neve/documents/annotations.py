"""What a model's type annotations say about a path of keys: which keys are known there, and what they hold."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Annotated, Union, get_args, get_origin

from pydantic import AliasChoices, AliasPath, BaseModel
from pydantic.fields import FieldInfo

KeyPath = tuple[str | int, ...]
_MAPPINGS_TAKE = 2


def annotations_at(annotation: object, path: KeyPath) -> list[object]:
    """Every annotation that a value at the path may have; several below a union, none below an unknown key."""
    found = [annotation]
    for step in path:
        found = [child for parent in found for branch in types_in(parent) for child in _children(branch, step)]
    return found


def known_keys(annotations: Iterable[object]) -> list[str]:
    """The keys that the models among these annotations accept, in the order they are declared."""
    keys = [
        key
        for annotation in annotations
        for branch in types_in(annotation)
        if isinstance(branch, type) and issubclass(branch, BaseModel)
        for name, field in branch.model_fields.items()
        for key in _spellings(branch, name, field)
    ]
    return list(dict.fromkeys(keys))


def types_in(annotation: object) -> list[object]:
    """The branches of a union, flattened and without their metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return types_in(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        return [branch for argument in get_args(annotation) for branch in types_in(argument)]
    return [annotation]


def _children(branch: object, step: str | int) -> list[object]:
    if isinstance(branch, type) and issubclass(branch, BaseModel):
        fields = branch.model_fields.items()
        return [field.annotation for name, field in fields if step in _spellings(branch, name, field)]
    arguments = [argument for argument in get_args(branch) if argument is not Ellipsis]
    if isinstance(step, str):
        return arguments[1:] if len(arguments) == _MAPPINGS_TAKE else []
    return arguments[step : step + 1] if len(arguments) > 1 else arguments


def _spellings(model: type[BaseModel], name: str, field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    if alias is None:
        return [name]
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    spellings = [str(choice.path[0]) if isinstance(choice, AliasPath) else choice for choice in choices]
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    return [*spellings, name] if by_name else spellings
