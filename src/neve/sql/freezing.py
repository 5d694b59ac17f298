"""IMMUTABLE WHERE: which rows of a dynamic table are frozen once they are there. Only what is TRUE freezes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from sqlglot import exp

from neve.errors import InvalidQuery, NeveError, Refused
from neve.model.types import Field
from neve.sql.delta import Analysis, analyse
from neve.sql.delta.analysis import parse_query

_TABLE = "_neve_rows"
_PLACE = re.compile(r" \(line \d+, column \d+\)")


def check_predicate(predicate: str, columns: Sequence[Field], result: Analysis) -> None:
    """Refuses what could freeze a part of a row's change.

    A row that is found by its key must be frozen or not by that key alone: otherwise its next version could be free
    while the stored one is not. And a column that two evaluations may give differently cannot say what is frozen.

    Raises:
        InvalidQuery, ColumnNotFound: it is no condition over the table's columns.
        Refused: it may change by itself, or speaks of columns that do not tell which row is meant.
    """
    asked = f"SELECT * FROM {_TABLE} WHERE (\n{predicate}\n)"  # noqa: S608 - read, never run
    try:
        tree = parse_query(asked)
        found = analyse(asked, {_TABLE: tuple(columns)})
    except NeveError as exc:
        raise type(exc)(f"IMMUTABLE WHERE: {_PLACE.sub('', exc.message)}", hint=exc.hint) from exc
    condition = tree.args.get("where")
    says_more = any(value for key, value in tree.args.items() if key not in ("expressions", "from_", "where"))
    if condition is None or not isinstance(condition.this, exp.Paren) or says_more:
        raise InvalidQuery("IMMUTABLE WHERE: one condition is needed, nothing else")
    if condition.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        raise InvalidQuery("IMMUTABLE WHERE: a condition over one row is needed, without subqueries and aggregates")
    if found.reasons or found.timed:
        said = found.reasons[0].detail if found.reasons else "it compares with the present moment"
        raise Refused(f"IMMUTABLE WHERE: {said}", hint="use a condition that never changes for a row")
    _refuse_other_columns({column.name for column in condition.find_all(exp.Column)}, result)


def thawed(predicate: str) -> str:
    """The condition of rows that are not frozen."""
    return f"NOT coalesce((\n{predicate}\n), false)"


def _refuse_other_columns(used: Collection[str], result: Analysis) -> None:
    if result.shape is None or not result.incremental:
        return
    shape = result.shape
    keyed = shape.apply.kind == "keyed"
    sure = shape.apply.keys if keyed else tuple(name for name, column in shape.fields if column.exact)
    if other := sorted({name.lower() for name in used} - {name.lower() for name in sure}):
        known = ", ".join(name for name in sure if not name.startswith("_neve_")) or "none"
        why = "rows are found by others" if keyed else "two evaluations may give it differently"
        raise Refused(
            f"IMMUTABLE WHERE: {', '.join(other)} cannot say which rows are frozen: {why}",
            hint=f"columns that can: {known}",
        )
