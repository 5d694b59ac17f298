"""Who asks, whether they are let in, and what is written down of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import Request

from neve.errors import NeveError, StoreError
from neve.http.operations import Reply, refusal, refusal_of
from neve.http.rates import Rates
from neve.lake import Lake
from neve.model.keys import Caller

if TYPE_CHECKING:
    from neve.services.service_log import Log


@dataclass(frozen=True, slots=True)
class Asked:
    """Where a request came from, and the `Authorization` header that it brought."""

    authorization: str | None
    address: str

    @classmethod
    def by(cls, request: Request) -> Asked:
        return cls(authorization_of(request.headers), request.client.host if request.client else "-")


def authorization_of(headers: Headers) -> str | None:
    """Several headers are put together, and are no key."""
    given = headers.getlist("authorization")
    return ", ".join(given) if given else None


@dataclass(frozen=True, slots=True)
class Noted:
    """What was asked, of which table, and how it was answered."""

    action: str
    target: str | None
    status: int
    code: str | None
    request_id: str


class Access:
    """The door of one service."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._rates = Rates()

    @cached_property
    def _log(self) -> Log:
        log = self._lake.keys.log()
        log.prune()
        return log

    def admit(self, asked: Asked) -> Caller:
        """Who asks.

        Raises:
            Unauthorized: nobody who is known.
            TooManyRequests: they asked too often.
            StoreError: the keys cannot be read, or the log not be written.
        """
        caller = self._lake.keys.authenticate(asked.authorization)
        if caller.key_id is not None:
            self._rates.take(caller.key_id, per_minute=caller.requests_per_minute, now=time.monotonic())
            self._log.check()
        return caller

    def identify(self, authorization: str | None) -> None:
        """Raises Unauthorized for nobody who is known; counts nothing."""
        self._lake.keys.authenticate(authorization)

    def sees_all(self, asked: Asked) -> bool:
        """Whether details of the machine are for them."""
        try:
            return self.admit(asked).tenant is None
        except NeveError:
            return False

    def answer(self, asked: Asked, do: Callable[[Caller], Reply]) -> Reply:
        """Lets somebody in, answers, and writes that down; nothing is raised."""
        began = time.monotonic()
        try:
            caller = self.admit(asked)
        except NeveError as exc:
            return refusal_of(exc)
        reply = do(caller)
        try:
            self.note(
                caller,
                asked,
                Noted(reply.operation, reply.target, reply.status, reply.code, reply.request_id),
                took=time.monotonic() - began,
            )
        except StoreError as exc:
            return refusal(
                exc.http_status,
                "NOT_LOGGED",
                f"{reply.operation} was answered with {reply.status}, but could not be written to the log",
                "look before you try again",
            )
        return reply

    def note(self, caller: Caller, asked: Asked, noted: Noted, *, took: float) -> None:
        """Writes down who was answered what. Raises StoreError."""
        self._log.note(
            caller,
            action=noted.action,
            target=noted.target,
            status=noted.status,
            code=noted.code,
            request_id=noted.request_id,
            address=asked.address,
            duration_ms=round(took * 1000),
        )
