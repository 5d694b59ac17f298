"""Spark's, py4j's and Iceberg's errors → our tree, once, by error class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.errors import (
    AlreadyExists,
    ColumnNotFound,
    CommitConflict,
    CommitUnknown,
    FileGone,
    InvalidQuery,
    JobFailed,
    NamespaceNotFound,
    NeveError,
    SnapshotNotFound,
    TableNotFound,
    Unsupported,
)
from neve.plan.directories import OWN

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

_LOST = "org.apache.iceberg.exceptions.CommitFailedException"
_CONDITIONS: tuple[tuple[str, type[NeveError]], ...] = (
    ("TABLE_OR_VIEW_NOT_FOUND", TableNotFound),
    ("SCHEMA_NOT_FOUND", NamespaceNotFound),
    ("UNRESOLVED_COLUMN", ColumnNotFound),
    ("TABLE_OR_VIEW_ALREADY_EXISTS", AlreadyExists),
    ("SCHEMA_ALREADY_EXISTS", AlreadyExists),
    ("UNSUPPORTED_", Unsupported),
    ("NOT_SUPPORTED_", Unsupported),
)
_JAVA: tuple[tuple[str, type[NeveError]], ...] = (
    (_LOST, CommitConflict),
    ("org.apache.iceberg.exceptions.ValidationException", CommitConflict),
    ("org.apache.iceberg.exceptions.NoSuchTableException", TableNotFound),
    ("org.apache.iceberg.exceptions.NoSuchNamespaceException", NamespaceNotFound),
    ("org.apache.iceberg.exceptions.AlreadyExistsException", AlreadyExists),
)
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"
_GONE = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")
_PYTHON = "org.apache.spark.api.python.PythonException: Traceback"
_WORKER = re.compile(r"^\s*(?:[A-Za-z_.]+)(?:Error|Invalid|Exception): (.+)$", re.MULTILINE)
_SNAPSHOT = re.compile(
    r"Cannot find (?:a )?(?:matching )?snapshot|unknown snapshot id|snapshot.*older than", re.IGNORECASE
)
_CONDITION = re.compile(r"^\[(?P<name>[A-Z0-9_.]+)\]\s*")
_ADVICE = re.compile(r"\s+(?=(?:Use [`'\"]|Correct the value|Verify the|If necessary set|To tolerate))")
_BYPASS = re.compile(r"\s*If necessary set \"spark.sql.ansi.enabled\".*\Z")
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*[\w$]+(?::\s*(?P<message>\S.*))?$", re.MULTILINE)
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+\w+(?:Exception|Error)(?::\s*|\Z)")
_TAIL = re.compile(r"\s*(?:SQLSTATE: \w+|; line \d+ pos \d+|\(line \d+, pos \d+\)).*\Z|[.;\s]+\Z", re.DOTALL)
_SNAPSHOTS = "see the snapshots there are: neve table history TABLE"
_LOOK = "look whether it was made before you do it again: neve table history TABLE"
_WHOLE_STORY = "the whole story is in .neve/spark.log; --debug shows a trace"
_SUGGESTION = re.compile(r"Did you mean one of the following\? \[(?P<names>[^\]]*)\]")


@contextmanager
def translated() -> Iterator[None]:
    """What Spark raises inside leaves as one of our errors."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as exc:
        raise from_spark(exc) from exc
    except Py4JError as exc:
        raise from_java(str(exc)) from exc


def has_lost(exc: Py4JJavaError) -> bool:
    """Whether a commit surely did not happen, because the table was changed between its look and its swap."""
    return bool(exc.java_exception.getClass().getName() == _LOST)


def from_spark(exc: PySparkException) -> NeveError:
    """By Spark's error condition first, then by the Java class in its text; the rest is a failed job."""
    from pyspark.errors import AnalysisException, ParseException, PythonException

    text = str(exc)
    condition = exc.getCondition() or ""
    message, advice = _sentence(text)
    for prefix, kind in _CONDITIONS:
        if condition.startswith(prefix):
            return kind(_placed(text, message), hint=_suggestion(text))
    if isinstance(exc, PythonException) and (failed := _of_a_worker(text)):
        return failed
    if _SNAPSHOT.search(text):
        return SnapshotNotFound(message, hint=_SNAPSHOTS)
    if isinstance(exc, ParseException | AnalysisException):
        return InvalidQuery(_placed(text, message), hint=_suggestion(text) or advice)
    return from_java(text)


def from_java(text: str) -> NeveError:
    """By the Java class named in the text."""
    if _PYTHON in text and (of_a_worker := _of_a_worker(text)):
        return of_a_worker
    causes = [match["message"] for match in _CAUSE.finditer(text) if match["message"]]
    telling = causes[-1] if causes else text
    message, advice = _sentence(telling)
    if _UNKNOWN in text:  # its cause may be one of the others
        return CommitUnknown(_cause(text, _UNKNOWN), hint=_LOOK)
    if _SNAPSHOT.search(telling):
        return SnapshotNotFound(message, hint=_SNAPSHOTS)
    for name, kind in _JAVA:
        if name in text:
            return kind(_cause(text, name))
    known = _CONDITION.match(telling.strip()) is not None
    failed = FileGone if any(name in text for name in _GONE) else JobFailed
    return failed(f"Spark: {message}", hint=advice if known else _WHOLE_STORY)


def _of_a_worker(text: str) -> JobFailed | None:
    """What Python said last, in a task."""
    causes = _WORKER.findall(text)
    return JobFailed(f"a worker failed: {causes[-1]}", hint=_WHOLE_STORY) if causes else None


def _sentence(text: str) -> tuple[str, str | None]:
    """The first telling line without Spark's codes, and apart from it Spark's advice."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = next((line for line in lines if not line.startswith("An error occurred while calling")), "unknown error")
    telling = _CONDITION.sub("", _JAVA_CLASS.sub("", telling.removeprefix(": ")) or telling)
    told = _BYPASS.sub("", _TAIL.sub("", _SUGGESTION.sub("", telling)))
    message, *advice = _ADVICE.split(told, maxsplit=1)
    return message.rstrip(" .;:"), advice[0].rstrip(" .;:") if advice else None


def _placed(text: str, message: str) -> str:
    """The message behind the place in the SQL text that it is about, if that is known."""
    match = re.search(r"line (\d+),? pos (\d+)", text)
    return f"line {match[1]}, column {int(match[2]) + 1}: {message}" if match else message


def _cause(text: str, name: str) -> str:
    line = next((line for line in text.splitlines() if name in line), text.splitlines()[0])
    return line.split(name, 1)[-1].lstrip(": ").strip() or "the commit was refused"


def _suggestion(text: str) -> str | None:
    match = _SUGGESTION.search(text)
    names = [] if match is None else match["names"].replace("`", "").split(", ")
    theirs = [name for name in names if name and not name.startswith(OWN)]
    return f"did you mean {', '.join(theirs)}?" if theirs else None
