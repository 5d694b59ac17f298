"""What every surface answers with: CLI `-o json`, HTTP bodies and Python values are these models, word for word."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reason(Answer):
    """Why something was or was not done, as a value."""

    code: str
    detail: str


class Receipt(Answer):
    """What a change did, and the command that takes it back."""

    run_id: str | None
    action: str
    table: str
    reason: Reason | None = None
    details: dict[str, JsonValue] = {}
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    duration_ms: int = 0
    dry_run: bool = False
    undo: str | None = None


class TableSummary(Answer):
    """A table in a list; all but the name is None when its metadata cannot be read."""

    table: str
    online: bool | None
    rows: int | None
    files: int | None
    bytes: int | None
    snapshots: int | None
    updated_at: datetime | None


class ColumnRow(Answer):
    name: str
    type: str
    required: bool
    comment: str | None


class ReferenceRow(Answer):
    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    at: datetime | None
    purpose: str | None = None


class TableDetails(Answer):
    """Everything `show` tells."""

    table: str
    uuid: str
    comment: str | None
    format: str
    format_version: int | None
    online: bool
    location: str
    columns: list[ColumnRow]
    partition_by: list[str]
    sort_by: list[str]
    row_keys: list[str]
    sort_keys: list[str]
    ranges: int | None
    rows: int | None
    files: int
    delete_files: int
    bytes: int
    snapshots: int
    current_snapshot: int | None
    updated_at: datetime
    properties: dict[str, str]
    dependants: list[str]
    references: list[ReferenceRow] = []


class SnapshotRow(Answer):
    snapshot: int
    parent: int | None
    at: datetime
    operation: str
    current: bool
    ancestor: bool
    references: list[str]
    rows_added: int
    rows_deleted: int
    files_added: int
    files_deleted: int
    rows: int | None
    run_id: str | None


class FileRow(Answer):
    path: str
    content: str
    format: str
    partition: str
    rows: int
    bytes: int


class PartitionRow(Answer):
    partition: str
    files: int
    delete_files: int
    rows: int
    bytes: int
    smallest_file: int
    largest_file: int


class PropertyRow(Answer):
    key: str
    value: str


class IngestionBlock(Answer):
    total_ingestions: int
    first_date: str | None
    last_date: str | None
    total_rows: int
    missing_dates: list[date]
    rows_rejected: int


class DuePeriod(Answer):
    """A period that could be compacted: now, or from `due_at` on. `code` and `detail` of the reason say why not yet."""

    period: str
    due: bool
    due_at: datetime | None
    reason: Reason


class CompactionBlock(Answer):
    total_compactions: int
    first_date: str | None
    last_date: str | None
    next: list[DuePeriod]


class TableStatus(Answer):
    """How one table is, from metadata and the logs."""

    table: str
    online: bool
    rows: int | None
    files: int
    small_files: int
    delete_files: int
    bytes: int
    snapshots: int
    updated_at: datetime
    ingestion: IngestionBlock
    compaction: CompactionBlock


class NamespaceRow(Answer):
    namespace: str
    tables: int


class TrashRow(Answer):
    table: str
    uuid: str
    deleted_at: datetime
    purge_after: datetime


class JobRow(Answer):
    """A piece of work that is due, or the reason why it is not.

    `due_at` is when it was or will be, where that is known; `waits` what keeps due work from being done now.
    """

    table: str
    action: str
    due: bool
    reason: Reason
    due_at: datetime | None = None
    waits: Reason | None = None


class DateCount(Answer):
    """The rows of one date, by the log and by counting."""

    date: date | None
    logged: int | None
    counted: int
    state: Literal["ok", "differs", "missing", "not_logged"]


class LakeRow(Answer):
    """A lake that was made, and where its tables lie."""

    lake: str
    warehouse: str


class CheckRow(Answer):
    """One finding of `doctor`."""

    check: str
    state: Literal["ok", "warning", "failed", "repaired"]
    detail: str
    fix: str | None = None
