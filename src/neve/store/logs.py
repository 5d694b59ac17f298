"""`ingestion_log` and `compaction_log`: what was done to each table, day by day and period by period."""

from __future__ import annotations

from typing import Generic

from neve.database import Database
from neve.errors import AlreadyExists
from neve.store.rows import RecordT, select, to_record, to_values


class TableLog(Generic[RecordT]):
    """A log with one row per table and `unit`. Rows of a deleted table can be parked under its uuid with `rename`."""

    def __init__(self, database: Database, table: str, record_type: type[RecordT], *, unit: str) -> None:
        self._database = database
        self._table = table
        self._record_type = record_type
        self._unit = unit

    def for_table(self, name: str) -> tuple[RecordT, ...]:
        """Oldest day or period first."""
        sql = select(self._table, self._record_type, f"WHERE table_name = ? ORDER BY {self._unit}")
        return tuple(to_record(self._record_type, row) for row in self._database.read(sql, name))

    def put(self, record: RecordT) -> None:
        """Write the row of a day or period; the earlier one, if any, goes."""
        names = [name for name in self._record_type.model_fields if name != "id"]
        values = dict(zip(self._record_type.model_fields, to_values(record), strict=True))
        marks = ", ".join("?" for _ in names)
        with self._database.transaction():
            self._database.write(
                f"DELETE FROM {self._table} WHERE table_name = ? AND {self._unit} = ?",  # noqa: S608
                values["table_name"],
                values[self._unit],
            )
            self._database.write(
                f"INSERT INTO {self._table} ({', '.join(names)}) VALUES ({marks})",  # noqa: S608 - names of our own
                *(values[name] for name in names),
            )

    def rename(self, old: str, new: str) -> int:
        """Answers how many rows moved.

        Raises:
            AlreadyExists: the log has rows under the new name; two tables' histories must not mix.
        """
        with self._database.transaction():
            if self._database.read(f"SELECT 1 FROM {self._table} WHERE table_name = ? LIMIT 1", new):  # noqa: S608
                raise AlreadyExists(f"{self._table} already has rows of a table {new}")
            sql = f"UPDATE {self._table} SET table_name = ? WHERE table_name = ?"  # noqa: S608 - names of our own
            return self._database.write(sql, new, old)

    def forget(self, name: str) -> int:
        """Answers how many rows went."""
        return self._database.write(f"DELETE FROM {self._table} WHERE table_name = ?", name)  # noqa: S608
