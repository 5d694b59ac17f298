"""Requests in the form that AWS Lambda hands over, and answers in the form that it takes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neve.errors import InvalidInput
from neve.http.access import Access, Asked
from neve.http.operations import ONCE, PATH, Reply, answer, refusal
from neve.lake import Lake
from neve.model.service import ServiceHealth

HEALTH = "/health"
INVOCATIONS = "/2015-03-31/functions/function/invocations"
"""Where Lambda's own emulator listens."""


@dataclass(frozen=True, slots=True)
class Event:
    """A request by API Gateway, in the first form of its events or the second."""

    method: str
    path: str
    body: str | bytes
    authorization: str | None = None
    address: str = "-"
    once: str | None = None


def read_event(words: object) -> Event:
    """Raises InvalidInput for what is no event."""
    if not isinstance(words, Mapping):
        raise InvalidInput("an event is a JSON object", hint='send {"httpMethod": "POST", "path": "/database", …}')
    asked = words.get("requestContext")
    second = asked.get("http") if isinstance(asked, Mapping) else None
    method = words.get("httpMethod") or (second.get("method") if isinstance(second, Mapping) else None)
    path = words.get("path") or words.get("rawPath")
    if not isinstance(method, str) or not isinstance(path, str):
        raise InvalidInput("an event names httpMethod and path", hint='such as "POST" and "/database"')
    return Event(method.upper(), path, _body(words), _authorization(words), _address(asked, second), _once(words))


def _authorization(words: Mapping[str, Any]) -> str | None:
    """The header that brings a key; names of headers come in any case, and several are no key."""
    headers = words.get("headers")
    if not isinstance(headers, Mapping):
        return None
    given = [str(value) for name, value in headers.items() if str(name).lower() == "authorization"]
    return ", ".join(given) if given else None


def _address(asked: object, second: object) -> str:
    """Where the gateway says that the request came from."""
    identity = asked.get("identity") if isinstance(asked, Mapping) else None
    for place in (second, identity):
        if isinstance(place, Mapping) and isinstance(place.get("sourceIp"), str):
            return str(place["sourceIp"])
    return "-"


def _once(words: Mapping[str, Any]) -> str | None:
    """The header that makes a write happen once; headers are spelled in any case."""
    headers = words.get("headers")
    named = headers.items() if isinstance(headers, Mapping) else ()
    found = next((value for name, value in named if str(name).lower() == ONCE.lower()), None)
    if found is not None and not isinstance(found, str):
        raise InvalidInput(f"the {ONCE} of an event is text")
    return found


def _body(words: Mapping[str, Any]) -> str | bytes:
    body = words.get("body")
    if body is None:
        return ""
    if not isinstance(body, str):
        raise InvalidInput("the body of an event is text", hint="put the JSON of the operation into a string")
    if not words.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidInput("the body is not base64, though the event says so") from exc


def answer_event(
    lake: Lake,
    access: Access,
    words: object,
    *,
    asked: Asked | None = None,
    health: Callable[[], ServiceHealth],
    request_id: str | None = None,
) -> Reply:
    """Whatever the event says is answered; nothing is raised. A key in the event counts more than its bearer's."""
    try:
        event = read_event(words)
    except InvalidInput as exc:
        return refusal(exc.http_status, "INVALID_EVENT", exc.message, exc.hint, request_id=request_id)
    if asked is None or event.authorization is not None:
        asked = Asked(event.authorization, event.address if asked is None else asked.address)
    match event.method, event.path.rstrip("/"):
        case "POST", path if path == PATH:
            return access.answer(
                asked,
                lambda caller: answer(lake, event.body, caller=caller, once=event.once, request_id=request_id),
            )
        case "GET", path if path == HEALTH:
            found = health() if access.sees_all(asked) else health().without_details()
            return Reply(200 if found.ready else 503, "health", found.model_dump(mode="json"))
        case _:
            hint = f"there are POST {PATH} and GET {HEALTH}"
            message = f"there is no {event.method} {event.path}"
            return refusal(404, "NOT_FOUND", message, hint, request_id=request_id)


def as_lambda(reply: Reply) -> dict[str, Any]:
    """As API Gateway takes it: the body is text."""
    headers = {"Content-Type": "application/json"}
    return {"statusCode": reply.status, "headers": headers, "body": json.dumps(reply.body, ensure_ascii=False)}
