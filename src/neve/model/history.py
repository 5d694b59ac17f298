"""What the state database keeps of dynamic tables: a copy of what their own commits and properties say, to be read."""

from __future__ import annotations

from pydantic import AwareDatetime

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


class RefreshRecord(Record):
    """One refresh, or why there was none.

    `completion_target` is when it was due: the data timestamp before it and the target lag, which is NULL where it is
    DOWNSTREAM. `changed_sources` are those in which something had changed, with commas between. `upstream` is the table
    whose failure kept this one from its turn. `estimates` are what the choice between ways was made by.
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

    @property
    def failed(self) -> bool:
        """Whether it was not done though it was its turn; `CANCELLED` by somebody is not counted against the table."""
        return self.state in ("FAILED", "UPSTREAM_FAILED", "CANCELLED")

    @property
    def idle(self) -> bool:
        """Whether nothing was done, for want of changes or because the table is suspended."""
        return self.state == "SKIPPED" or (self.state == "SUCCEEDED" and self.refresh_action == "NO_DATA")
