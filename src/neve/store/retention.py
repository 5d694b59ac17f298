"""`orphan_scans` and `readers`: when a table was last looked through for files nobody names, and who reads it now."""

from __future__ import annotations

from neve.database import Database
from neve.model.runs import OrphanScan, Reader
from neve.store.rows import insert, select, to_record, to_values, upsert


class OrphanScans:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, scan: OrphanScan) -> None:
        """The last scan of a table; the one before goes."""
        self._database.write(upsert("orphan_scans", OrphanScan, key="table_uuid"), *to_values(scan))

    def get(self, table_uuid: str) -> OrphanScan | None:
        rows = self._database.read(select("orphan_scans", OrphanScan, "WHERE table_uuid = ?"), table_uuid)
        return to_record(OrphanScan, rows[0]) if rows else None

    def forget(self, table_uuid: str) -> None:
        self._database.write("DELETE FROM orphan_scans WHERE table_uuid = ?", table_uuid)


class Readers:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, reader: Reader) -> None:
        self._database.write(insert("readers", Reader), *to_values(reader))

    def of(self, table_uuid: str) -> tuple[Reader, ...]:
        """Those of a table, oldest first; some may have died."""
        sql = select("readers", Reader, "WHERE table_uuid = ? ORDER BY started_at, reader_id")
        return tuple(to_record(Reader, row) for row in self._database.read(sql, table_uuid))

    def remove(self, reader_id: str) -> None:
        self._database.write("DELETE FROM readers WHERE reader_id = ?", reader_id)
