"""Where others reach the service: nothing is read from whoever is not known."""

from __future__ import annotations

import asyncio
import uuid

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from neve.errors import NeveError
from neve.http.access import authorization_of
from neve.http.operations import refusal_of
from neve.http.rest.problems import problem
from neve.http.service import Service

_BODILESS = ("GET", "HEAD", "OPTIONS")
_API = "/api/"


class KeysFirst:
    """Answers requests that bring a body and no key before the body is read. The rest is up to the routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _BODILESS:
            try:
                await asyncio.to_thread(self._service.access.identify, authorization_of(Headers(scope=scope)))
            except NeveError as exc:
                self._service.count("refused", exc.http_status)
                await _refusal(exc, scope["path"])(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(error: NeveError, path: str) -> Response:
    if path.startswith(_API):
        return problem(error, uuid.uuid4().hex)
    headers = {"WWW-Authenticate": "Bearer"}
    return JSONResponse(refusal_of(error).body, status_code=error.http_status, headers=headers)
