"""A table's turn in a round: when its work began and ended, what it came after, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from neve.model.history import Dependency

Phase = Literal["queued", "compilation", "execution"]


@dataclass(slots=True, kw_only=True)
class Stopwatch:
    """Time that goes to one phase after another, waiting first, until it is stopped for good; in seconds.

    `since` is when it began to go to `phase`, which is None once it was stopped.
    """

    since: float
    tick: Callable[[], float] = time.monotonic
    phase: Phase | None = "queued"
    spent: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(get_args(Phase), 0.0))

    def enter(self, phase: Phase) -> None:
        """From now on time goes to this phase."""
        self._turn_to(phase)

    def stop(self) -> None:
        self._turn_to(None)

    def spent_ms(self, phase: Phase) -> int:
        return round(self.spent[phase] * 1000)

    def _turn_to(self, phase: Phase | None) -> None:
        if self.phase is None:
            return
        now = self.tick()
        self.spent[self.phase] += now - self.since
        self.since, self.phase = now, phase


@dataclass(slots=True, kw_only=True)
class Turn:
    """`after` is, of the dynamic tables that it reads, the one whose refresh had ended last before it could begin."""

    watch: Stopwatch
    started_at: datetime
    after: Dependency | None
    ended_at: datetime | None = None

    @property
    def ended(self) -> float:
        """When, by the clock that only counts, once it has."""
        return self.watch.since

    @property
    def worked_ms(self) -> int:
        """How long was worked on it, without what it waited."""
        return self.watch.spent_ms("compilation") + self.watch.spent_ms("execution")

    def end(self, now: datetime) -> None:
        self.watch.stop()
        self.ended_at = now
