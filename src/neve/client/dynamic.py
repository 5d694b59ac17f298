"""Dynamic tables behind a service."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neve.client.wire import Refusing, Wire, segment
from neve.model.delta import Step
from neve.model.history import RefreshRecord
from neve.model.refresh import DynamicDetails, DynamicGraph, DynamicRow, RefreshReceipt
from neve.model.results import Receipt


@dataclass(frozen=True, slots=True)
class RemoteRound:
    """A round that went well; one in which tables failed is raised."""

    receipts: list[RefreshReceipt]
    dry_run: bool
    errors: Mapping[str, Exception] = field(default_factory=dict)


class RemoteDynamicTables(Refusing):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __call__(self, name: str) -> RemoteDynamicTable:
        return RemoteDynamicTable(self._wire, name)

    def create(self, sql: str) -> builtins.list[Receipt]:
        """Waits until the tables are filled."""
        return [_receipt(row) for row in self._wire.ask("POST", "/dynamic", {"sql": sql})]

    def validate(self, sql: str) -> Step:
        return Step.model_validate(self._wire.ask("POST", "/dynamic/validate", {"sql": sql}))

    def list(self) -> builtins.list[DynamicRow]:
        return [DynamicRow.model_validate(row) for row in self._wire.ask("GET", "/dynamic")]

    def graph(self, name: str | None = None) -> DynamicGraph:
        return DynamicGraph.model_validate(self._wire.ask("GET", "/dynamic/graph", name=name))

    def history(
        self, name: str | None = None, *, failed: bool = False, limit: int = 20
    ) -> builtins.list[RefreshRecord]:
        path = "/dynamic/history" if name is None else f"/dynamic/{segment(name)}/history"
        return [RefreshRecord.model_validate(row) for row in self._wire.ask("GET", path, failed=failed, limit=limit)]

    def refresh(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> builtins.list[RefreshReceipt]:
        """Waits until the round is over. Raises RefreshFailed."""
        return self.round(names, downstream=downstream, parallel=parallel, dry_run=dry_run).receipts

    def round(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> RemoteRound:
        body = {"names": [*names], "downstream": downstream, "parallel": parallel, "dry_run": dry_run}
        found = self._wire.ask("POST", "/dynamic/refresh", body)
        return RemoteRound([RefreshReceipt.model_validate(row) for row in found], dry_run)

    def explain(self, name: str) -> Step:
        return self(name).explain()

    def drop(self, name: str, *, cascade: bool = False) -> builtins.list[Receipt]:
        return self(name).drop(cascade=cascade)


class RemoteDynamicTable(Refusing):
    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        self._path = f"/dynamic/{segment(name)}"

    def show(self) -> DynamicDetails:
        return DynamicDetails.model_validate(self._wire.ask("GET", self._path))

    def alter(self, options: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()) -> Receipt:
        body = {"set": dict(options or {}), "unset": [*unset]}
        return Receipt.model_validate(self._wire.ask("PATCH", self._path, body))

    def suspend(self) -> list[Receipt]:
        return [Receipt.model_validate(row) for row in self._wire.ask("POST", f"{self._path}/suspend")]

    def resume(self) -> list[Receipt]:
        return [Receipt.model_validate(row) for row in self._wire.ask("POST", f"{self._path}/resume")]

    def explain(self) -> Step:
        return Step.model_validate(self._wire.ask("GET", f"{self._path}/explain"))

    def drop(self, *, cascade: bool = False) -> list[Receipt]:
        return [Receipt.model_validate(row) for row in self._wire.ask("DELETE", self._path, cascade=cascade)]


def _receipt(row: Mapping[str, object]) -> Receipt:
    """Making a table answers with the receipt of its first refresh too."""
    return (RefreshReceipt if row.get("action") == "refresh" else Receipt).model_validate(row)
