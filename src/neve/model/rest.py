"""What `/api/v1` takes: bodies and query strings. What it answers are the models of `-o json`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field, StrictInt, StrictStr, model_validator

from neve.model.queries import Name, Words
from neve.model.runs import RunState

COLUMNS = "X-Columns"
"""The header that names the columns of an answer in rows, as a JSON array."""


class Nothing(Words):
    """Takes no words."""


class NewNamespace(Words):
    namespace: Name
    if_not_exists: bool = False


class NewTable(Words):
    """As `neve table create NAME --schema …`. Properties, which may name folders, are set by an admin afterwards."""

    table: Name
    columns: Name = Field(alias="schema", description="such as: id bigint not null, name string")
    partition_by: list[Name] = Field([])
    sort_by: list[Name] = Field([])
    comment: str | None = None
    row_keys: list[Name] = Field([])
    sort_keys: list[Name] = Field([])
    split_points: str | None = Field(None, description="the text of a split file: one point per line")
    base64: bool = False
    if_not_exists: bool = False


class TablesQuery(Words):
    namespace: Name | None = None


class DropQuery(Words):
    purge: bool = Field(False, description="remove its files now; else it stays in the trash for a while")
    dry_run: bool = False


class Rename(Words):
    to: Name


class Undelete(Words):
    new_name: Name | None = None


class Properties(Words):
    put: dict[str, str] = Field({}, alias="set")
    unset: list[Name] = Field([])


class Rollback(Words):
    to: Name = Field(description="a snapshot, a tag or a time")
    dry_run: bool = False


class NewTag(Words):
    name: Name
    at: Name | None = Field(None, description="a snapshot, a tag or a time; else now")


class Ingest(Words):
    """As `neve table ingest`; `sources` are paths that the service can read."""

    sources: list[Name] = Field(min_length=1)
    date: Name | None = None
    date_from_name: Name | None = None
    dataset_config: Name | None = None
    replace: bool = False
    max_rejected: str | int | None = None
    dry_run: bool = False


UPLOADED = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
}
"""Files that may be sent to be loaded, and how their names end."""


class Upload(Words):
    """As `neve table ingest`, for a file that is sent."""

    date: Name
    replace: bool = False
    max_rejected: Name | None = None
    dry_run: bool = False


class Compact(Words):
    """As `neve compact`; with a `period`, its days alone."""

    force: bool = False
    target_file_size: str | int | None = None
    max_files: int | None = Field(None, ge=1)
    where: Name | None = None
    partition: dict[str, Any] = Field({})
    strategy: Name = "binpack"
    by: list[Name] = Field([])
    expire_snapshots: bool = False
    snapshot_retention_hours: float | None = Field(None, ge=0)
    period: Name | None = None
    delete_source: bool | None = None
    ignore_delay: bool = False
    dry_run: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Compact:
        if self.period is None and (self.delete_source is not None or self.ignore_delay):
            raise ValueError("delete_source and ignore_delay are for the days of a period")
        return self


class Expire(Words):
    older_than: Name | None = None
    retention_hours: float | None = Field(None, ge=0)
    keep_last: int | None = Field(None, ge=1)
    dry_run: bool = False


class Sql(Words):
    sql: Name
    as_of: Name | None = None
    limit: int | None = Field(None, ge=0)


class ChangesQuery(Words):
    since: Name
    until: Name | None = None
    columns: Name | None = Field(None, description="such as a,b: changes in others do not count")
    limit: int | None = Field(None, ge=0)


KeyValue = StrictInt | StrictStr
KeyWord = KeyValue | list[KeyValue]
"""A text as `--key` takes it, with commas between the values of several row keys; or a list of them."""
KeyEnd = KeyValue | list[KeyValue | None] | None
"""The same for an end of a range; '' or null is no end."""


class KeyWords(Words):
    """As `neve table get`: rows of these keys, and of ranges from a low end to below a high one."""

    keys: list[KeyWord] = Field([])
    ranges: list[tuple[KeyEnd, KeyEnd]] = Field([])
    exclude_low: bool = False
    include_high: bool = False

    @model_validator(mode="after")
    def _fits(self) -> KeyWords:
        if (self.exclude_low or self.include_high) and not self.ranges:
            raise ValueError("exclude_low and include_high are for ranges")
        return self


class RowsByKey(KeyWords):
    limit: int | None = Field(None, ge=0)


class Split(Words):
    """As `neve table split`; without a range, every one that is full."""

    range: int | None = None
    at: Name | None = Field(None, description="with a range: where; else at the median")
    dry_run: bool = False


class Declaration(Words):
    sql: Name = Field(description="CREATE DYNAMIC TABLE … AS SELECT …")


class Refresh(Words):
    """As `neve dynamic refresh`: every table unless some are named."""

    names: list[Name] = Field([])
    downstream: bool = False
    parallel: int | None = Field(None, ge=1)
    dry_run: bool = False


class AlterDynamic(Words):
    put: dict[str, str] = Field({}, alias="set")
    unset: list[Name] = Field([])


class CascadeQuery(Words):
    cascade: bool = False


class GraphQuery(Words):
    name: Name | None = None


class HistoryQuery(Words):
    failed: bool = False
    limit: int = Field(20, ge=1)


class StatusQuery(Words):
    late: bool = False


class ScheduleQuery(Words):
    at: datetime | None = None


class RunsQuery(Words):
    table: Name | None = None
    kind: Name | None = None
    state: RunState | None = None
    limit: int = Field(20, ge=1)
