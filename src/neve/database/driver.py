"""What a database must offer the store. SQL is written once, with `?` for values and types both kinds know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Value = str | int | None
Row = Mapping[str, object]

BUSY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows a statement returned, and how many it changed."""

    rows: Sequence[Row]
    changed: int


class Driver(Protocol):
    """One connection in autocommit mode. Whatever the database raises leaves as an error of `neve.errors`."""

    begin: str
    identity: str
    skip_locked: str

    @property
    def label(self) -> str:
        """The database as messages name it: never with a password."""

    @property
    def connected(self) -> bool: ...

    def connect(self) -> None: ...

    def close(self) -> None: ...

    def execute(self, sql: str, values: Sequence[Value]) -> Answer: ...

    def has_table(self, name: str) -> bool: ...

    def lock_schema(self) -> None:
        """Within a transaction: keep every other migration out until it ends."""
