"""Requests to a service, and its problems as the errors that they were."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn
from urllib.parse import quote, urlencode, urlsplit

from neve.errors import InvalidInput, NeveError, Unreachable, Unsupported
from neve.model.rest import COLUMNS

_PREFIX = "/api/v1"
_WAIT, _PAUSE = 600.0, 0.05
_ACCEPTED = 202


class _NoDetours(urllib.request.HTTPRedirectHandler):
    """A key is for the address that was given, and for none that its answer leads to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _File:
    """A body that is read as it is sent."""

    content: BinaryIO
    media: str

    @property
    def headers(self) -> dict[str, str]:
        size = os.fstat(self.content.fileno()).st_size
        return {"Content-Type": self.media, "Content-Length": str(size)}


def _data(verb: str, body: _File | Mapping[str, Any] | None) -> Any:
    if isinstance(body, _File):
        return body.content
    return json.dumps(body or {}).encode() if verb in ("POST", "PATCH") else None


class RemoteRows(Iterator[dict[str, Any]]):
    """Rows of an answer, each by its columns; `columns` are there without any row too."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask

    @cached_property
    def _answer(self) -> Any:
        return self._ask()

    @property
    def columns(self) -> list[str]:
        named: list[str] = json.loads(self._answer.headers.get(COLUMNS) or "[]")
        return named

    def __next__(self) -> dict[str, Any]:
        line = self._answer.readline()
        if not line:
            self._answer.close()
            raise StopIteration
        row: dict[str, Any] = json.loads(line)
        return row


class Wire:
    """One address and one key. Every request is a connection of its own."""

    def __init__(self, url: str, key: str | None, *, patience: float = _WAIT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise InvalidInput(f"not the address of a service: {url}", hint="such as http://127.0.0.1:8080")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._key = key
        self._patience = patience
        self._opener = urllib.request.build_opener(_NoDetours())

    def ask(self, verb: str, path: str, body: Mapping[str, Any] | None = None, **query: object) -> Any:
        """What it answers; of long work, what its run came to."""
        with self._open(verb, _PREFIX + path, body, query) as found:
            told = json.load(found)
            return told if found.status != _ACCEPTED else self._ended(str(told["run_id"]))

    def send(self, path: str, file: Path, media: str, **query: object) -> Any:
        """A file as the body of a POST; what it answers, as `ask`."""
        with file.open("rb") as body, self._open("POST", _PREFIX + path, _File(body, media), query) as found:
            told = json.load(found)
            return told if found.status != _ACCEPTED else self._ended(str(told["run_id"]))

    def rows(self, verb: str, path: str, body: Mapping[str, Any] | None = None, **query: object) -> RemoteRows:
        """Rows as they come. The request is made when they are first looked at."""
        return RemoteRows(lambda: self._open(verb, _PREFIX + path, body, query))

    def operate(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of document 003, and its answer; raises what went wrong."""
        with self._open("POST", "/database", operation, {}) as found:
            told: dict[str, Any] = json.load(found)
            return told

    def _ended(self, run_id: str) -> Any:
        """What a run came to; who waits no longer ends it."""
        try:
            run = self._awaited(run_id)
        except KeyboardInterrupt:
            with suppress(NeveError):  # it may have ended meanwhile
                self.ask("POST", f"/runs/{run_id}/cancel")
            raise
        if run["state"] == "succeeded":
            return run["result"]["answer"]
        error = error_of({"code": run["error_code"] or "error", "message": run["error_message"] or run["state"]}, 500)
        error.run_id = run_id
        raise error

    def _awaited(self, run_id: str) -> Any:
        pause = _PAUSE
        while True:
            run = self.ask("GET", f"/runs/{run_id}")
            if run["finished_at"] is not None:
                return run
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)

    def _open(self, verb: str, path: str, body: _File | Mapping[str, Any] | None, query: Mapping[str, object]) -> Any:
        asked = urlencode({name: _word(value) for name, value in query.items() if value is not None})
        request = urllib.request.Request(  # noqa: S310 - http and https alone: see __init__
            f"{self.url}{path}{f'?{asked}' if asked else ''}",
            method=verb,
            data=_data(verb, body),
            headers=body.headers if isinstance(body, _File) else {"Content-Type": "application/json"},
        )
        if self._key is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            return self._opener.open(request, timeout=self._patience)
        except urllib.error.HTTPError as exc:
            with exc:
                _raise(exc)
        except OSError as exc:
            reason = getattr(exc, "reason", exc)
            raise Unreachable(f"{self.url} does not answer: {reason}", hint="is `neve serve` running there?") from exc


class Refusing:
    """What a service does not do is refused by its name."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"a service does not do this: {name}", hint="do it on its machine, without --server")


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _raise(found: urllib.error.HTTPError) -> NoReturn:
    """A problem, or the error of an operation; else the status says what there is to say."""
    try:
        told = json.load(found)
    except ValueError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    inner = told.get("error")
    if isinstance(inner, dict):
        told = {**inner, "code": str(inner.get("code")).lower(), "hint": inner.get("suggestion")}
    raise error_of(told, found.code) from found


def error_of(told: Mapping[str, Any], status: int) -> NeveError:
    """The error of our tree that has this code."""
    kinds = {kind.code: kind for kind in reversed([*_tree(NeveError)])}
    kind = kinds.get(str(told.get("code")), NeveError)
    return kind(str(told.get("message") or f"the service answered {status}"), hint=told.get("hint"))


def _tree(kind: type[NeveError]) -> Iterator[type[NeveError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)
