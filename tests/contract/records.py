"""Records for the store's tests, with only what a test is about spelled out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from neve.database import Row, Value, open_database
from neve.model.runs import RegisteredTable, Run, TrashedTable, new_run_id

NOW = datetime(2026, 11, 16, 1, 28, 49, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def make_run(**given: object) -> Run:
    started_at = given.get("started_at", NOW)
    assert isinstance(started_at, datetime)
    defaults = {
        "run_id": new_run_id(started_at, os.urandom),
        "kind": "ingest",
        "table_name": "sales",
        "started_at": started_at,
        "host": "h",
        "pid": 7,
    }
    return Run.model_validate(defaults | given)


def make_table(name: str = "sales", **given: object) -> RegisteredTable:
    defaults = {
        "table_name": name,
        "base_path": f"/lake/{name}",
        "created_at": NOW,
        "updated_at": NOW,
        "table_uuid": f"uuid of {name}",
    }
    return RegisteredTable.model_validate(defaults | given)


def make_trashed(uuid: str, **given: object) -> TrashedTable:
    defaults = {
        "table_uuid": uuid,
        "table_name": "sales",
        "location": f"/lake/{uuid}",
        "deleted_at": NOW,
        "purge_after": NOW + timedelta(days=7),
    }
    return TrashedTable.model_validate(defaults | given)


def log_ingestion(uri: str, table: str, date: str) -> None:
    write_by_hand(
        uri,
        "INSERT INTO ingestion_log (table_name, date, source_file, rows_ingested, status, ingested_at)"
        " VALUES (?, ?, 'in.csv', 3, 'success', '2026-11-16T01:28:49.123456Z')",
        table,
        date,
    )


def log_compaction(uri: str, table: str, period: str) -> None:
    write_by_hand(
        uri,
        "INSERT INTO compaction_log (table_name, period, period_start, period_end, source_files, compacted_at)"
        " VALUES (?, ?, ?, ?, '[\"a.parquet\", \"b.parquet\"]', '2026-11-16T01:28:49.123456Z')",
        table,
        period,
        f"{period}-01",
        f"{period}-28",
    )


def write_by_hand(uri: str, sql: str, *values: Value) -> None:
    """As somebody with a SQL client would, past the store."""
    database = open_database(uri, create=False, what="state database")
    try:
        database.write(sql, *values)
    finally:
        database.close()


def read_by_hand(uri: str, sql: str, *values: Value) -> Sequence[Row]:
    database = open_database(uri, create=False, what="state database")
    try:
        return database.read(sql, *values)
    finally:
        database.close()
