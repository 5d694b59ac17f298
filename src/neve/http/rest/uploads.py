"""`POST /tables/{table}/ingest` with the file itself as the body: it is laid into the lake, and loaded as any other."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from neve.errors import InvalidInput, NeveError, TooLarge, TooManyRequests
from neve.http.access import Asked
from neve.http.database import MOST_BYTES
from neve.http.rest.answering import Asking, answer
from neve.http.rest.problems import problem
from neve.http.rest.routes import Call, Route
from neve.http.service import Service
from neve.model import rest
from neve.model.ingest import IngestReceipt
from neve.model.rest import UPLOADED

_ACCEPTED = 202


def _ingest(call: Call) -> IngestReceipt:
    words = call.query.model_dump()
    try:
        return call.lake.named(call.names["table"]).ingest(str(call.upload), **words)
    finally:
        if call.upload is not None:
            call.upload.unlink(missing_ok=True)


UPLOAD = Route(
    verb="POST", path="/tables/{table}/ingest", role="writer", summary="Load a file that is sent", do=_ingest,
    answer=IngestReceipt, query=rest.Upload, way="as a run",
)  # fmt: skip


def uploads(request: Request) -> bool:
    """Whether the body is a file, by what it says of itself."""
    return _media(request.headers) in UPLOADED


async def take(service: Service, request: Request) -> Response:
    request_id = uuid.uuid4().hex
    path = service.lake.uploads() / f"{request_id}{UPLOADED[_media(request.headers)]}"
    try:
        await _receive(request, path)
        names = {key: str(value) for key, value in request.path_params.items()}
        query = request.query_params.multi_items()
        asking = Asking(Asked.by(request), names, query, b"", request_id, upload=path)
        future = service.submit(partial(answer, service, UPLOAD, asking))
        if future is None:
            raise TooManyRequests("too many requests wait already", hint="try again in a second")
        response = await asyncio.wrap_future(future)
    except NeveError as exc:
        response = problem(exc, request_id)
    except BaseException:  # whoever sent it has gone
        path.unlink(missing_ok=True)
        raise
    if response.status_code != _ACCEPTED:  # else the run removes it
        path.unlink(missing_ok=True)
    return response


async def _receive(request: Request, path: Path) -> None:
    """Piece by piece into a file. Raises InvalidInput for what cannot be loaded."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InvalidInput("a file is sent as it is, without a Content-Encoding")
    size = 0
    with path.open("xb") as file:
        async for part in request.stream():
            size += len(part)
            if size > MOST_BYTES:
                raise TooLarge(f"a file that is sent has at most {MOST_BYTES >> 20} MiB", hint="ask for it by its path")
            await asyncio.to_thread(file.write, part)
    if size == 0:
        raise InvalidInput("the body is empty", hint="send the file itself: curl --data-binary @FILE")


def _media(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
