"""`GET /exports/{id}`: what EXPORT_CSV wrote, for keys of the tenant whose it is."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from neve.errors import NeveError, StoreError
from neve.http.access import Asked, Noted
from neve.http.database import respond
from neve.http.describing import FAILED
from neve.http.operations import refusal_of
from neve.http.service import Service

if TYPE_CHECKING:
    from neve.services.operations.exporting import Files

_ACTION = "GET /exports"
_CHUNK = 1 << 18


def add_exports(app: FastAPI, service: Service) -> None:
    async def export(request: Request) -> Response:
        return await asyncio.to_thread(_answer, service, Asked.by(request), str(request.path_params["export_id"]))

    rows: dict[str, Any] = {"description": "the rows", "content": {"text/csv": {"schema": {"type": "string"}}}}
    app.add_api_route(
        "/exports/{export_id}",
        export,
        methods=["GET"],
        response_model=None,
        responses={200: rows, **FAILED},
        response_class=StreamingResponse,
        summary="Rows that EXPORT_CSV wrote",
        openapi_extra={
            "parameters": [{"name": "export_id", "in": "path", "required": True, "schema": {"type": "string"}}]
        },
    )


def _answer(service: Service, asked: Asked, export_id: str) -> Response:
    began, code, target = time.monotonic(), None, None
    try:
        caller = service.access.admit(asked)
    except NeveError as exc:
        return respond(service, refusal_of(exc))
    try:
        found = service.lake.database.export(export_id, caller)
        target, response = found.export.filename, _sent(found)
        service.count(_ACTION, 200)
    except NeveError as exc:
        code, response = exc.code, respond(service, refusal_of(exc))
    noted = Noted(_ACTION, target, response.status_code, code, uuid.uuid4().hex)
    try:
        service.access.note(caller, asked, noted, took=time.monotonic() - began)
    except StoreError as exc:
        return respond(service, refusal_of(exc))
    return response


def _sent(found: Files) -> Response:
    name = found.export.filename
    plain = name if name.isascii() else "export.csv"
    headers = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Length": str(found.bytes),
        "Cache-Control": "private, no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(_pieces(found), media_type="text/csv; charset=utf-8", headers=headers)


def _pieces(found: Files) -> Iterator[bytes]:
    yield found.export.header.encode()
    for part in found.parts:
        with part.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece
