"""Every error that Névé raises on purpose.

Each class fixes a machine `code`, the CLI's exit code and the HTTP status; each instance says what happened, and in
`hint` what to do about it.

    NeveError
    ├─ InvalidInput            2 · 422   what was asked makes no sense as written
    │  ├─ TooLarge             2 · 413   more than is taken at once
    │  ├─ ConfigError                    a setting or a configuration file
    │  ├─ InvalidName                    a table, namespace or column name
    │  ├─ InvalidSchema                  columns, types, partitioning, sort order
    │  └─ InvalidQuery                   SQL text, with line and column when known
    ├─ NotFound                3 · 404   nearest names in the hint
    │  ├─ LakeNotFound
    │  ├─ NamespaceNotFound
    │  ├─ TableNotFound
    │  ├─ ColumnNotFound
    │  ├─ SnapshotNotFound
    │  └─ RunNotFound
    ├─ Conflict                4 · 409   somebody else was first
    │  ├─ AlreadyExists
    │  ├─ StalePlan
    │  ├─ LeaseHeld
    │  └─ CommitConflict
    ├─ CheckFailed             5 · 409   a check that was asked for found something
    ├─ Refused                 6 · 412   possible, but not like this
    │  ├─ NeedsConfirmation
    │  ├─ NeedsWrite
    │  ├─ DependentsExist
    │  ├─ NotEmpty
    │  ├─ Unsupported
    │  ├─ Unauthorized         6 · 401   the service does not know who asks
    │  ├─ Forbidden            6 · 403   it knows, and they may not
    │  └─ TooManyRequests      6 · 429   they asked too often
    ├─ EngineError             1 · 502   Spark
    │  ├─ SparkUnavailable
    │  ├─ JobFailed
    │  │  └─ FileGone                    a file that it was to read is not there
    │  └─ TimedOut             1 · 504   it took longer than it was given
    ├─ Cancelled               1 · 409   somebody ended the run
    ├─ RefreshFailed           1 · 500   tables of a round of refreshes failed
    ├─ WorkFailed              1 · 500   scheduled work failed
    ├─ Unreachable             1 · 503   a service elsewhere does not answer
    ├─ StorageError            1 · 503   the catalog or the warehouse cannot be read or written
    │  └─ CommitUnknown                  the catalog did not say whether it made a commit
    └─ StoreError              1 · 503   the state database
       └─ SchemaTooNew
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NeveError(Exception):
    """Root of the tree: a sentence for people, a code for programs, and a hint on how to go on.

    `run_id` is the run that it ended, where there was one.
    """

    code = "error"
    exit_code = 1
    http_status = 500
    run_id: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def problem(self) -> dict[str, str]:
        """The error as the JSON object that the CLI (`-o json`) and HTTP both answer with."""
        problem = {"code": self.code, "message": self.message}
        return problem if self.hint is None else {**problem, "hint": self.hint}


class InvalidInput(NeveError):
    code = "invalid_input"
    exit_code = 2
    http_status = 422


class TooLarge(InvalidInput):
    code = "too_large"
    http_status = 413


class ConfigError(InvalidInput):
    code = "config"


class InvalidName(InvalidInput):
    code = "invalid_name"


class InvalidSchema(InvalidInput):
    code = "invalid_schema"


class InvalidQuery(InvalidInput):
    code = "invalid_query"


class NotFound(NeveError):
    code = "not_found"
    exit_code = 3
    http_status = 404


class LakeNotFound(NotFound):
    code = "lake_not_found"


class NamespaceNotFound(NotFound):
    code = "namespace_not_found"


class TableNotFound(NotFound):
    code = "table_not_found"


class ColumnNotFound(NotFound):
    code = "column_not_found"


class SnapshotNotFound(NotFound):
    code = "snapshot_not_found"


class RunNotFound(NotFound):
    code = "run_not_found"


class Conflict(NeveError):
    code = "conflict"
    exit_code = 4
    http_status = 409


class AlreadyExists(Conflict):
    code = "already_exists"


class StalePlan(Conflict):
    code = "stale_plan"


class LeaseHeld(Conflict):
    code = "lease_held"


class CommitConflict(Conflict):
    code = "commit_conflict"


class CheckFailed(NeveError):
    code = "check_failed"
    exit_code = 5
    http_status = 409


class Refused(NeveError):
    code = "refused"
    exit_code = 6
    http_status = 412


class NeedsConfirmation(Refused):
    code = "needs_confirmation"


class NeedsWrite(Refused):
    code = "needs_write"


class DependentsExist(Refused):
    code = "dependents_exist"


class NotEmpty(Refused):
    code = "not_empty"


class Unsupported(Refused):
    code = "unsupported"


class Unauthorized(Refused):
    code = "unauthorized"
    http_status = 401


class Forbidden(Refused):
    code = "forbidden"
    http_status = 403


class TooManyRequests(Refused):
    """`retry_after` is in seconds."""

    code = "too_many_requests"
    http_status = 429

    def __init__(self, message: str, *, hint: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class EngineError(NeveError):
    code = "engine"
    http_status = 502


class SparkUnavailable(EngineError):
    code = "spark_unavailable"


class JobFailed(EngineError):
    code = "job_failed"


class FileGone(JobFailed):
    code = "file_gone"


class TimedOut(EngineError):
    code = "timed_out"
    http_status = 504


class Cancelled(NeveError):
    code = "cancelled"
    http_status = 409


class RefreshFailed(NeveError):
    code = "refresh_failed"


class WorkFailed(NeveError):
    code = "work_failed"


class Unreachable(NeveError):
    code = "unreachable"
    http_status = 503


class StorageError(NeveError):
    code = "storage"
    http_status = 503


class CommitUnknown(StorageError):
    """Perhaps the commit was made: files that it would name stay."""

    code = "commit_unknown"


class StoreError(NeveError):
    code = "store"
    http_status = 503


class SchemaTooNew(StoreError):
    code = "schema_too_new"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest known spellings, or None when nothing is close.

    >>> nearest("salse", ["sales", "orders"])
    'did you mean sales?'
    """
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    return f"did you mean {', '.join(folded[match] for match in close)}?" if close else None
