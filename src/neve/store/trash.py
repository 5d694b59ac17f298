"""`trash`: deleted tables that can still come back."""

from __future__ import annotations

from datetime import datetime

from neve.database import Database
from neve.model.runs import TrashedTable
from neve.store.rows import select, to_record, to_text, to_values, upsert


class Trash:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, table: TrashedTable) -> None:
        """Add the table, or replace what is known of it: a delete that failed half-way can be repeated."""
        self._database.write(upsert("trash", TrashedTable, key="table_uuid"), *to_values(table))

    def get(self, name: str) -> TrashedTable | None:
        """The one deleted last of those that had this name."""
        found = self._read("WHERE table_name = ? ORDER BY deleted_at DESC, table_uuid LIMIT 1", name)
        return found[0] if found else None

    def list(self) -> tuple[TrashedTable, ...]:
        """Latest delete first."""
        return self._read("ORDER BY deleted_at DESC, table_uuid")

    def expired(self, now: datetime) -> tuple[TrashedTable, ...]:
        """Those whose time to come back is over, the longest overdue first."""
        return self._read("WHERE purge_after <= ? ORDER BY purge_after, table_uuid", to_text(now))

    def remove(self, table_uuid: str) -> bool:
        """False when it was not there: of two processes at once, only one is told True."""
        return bool(self._database.write("DELETE FROM trash WHERE table_uuid = ?", table_uuid))

    def take(self, table_uuid: str) -> bool:
        """Take the table out to bring it back; False when somebody else took or condemned it first."""
        sql = "DELETE FROM trash WHERE table_uuid = ? AND metadata_location IS NOT NULL"
        return bool(self._database.write(sql, table_uuid))

    def condemn(self, table_uuid: str, now: datetime) -> bool:
        """Make sure that nobody brings it back while its files are removed; False when it is not due, or gone."""
        sql = "UPDATE trash SET metadata_location = NULL WHERE table_uuid = ? AND purge_after <= ?"
        return bool(self._database.write(sql, table_uuid, to_text(now)))

    def _read(self, rest: str, *values: str) -> tuple[TrashedTable, ...]:
        rows = self._database.read(select("trash", TrashedTable, rest), *values)
        return tuple(to_record(TrashedTable, row) for row in rows)
