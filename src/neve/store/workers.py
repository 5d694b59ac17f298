"""`workers` and `alerts`: who works, and what was told of once."""

from __future__ import annotations

from datetime import datetime, timedelta

from neve.database import Database
from neve.model.work import WorkerRecord
from neve.store.rows import select, to_record, to_text, to_values, upsert


class Workers:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, worker: WorkerRecord) -> None:
        self._database.write(upsert("workers", WorkerRecord, key="name"), *to_values(worker))

    def list(self) -> tuple[WorkerRecord, ...]:
        """By name."""
        rows = self._database.read(select("workers", WorkerRecord))
        return tuple(sorted((to_record(WorkerRecord, row) for row in rows), key=lambda worker: worker.name))

    def forget(self, before: datetime) -> int:
        """Those that gave no sign of life since; how many."""
        return self._database.write("DELETE FROM workers WHERE seen_at < ?", to_text(before))


class Alerts:
    KEPT = timedelta(days=90)

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, event: str, now: datetime) -> bool:
        """Whether this event is told for the first time, of all workers: then it is for the caller to tell it."""
        with self._database.transaction():
            self._database.write("DELETE FROM alerts WHERE told_at < ?", to_text(now - self.KEPT))
            sql = "INSERT INTO alerts (event, told_at) VALUES (?, ?) ON CONFLICT (event) DO NOTHING"
            return bool(self._database.write(sql, event, to_text(now)))
