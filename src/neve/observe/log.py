"""Log lines: one event, as JSON for machines or as a line for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from pydantic import JsonValue

Level = Literal["info", "warning", "error"]
_MARKS: dict[Level, str] = {"info": " ", "warning": "!", "error": "✗"}
_HEAD = ("table", "action", "what")
_NOT_FOR_PEOPLE = ("worker", "job_id", "error_type", "detail", *_HEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. `fields` hold ids (worker, job_id, run_id), the table, and what there is to say."""

    at: datetime
    name: str
    level: Level = "info"
    fields: Mapping[str, JsonValue] = field(default_factory=dict)


def as_json(event: Event) -> str:
    """
    >>> as_json(Event(at=datetime(2026, 11, 16, tzinfo=UTC), name="job_started", fields={"table": "sales"}))
    '{"at": "2026-11-16T00:00:00+00:00", "level": "info", "event": "job_started", "table": "sales"}'
    """
    told = {key: value for key, value in event.fields.items() if value is not None}
    head = {"at": event.at.astimezone(UTC).isoformat(), "level": event.level, "event": event.name}
    return json.dumps(head | told, ensure_ascii=False)


def as_text(event: Event) -> str:
    """What a person wants to know of it; ids that only programs need are left out.

    >>> as_text(Event(at=datetime(2026, 11, 16, tzinfo=UTC), name="job_started", fields={"table": "sales", "slot": 1}))
    '00:00:00   job started: sales · slot 1'
    """
    told = {key: value for key, value in event.fields.items() if value is not None}
    head = " ".join(str(told[key]) for key in _HEAD if key in told)
    rest = [_said(key, value) for key, value in told.items() if key not in _NOT_FOR_PEOPLE]
    words = " · ".join(part for part in (head, str(told.get("detail", "")), *rest) if part)
    name = event.name.replace("_", " ") + (":" if words else "")
    return f"{event.at.astimezone(UTC):%H:%M:%S} {_MARKS[event.level]} {name} {words}".rstrip()


def _said(key: str, value: JsonValue) -> str:
    if key == "duration_ms" and isinstance(value, int):
        return f"{value / 1000:.1f} s"
    return f"{key.removesuffix('_id').replace('_', ' ')} {value}"
