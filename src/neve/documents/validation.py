"""Plain values → a pydantic model, or one error that lists every problem with its place, key and remedy.

Pydantic's own text, which quotes its input, is never used or chained: a secret must not reach a message or a trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from neve.documents.annotations import KeyPath, annotations_at, known_keys, types_in
from neve.documents.loading import Document
from neve.errors import ConfigError, nearest

Model = TypeVar("Model", bound=BaseModel)
Locate = Callable[[KeyPath], str]
"""Where the value of a key was written; asked for a missing key, it answers for the nearest key around it."""

_UNMET = "unmet"
_LONGEST_SHOWN = 40
_MAPPING = "a mapping of 'key: value' lines"
_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": _MAPPING,
    "model": _MAPPING,
}
_LIMITS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def parse_document(document: Document, model: type[Model]) -> Model:
    """The document as a model.

    Raises:
        ConfigError: every problem, one per line, as `file:line key.path: sentence`.
    """
    return parse_data(document.data, model, locate=lambda path: _place(document, path))


def parse_mapping(data: Mapping[str, object], model: type[Model], *, where: str) -> Model:
    """Values that were not written in a file; `where` says what they are, and starts every line of the error.

    Raises:
        ConfigError: every problem, one per line, as `where key.path: sentence`.
    """
    return parse_data(data, model, locate=lambda _: where)


def parse_data(data: Mapping[str, object], model: type[Model], *, locate: Locate) -> Model:
    """Values from several places, each of which `locate` can name.

    Raises:
        ConfigError: every problem, one per line, as `place key.path: sentence`.
    """
    result = _validate(data, model)
    if isinstance(result, BaseModel):
        return result
    raise ConfigError("\n".join(_describe_all(result, data, model, locate)))


def check_document(document: Document, model: type[BaseModel]) -> None:
    """As `parse_document`, for values that others will complete: what a key needs from another is left unchecked."""
    result = _validate(document.data, model)
    if isinstance(result, BaseModel):
        return
    errors = [error for error in result if error["type"] != _UNMET]
    if errors:
        locate: Locate = lambda path: _place(document, path)  # noqa: E731
        raise ConfigError("\n".join(_describe_all(errors, document.data, model, locate)))


def unmet(key: str, sentence: str) -> PydanticCustomError:
    """What a model validator raises when one of its keys does not go with, or lacks, another."""
    return PydanticCustomError(_UNMET, "{sentence}", {"key": key, "sentence": sentence})


def _validate(data: Mapping[str, object], model: type[Model]) -> Model | list[ErrorDetails]:
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        return exc.errors(include_url=False)


def _place(document: Document, path: KeyPath) -> str:
    for length in range(len(path), 0, -1):
        line = document.line_of(path[:length])
        if line is not None:
            return f"{document.path}:{line}"
    return str(document.path)


def _describe_all(
    errors: list[ErrorDetails], data: Mapping[str, object], model: type[BaseModel], locate: Locate
) -> list[str]:
    sentences: dict[KeyPath, list[str]] = {}
    for error in errors:
        path = _key_path(error, data)
        sentence = _describe(error, path, model)
        if sentence not in sentences.setdefault(path, []):  # a union reports once per branch
            sentences[path].append(sentence)
    return [f"{locate(path)}{_show_path(path)}: {', or '.join(said)}" for path, said in sentences.items()]


def _key_path(error: ErrorDetails, data: object) -> KeyPath:
    """The keys as written: pydantic's location also holds names of union branches, which the data does not."""
    path: list[str | int] = []
    current = data
    for step in error["loc"]:
        children = dict(enumerate(current)) if isinstance(current, list | tuple) else current
        if isinstance(children, Mapping) and step in children:
            current = children[step]
            path.append(step)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    if error["type"] == _UNMET:
        path.append(error["ctx"]["key"])
    if error["type"].startswith("union_tag_"):
        path.append(error["ctx"]["discriminator"].strip("'"))
    return tuple(path)


def _show_path(path: KeyPath) -> str:
    shown = ""
    for step in path:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f" {shown.removeprefix('.')}" if shown else ""


def _describe(error: ErrorDetails, path: KeyPath, model: type[BaseModel]) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    family, _, rest = kind.partition("_")
    annotations = annotations_at(model, path)
    found = _show_value(value, secret=any(t in {SecretStr, SecretBytes} for a in annotations for t in types_in(a)))
    if kind == "extra_forbidden":
        return _describe_unknown(str(path[-1]), known_keys(annotations_at(model, path[:-1])))
    if kind in {"missing", "union_tag_not_found"}:
        return "this key is needed"
    if kind == _UNMET:
        return str(context["sentence"])
    if value is None:
        return "needs a value"
    if kind in {"literal_error", "enum"}:
        return _describe_choice(context["expected"], value, found)
    if kind == "union_tag_invalid":
        return _describe_choice(context["expected_tags"], context["tag"], f", not {context['tag']!r}")
    if family in _EXPECTED and rest in {"type", "parsing", "from_float", "attributes_type"}:
        return f"must be {_EXPECTED[family]}{found}"
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f"must be {words} {context[limit]}{found}"
    if kind == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    if kind in {"value_error", "assertion_error"}:
        return str(context["error"])
    return re.sub(r"^\w+ should ", "must ", error["msg"])


def _describe_unknown(key: str, known: list[str]) -> str:
    return f"unknown key; {nearest(key, known) or 'known keys: ' + ', '.join(known)}"


def _describe_choice(expected: str, value: object, found: str) -> str:
    choices = [choice.strip("'") for choice in re.split(r", | or ", expected)]
    listed = " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
    hint = nearest(value, choices) if found and isinstance(value, str) else None
    return f"must be {listed}{found}" + (f"; {hint}" if hint else "")


def _show_value(value: object, *, secret: bool) -> str:
    match value:
        case Mapping():
            return ", not a mapping"
        case list() | tuple():
            return ", not a list"
        case _ if secret:
            return ""
        case bool():
            return f", not {str(value).lower()}"
        case int() | float():
            return f", not {value}"
        case str() if len(value) <= _LONGEST_SHOWN:
            return f", not {value!r}"
    return ""
