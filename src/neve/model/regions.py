"""What a read by key asks for: regions of the row keys."""

from __future__ import annotations

from dataclasses import dataclass

from neve.model.facts import Bound
from neve.model.ranges import shown_key
from neve.model.splits import Key, order


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The values of one row key: from `low` to `high`, each with or without itself; None where there is no end."""

    low: Key | None = None
    high: Key | None = None
    with_low: bool = True
    with_high: bool = False

    def __str__(self) -> str:
        opened, closed = "[" if self.with_low else "(", "]" if self.with_high else ")"
        return f"{opened}{shown_key(self.low)}, {shown_key(self.high)}{closed}"

    @property
    def empty(self) -> bool:
        """Whether no value can be inside."""
        if self.low is None or self.high is None:
            return False
        low, high = order(self.low), order(self.high)
        return low > high or (low == high and not (self.with_low and self.with_high))

    def meets(self, least: Bound, greatest: Bound) -> bool:
        """Whether a file whose values lie between these may have one of ours."""
        return not self.empty and self._starts_by(greatest) and self._ends_after(least)

    def _starts_by(self, greatest: Bound) -> bool:
        if self.low is None:
            return True
        ours, theirs = order(self.low), _order(greatest)
        return ours <= theirs if self.with_low else ours < theirs

    def _ends_after(self, least: Bound) -> bool:
        if self.high is None:
            return True
        ours, theirs = order(self.high), _order(least)
        return ours >= theirs if self.with_high else ours > theirs


Region = tuple[Side, ...]
"""A side for each row key: a row is inside when all its keys are."""


def _order(bound: Bound) -> tuple[int, bytes]:
    return order(bound if isinstance(bound, bytes) else int(bound))
