"""A real HTTP server that hears what is posted to it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver(HTTPServer):
    """Listens from the start, and remembers bodies and headers of what it was told."""

    def __init__(self, *, status: int = 204) -> None:
        self.heard: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                receiver.heard.append(json.loads(self.rfile.read(length)))
                receiver.tokens.append(self.headers["Authorization"])
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/told"

    def close(self) -> None:
        self.shutdown()
        self.server_close()
