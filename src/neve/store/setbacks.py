"""`setbacks`: jobs that failed, how often in a row, and when they are tried again. Success takes the row away."""

from __future__ import annotations

from collections.abc import Mapping

from neve.database import Database
from neve.model.work import SetbackRecord
from neve.store.rows import insert, select, to_record, to_values, without_unstorable


class Setbacks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, setback: SetbackRecord) -> None:
        told = setback.model_copy(update={"error_message": without_unstorable(setback.error_message)})
        with self._database.transaction():
            self.clear(setback.table_uuid, setback.action)
            self._database.write(insert("setbacks", SetbackRecord), *to_values(told))

    def get(self, table_uuid: str, action: str) -> SetbackRecord | None:
        rest = "WHERE table_uuid = ? AND action = ?"
        rows = self._database.read(select("setbacks", SetbackRecord, rest), table_uuid, action)
        return to_record(SetbackRecord, rows[0]) if rows else None

    def list(self) -> Mapping[tuple[str, str], SetbackRecord]:
        """By table and action."""
        found = (to_record(SetbackRecord, row) for row in self._database.read(select("setbacks", SetbackRecord)))
        return {(setback.table_uuid, setback.action): setback for setback in found}

    def clear(self, table_uuid: str, action: str | None = None) -> int:
        """Forget what failed of a table, or one job of it; how many rows went."""
        if action is None:
            return self._database.write("DELETE FROM setbacks WHERE table_uuid = ?", table_uuid)
        return self._database.write("DELETE FROM setbacks WHERE table_uuid = ? AND action = ?", table_uuid, action)
