"""What a route is: a verb, a path, who may, what it takes, and the call of the lake that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from neve.lake import Lake
from neve.model.keys import Role
from neve.model.queries import Words
from neve.model.rest import Nothing

Way = Literal["at once", "as a run", "as rows"]
"""Answered at once, with 202 and a run that goes on, or row by row."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in and read: its path's names, its query string and its body."""

    lake: Lake
    names: Mapping[str, str]
    query: Any
    body: Any
    upload: Path | None = None
    """The file that came as the body, where one did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    verb: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    role: Role
    summary: str
    do: Callable[[Call], Any]
    answer: type[BaseModel]
    many: bool = False
    body: type[Words] | None = None
    query: type[Words] = Nothing
    way: Way = "at once"
    example: Mapping[str, Any] | None = None

    def goes_on(self, body: Any) -> bool:
        """Whether it is long work; what only says what would be done is not."""
        return self.way == "as a run" and not getattr(body, "dry_run", False)
