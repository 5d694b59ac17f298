"""`POST /database`: a body in, an operation done, an answer in the document's envelope."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from neve.errors import AlreadyExists, InvalidInput, NeedsConfirmation, NeveError, TooManyRequests
from neve.lake import Lake
from neve.model.keys import KEYLESS, Caller
from neve.model.operations import OPERATION, ExecuteSql, Operation
from neve.plan.discretion import discreet, unknown_failure

PATH = "/database"
ONCE = "Idempotency-Key"
_NAMED: dict[type[NeveError], str] = {AlreadyExists: "TABLE_EXISTS", NeedsConfirmation: "CONFIRMATION_REQUIRED"}
"""Where the document has a code of its own; the others are those of our errors."""

_INVALID = 422
SQL_NOTED = 200
"""How much of an SQL text the log keeps."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, what was asked (for metrics and the log) of which table, and the body."""

    status: int
    operation: str
    body: dict[str, Any]
    target: str | None = None
    retry_after: int = 1

    @property
    def code(self) -> str | None:
        """That of the error, if it is one."""
        error = self.body.get("error")
        return None if error is None else str(error["code"])

    @property
    def request_id(self) -> str:
        return str(self.body.get("metadata", {}).get("request_id", ""))


def answer(
    lake: Lake,
    body: bytes | str,
    *,
    caller: Caller = KEYLESS,
    once: str | None = None,
    request_id: str | None = None,
) -> Reply:
    """Whatever happens is an answer; nothing is raised. A tenant hears nothing of others in it.

    `once` is an Idempotency-Key: a write that is sent again with it happens once.
    """
    began = time.monotonic()
    asked, target, status, told = "invalid", None, 200, dict[str, Any]()
    try:
        operation = read(body)
        asked, target = operation.operation, _target(operation)
        done = lake.database.do(operation, caller, once=once).model_dump(mode="json", by_alias=True)
        told = {"success": True, **done}
    except ValidationError as exc:
        status, told = _INVALID, {"success": False, "error": _invalid(exc)}
    except NeveError as exc:
        heard = exc if caller.tenant is None else discreet(exc, caller.tenant, hidden=[str(lake.root)])
        status, told = exc.http_status, {"success": False, "error": _failed(heard)}
    except Exception as exc:  # noqa: BLE001 - the boundary: nothing leaves as a stack trace
        plain = f"{type(exc).__name__}: {next(iter(str(exc).splitlines()), '')}"
        message = plain if caller.tenant is None else unknown_failure()
        status, told = 500, {"success": False, "error": _error("INTERNAL_ERROR", message)}
    told["metadata"] = {
        "request_id": request_id or uuid.uuid4().hex,
        "execution_time_ms": round((time.monotonic() - began) * 1000, 2),
    }
    return Reply(status, asked, told, target)


def _target(operation: Operation) -> str:
    """What is asked for, as the request names it; of SQL, its beginning."""
    if isinstance(operation, ExecuteSql):
        return " ".join(operation.sql.split())[:SQL_NOTED]
    table = getattr(operation, "table", None)
    return ".".join(part for part in (operation.tenant_id, operation.namespace, table) if part is not None)


def read(body: bytes | str) -> Operation:
    """The operation in a body.

    Raises:
        InvalidInput: it is no JSON object.
        ValidationError: it is no operation.
    """
    found = read_json(body)
    if not isinstance(found, dict):
        raise InvalidInput("the body is no JSON object", hint='send {"operation": "QUERY", …}')
    return OPERATION.validate_python(found)


def read_json(body: bytes | str) -> Any:
    """JSON as it is written: decimals stay exact, and a key that is there twice is refused, not passed over."""
    try:
        return json.loads(body, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_object)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"the body is no JSON: {exc}", hint='send an object: {"operation": "QUERY", …}') from exc


def _no_number(word: str) -> Any:
    raise ValueError(f'{word} is no number in JSON: write "{word}"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key is there twice: {', '.join(key for key, _ in pairs)}")
    return found


def _failed(error: NeveError) -> dict[str, Any]:
    code = next((code for kind, code in _NAMED.items() if isinstance(error, kind)), error.code.upper())
    details = {} if error.run_id is None else {"run_id": error.run_id}
    return _error(code, error.message, details=details, suggestion=error.hint)


def _invalid(error: ValidationError) -> dict[str, Any]:
    """The first thing that is wrong by its field, and all of them."""
    found = [(_place(each["loc"]), _sentence(each)) for each in error.errors(include_url=False)]
    field, sentence = found[0]
    errors = [{"field": place, "message": message} for place, message in found]
    message = sentence if field is None else f"{field}: {sentence}"
    return _error("VALIDATION_ERROR", message, field=field, details={"errors": errors})


def _sentence(each: Any) -> str:
    if each["type"] == "extra_forbidden":
        return "there is no such parameter"
    return str(each["msg"]).removeprefix("Value error, ")


def _place(loc: tuple[int | str, ...]) -> str | None:
    """`filters[0].value`; the operation itself, which comes first, is left out."""
    found = ""
    for part in loc[1:] if loc else ():
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else part
    return found or None


def refusal(status: int, code: str, message: str, suggestion: str | None, *, request_id: str | None = None) -> Reply:
    """An answer to what was not even read as an operation."""
    metadata = {"request_id": request_id or uuid.uuid4().hex, "execution_time_ms": 0.0}
    error = _error(code, message, suggestion=suggestion)
    return Reply(status, "refused", {"success": False, "error": error, "metadata": metadata})


def refusal_of(error: NeveError) -> Reply:
    """The same for one of our errors."""
    reply = refusal(error.http_status, error.code.upper(), error.message, error.hint)
    return replace(reply, retry_after=error.retry_after) if isinstance(error, TooManyRequests) else reply


def _error(
    code: str,
    message: str,
    *,
    field: str | None = None,
    details: dict[str, Any] | None = None,
    suggestion: str | None = None,
) -> dict[str, Any]:
    return {"code": code, "message": message, "field": field, "details": details or {}, "suggestion": suggestion}
