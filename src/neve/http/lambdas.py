"""The service as a function of AWS Lambda: one lake and one Spark per container, kept from call to call."""

from __future__ import annotations

from functools import cache
from typing import Any

from neve import __version__
from neve.http.access import Access
from neve.http.events import answer_event, as_lambda
from neve.lake import Lake
from neve.model.service import ServiceHealth


def lambda_handler(event: object, context: object) -> dict[str, Any]:
    """An event of API Gateway, answered; the lake is the one that NEVE_LAKE names. Spark starts when it must."""
    lake, access = _lake(), _access()
    request_id = getattr(context, "aws_request_id", None)
    return as_lambda(answer_event(lake, access, event, health=lambda: _health(lake), request_id=request_id))


@cache
def _lake() -> Lake:
    return Lake()


@cache
def _access() -> Access:
    return Access(_lake())


def _health(lake: Lake) -> ServiceHealth:
    parts = lake.parts()
    ready = all(part.state == "ok" for part in parts) and not lake.has_lost_spark
    return ServiceHealth(live=True, ready=ready, version=__version__, parts=parts)
