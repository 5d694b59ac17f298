"""Statements about the rows of some ingest dates. `table` is a name as SQL has it, quoted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from neve.model.ingest import INGEST_DATE


def delete_dates(table: str, dates: Sequence[date]) -> str:
    """
    >>> delete_dates("t", [date(2024, 1, 1)])
    "DELETE FROM t WHERE _ingest_date IN (DATE'2024-01-01')"
    """
    return f"DELETE FROM {table} WHERE {_any_of(dates)}"  # noqa: S608 - names are quoted


def select_dates(table: str, dates: Sequence[date], expressions: Sequence[str]) -> str:
    """Expressions over the rows of the dates."""
    return f"SELECT {', '.join(expressions)} FROM {table} WHERE {_any_of(dates)}"  # noqa: S608 - names are quoted


def _any_of(dates: Sequence[date]) -> str:
    return f"{INGEST_DATE} IN ({', '.join(f'DATE{day.isoformat()!r}' for day in dates)})"
