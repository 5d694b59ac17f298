"""The tables, and how an older database becomes a current one.

To change the schema, add a `Migration` with the next number; those already released are never edited. Statements run
on SQLite and PostgreSQL alike: TEXT, INTEGER and BIGINT are the only types, and `{identity}` is a column that numbers
its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from neve.database import Database
from neve.errors import SchemaTooNew, StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    version: int
    statements: tuple[str, ...]


MIGRATIONS = (
    Migration(
        version=1,
        statements=(
            """CREATE TABLE table_registry (
                table_name TEXT NOT NULL PRIMARY KEY,
                config_path TEXT,
                base_path TEXT NOT NULL,
                created_at TEXT NOT NULL,
                updated_at TEXT NOT NULL,
                table_uuid TEXT NOT NULL,
                format TEXT NOT NULL,
                config TEXT NOT NULL
            )""",
            """CREATE TABLE ingestion_log (
                id {identity},
                table_name TEXT NOT NULL,
                date TEXT NOT NULL,
                source_file TEXT NOT NULL,
                destination_file TEXT,
                rows_ingested BIGINT,
                status TEXT NOT NULL,
                error_message TEXT,
                ingested_at TEXT NOT NULL,
                content_hash TEXT,
                run_id TEXT,
                rows_rejected BIGINT,
                UNIQUE (table_name, date)
            )""",
            """CREATE TABLE compaction_log (
                id {identity},
                table_name TEXT NOT NULL,
                period TEXT NOT NULL,
                period_start TEXT NOT NULL,
                period_end TEXT NOT NULL,
                source_files TEXT NOT NULL,
                output_file TEXT,
                rows_processed BIGINT,
                compacted_at TEXT NOT NULL,
                run_id TEXT,
                UNIQUE (table_name, period)
            )""",
            """CREATE TABLE runs (
                run_id TEXT NOT NULL PRIMARY KEY,
                kind TEXT NOT NULL,
                table_name TEXT,
                state TEXT NOT NULL,
                plan TEXT,
                result TEXT,
                snapshot_before BIGINT,
                snapshot_after BIGINT,
                error_code TEXT,
                error_message TEXT,
                started_at TEXT NOT NULL,
                finished_at TEXT,
                host TEXT NOT NULL,
                pid BIGINT NOT NULL,
                undo TEXT
            )""",
            "CREATE INDEX runs_by_time ON runs (started_at)",
            "CREATE INDEX runs_by_table ON runs (table_name, started_at)",
            "CREATE INDEX runs_by_state ON runs (state, started_at)",
            """CREATE TABLE leases (
                name TEXT NOT NULL PRIMARY KEY,
                owner TEXT,
                fence BIGINT NOT NULL,
                expires_at TEXT NOT NULL,
                acquired_at TEXT NOT NULL
            )""",
            """CREATE TABLE trash (
                table_uuid TEXT NOT NULL PRIMARY KEY,
                table_name TEXT NOT NULL,
                metadata_location TEXT,
                location TEXT NOT NULL,
                deleted_at TEXT NOT NULL,
                purge_after TEXT NOT NULL,
                run_id TEXT
            )""",
            "CREATE INDEX trash_by_name ON trash (table_name, deleted_at)",
        ),
    ),
    Migration(
        version=2,
        statements=(
            """CREATE TABLE submitted_files (
                table_name TEXT NOT NULL,
                path TEXT NOT NULL,
                date TEXT NOT NULL,
                bytes BIGINT NOT NULL,
                modified_at TEXT NOT NULL,
                submitted_at TEXT NOT NULL,
                run_id TEXT,
                PRIMARY KEY (table_name, path)
            )""",
        ),
    ),
    Migration(
        version=3,
        statements=(
            """CREATE TABLE dynamic_tables (
                table_uuid TEXT NOT NULL PRIMARY KEY,
                name TEXT NOT NULL,
                schema_name TEXT NOT NULL,
                query_sql TEXT NOT NULL,
                target_lag TEXT NOT NULL,
                refresh_mode TEXT NOT NULL,
                scheduling_state TEXT NOT NULL,
                options TEXT NOT NULL,
                data_timestamp TEXT,
                updated_at TEXT NOT NULL
            )""",
            """CREATE TABLE source_snapshots (
                table_uuid TEXT NOT NULL,
                dynamic_table TEXT NOT NULL,
                source_table TEXT NOT NULL,
                source_uuid TEXT NOT NULL,
                last_snapshot BIGINT,
                direct INTEGER NOT NULL,
                last_processed_at TEXT NOT NULL,
                PRIMARY KEY (table_uuid, source_table)
            )""",
            """CREATE TABLE dependencies (
                table_uuid TEXT NOT NULL,
                downstream TEXT NOT NULL,
                upstream TEXT NOT NULL,
                PRIMARY KEY (table_uuid, upstream)
            )""",
            """CREATE TABLE refresh_history (
                id {identity},
                table_uuid TEXT NOT NULL,
                name TEXT NOT NULL,
                state TEXT NOT NULL,
                state_code TEXT,
                state_message TEXT,
                data_timestamp TEXT,
                refresh_start_time TEXT NOT NULL,
                refresh_end_time TEXT NOT NULL,
                completion_target TEXT,
                refresh_action TEXT,
                refresh_trigger TEXT NOT NULL,
                reason_code TEXT,
                reason_detail TEXT,
                strategy TEXT,
                estimates TEXT,
                rows_inserted BIGINT NOT NULL,
                rows_deleted BIGINT NOT NULL,
                source_rows_changed BIGINT,
                source_snapshots TEXT,
                upstream TEXT,
                snapshot_id BIGINT,
                round_id TEXT,
                run_id TEXT
            )""",
            "CREATE INDEX refresh_history_by_table ON refresh_history (table_uuid, id)",
            "CREATE INDEX refresh_history_by_time ON refresh_history (refresh_end_time)",
            "CREATE INDEX refresh_history_by_round ON refresh_history (round_id)",
            "CREATE INDEX refresh_history_by_run ON refresh_history (run_id)",
        ),
    ),
    Migration(
        version=4,
        statements=(
            """CREATE TABLE orphan_scans (
                table_uuid TEXT NOT NULL PRIMARY KEY,
                table_name TEXT NOT NULL,
                scanned_at TEXT NOT NULL,
                older_than_seconds BIGINT NOT NULL,
                files BIGINT NOT NULL,
                bytes BIGINT NOT NULL,
                run_id TEXT
            )""",
            """CREATE TABLE readers (
                reader_id TEXT NOT NULL PRIMARY KEY,
                table_uuid TEXT NOT NULL,
                snapshots TEXT NOT NULL,
                purpose TEXT NOT NULL,
                started_at TEXT NOT NULL,
                host TEXT NOT NULL,
                pid BIGINT NOT NULL
            )""",
            "CREATE INDEX readers_by_table ON readers (table_uuid)",
            """CREATE TABLE claims (
                table_uuid TEXT NOT NULL PRIMARY KEY,
                table_name TEXT NOT NULL,
                action TEXT NOT NULL,
                owner TEXT,
                fence BIGINT NOT NULL,
                claimed_at TEXT NOT NULL,
                expires_at TEXT NOT NULL
            )""",
            """CREATE TABLE setbacks (
                table_uuid TEXT NOT NULL,
                action TEXT NOT NULL,
                table_name TEXT NOT NULL,
                failures INTEGER NOT NULL,
                failed_at TEXT NOT NULL,
                retry_at TEXT NOT NULL,
                error_code TEXT NOT NULL,
                error_message TEXT NOT NULL,
                suspended_at TEXT,
                PRIMARY KEY (table_uuid, action)
            )""",
            """CREATE TABLE workers (
                name TEXT NOT NULL PRIMARY KEY,
                host TEXT NOT NULL,
                pid BIGINT NOT NULL,
                slots INTEGER NOT NULL,
                started_at TEXT NOT NULL,
                seen_at TEXT NOT NULL,
                stopped_at TEXT
            )""",
            "CREATE TABLE alerts (event TEXT NOT NULL PRIMARY KEY, told_at TEXT NOT NULL)",
        ),
    ),
    Migration(
        version=5,
        statements=(
            """CREATE TABLE service_keys (
                key_id TEXT NOT NULL PRIMARY KEY,
                digest TEXT NOT NULL,
                tenant TEXT,
                role TEXT NOT NULL,
                label TEXT,
                requests_per_minute BIGINT NOT NULL,
                created_at TEXT NOT NULL,
                expires_at TEXT,
                revoked_at TEXT
            )""",
            """CREATE TABLE service_log (
                id {identity},
                at TEXT NOT NULL,
                key_id TEXT NOT NULL,
                tenant TEXT,
                role TEXT NOT NULL,
                action TEXT NOT NULL,
                target TEXT,
                status INTEGER NOT NULL,
                code TEXT,
                request_id TEXT NOT NULL,
                address TEXT NOT NULL,
                duration_ms BIGINT NOT NULL
            )""",
            "CREATE INDEX service_log_by_time ON service_log (at)",
            "CREATE INDEX service_log_by_key ON service_log (key_id, id)",
        ),
    ),
    Migration(
        version=6,
        statements=(
            "CREATE TABLE write_counts (table_uuid TEXT NOT NULL PRIMARY KEY, writes BIGINT NOT NULL)",
            """CREATE TABLE write_keys (
                scope TEXT NOT NULL,
                key TEXT NOT NULL,
                fingerprint TEXT NOT NULL,
                run_id TEXT NOT NULL,
                made_at TEXT NOT NULL,
                PRIMARY KEY (scope, key)
            )""",
            "CREATE INDEX write_keys_by_time ON write_keys (made_at)",
        ),
    ),
    Migration(version=7, statements=("ALTER TABLE runs ADD COLUMN cancel_asked_at TEXT",)),
    Migration(
        version=8,
        statements=(
            "ALTER TABLE refresh_history ADD COLUMN target_lag_seconds BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN changed_sources TEXT",
        ),
    ),
    Migration(
        version=9,
        statements=(
            "ALTER TABLE refresh_history ADD COLUMN last_completed_dependency TEXT",
            "ALTER TABLE refresh_history ADD COLUMN queued_time_ms BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN compilation_time_ms BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN execution_time_ms BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN rows_copied BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN files_added BIGINT",
            "ALTER TABLE refresh_history ADD COLUMN files_deleted BIGINT",
        ),
    ),
    Migration(version=10, statements=("ALTER TABLE leases ADD COLUMN process TEXT",)),
)


def migrate(database: Database, migrations: Sequence[Migration], *, create: bool) -> None:
    """Bring the schema to the last of `migrations`, wholly or not at all; one query when it is there already.

    Raises:
        SchemaTooNew: a later version of Névé has been here.
        StoreError: the database holds no state yet and `create` is false.
    """
    if _is_current(database, _probe_version(database), migrations, create=create):
        return
    with database.transaction():
        database.lock_schema()
        found = read_version(database)  # a rival may have migrated while we waited for the lock
        if _is_current(database, found, migrations, create=create):
            return
        database.write("CREATE TABLE IF NOT EXISTS neve_schema (version INTEGER NOT NULL)")
        for migration in migrations:
            if migration.version > found:
                for statement in migration.statements:
                    database.write(statement.replace("{identity}", database.identity))
        database.write("DELETE FROM neve_schema")
        database.write("INSERT INTO neve_schema (version) VALUES (?)", migrations[-1].version)


def read_version(database: Database) -> int:
    """The schema's version; 0 when there is none yet."""
    return _select_version(database) if database.has_table("neve_schema") else 0


def _probe_version(database: Database) -> int:
    """As `read_version`, in one query where there is a schema. Not within a transaction: a miss would end it."""
    try:
        return _select_version(database)
    except StoreError:
        return read_version(database)  # a rival may have made the schema just after we missed it


def _select_version(database: Database) -> int:
    return cast("int", database.read("SELECT COALESCE(MAX(version), 0) AS version FROM neve_schema")[0]["version"])


def _is_current(database: Database, found: int, migrations: Sequence[Migration], *, create: bool) -> bool:
    newest = migrations[-1].version
    if found > newest:
        raise SchemaTooNew(
            f"the state database {database.label} has schema version {found}, and this Névé knows none after {newest}",
            hint="upgrade Névé, or open this lake with the version that made it",
        )
    if found == 0 and not create:
        raise StoreError(f"the database {database.label} holds no lake's state", hint="make a lake with `neve init`")
    return found == newest
