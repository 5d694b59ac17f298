"""What a tenant may read of an error: what they did wrong, and nothing of others or of the machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from neve.errors import (
    AlreadyExists,
    CommitConflict,
    ConfigError,
    DependentsExist,
    InvalidInput,
    JobFailed,
    LakeNotFound,
    NamespaceNotFound,
    NeveError,
    NotFound,
    Refused,
    TableNotFound,
    TimedOut,
)

_TOLD = (InvalidInput, NotFound, AlreadyExists, CommitConflict, Refused, JobFailed, TimedOut)
_UNTOLD = (ConfigError, LakeNotFound, DependentsExist)
"""These speak of files, or of tables that may be another's."""

_PATH = re.compile(r"(?<![\w/])(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^\s'\"`,;)\]]+")
_HIDDEN = "…"
_SHOWN = ("write.", "commit.", "history.", "comment")
_GENERAL = "the service could not do this"
_ASK = "its operator can find out why by the request's id"


def discreet(error: NeveError) -> NeveError:
    """The same error for a tenant's ears.

    >>> discreet(NotFound("no file file:/data/lake/x.parquet")).message
    'no file …'
    """
    if isinstance(error, _UNTOLD) or not isinstance(error, _TOLD):
        told = type(error)(_GENERAL, hint=_ASK)
    else:
        # The nearest names are looked for among everybody's.
        unsafe = isinstance(error, TableNotFound | NamespaceNotFound) or error.hint is None
        told = type(error)(_masked(error.message), hint=None if unsafe else _masked(error.hint or ""))
    told.run_id = error.run_id
    return told


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of Iceberg that say how a table is written; none that names a folder, or tables that it is made from.

    >>> shown_properties({"write.delete.mode": "merge-on-read", "write.data.path": "/x", "neve.sources": "a"})
    {'write.delete.mode': 'merge-on-read'}
    """
    return {
        key: value
        for key, value in properties.items()
        if key.startswith(_SHOWN) and not key.endswith("path") and _PATH.search(value) is None
    }


def unknown_failure() -> str:
    """What is said of a failure that nobody foresaw."""
    return f"{_GENERAL}; {_ASK}"


def _masked(text: str) -> str:
    return _PATH.sub(_HIDDEN, text)
