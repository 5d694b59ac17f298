"""The service on a free port in a thread of this process, and a client for it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """One connection per request, as curl does."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, verb: str, path: str, body: str | bytes | None = None, **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        try:
            connection.request(verb, path, body, named)
            response = connection.getresponse()
            told = {key.lower(): value for key, value in response.getheaders()}
            return Answered(response.status, told, response.read().decode())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Answered:
        text = body if isinstance(body, str) else json.dumps(body)
        return self.ask("POST", path, text, Content_Type="application/json", **headers)

    def do(self, operation: str, **words: object) -> dict[str, Any]:
        """An operation of document 003; what it answered."""
        found: dict[str, Any] = self.post("/database", {"operation": operation, **words}).json
        return found


@contextmanager
def serving(app: FastAPI) -> Iterator[Client]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
