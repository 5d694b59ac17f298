"""Routes as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from neve.http.rest.problems import MEDIA
from neve.http.rest.routes import Route
from neve.model.rest import UPLOADED
from neve.model.runs import Run

_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"
ROWS = "application/x-ndjson"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "message"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "for programs: one of the errors that every surface knows"},
        "message": {"type": "string"},
        "hint": {"type": "string", "description": "what to do about it"},
        "run_id": {"type": "string"},
    },
}

EVENT = {
    "type": "object",
    "description": "one server-sent event",
    "required": ["data"],
    "properties": {
        "event": {"type": "string", "description": "the state of the run"},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": _JSON, "description": "the run, as GET /runs/{run} answers it"},
    },
}


def words_of(routes: Iterable[Route]) -> dict[str, Any]:
    """Every schema that the routes speak of, by its name."""
    models: list[tuple[type[BaseModel], Any]] = [(Run, "serialization")]
    for route in routes:
        models.append((route.answer, "serialization"))
        models += [(model, "validation") for model in (route.body, route.query) if model is not None]
    _, schema = models_json_schema(list(dict.fromkeys(models)), ref_template=_REFERENCE)
    found: dict[str, Any] = schema["$defs"]
    return found | {"Problem": PROBLEM}


def described(route: Route, words: Mapping[str, Any], *, rows: str | None = None) -> dict[str, Any]:
    """What FastAPI cannot see, as bodies are read by us; `rows` is what an answer is that comes by and by."""
    found: dict[str, Any] = {
        "parameters": [*_path(route), *_query(words[route.query.__name__])],
        "responses": {**_responses(route, rows), "default": _content("what went wrong", MEDIA, _named("Problem"))},
        "security": [{"key": []}, {}],
    }
    if route.body is not None:
        body: dict[str, Any] = {"schema": _named(route.body.__name__)}
        if route.example is not None:
            body["example"] = dict(route.example)
        found["requestBody"] = {"required": True, "content": {_JSON: body}}
    return found


def with_upload(found: dict[str, Any], upload: Route, words: Mapping[str, Any]) -> dict[str, Any]:
    """A route that takes a file as well: what it then takes stands in the query string."""
    query = [{**each, "required": False} for each in _query(words[upload.query.__name__])]
    told = "With a file as the body, for the role writer: these stand in the query string, and `date` must be given."
    file = {"schema": {"type": "string", "format": "binary"}}
    content = {**found["requestBody"]["content"], **dict.fromkeys(UPLOADED, file)}
    return {
        **found,
        "description": told,
        "parameters": [*found["parameters"], *query],
        "requestBody": {"required": True, "content": content},
    }


def _path(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": inner}
        for name, inner in schema.get("properties", {}).items()
    ]


def _responses(route: Route, by_and_by: str | None) -> dict[str, Any]:
    if by_and_by is not None:
        return {"200": _content("as it goes on", by_and_by, EVENT)}
    if route.way == "as rows":
        rows = {"type": "object", "description": "one object a line, as -o jsonl prints them"}
        return {"200": _content("rows", ROWS, rows)}
    one = _named(route.answer.__name__)
    found = {"200": _content("done", _JSON, {"type": "array", "items": one} if route.many else one)}
    if route.way == "as a run":
        found["202"] = _content("it goes on as a run", _JSON, _named("Run"))
    return found


def _content(description: str, media: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": dict(schema)}}}


def _named(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=name)}
