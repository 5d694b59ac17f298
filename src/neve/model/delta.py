"""What is known of a query before it runs: how each operator follows changes, and what forbids it."""

from __future__ import annotations

from neve.model.results import Answer, Reason


class QueryReason(Reason):
    """Why a query can only be computed in full: the construct, and where it stands in the text (from 1)."""

    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.detail if self.line is None else f"{self.detail} (line {self.line}, column {self.column})"


class Step(Answer):
    """One operator of a query, the rule by which its changes follow from those of its inputs, and why that rule."""

    operator: str
    rule: str
    detail: str
    inputs: tuple[Step, ...] = ()
