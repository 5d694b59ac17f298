"""The application: every route of the service over one open lake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from neve import __version__
from neve.errors import NeveError
from neve.http.access import Asked
from neve.http.database import add_database, respond
from neve.http.describing import FAILED
from neve.http.exports import add_exports
from neve.http.gate import KeysFirst
from neve.http.hosts import LoopbackOnly, check_keys
from neve.http.operations import refusal_of
from neve.http.pages import docs_page
from neve.http.rest import add_rest
from neve.http.service import Service
from neve.lake import Lake
from neve.model.service import ServiceHealth
from neve.plan.permissions import check_whole_lake

if TYPE_CHECKING:
    from neve.observe.log import Event

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


def create_app(
    lake: Lake, *, worker: bool = False, log: Callable[[Event], None] | None = None, anywhere: bool = False
) -> FastAPI:
    """The service over an open lake, which stays the caller's to close. With `worker`, due work is done too.

    `anywhere` is for a service that others can reach, by any name that leads to it.

    Raises:
        Refused: `anywhere`, and the lake has no keys to know others by.
    """
    if anywhere:
        check_keys(lake, "a service that answers anywhere")
    service = Service(lake, worker=worker, log=log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await asyncio.to_thread(service.stop)

    app = FastAPI(title="Névé", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    if anywhere:
        app.add_middleware(KeysFirst, service=service)
    else:
        app.add_middleware(LoopbackOnly)
    app.state.service = service
    _add_own_routes(app, service)
    add_database(app, service)
    add_exports(app, service)
    add_rest(app, service)
    return app


def _add_own_routes(app: FastAPI, service: Service) -> None:
    """What the service says of itself."""

    @app.get("/health", responses={503: {"model": ServiceHealth}}, summary="How the service and its parts are")
    def health(request: Request) -> ServiceHealth:
        found = service.health()
        if not service.access.sees_all(Asked.by(request)):
            found = found.without_details()
        # 503 keeps a balancer from sending requests here; the body says what is amiss.
        return found if found.ready else JSONResponse(found.model_dump(mode="json"), status_code=503)  # type: ignore[return-value]

    @app.get("/health/live", summary="Whether the process answers")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/metrics", response_class=PlainTextResponse, responses=FAILED, summary="Figures for Prometheus")
    def metrics(request: Request) -> Response:
        try:
            check_whole_lake(service.access.admit(Asked.by(request)), "/metrics")
        except NeveError as exc:
            return respond(service, refusal_of(exc))
        return PlainTextResponse(service.metrics(), media_type=_METRICS)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))
