"""What the state database keeps of dynamic tables: a copy of what their own commits and properties say, to be read."""

from __future__ import annotations

from datetime import timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from neve.model.refresh import RefreshAction, RefreshState, RefreshTrigger
from neve.model.runs import JsonObject, Record, RunId


class DynamicRecord(Record):
    """A dynamic table as it is declared, and as of when its rows are."""

    table_uuid: str
    name: str
    schema_name: str
    query_sql: str
    target_lag: str
    refresh_mode: str
    scheduling_state: str
    options: JsonObject
    data_timestamp: AwareDatetime | None
    updated_at: AwareDatetime


class SourceRecord(Record):
    """The snapshot of a source that a table's rows are the result of; `direct` is 1 where its query names it."""

    table_uuid: str
    dynamic_table: str
    source_table: str
    source_uuid: str
    last_snapshot: int | None
    direct: int
    last_processed_at: AwareDatetime


class Dependency(BaseModel):
    """A dynamic table that another reads, and as of when its last refresh had left its rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    qualified_name: str
    data_timestamp: AwareDatetime | None


class RefreshRecord(Record):
    """One refresh, or why there was none.

    `completion_target` is when it was due: the data timestamp before it and the target lag, which is NULL where it is
    DOWNSTREAM. `changed_sources` are those in which something had changed, with commas between. `upstream` is the table
    whose failure kept this one from its turn. `estimates` are what the choice between ways was made by.

    `last_completed_dependency` is, of the dynamic tables that it reads, the one whose refresh ended last before this
    one could begin. From when it could, all time until its end was waited (`queued_time_ms`), spent on deciding and on
    deriving SQL (`compilation_time_ms`), or on the work itself (`execution_time_ms`). The rows that were written once
    more as they were (`rows_copied`), and the data files, are those of its commit. Each is NULL where nobody knows it:
    a table that did not get its turn, times that are read from a commit, rows of before there were these columns.
    """

    id: int | None = None
    table_uuid: str
    name: str
    state: RefreshState
    state_code: str | None = None
    state_message: str | None = None
    data_timestamp: AwareDatetime | None = None
    refresh_start_time: AwareDatetime
    refresh_end_time: AwareDatetime
    completion_target: AwareDatetime | None = None
    target_lag_seconds: int | None = None
    refresh_action: RefreshAction | None = None
    refresh_trigger: RefreshTrigger
    reason_code: str | None = None
    reason_detail: str | None = None
    strategy: str | None = None
    estimates: JsonObject | None = None
    rows_inserted: int = 0
    rows_deleted: int = 0
    source_rows_changed: int | None = None
    changed_sources: str | None = None
    source_snapshots: JsonObject | None = None
    upstream: str | None = None
    snapshot_id: int | None = None
    round_id: RunId | None = None
    run_id: RunId | None = None
    last_completed_dependency: Dependency | None = None
    queued_time_ms: int | None = None
    compilation_time_ms: int | None = None
    execution_time_ms: int | None = None
    rows_copied: int | None = None
    files_added: int | None = None
    files_deleted: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it was not done though it was its turn; `CANCELLED` by somebody is not counted against the table."""
        return self.state in ("FAILED", "UPSTREAM_FAILED", "CANCELLED")

    @property
    def idle(self) -> bool:
        """Whether nothing was done, for want of changes or because the table is suspended."""
        return self.state == "SKIPPED" or (self.state == "SUCCEEDED" and self.refresh_action == "NO_DATA")

    @property
    def took(self) -> timedelta:
        """How long was worked on it, without what it waited; from start to end where that is all that is known."""
        if self.compilation_time_ms is None or self.execution_time_ms is None:
            return self.refresh_end_time - self.refresh_start_time
        return timedelta(milliseconds=self.compilation_time_ms + self.execution_time_ms)
