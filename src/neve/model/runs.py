"""What the state database remembers: runs, registered and trashed tables, leases, and the two logs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

FinalState = Literal["succeeded", "failed", "skipped", "upstream_failed", "cancelled"]
RunState = Literal["queued", "running"] | FinalState
TableFormat = Literal["iceberg", "parquet", "csv"]

REQUEST = "request"
"""The kind of a run that the service carries long work out in; what it does are runs of their own."""

JsonObject = Mapping[str, JsonValue]

RUN_ID_LENGTH = 26
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RunId = Annotated[str, Field(pattern=rf"^[0-7][{CROCKFORD}]{{{RUN_ID_LENGTH - 1}}}$")]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_RANDOM_BYTES = 10


def new_run_id(now: dt.datetime, entropy: Callable[[int], bytes]) -> str:
    """A ULID: 48 bits of milliseconds, then 80 random bits, so that ids sort by the time they were made.

    >>> new_run_id(dt.datetime(2026, 11, 16, 1, 28, 49, tzinfo=dt.UTC), bytes)
    '01M7GZH7380000000000000000'
    """
    milliseconds = (now - _EPOCH) // dt.timedelta(milliseconds=1)
    if not 0 <= milliseconds < 1 << 48:
        raise ValueError(f"no run id can carry the time {now.isoformat()}")
    value = milliseconds << 80 | int.from_bytes(entropy(_RANDOM_BYTES), "big")
    return "".join(CROCKFORD[value >> 5 * place & 31] for place in reversed(range(RUN_ID_LENGTH)))


def run_started(run_id: str) -> dt.datetime:
    """When a run id was made, to the millisecond.

    >>> run_started("01M7GZH7380000000000000000").isoformat()
    '2026-11-16T01:28:49+00:00'
    """
    return _EPOCH + dt.timedelta(milliseconds=_number(run_id) >> 80)


def run_uuid(run_id: str) -> str:
    """The same 128 bits as others write them.

    >>> run_uuid("01M7GZH7380000000000000000")
    '01a1e1f8-9c68-0000-0000-000000000000'
    """
    return str(UUID(int=_number(run_id)))


def _number(run_id: str) -> int:
    value = 0
    for letter in run_id:
        value = value << 5 | CROCKFORD.index(letter)
    return value


class Record(BaseModel):
    """A row of the state database; its fields are the columns, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Run(Record):
    """One operation from start to end. `undo` is the command that takes it back."""

    run_id: RunId
    kind: str
    table_name: str | None = None
    state: RunState = "running"
    plan: JsonObject | None = None
    result: JsonObject | None = None
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    started_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    host: str
    pid: int
    undo: str | None = None


class RegisteredTable(Record):
    """A table that Névé looks after. `table_name` is the name as users say it: `sales`, or `ns.sales`."""

    table_name: str
    config_path: str | None = None
    base_path: str
    created_at: AwareDatetime
    updated_at: AwareDatetime
    table_uuid: str
    format: TableFormat = "iceberg"
    config: JsonObject = Field(default_factory=dict)


class TrashedTable(Record):
    """A deleted table that can come back until `purge_after`."""

    table_uuid: str
    table_name: str
    metadata_location: str | None = None
    location: str
    deleted_at: AwareDatetime
    purge_after: AwareDatetime
    run_id: RunId | None = None


class Lease(Record):
    """The right to work on `name` until `expires_at`. A later holder always has a greater `fence`.

    `process` is what tells others on the same machine whether the holder still runs (services/processes.py).
    """

    name: str
    owner: str
    fence: int
    expires_at: AwareDatetime
    acquired_at: AwareDatetime
    process: str | None = None


class IngestionRecord(Record):
    """The last ingest of one date into one table."""

    id: int | None = None
    table_name: str
    date: dt.date
    source_file: str
    destination_file: str | None
    rows_ingested: int | None
    status: str
    error_message: str | None
    ingested_at: AwareDatetime
    content_hash: str | None
    run_id: RunId | None
    rows_rejected: int | None


class CompactionRecord(Record):
    """The last compaction of one period of one table."""

    id: int | None = None
    table_name: str
    period: str
    period_start: dt.date
    period_end: dt.date
    source_files: tuple[str, ...]
    output_file: str | None
    rows_processed: int | None
    compacted_at: AwareDatetime
    run_id: RunId | None


class OrphanScan(Record):
    """The last look for files of a table that nothing names: how many there were of that age and over."""

    table_uuid: str
    table_name: str
    scanned_at: AwareDatetime
    older_than_seconds: int
    files: int
    bytes: int
    run_id: RunId | None = None


class Reader(Record):
    """Somebody who reads these snapshots of a table just now, in a process that can be asked after.

    Without snapshots, it reads the table as it is at some time since it began.
    """

    reader_id: str
    table_uuid: str
    snapshots: tuple[int, ...]
    purpose: str
    started_at: AwareDatetime
    host: str
    pid: int
