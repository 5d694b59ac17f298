"""What the service says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from neve.model.results import Answer

PartState = Literal["ok", "starting", "failed", "off"]


class PartRow(Answer):
    """One part that the service stands on; `detail` says why it is not well."""

    part: str
    state: PartState
    detail: str | None = None


class ServiceHealth(Answer):
    """`live`: the process answers. `ready`: every part that is wanted is well, so that any request can be done."""

    live: bool
    ready: bool
    version: str
    parts: list[PartRow]

    def without_details(self) -> ServiceHealth:
        """For whoever need not know why."""
        parts = [part.model_copy(update={"detail": None}) for part in self.parts]
        return self.model_copy(update={"parts": parts})


class ServiceIdentity(Answer):
    """Which lake a service answers for, for whoever may see all of it."""

    lake: str
    version: str


class ServiceAddress(Answer):
    """Where the service of a lake listens: kept in the lake while it does."""

    url: str

    @staticmethod
    def file(root: Path) -> Path:
        return root / ".neve" / "service.json"
