"""Errors as `application/problem+json` (RFC 9457), from the one error tree."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

from neve.errors import InvalidInput, NeveError, TooManyRequests

MEDIA = "application/problem+json"


def problem_of(error: NeveError) -> dict[str, Any]:
    """The object that `-o json` prints, with what the RFC adds."""
    found: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(error.http_status).phrase}
    found |= {"status": error.http_status, "detail": error.message, **error.problem()}
    return found if error.run_id is None else {**found, "run_id": error.run_id}


def problem(error: NeveError, request_id: str) -> JSONResponse:
    headers = {"X-Request-Id": request_id}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after)
    if error.http_status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem_of(error), status_code=error.http_status, headers=headers, media_type=MEDIA)


def invalid(error: ValidationError, what: str) -> InvalidInput:
    """The first thing that is wrong with a body or a query string, by its place."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    said = "there is no such word" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    return InvalidInput(f"{what}: {f'{place}: ' if place else ''}{said}")
