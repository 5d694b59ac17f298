"""What a change of a table's rows did."""

from __future__ import annotations

from neve.model.results import Receipt


class RowReceipt(Receipt):
    """A receipt with the rows that went, changed and came: the same figures for a dry run.

    `backup` is the tag of the rows before the change.
    """

    rows_before: int
    rows_after: int
    rows_deleted: int
    rows_updated: int
    rows_inserted: int
    backup: str | None = None
