"""`table_registry`: the tables of the lake, under the names users say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from neve.database import Database
from neve.errors import AlreadyExists, TableNotFound, nearest
from neve.model.runs import RegisteredTable
from neve.store.rows import select, to_record, to_text, to_values, upsert


class Renames(Protocol):
    def rename(self, old: str, new: str) -> int: ...


class Registry:
    """`logs` are renamed with their table, in the same transaction."""

    def __init__(self, database: Database, logs: Sequence[Renames]) -> None:
        self._database = database
        self._logs = logs

    def put(self, table: RegisteredTable) -> None:
        """Add the table, or replace the one of that name."""
        self._database.write(upsert("table_registry", RegisteredTable, key="table_name"), *to_values(table))

    def get(self, name: str) -> RegisteredTable | None:
        rows = self._database.read(select("table_registry", RegisteredTable, "WHERE table_name = ?"), name)
        return to_record(RegisteredTable, rows[0]) if rows else None

    def list(self) -> tuple[RegisteredTable, ...]:
        """In the order of their names, which no database's collation changes."""
        rows = self._database.read(select("table_registry", RegisteredTable))
        return tuple(sorted((to_record(RegisteredTable, row) for row in rows), key=lambda table: table.table_name))

    def rename(self, old: str, new: str, now: datetime) -> None:
        """Give the table and its logs another name. Of two processes at once, one wins and the other is told.

        Raises:
            TableNotFound: no table has the old name.
            AlreadyExists: another table, or the log of one, has the new name.
        """
        with self._database.transaction():
            if self.get(new) is not None:
                raise _taken(new)
            if not self._update_name(old, new, now):
                raise TableNotFound(
                    f"no table {old} is registered", hint=nearest(old, (table.table_name for table in self.list()))
                )
            for log in self._logs:
                log.rename(old, new)

    def forget(self, name: str) -> bool:
        """Take the table off the list; its logs stay. False when it was not on it."""
        return bool(self._database.write("DELETE FROM table_registry WHERE table_name = ?", name))

    def _update_name(self, old: str, new: str, now: datetime) -> bool:
        sql = "UPDATE table_registry SET table_name = ?, updated_at = ? WHERE table_name = ?"
        try:
            return bool(self._database.write(sql, new, to_text(now), old))
        except AlreadyExists as exc:  # a rival took the name since we looked
            raise _taken(new) from exc


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"a table {name} is already registered")
