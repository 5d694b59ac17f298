"""Who may be spoken to: this machine alone, by its own names, unless there are keys.

A page in a browser can make requests to a server on the same machine. It cannot give them another `Host`, nor JSON
without asking first; so requests that are not for this machine by name, or bring no JSON, are refused.
"""

from __future__ import annotations

import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from neve.errors import Refused
from neve.lake import Lake

_NAMES = frozenset({"localhost"})


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """
    if host.lower() in _NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(lake: Lake, host: str) -> bool:
    """Whether others can reach this address; Refused if they can and there are no keys to know them by."""
    if is_loopback(host):
        return False
    check_keys(lake, host)
    return True


def check_keys(lake: Lake, what: str) -> None:
    if not lake.keys.exist():
        raise Refused(
            f"{what} can be reached by others, and the service has no keys to know them by",
            hint="make one: neve key create --tenant acme --role writer; or listen on 127.0.0.1",
        )


def host_of(header: str) -> str:
    """The name in a `Host` header, without its port.

    >>> host_of("localhost:8080"), host_of("[::1]:8080"), host_of("::1")
    ('localhost', '::1', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0] if header.count(":") == 1 else header


class LoopbackOnly:
    """Answers 421 to requests that name another host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            from starlette.responses import JSONResponse

            named = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if not is_loopback(host_of(named)):
                problem = {"code": "refused", "message": f"this service does not answer for {named!r}"}
                await JSONResponse(problem, status_code=421)(scope, receive, send)
                return
        await self._app(scope, receive, send)
