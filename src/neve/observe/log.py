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
_OWN_PLACE = ("table", "action", "detail")


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
    """
    >>> as_text(Event(at=datetime(2026, 11, 16, tzinfo=UTC), name="job_started", fields={"table": "sales", "slot": 1}))
    '00:00:00   job started sales · slot 1'
    """
    told = {key: value for key, value in event.fields.items() if value is not None}
    head = " ".join(str(told[key]) for key in _OWN_PLACE[:2] if key in told)
    rest = [f"{key.replace('_', ' ')} {value}" for key, value in told.items() if key not in _OWN_PLACE]
    words = " · ".join(part for part in (head, *rest, str(told.get("detail", ""))) if part)
    return f"{event.at.astimezone(UTC):%H:%M:%S} {_MARKS[event.level]} {event.name.replace('_', ' ')} {words}".rstrip()
