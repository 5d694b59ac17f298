"""`Client`: a lake behind a service, by the names that `Lake` has. What a service does not do is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from neve.client.dynamic import RemoteDynamicTables
from neve.client.tables import RemoteNamespaces, RemoteTable, RemoteTables
from neve.client.wire import Refusing, RemoteRows, Wire, segment
from neve.model.health import StatusRow
from neve.model.results import JobRow
from neve.model.runs import Run, RunState


class RemoteRuns(Refusing):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(
        self, *, table: str | None = None, kind: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> list[Run]:
        found = self._wire.ask("GET", "/runs", table=table, kind=kind, state=state, limit=limit)
        return [Run.model_validate(row) for row in found]

    def show(self, run_id: str) -> Run:
        return Run.model_validate(self._wire.ask("GET", f"/runs/{segment(run_id)}"))

    def cancel(self, run_id: str) -> Run:
        return Run.model_validate(self._wire.ask("POST", f"/runs/{segment(run_id)}/cancel"))


class Client(Refusing):
    """A service by its address, such as http://127.0.0.1:8080, and a key where it wants one.

    Long work is waited for. Errors are those that `Lake` raises, and Unreachable.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self._wire = Wire(url, key)

    @property
    def url(self) -> str:
        return self._wire.url

    @cached_property
    def tables(self) -> RemoteTables:
        return RemoteTables(self._wire)

    @cached_property
    def namespaces(self) -> RemoteNamespaces:
        return RemoteNamespaces(self._wire)

    @cached_property
    def dynamic(self) -> RemoteDynamicTables:
        return RemoteDynamicTables(self._wire)

    @cached_property
    def runs(self) -> RemoteRuns:
        return RemoteRuns(self._wire)

    def table(self, name: str) -> RemoteTable:
        return RemoteTable(self._wire, name)

    def status(self, *, late: bool = False) -> list[StatusRow]:
        return [StatusRow.model_validate(row) for row in self._wire.ask("GET", "/status", late=late)]

    def schedule(self, now: datetime | None = None) -> list[JobRow]:
        at = None if now is None else now.isoformat()
        return [JobRow.model_validate(row) for row in self._wire.ask("GET", "/schedule", at=at)]

    def rows(self, sql: str, *, as_of: str | None = None, limit: int | None = None) -> RemoteRows:
        """The rows of one statement that reads, as JSON has them."""
        return self._wire.rows("POST", "/sql", {"sql": sql, "as_of": as_of, "limit": limit})

    def operate(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of document 003, such as {"operation": "WRITE", …}; the answer without its envelope's errors."""
        return self._wire.operate(operation)
