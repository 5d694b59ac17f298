"""Records to rows and back. Times are UTC text that sorts as text; objects and lists are JSON text."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from neve.database import Row, Value
from neve.errors import StoreError
from neve.model.runs import Record

_JSON_COLUMNS = frozenset(
    {
        "plan",
        "result",
        "config",
        "source_files",
        "options",
        "estimates",
        "source_snapshots",
        "last_completed_dependency",
        "failed_at",
        "snapshots",
    }
)

RecordT = TypeVar("RecordT", bound=Record)


def to_text(moment: dt.datetime) -> str:
    """`2026-11-16T01:28:49.123456Z`: always UTC, always of one length. A time without a zone is refused."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def to_json(value: object) -> str:
    """JSON as people write it: unescaped Unicode, and no NaN, which no other reader would take."""
    return without_unstorable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def without_unstorable(text: str) -> str:
    """Foreign text, such as an error message, less what a database refuses: NUL and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def to_values(record: Record) -> tuple[Value, ...]:
    return tuple(_to_value(getattr(record, name)) for name in type(record).model_fields)


def to_record(record_type: type[RecordT], row: Row) -> RecordT:
    """
    Raises:
        StoreError: the row is damaged, or was written by hand.
    """
    try:
        return record_type.model_validate(
            {
                name: json.loads(value) if name in _JSON_COLUMNS and isinstance(value, str) else value
                for name, value in row.items()
            }
        )
    except ValueError as exc:
        which = f"{record_type.__name__} {next(iter(row.values()))}"
        raise StoreError(
            f"the state database has a row that cannot be understood, {which}: {str(exc).splitlines()[0]}",
            hint="mend the row, or bring the database back from a backup",
        ) from exc


def columns(record_type: type[Record]) -> str:
    return ", ".join(record_type.model_fields)


def insert(table: str, record_type: type[Record]) -> str:
    marks = ", ".join("?" for _ in record_type.model_fields)
    return f"INSERT INTO {table} ({columns(record_type)}) VALUES ({marks})"  # noqa: S608 - names of our own


def upsert(table: str, record_type: type[Record], *, key: str) -> str:
    changes = ", ".join(f"{name} = excluded.{name}" for name in record_type.model_fields if name != key)
    return f"{insert(table, record_type)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


def select(table: str, record_type: type[Record], rest: str = "") -> str:
    return f"SELECT {columns(record_type)} FROM {table} {rest}"  # noqa: S608 - names of our own


def _to_value(value: object) -> Value:
    match value:
        case None | str() | int():
            return value
        case dt.datetime():
            return to_text(value)
        case dt.date():
            return value.isoformat()
        case Mapping() | tuple():
            return to_json(value)
        case BaseModel():
            return to_json(value.model_dump(mode="json"))
        case _:
            raise TypeError(f"no column holds a {type(value).__name__}")
