"""`submitted_files`: what waits to be loaded into each table, and which run loaded the rest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from neve.database import Database
from neve.model.batching import SubmittedFile
from neve.store.logs import TableLog
from neve.store.rows import to_text


class Submissions(TableLog[SubmittedFile]):
    """One row per table and path, kept, renamed and forgotten with its table as the logs are.

    `put` makes a path pending, whatever became of it before.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database, "submitted_files", SubmittedFile, unit="path")

    def pending(self) -> tuple[str, ...]:
        """The tables that have files to load."""
        rows = self._database.read("SELECT DISTINCT table_name FROM submitted_files WHERE run_id IS NULL")
        return tuple(sorted(str(row["table_name"]) for row in rows))

    def mark(self, file: SubmittedFile, run_id: str) -> bool:
        """A run has loaded the file. False, and it stays pending, when it was submitted again meanwhile."""
        return bool(
            self._database.write(
                "UPDATE submitted_files SET run_id = ? WHERE table_name = ? AND path = ? AND submitted_at = ?",
                run_id,
                file.table_name,
                file.path,
                to_text(file.submitted_at),
            )
        )

    def reopen(self, name: str, dates: Iterable[date]) -> int:
        """All files of these dates are pending again; how many were not."""
        sql = "UPDATE submitted_files SET run_id = NULL WHERE table_name = ? AND date = ? AND run_id IS NOT NULL"
        with self._database.transaction():
            return sum(self._database.write(sql, name, day.isoformat()) for day in dates)

    def withdraw(self, file: SubmittedFile) -> bool:
        """Forget one file; False when it was not there."""
        sql = "DELETE FROM submitted_files WHERE table_name = ? AND path = ?"
        return bool(self._database.write(sql, file.table_name, file.path))
