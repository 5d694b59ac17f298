"""Whether a table holds what the log says: rows counted per date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from neve.errors import InvalidInput
from neve.model.ingest import INGEST_DATE
from neve.model.names import TableName
from neve.model.results import DateCount
from neve.model.runs import IngestionRecord
from neve.services.context import Context
from neve.services.ledger import held_records, logged


def verify_table(context: Context, name: TableName) -> list[DateCount]:
    """One row per date that the table holds or the log names, in order."""
    from neve.engine.ingest import count_all_dates

    facts = context.catalog.facts(name)
    if not any(column.name == INGEST_DATE for column in facts.columns):
        raise InvalidInput(
            f"{name} has no ingest dates to verify", hint="it is for tables that are filled by neve table ingest"
        )
    return compare(context, name, count_all_dates(context.session.spark, name), held_records(context, facts))


def compare(
    context: Context,
    name: TableName,
    counted: Mapping[date | None, int],
    rows: Sequence[IngestionRecord] | None = None,
) -> list[DateCount]:
    """`rows` are the log of what the table holds, where loads can be undone."""
    expected = {row.date: row.rows_ingested for row in (logged(context, name) if rows is None else rows)}
    dates = sorted({*expected, *(day for day in counted if day is not None)})
    found = [_judge(day, expected, counted) for day in dates]
    if counted.get(None):
        found.append(DateCount(date=None, logged=None, counted=counted[None], state="not_logged"))
    return found


def _judge(day: date, logged: Mapping[date, int | None], counted: Mapping[date | None, int]) -> DateCount:
    """A log that was restored after a crash may not know a count; then there is nothing to compare."""
    expected, rows = logged.get(day), counted.get(day, 0)
    if day not in logged:
        return DateCount(date=day, logged=None, counted=rows, state="not_logged")
    if expected is None or rows == expected:
        return DateCount(date=day, logged=expected, counted=rows, state="ok")
    return DateCount(date=day, logged=expected, counted=rows, state="missing" if not rows else "differs")
