"""The routes of `/api/v1` on the application."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from neve.errors import InvalidInput, NeveError, TooManyRequests
from neve.http.access import Asked
from neve.http.database import read_body
from neve.http.operations import Reply
from neve.http.rest import dynamic, tables, whole
from neve.http.rest.answering import PREFIX, Asking, answer
from neve.http.rest.describing import described, with_upload, words_of
from neve.http.rest.problems import MEDIA, problem
from neve.http.rest.routes import Route
from neve.http.rest.uploads import UPLOAD, take, uploads
from neve.http.service import Service
from neve.model.runs import Run

ROUTES: tuple[Route, ...] = (*tables.ROUTES, *dynamic.ROUTES, *whole.ROUTES)
_EVENTS = "/runs/{run}/events"
_LOOKS, _PAUSE = 40, 0.5
"""A stream of events ends after so many looks: who wants more comes again, as browsers do by themselves."""

_SHOWN = Route(
    verb="GET", path=_EVENTS, role="reader", summary="", do=lambda call: call.lake.runs.show(call.names["run"]),
    answer=Run,
)  # fmt: skip


def add_rest(app: FastAPI, service: Service) -> None:
    words = words_of([*ROUTES, UPLOAD])
    for route in ROUTES:
        app.add_api_route(
            PREFIX + route.path,
            _endpoint(service, route),
            methods=[route.verb],
            summary=route.summary,
            response_model=None,
            operation_id=_operation_id(route),
            openapi_extra=with_upload(described(route, words), UPLOAD, words)
            if route.path == UPLOAD.path
            else described(route, words),
            tags=["api"],
        )
    app.add_api_route(
        PREFIX + _EVENTS, _events(service), methods=["GET"], response_model=None, tags=["api"],
        summary="A run as it goes on: server-sent events, the last when it has ended",
        response_class=StreamingResponse, openapi_extra=described(_SHOWN, words, rows="text/event-stream"),
    )  # fmt: skip
    _describe(app, words)
    app.add_exception_handler(HTTPException, _no_such_route)


async def _no_such_route(request: Request, error: Exception) -> Response:
    """What no route is for, in the words of problem+json where that is what is spoken."""
    if not isinstance(error, HTTPException) or not request.url.path.startswith(f"{PREFIX}/"):
        return await http_exception_handler(request, error)  # type: ignore[arg-type]
    said = f"there is no {request.method} {request.url.path}"
    status = HTTPStatus(error.status_code)
    body = {"type": "about:blank", "title": status.phrase, "status": error.status_code, "detail": said}
    return Response(
        json.dumps({**body, "code": status.name.lower(), "message": said}), error.status_code, media_type=MEDIA
    )


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.split("/") if part]
    return "_".join((route.verb.lower(), *words))


def _describe(app: FastAPI, words: dict[str, Any]) -> None:
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        found = plain()
        parts = found.setdefault("components", {})
        parts.setdefault("schemas", {}).update(words)
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "neve key create"}}
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _endpoint(service: Service, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if route.path == UPLOAD.path and uploads(request):
            return await take(service, request)
        request_id, body = uuid.uuid4().hex, b""
        if route.verb in ("POST", "PATCH"):  # a page of another site cannot send JSON without asking first
            read = await read_body(request)
            if isinstance(read, Reply):
                return _refused(read, request_id)
            body = read
        names = {key: str(value) for key, value in request.path_params.items()}
        asking = Asking(Asked.by(request), names, request.query_params.multi_items(), body, request_id)
        future = service.submit(partial(answer, service, route, asking))
        if future is None:
            return problem(TooManyRequests("too many requests wait already", hint="try again in a second"), request_id)
        return await asyncio.wrap_future(future)

    return endpoint


def _refused(reply: Reply, request_id: str) -> Response:
    """A body that was not even read, in the words of problem+json."""
    error = reply.body["error"]
    told = problem(InvalidInput(error["message"], hint=error["suggestion"]), request_id)
    body = json.loads(bytes(told.body)) | {"status": reply.status, "code": error["code"].lower()}
    return Response(json.dumps(body), status_code=reply.status, media_type=MEDIA)


def _events(service: Service) -> Callable[[Request], Awaitable[Response]]:
    """Looks at the run again and again, and tells when it has changed."""
    first = _endpoint(service, _SHOWN)

    async def events(request: Request) -> Response:
        found = await first(request)  # the same door, and the same errors
        if found.status_code != 200:
            return found
        run = Run.model_validate_json(bytes(found.body))
        return StreamingResponse(_told(service, run), media_type="text/event-stream")

    return events


async def _told(service: Service, run: Run) -> AsyncIterator[str]:
    yield f"retry: 1000\n\n{_event(run)}"
    for _ in range(_LOOKS):
        if run.finished_at is not None:
            return
        await asyncio.sleep(_PAUSE)
        try:
            now = await asyncio.to_thread(service.lake.runs.show, run.run_id)
        except NeveError:
            return
        if now != run:
            yield _event(now)
        run = now


def _event(run: Run) -> str:
    return f"event: {run.state}\nid: {run.run_id}\ndata: {run.model_dump_json()}\n\n"
