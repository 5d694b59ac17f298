"""Rows by their keys, in the order of the keys: only files that may hold them are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from neve.errors import InvalidInput
from neve.model.facts import TableFacts
from neve.model.ingest import is_hidden
from neve.model.names import TableName
from neve.model.range_rows import RangeRead
from neve.model.regions import Region
from neve.model.rest import KeyWords
from neve.model.splits import Key
from neve.plan.range_reads import between_region, exact_region, plan_read, read_values
from neve.plan.ranges import Keys, need_keys, place_files
from neve.services.context import Context
from neve.sql.merging import merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Values = Key | Sequence[Key | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Keys and ranges of keys that somebody asks for; values are of the row keys, the first ones at least."""

    exact: Sequence[Values] = ()
    between: Sequence[tuple[Values, Values]] = ()
    with_low: bool = True
    with_high: bool = False

    def regions(self, keys: Keys) -> list[Region]:
        """Raises InvalidInput when nothing is asked for, or with values that the row keys cannot have."""
        found = [exact_region(keys, _known(values)) for values in self.exact]
        found += [
            between_region(keys, _listed(low), _listed(high), with_low=self.with_low, with_high=self.with_high)
            for low, high in self.between
        ]
        if not found:
            raise InvalidInput("which keys?", hint=f"give --key or --range; the keys are {', '.join(keys.row_keys)}")
        return found


def asked_in_words(words: KeyWords) -> Callable[[Keys], Asked]:
    """What a command line or a request asks for, once the row keys are known."""

    def read(known: Keys) -> Asked:
        return Asked(
            exact=[read_values(known, word) for word in words.keys],
            between=[
                (read_values(known, low, ends=True), read_values(known, high, ends=True)) for low, high in words.ranges
            ],
            with_low=not words.exclude_low,
            with_high=words.include_high,
        )

    return read


def explain_read(context: Context, name: TableName, asked: Callable[[Keys], Asked]) -> RangeRead:
    """What a read would open: from metadata alone."""
    files = context.catalog.table_files(name)
    keys = need_keys(files.facts)
    return plan_read(name, place_files(files, keys), asked(keys).regions(keys))


def read_keys(context: Context, name: TableName, asked: Callable[[Keys], Asked]) -> DataFrame:
    """The rows that were asked for, in the order of the row keys and sort keys."""
    from neve.engine.ranges import rows_of
    from neve.engine.session import fresh_session
    from neve.sql.ranges import inside

    facts = context.catalog.facts(name)
    keys = need_keys(facts)
    condition = inside(asked(keys).regions(keys), keys.row_keys)
    query = current_rows(facts, keys, now=context.clock(), condition=condition)
    shown = [column.name for column in facts.columns if not is_hidden(column.name)]
    return rows_of(fresh_session(context.session.spark), query, order=keys.order, columns=shown)


def current_rows(facts: TableFacts, keys: Keys, *, now: datetime, condition: str = "true") -> str:
    """The rows of a table as its filters and aggregations make them, where a condition on its row keys holds."""
    from neve.sql.ranges import select_where

    rows = select_where(facts.name.sql, condition)
    if keys.merging is None:
        return rows
    shown = [column for column in facts.columns if not is_hidden(column.name)]
    return merged(f"({rows})", keys.merging, shown, keys.order, now=now)


def _listed(values: Values) -> Sequence[Key | None]:
    return [values] if values is None or isinstance(values, int | str | bytes) else values


def _known(values: Values) -> list[Key]:
    known = [value for value in _listed(values) if value is not None]
    if len(known) < len(_listed(values)):
        raise InvalidInput("a key has no value, and no row is without its keys", hint="leave out the last ones only")
    return known
