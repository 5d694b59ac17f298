"""One request of `/api/v1`: let in, read, done, written down. In a thread of the service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse, Response, StreamingResponse

from neve.errors import InvalidInput, NeveError, StoreError
from neve.http.access import Asked, Noted
from neve.http.operations import SQL_NOTED, read_json
from neve.http.rest.describing import ROWS
from neve.http.rest.problems import invalid, problem
from neve.http.rest.routes import Call, Route
from neve.http.service import Service
from neve.model.json_values import named_json
from neve.model.keys import Caller
from neve.model.queries import Words
from neve.model.rest import COLUMNS, Nothing
from neve.plan.permissions import check_role, check_whole_lake

if TYPE_CHECKING:
    from neve.engine.statements import Rows

PREFIX = "/api/v1"
_ACCEPTED = 202
_LINES = 256
_HEADER = 16_384


@dataclass(frozen=True, slots=True)
class Asking:
    """A request as it came."""

    asked: Asked
    names: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: bytes
    request_id: str
    upload: Path | None = None


def answer(service: Service, route: Route, asking: Asking) -> Response:
    """Whatever happens is an answer; nothing is raised."""
    began, action = time.monotonic(), f"{route.verb} {route.path}"
    caller: Caller | None = None
    code, target = None, ".".join(asking.names.values()) or None
    try:
        caller = service.access.admit(asking.asked)
        check_whole_lake(caller, PREFIX)
        check_role(caller, route.role, action)
        call = _read(service, route, asking)
        if sql := getattr(call.body, "sql", None):
            target = " ".join(sql.split())[:SQL_NOTED]
        response = _done(service, route, call)
    except NeveError as exc:
        code, response = exc.code, problem(exc, asking.request_id)
    except Exception as exc:  # noqa: BLE001 - the boundary: nothing leaves as a stack trace
        told = NeveError(f"{type(exc).__name__}: {next(iter(str(exc).splitlines()), '')}")
        code, response = told.code, problem(told, asking.request_id)
    response.headers["X-Request-Id"] = asking.request_id
    service.count(action, response.status_code)
    if caller is None:
        return response
    noted = Noted(action, target, response.status_code, code, asking.request_id)
    try:
        service.access.note(caller, asking.asked, noted, took=time.monotonic() - began)
    except StoreError:
        lost = f"{action} was answered with {noted.status}, but could not be written to the log"
        return problem(StoreError(lost, hint="look before you try again"), asking.request_id)
    return response


def _read(service: Service, route: Route, asking: Asking) -> Call:
    return Call(
        service.lake,
        asking.names,
        query=_words(route.query, _query(asking.query), "query"),
        body=_words(Nothing if route.body is None else route.body, _body(asking.body), "body"),
        upload=asking.upload,
    )


def _done(service: Service, route: Route, call: Call) -> Response:
    if route.goes_on(_asked(route, call)):
        return _going_on(service, route, call)
    if route.way == "as rows":
        return _rows(route, call)
    return JSONResponse(dumped(route.do(call)))


def _asked(route: Route, call: Call) -> Any:
    """The words of the request: those of its body, or of its query string where it has none."""
    return call.query if route.body is None else call.body


def _going_on(service: Service, route: Route, call: Call) -> Response:
    words = _asked(route, call).model_dump(mode="json", exclude_unset=True)
    plan = {"request": f"{route.verb} {route.path}", "body": words}
    run = service.begin(plan, call.names.get("table"), lambda: dumped(route.do(call)))
    return JSONResponse(
        run.model_dump(mode="json"), status_code=_ACCEPTED, headers={"Location": f"{PREFIX}/runs/{run.run_id}"}
    )


def dumped(answer: BaseModel | Sequence[BaseModel]) -> Any:
    """As `-o json` prints it."""
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    return [row.model_dump(mode="json") for row in answer]


def _rows(route: Route, call: Call) -> Response:
    """Rows as they come. What fails before the first is an error; what fails later breaks the answer off."""
    from neve.engine.statements import stream

    limit = _asked(route, call).limit
    with ExitStack() as opened:
        found: Any = route.do(call)
        if hasattr(found, "nothing"):  # changes, which are read within
            opened.enter_context(found)
            if found.nothing:
                return Response("", media_type=ROWS)
            found = found.frame()
        rows = stream(found, limit=limit)
        first = list(_first(rows))
        return StreamingResponse(_lines(rows, first, opened.pop_all()), media_type=ROWS, headers=_named(rows.columns))


def _named(columns: Sequence[str]) -> dict[str, str]:
    """So many columns that a header cannot hold their names are named by their rows alone."""
    names = json.dumps(columns)
    return {COLUMNS: names} if len(names) <= _HEADER else {}


def _first(rows: Rows) -> Iterator[Sequence[Any]]:
    if (row := next(rows.stream, None)) is not None:
        yield row


def _lines(rows: Rows, first: Sequence[Sequence[Any]], opened: ExitStack) -> Iterator[str]:
    with opened:
        lines: list[str] = []
        for row in chain(first, rows.stream):
            lines.append(json.dumps(named_json(rows.columns, row), ensure_ascii=False, allow_nan=False) + "\n")
            if len(lines) == _LINES:
                yield "".join(lines)
                lines = []
        yield "".join(lines)


def _query(given: Sequence[tuple[str, str]]) -> dict[str, str]:
    words = dict(given)
    if len(words) < len(given):
        raise InvalidInput("query: a word is given twice")
    return words


def _body(body: bytes) -> Any:
    return read_json(body) if body.strip() else {}


def _words(model: type[Words], given: Any, what: str) -> Words:
    try:
        return model.model_validate(given)
    except ValidationError as exc:
        raise invalid(exc, what) from exc
