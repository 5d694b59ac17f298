"""`write_counts` and `write_keys`: how many WRITEs a table has had, and which run made those that came with a key."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from neve.database import Database
from neve.model.writes import WriteKey
from neve.store.rows import insert, select, to_record, to_text, to_values

_UNLESS_TAKEN = """ ON CONFLICT (scope, key) DO UPDATE
    SET fingerprint = excluded.fingerprint, run_id = excluded.run_id, made_at = excluded.made_at
    WHERE EXISTS (SELECT 1 FROM runs WHERE runs.run_id = write_keys.run_id AND runs.state IN ('failed', 'cancelled'))"""


class WriteCounts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, table_uuid: str, writes: int) -> int:
        """Counts writes of a table; how many there are with them."""
        with self._database.transaction():
            self._database.write(
                "INSERT INTO write_counts (table_uuid, writes) VALUES (?, ?)"
                " ON CONFLICT (table_uuid) DO UPDATE SET writes = write_counts.writes + excluded.writes",
                table_uuid,
                writes,
            )
            rows = self._database.read("SELECT writes FROM write_counts WHERE table_uuid = ?", table_uuid)
        return cast("int", rows[0]["writes"])


class WriteKeys:
    """A key belongs to the run that writes for it; when that run failed, it is free for another."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, scope: str, key: str) -> WriteKey | None:
        rows = self._database.read(select("write_keys", WriteKey, "WHERE scope = ? AND key = ?"), scope, key)
        return to_record(WriteKey, rows[0]) if rows else None

    def claim(self, keys: list[WriteKey], *, kept_since: datetime) -> list[WriteKey]:
        """Gives keys to their runs, forgetting those from before; the ones that another run has."""
        sql = insert("write_keys", WriteKey) + _UNLESS_TAKEN
        with self._database.transaction():
            self._database.write("DELETE FROM write_keys WHERE made_at < ?", to_text(kept_since))
            return [key for key in keys if not self._database.write(sql, *to_values(key))]
