"""Scheduled work: what the state database keeps of it, and what a worker tells."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime

from neve.model.results import Answer, Reason
from neve.model.runs import Record

OutcomeState = Literal["succeeded", "failed", "conflict", "cancelled", "lost"]


class Claim(Record):
    """The right to work on a table until `expires_at`. A later holder always has a greater `fence`."""

    table_uuid: str
    table_name: str
    action: str
    owner: str
    fence: int
    claimed_at: AwareDatetime
    expires_at: AwareDatetime


class SetbackRecord(Record):
    """A job of a table that failed `failures` times in a row, the last few of them at `failed_at`.

    It is left alone until `retry_at`; once `suspended_at` is set, until somebody resumes it.
    """

    table_uuid: str
    action: str
    table_name: str
    failures: int
    failed_at: tuple[str, ...]
    retry_at: AwareDatetime
    error_code: str
    error_message: str
    suspended_at: AwareDatetime | None = None


class WorkerRecord(Record):
    """A worker, and when it last gave a sign of life; `stopped_at` when it ended in order."""

    name: str
    host: str
    pid: int
    slots: int
    started_at: AwareDatetime
    seen_at: AwareDatetime
    stopped_at: AwareDatetime | None = None


class JobOutcome(Answer):
    """What became of a table in a job. `what` is what was done, such as the kind of refresh.

    conflict: somebody else was at it, and nothing was changed; cancelled: somebody ended its run, and nothing was
    changed; lost: this worker overslept its claim, and what it did is for whoever took over to find.
    """

    table: str
    action: str
    state: OutcomeState
    what: str | None = None
    reason: Reason | None = None
    run_id: str | None = None
    job_id: str
    worker: str
    due_at: datetime | None = None
    started_at: datetime
    duration_ms: int
