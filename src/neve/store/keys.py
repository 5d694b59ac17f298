"""`service_keys` and `service_log`: who may use the service, and who did what through it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from neve.database import Database
from neve.model.keys import KeyRecord, LogRecord
from neve.store.rows import insert, select, to_record, to_text, to_values, without_unstorable


class Keys:
    """Rows are never removed: that a lake has keys must not be undone by revoking the last one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: KeyRecord) -> None:
        self._database.write(insert("service_keys", KeyRecord), *to_values(key))

    def exist(self) -> bool:
        """Whether there are or were any."""
        return bool(self._database.read("SELECT 1 FROM service_keys LIMIT 1"))

    def get(self, key_id: str) -> KeyRecord | None:
        rows = self._database.read(select("service_keys", KeyRecord, "WHERE key_id = ?"), key_id)
        return to_record(KeyRecord, rows[0]) if rows else None

    def list(self) -> tuple[KeyRecord, ...]:
        """Oldest first."""
        rows = self._database.read(select("service_keys", KeyRecord, "ORDER BY created_at, key_id"))
        return tuple(to_record(KeyRecord, row) for row in rows)

    def revoke(self, key_id: str, now: datetime) -> bool:
        """False when it was revoked before, or is not there."""
        sql = "UPDATE service_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL"
        return bool(self._database.write(sql, to_text(now), key_id))

    def expire(self, key_id: str, at: datetime) -> bool:
        """From then on it is worth nothing; an earlier end stays. False when nothing was changed."""
        sql = "UPDATE service_keys SET expires_at = ? WHERE key_id = ? AND (expires_at IS NULL OR expires_at > ?)"
        return bool(self._database.write(sql, to_text(at), key_id, to_text(at)))


class ServiceLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, records: Sequence[LogRecord]) -> None:
        """All in one transaction."""
        names = [name for name in LogRecord.model_fields if name != "id"]
        marks = ", ".join("?" for _ in names)
        sql = f"INSERT INTO service_log ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names of our own
        with self._database.transaction():
            for record in records:
                values = dict(zip(LogRecord.model_fields, to_values(record), strict=True))
                told = (values[name] for name in names)
                self._database.write(sql, *(without_unstorable(v) if isinstance(v, str) else v for v in told))

    def list(self, *, key_id: str | None = None, tenant: str | None = None, limit: int = 50) -> tuple[LogRecord, ...]:
        """Newest first."""
        wanted = {"key_id": key_id, "tenant": tenant}
        chosen = {column: value for column, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{column} = ?' for column in chosen)}" if chosen else ""
        sql = select("service_log", LogRecord, f"{where} ORDER BY id DESC LIMIT ?")
        return tuple(to_record(LogRecord, row) for row in self._database.read(sql, *chosen.values(), limit))

    def forget(self, before: datetime) -> int:
        """How many older rows went."""
        return self._database.write("DELETE FROM service_log WHERE at < ?", to_text(before))
