"""`dynamic_tables`, `source_snapshots`, `dependencies` and `refresh_history`.

Rows belong to a table's uuid, so that a renamed table keeps them and a new one of an old name has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from neve.database import Database
from neve.model.history import DynamicRecord, RefreshRecord, SourceRecord
from neve.store.rows import insert, select, to_record, to_text, to_values, upsert

_CACHES = ("dynamic_tables", "source_snapshots", "dependencies")


class DynamicTables:
    """What is declared, what it reads, and how far each table has come."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, table: DynamicRecord, sources: Sequence[SourceRecord], upstream: Sequence[str]) -> None:
        """Write all that is known of a table; what was known before goes. Its history takes its name."""
        with self._database.transaction():
            self._database.write(upsert("dynamic_tables", DynamicRecord, key="table_uuid"), *to_values(table))
            self._forget(table.table_uuid, _CACHES[1:])
            for source in sources:
                self._database.write(insert("source_snapshots", SourceRecord), *to_values(source))
            for name in upstream:
                sql = "INSERT INTO dependencies (table_uuid, downstream, upstream) VALUES (?, ?, ?)"
                self._database.write(sql, table.table_uuid, table.name, name)
            self._database.write(
                "UPDATE refresh_history SET name = ? WHERE table_uuid = ? AND name <> ?",
                table.name,
                table.table_uuid,
                table.name,
            )

    def touch(self, moments: Mapping[str, datetime]) -> None:
        """The rows of these tables, by uuid, are as of these moments, though nothing changed."""
        sql = "UPDATE dynamic_tables SET data_timestamp = ? WHERE table_uuid = ?"
        with self._database.transaction():
            for uuid, moment in moments.items():
                self._database.write(sql, to_text(moment), uuid)

    def list(self) -> dict[str, DynamicRecord]:
        """By uuid."""
        rows = self._database.read(select("dynamic_tables", DynamicRecord))
        return {record.table_uuid: record for record in (to_record(DynamicRecord, row) for row in rows)}

    def get(self, table_uuid: str) -> DynamicRecord | None:
        rows = self._database.read(select("dynamic_tables", DynamicRecord, "WHERE table_uuid = ?"), table_uuid)
        return to_record(DynamicRecord, rows[0]) if rows else None

    def sources(self) -> dict[str, dict[str, SourceRecord]]:
        """By uuid and the source's name."""
        found: dict[str, dict[str, SourceRecord]] = {}
        for row in self._database.read(select("source_snapshots", SourceRecord)):
            record = to_record(SourceRecord, row)
            found.setdefault(record.table_uuid, {})[record.source_table] = record
        return found

    def forget(self, table_uuid: str) -> None:
        """The table is no more, or not there for now; its history stays."""
        with self._database.transaction():
            self._forget(table_uuid, _CACHES)

    def _forget(self, table_uuid: str, tables: Sequence[str]) -> None:
        for table in tables:
            self._database.write(f"DELETE FROM {table} WHERE table_uuid = ?", table_uuid)  # noqa: S608


class RefreshHistory:
    """Every refresh. One in which nothing was done takes the place of one just before it of the same kind."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, records: Sequence[RefreshRecord]) -> None:
        """In one transaction. A row of a run that has one already is passed over: whoever settles may come twice."""
        with self._database.transaction():
            for record in records:
                if record.run_id is None or not self._read("WHERE run_id = ?", record.run_id):
                    self._add(record)

    def of(self, table_uuid: str, *, failed: bool = False, limit: int | None = None) -> tuple[RefreshRecord, ...]:
        """Newest first."""
        return self._listed("table_uuid = ?", table_uuid, failed=failed, limit=limit)

    def of_all(self, *, failed: bool = False, limit: int | None = None) -> tuple[RefreshRecord, ...]:
        """Of every table that there is, newest first."""
        there = "table_uuid IN (SELECT table_uuid FROM dynamic_tables)"
        return self._listed(there, failed=failed, limit=limit)

    def of_round(self, round_id: str) -> tuple[RefreshRecord, ...]:
        return self._read("WHERE round_id = ? ORDER BY id", round_id)

    def of_run(self, run_id: str) -> RefreshRecord | None:
        return next(iter(self._read("WHERE run_id = ?", run_id)), None)

    def last_done(self, table_uuids: Sequence[str], *, until: datetime) -> RefreshRecord | None:
        """Of these tables, the refresh that had succeeded last at that moment, whether or not it found anything."""
        where = "WHERE table_uuid = ? AND state = 'SUCCEEDED' AND refresh_end_time <= ? ORDER BY id DESC LIMIT 1"
        done = [record for uuid in table_uuids for record in self._read(where, uuid, to_text(until))]
        return max(done, key=lambda record: record.refresh_end_time, default=None)

    def last_round(self) -> str | None:
        """The latest round in which anything failed or was done."""
        rows = self._read("WHERE round_id IS NOT NULL ORDER BY round_id DESC LIMIT 1")
        return rows[0].round_id if rows else None

    def latest(self) -> Mapping[str, RefreshRecord]:
        """The newest row of each table, by uuid; that it was skipped says nothing of how it is."""
        newest = "WHERE id IN (SELECT MAX(id) FROM refresh_history WHERE state <> 'SKIPPED' GROUP BY table_uuid)"
        return {record.table_uuid: record for record in self._read(newest)}

    def recent(self, count: int) -> Mapping[str, list[RefreshRecord]]:
        """The last refreshes of each table that changed it, at most so many, newest first, by uuid."""
        ranked = (
            "SELECT id, ROW_NUMBER() OVER (PARTITION BY table_uuid ORDER BY id DESC) AS place FROM refresh_history"
            " WHERE state = 'SUCCEEDED' AND refresh_action <> 'NO_DATA'"
        )
        found: dict[str, list[RefreshRecord]] = {}
        where = f"WHERE id IN (SELECT id FROM ({ranked}) AS ranked WHERE place <= ?) ORDER BY id DESC"  # noqa: S608
        for record in self._read(where, count):
            found.setdefault(record.table_uuid, []).append(record)
        return found

    def tally(self) -> Mapping[tuple[str, str, str], int]:
        """How many rows there are of each table's name, state and code; the code is empty where there is none."""
        rows = self._database.read(
            "SELECT name, state, COALESCE(state_code, '') AS code, COUNT(*) AS n FROM refresh_history"
            " GROUP BY name, state, COALESCE(state_code, '')"
        )
        return {(str(row["name"]), str(row["state"]), str(row["code"])): cast("int", row["n"]) for row in rows}

    def forget(self, table_uuid: str) -> int:
        """Answers how many rows went."""
        return self._database.write("DELETE FROM refresh_history WHERE table_uuid = ?", table_uuid)

    def _add(self, record: RefreshRecord) -> None:
        if record.idle:
            last = self._read("WHERE table_uuid = ? ORDER BY id DESC LIMIT 1", record.table_uuid)
            if last and last[0].idle and last[0].state == record.state:
                self._database.write("DELETE FROM refresh_history WHERE id = ?", last[0].id)
        values = dict(zip(RefreshRecord.model_fields, to_values(record), strict=True))
        names = [name for name in values if name != "id"]
        self._database.write(
            f"INSERT INTO refresh_history ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})",  # noqa: S608
            *(values[name] for name in names),
        )

    def _listed(self, where: str, *values: str, failed: bool, limit: int | None) -> tuple[RefreshRecord, ...]:
        chosen = f"{where} AND state IN ('FAILED', 'UPSTREAM_FAILED', 'CANCELLED')" if failed else where
        rest = f"WHERE {chosen} ORDER BY refresh_end_time DESC, id DESC"
        return self._read(rest, *values) if limit is None else self._read(f"{rest} LIMIT ?", *values, limit)

    def _read(self, rest: str, *values: str | int) -> tuple[RefreshRecord, ...]:
        rows = self._database.read(select("refresh_history", RefreshRecord, rest), *values)
        return tuple(to_record(RefreshRecord, row) for row in rows)
