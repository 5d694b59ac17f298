"""`neve serve`."""

from __future__ import annotations

from neve.cli.options import open_lake, say
from neve.observe.log import Event, as_text


def run_server(*, host: str, port: int, worker: bool) -> None:
    from neve.http.server import serve

    def log(event: Event) -> None:
        say(as_text(event))

    with open_lake(create=True) as lake:
        serve(lake, host=host, port=port, worker=worker, tell=say, log=log)
