"""The routes of document 003's operations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from neve.errors import InvalidInput
from neve.http.access import Asked
from neve.http.describing import ANSWERED, EVENT, INVOKED, operation_words
from neve.http.events import INVOCATIONS, answer_event, as_lambda
from neve.http.operations import ONCE, PATH, Reply, answer, read_json, refusal
from neve.http.service import Service

_JSON = "application/json"
MOST_BYTES = 64 << 20
_EXAMPLES = {
    "write": {
        "operation": "WRITE",
        "namespace": "default",
        "table": "users",
        "records": [{"name": "Alice", "age": 30}],
    },
    "query": {
        "operation": "QUERY",
        "namespace": "default",
        "table": "users",
        "filters": [{"field": "age", "operator": "gte", "value": 30}],
        "sort": [{"field": "name"}],
        "limit": 100,
    },
    "compact": {"operation": "COMPACT", "namespace": "default", "table": "users", "force": True},
}


_ONCE = {
    "name": ONCE,
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "With WRITE, mode append or overwrite: sent again with the same key, it happens once.",
}


def add_database(app: FastAPI, service: Service) -> None:
    async def database(request: Request) -> Response:
        body = await read_body(request)
        if isinstance(body, bytes):
            once = request.headers.get(ONCE)
            body = await in_turn(service, partial(_answer, service, Asked.by(request), body, once))
        return respond(service, body)

    async def invoke(request: Request) -> Response:
        body = await read_body(request)
        if isinstance(body, Reply):
            return respond(service, body)
        reply = await in_turn(service, partial(_answer_event, service, Asked.by(request), body))
        service.count(reply.operation, reply.status)
        return Response(as_text(as_lambda(reply)), media_type=_JSON)

    schema, words = operation_words()
    body = {_JSON: {"schema": schema, "examples": {name: {"value": value} for name, value in _EXAMPLES.items()}}}
    app.add_api_route(
        PATH,
        database,
        methods=["POST"],
        summary="An operation of document 003",
        responses=ANSWERED,
        openapi_extra={"parameters": [_ONCE], "requestBody": {"required": True, "content": body}},
    )
    event = {_JSON: {"schema": EVENT, "example": {"httpMethod": "GET", "path": "/health"}}}
    app.add_api_route(
        INVOCATIONS,
        invoke,
        methods=["POST"],
        summary="The same as an event of AWS Lambda",
        responses=INVOKED,
        openapi_extra={"requestBody": {"required": True, "content": event}},
    )
    _describe(app, words)


def _describe(app: FastAPI, words: dict[str, Any]) -> None:
    """Puts the words of the operations where OpenAPI looks for them: the body is read by us, not by FastAPI."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        found = plain()
        found.setdefault("components", {}).setdefault("schemas", {}).update(words)
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _answer(service: Service, asked: Asked, body: bytes, once: str | None) -> Reply:
    return service.access.answer(asked, lambda caller: answer(service.lake, body, caller=caller, once=once))


def _answer_event(service: Service, asked: Asked, body: bytes) -> Reply:
    try:
        event = read_json(body)
    except InvalidInput as exc:
        return refusal(exc.http_status, "INVALID_EVENT", exc.message, exc.hint)
    return answer_event(service.lake, service.access, event, asked=asked, health=service.health)


async def in_turn(service: Service, work: Callable[[], Reply]) -> Reply:
    """Does it in a thread of the service; who finds no place is told to come again."""
    future = service.submit(work)
    if future is None:
        return refusal(429, "TOO_MANY_REQUESTS", "too many operations wait already", "try again in a second")
    return await asyncio.wrap_future(future)


async def read_body(request: Request) -> bytes | Reply:
    """The body; or a refusal of one that does not say it is JSON, which any page could send, or that is too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        return refusal(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON", f"send Content-Type: {_JSON}")
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            return refusal(413, "TOO_LARGE", f"a body has at most {MOST_BYTES >> 20} MiB", "send it in parts")
    return bytes(found)


def respond(service: Service, reply: Reply) -> Response:
    service.count(reply.operation, reply.status)
    headers = {429: {"Retry-After": str(reply.retry_after)}, 401: {"WWW-Authenticate": "Bearer"}}.get(reply.status)
    return Response(as_text(reply.body), status_code=reply.status, media_type=_JSON, headers=headers)


def as_text(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False)
