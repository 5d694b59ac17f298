"""What a tenant may read of an error: what they did wrong, and nothing of others or of the machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
from neve.model.names import shown

_TOLD = (InvalidInput, NotFound, AlreadyExists, CommitConflict, Refused, JobFailed, TimedOut)
_UNTOLD = (ConfigError, LakeNotFound, DependentsExist)
"""These speak of files, or of tables that may be another's."""

_PATH = re.compile(r"(?<![\w/])(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^\s'\"`,;)\]]+")
_HIDDEN = "…"
_SHOWN = ("write.", "commit.", "history.", "comment")
_GENERAL = "the service could not do this"
_ASK = "its operator can find out why by the request's id"


def discreet(error: NeveError, tenant: str, *, hidden: Sequence[str] = ()) -> NeveError:
    """The same error for a tenant's ears; `hidden` are places of the machine.

    >>> discreet(NotFound("no file file:/data/lake/x.parquet"), "acme").message
    'no file …'
    """
    if isinstance(error, _UNTOLD) or not isinstance(error, _TOLD):
        told = type(error)(_GENERAL, hint=_ASK)
    elif isinstance(error, TableNotFound | NamespaceNotFound):
        # A view may name tables of others; and the nearest names are looked for among everybody's.
        own = f"{shown(tenant)}." in error.message
        told = type(error)(_masked(error.message, hidden) if own else "there is no such table")
    else:
        told = type(error)(
            _masked(error.message, hidden), hint=None if error.hint is None else _masked(error.hint, hidden)
        )
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


def _masked(text: str, hidden: Sequence[str]) -> str:
    for place in hidden:
        text = text.replace(place, _HIDDEN)
    return _PATH.sub(_HIDDEN, text)
