"""What the operations of document 003 answer, flat, as the document shows it."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from neve.model.results import Answer


class TableCreated(Answer):
    table_created: bool
    table_existed: bool


class TableList(Answer):
    tables: list[str]


class TableDescribed(Answer):
    """In the words of CREATE_TABLE, with what the table holds now."""

    table: str
    namespace: str
    tenant_id: str | None
    columns: dict[str, Any] = Field(serialization_alias="schema")
    partition: dict[str, Any]
    properties: dict[str, str]
    rows: int | None
    files: int
    bytes: int
    snapshot: int | None


class TableDropped(Answer):
    table_dropped: bool
    purged: bool
    undo: str | None


class NamespaceDropped(Answer):
    namespace_dropped: bool


class QueryMetadata(Answer):
    row_count: int
    execution_time_ms: float
    query_id: str
    warnings: list[str]


class QueryAnswer(Answer):
    """`plan` is how Spark would do it, when that was asked for."""

    records: list[dict[str, Any]]
    query_metadata: QueryMetadata
    plan: str | None = None


class CsvExported(Answer):
    """`download_url` is a path of this service, for keys of the same tenant."""

    download_url: str
    filename: str
    rows_exported: int
    bytes: int
    expires_at: AwareDatetime


class SqlChanged(QueryAnswer):
    """What a statement did that changes rows: there are no records to answer.

    An updated row is one that went and one that came. None where files were written anew, with rows that stayed.
    """

    rows_added: int | None
    rows_removed: int | None
    snapshot: int | None


class Written(Answer):
    """`small_files_count` is known when it was counted: at every Nth write."""

    records_written: int
    compaction_recommended: bool
    small_files_count: int | None


class Updated(Answer):
    records_updated: int


class Deleted(Answer):
    records_deleted: int


class HardDeleted(Answer):
    records_deleted: int
    files_rewritten: int


class Upserted(Answer):
    records_inserted: int
    records_updated: int
    total_affected: int


class CompactionStats(Answer):
    files_before: int
    files_after: int
    files_compacted: int
    files_removed: int
    bytes_before: int
    bytes_after: int
    bytes_saved: int
    snapshots_expired: int
    compaction_time_ms: float
    small_files_remaining: int


class Compacted(Answer):
    compacted: bool
    reason: str | None
    stats: CompactionStats
