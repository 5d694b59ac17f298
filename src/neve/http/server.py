"""`neve serve`: the application on a socket, until a signal ends it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from neve.errors import Refused
from neve.http.app import create_app
from neve.http.hosts import check_host
from neve.http.service import Service
from neve.lake import Lake
from neve.model.service import ServiceAddress

if TYPE_CHECKING:
    from neve.observe.log import Event

Tell = Callable[[str], None]
_BACKLOG = 256
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - of a host that means all, the one to reach it by here


class _Server(uvicorn.Server):
    """Leaves signals to `serve`: uvicorn would raise them again at its end, before the lake is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    lake: Lake, *, host: str, port: int, worker: bool, tell: Tell, log: Callable[[Event], None] | None = None
) -> None:
    """Listens until SIGTERM or Ctrl-C. What runs is finished; a second signal breaks it off.

    Raises:
        Refused: the address can be reached by others, and there are no keys; or it is taken.
    """
    reachable = check_host(lake, host)
    listening = _listen(host, port)
    app = create_app(lake, worker=worker, log=log, anywhere=reachable)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", server_header=False)
    server = _Server(config)
    service: Service = app.state.service
    with listening, _until_signalled(server, service, tell):
        url = _url(host, listening)
        tell(f"✓ {lake.root} at {url}: /database, /api/v1, /docs, /health, /metrics; Spark is starting")
        with _announced(lake.root, _url(_NEAR.get(host, host), listening)):
            server.run(sockets=[listening])
        if server.force_exit:  # then uvicorn does not wait for the application's own end
            service.stop()
    tell("stopped")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as exc:
        listening.close()
        raise Refused(f"cannot listen on {host}:{port}: {exc.strerror}", hint="choose another: --port 8081") from exc
    return listening


def _url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _announced(root: Path, url: str) -> Iterator[None]:
    """Commands in the lake find the service meanwhile. Of two services, the later one is found."""
    file, told = ServiceAddress.file(root), ServiceAddress(url=url).model_dump_json()
    file.parent.mkdir(exist_ok=True)
    file.write_text(told, encoding="utf-8")
    try:
        yield
    finally:
        if file.is_file() and file.read_text(encoding="utf-8") == told:
            file.unlink(missing_ok=True)


@contextmanager
def _until_signalled(server: uvicorn.Server, service: Service, tell: Tell) -> Iterator[None]:
    """A handler may run anywhere in the code, so it only sets flags."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, _: object) -> None:
        if server.should_exit:
            server.force_exit = True
            service.break_off()
        else:
            server.should_exit = True
            tell(f"{signal.Signals(number).name}: finishing what runs; once more breaks it off")

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
