"""Tables and namespaces behind a service."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from neve.client.wire import Refusing, RemoteRows, Wire, segment
from neve.errors import InvalidInput, Unsupported
from neve.model.compaction import CompactionReceipt
from neve.model.health import TableHealth
from neve.model.ingest import IngestReceipt
from neve.model.range_rows import RangeRead, RangeRow, SplitReceipt
from neve.model.rest import UPLOADED, KeyEnd, KeyWord, KeyWords
from neve.model.results import (
    FileRow,
    NamespaceRow,
    PartitionRow,
    PropertyRow,
    Receipt,
    ReferenceRow,
    SnapshotRow,
    TableDetails,
    TableStatus,
    TableSummary,
    TrashRow,
)
from neve.model.retention import ExpireReceipt
from neve.model.rewrites import RewriteReceipt
from neve.model.units import format_duration


class RemoteNamespaces(Refusing):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> list[NamespaceRow]:
        return [NamespaceRow.model_validate(row) for row in self._wire.ask("GET", "/namespaces")]

    def create(self, name: str, *, if_not_exists: bool = False) -> NamespaceRow:
        body = {"namespace": name, "if_not_exists": if_not_exists}
        return NamespaceRow.model_validate(self._wire.ask("POST", "/namespaces", body))

    def drop(self, name: str) -> NamespaceRow:
        return NamespaceRow.model_validate(self._wire.ask("DELETE", f"/namespaces/{segment(name)}"))


class RemoteTables(Refusing):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, namespace: str | None = None) -> list[TableSummary]:
        found = self._wire.ask("GET", "/tables", namespace=namespace)
        return [TableSummary.model_validate(row) for row in found]

    def create(self, name: str, schema: str | None = None, **words: Any) -> Receipt:
        """As `lake.tables.create`, from columns alone: files are not sent."""
        if schema is None:
            raise InvalidInput(f"{name}: a service takes columns, not a file", hint="give --schema")
        given = _said(words)
        return Receipt.model_validate(self._wire.ask("POST", "/tables", {"table": name, "schema": schema, **given}))

    def undelete(self, name: str, *, new_name: str | None = None) -> Receipt:
        found = self._wire.ask("POST", f"/tables/{segment(name)}/undelete", {"new_name": new_name})
        return Receipt.model_validate(found)

    def trash(self) -> builtins.list[TrashRow]:
        return [TrashRow.model_validate(row) for row in self._wire.ask("GET", "/trash")]


class RemoteTable(Refusing):
    """One table, by its name."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        self._path = f"/tables/{segment(name)}"

    def show(self) -> TableDetails:
        return TableDetails.model_validate(self._wire.ask("GET", self._path))

    def status(self) -> TableStatus:
        return TableStatus.model_validate(self._wire.ask("GET", f"{self._path}/status"))

    def health(self) -> TableHealth:
        return TableHealth.model_validate(self._wire.ask("GET", f"{self._path}/health"))

    def history(self) -> list[SnapshotRow]:
        return [SnapshotRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/snapshots")]

    def files(self) -> list[FileRow]:
        return [FileRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/files")]

    def partitions(self) -> list[PartitionRow]:
        return [PartitionRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/partitions")]

    def has_ranges(self) -> bool:
        return self.show().ranges is not None

    def ranges(self) -> list[RangeRow]:
        return [RangeRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/ranges")]

    def get(self, *keys: KeyWord) -> RemoteRows:
        """The rows of these keys as JSON has them, in key order; of several row keys, a key is a list."""
        return self.read(KeyWords(keys=[key if isinstance(key, list) else [key] for key in keys]))

    def range(
        self, low: KeyEnd = None, high: KeyEnd = None, *, with_low: bool = True, with_high: bool = False
    ) -> RemoteRows:
        """The rows from `low` to `high`, in key order; None has no end."""
        ends = [end if isinstance(end, builtins.list) else [end] for end in (low, high)]
        return self.read(KeyWords(ranges=[(ends[0], ends[1])], exclude_low=not with_low, include_high=with_high))

    def read(self, words: KeyWords, *, limit: int | None = None) -> RemoteRows:
        """Several keys and ranges at once, each row that is in one of them once."""
        return self._wire.rows("POST", f"{self._path}/get", words.model_dump() | {"limit": limit})

    def explain_read(self, words: KeyWords) -> RangeRead:
        return RangeRead.model_validate(self._wire.ask("POST", f"{self._path}/get/explain", words.model_dump()))

    def split(self, range_id: int | None = None, *, at: str | None = None, dry_run: bool = False) -> SplitReceipt:
        """Waits until it is done."""
        body = {"range": range_id, "at": at, "dry_run": dry_run}
        return SplitReceipt.model_validate(self._wire.ask("POST", f"{self._path}/split", body))

    def references(self) -> list[ReferenceRow]:
        return [ReferenceRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/references")]

    def properties(self) -> list[PropertyRow]:
        return [PropertyRow.model_validate(row) for row in self._wire.ask("GET", f"{self._path}/properties")]

    def set(self, properties: Mapping[str, str]) -> Receipt:
        return self._patched({"set": dict(properties)})

    def unset(self, keys: Sequence[str]) -> Receipt:
        return self._patched({"unset": list(keys)})

    def _patched(self, body: Mapping[str, Any]) -> Receipt:
        return Receipt.model_validate(self._wire.ask("PATCH", f"{self._path}/properties", body)[0])

    def online(self) -> Receipt:
        return self._receipt("online")

    def offline(self) -> Receipt:
        return self._receipt("offline")

    def rename(self, new_name: str) -> Receipt:
        return self._receipt("rename", {"to": new_name})

    def tag(self, label: str, *, at: str | None = None) -> Receipt:
        return self._receipt("tags", {"name": label, "at": at})

    def delete_tag(self, label: str) -> Receipt:
        return Receipt.model_validate(self._wire.ask("DELETE", f"{self._path}/tags/{segment(label)}"))

    def rollback(self, to: str | int, *, dry_run: bool = False) -> Receipt:
        return self._receipt("rollback", {"to": str(to), "dry_run": dry_run})

    def plan_drop(self, *, force: bool = False, keep_data: bool = False) -> Receipt:
        return self._dropped(force=force, keep_data=keep_data, dry_run=True)

    def drop(self, *, force: bool = False, keep_data: bool = False) -> Receipt:
        return self._dropped(force=force, keep_data=keep_data, dry_run=False)

    def _dropped(self, *, force: bool, keep_data: bool, dry_run: bool) -> Receipt:
        if keep_data:
            raise Unsupported("a service does not forget a table and keep its files", hint="do it on its machine")
        return Receipt.model_validate(self._wire.ask("DELETE", self._path, purge=force, dry_run=dry_run))

    def compact(self, period: str | None = None, **words: Any) -> CompactionReceipt | RewriteReceipt:
        """Waits until it is done."""
        given = _said(words)
        body = given if period is None else {**given, "period": period}
        kind = RewriteReceipt if period is None else CompactionReceipt
        return kind.model_validate(self._wire.ask("POST", f"{self._path}/compact", body))

    def expire(
        self,
        *,
        older_than: timedelta | str | None = None,
        retention_hours: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
    ) -> ExpireReceipt:
        age = format_duration(older_than) if isinstance(older_than, timedelta) else older_than
        body = {"older_than": age, "retention_hours": retention_hours, "keep_last": keep_last, "dry_run": dry_run}
        return ExpireReceipt.model_validate(self._wire.ask("POST", f"{self._path}/expire", body))

    def expiry_keeps_less(self, *, retention_hours: float) -> bool:
        """Whether more snapshots would go than by the table's own policy."""
        asked = self.expire(retention_hours=retention_hours, dry_run=True)
        return len(asked.expired) > len(self.expire(dry_run=True).expired)

    def ingest(
        self,
        source: str | Path,
        *,
        date: str,
        replace: bool = False,
        max_rejected: str | int | None = None,
        dry_run: bool = False,
    ) -> IngestReceipt:
        """Sends a file of this machine and waits until it is loaded; the same content is never loaded twice."""
        file = Path(source)
        media = next((media for media, ending in UPLOADED.items() if file.suffix.lower() == ending), None)
        if media is None:
            raise InvalidInput(f"{file.name}: a service takes {', '.join(UPLOADED.values())}", hint="rename it")
        words = {"date": date, "replace": replace, "max_rejected": max_rejected, "dry_run": dry_run}
        return IngestReceipt.model_validate(self._wire.send(f"{self._path}/ingest", file, media, **words))

    def _receipt(self, verb: str, body: Mapping[str, Any] | None = None) -> Receipt:
        return Receipt.model_validate(self._wire.ask("POST", f"{self._path}/{verb}", body))


def _said(words: Mapping[str, Any]) -> dict[str, Any]:
    """What was said at all: no and 0 were."""
    return {key: value for key, value in words.items() if value is not None and value not in ((), [], {})}
