"""Rows of Iceberg tables on Spark: how many a change touches, and the one statement that makes it.

Conditions and values stay Spark columns to the end; no text of a user is pasted into a statement. Metadata columns
(`_file`, `_pos`) may choose rows in a MERGE that only deletes: with others Spark wants values for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.classes import scala_seq
from neve.engine.errors import translated
from neve.engine.ingest import sorted_by
from neve.engine.row_input import ORDER, Input, broadcast_if_small, inside, same_key
from neve.engine.row_values import check_deterministic
from neve.model.layout import SortField
from neve.model.names import quote
from neve.sql.rows import delete_frame, update_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FILE, _POSITION, _ROW_ID = "_neve_file", "_neve_position", "_neve_row_id"
_COPIES, _STEP, _FIRST = "_neve_copies", "_neve_step", "_neve_first"
_PROPERTY = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    """A change that is counted and not yet made. `write` makes it, as one commit to a branch."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    nulls: tuple[str, ...] = ()
    statement: Callable[[str], None]

    def write(self, target: str) -> None:
        with translated():
            self.statement(target)

    @property
    def nothing(self) -> bool:
        return not (self.deleted or self.updated or self.inserted)


def label_commits(session: SparkSession, summary: Mapping[str, str]) -> None:
    """What this session commits from now on carries these words, except deletes that drop whole files."""
    for key, value in summary.items():
        session.conf.set(f"{_PROPERTY}{key}", value)


def count_rows(session: SparkSession, table: str) -> int:
    with translated():
        return session.table(table).count()


def plan_delete(session: SparkSession, table: str, condition: Column) -> TableWork:
    """The rows for which a condition is true."""
    with translated():
        doomed = session.table(table).where(condition)
        check_deterministic(doomed)

        def write(target: str) -> None:
            statement = _parsed(session, delete_frame(target))
            _run(session, statement.copy(statement.table(), _expression(session, condition)))

        return TableWork(deleted=doomed.count(), statement=write)


def plan_update(
    session: SparkSession, table: str, condition: Column, values: Mapping[str, Column], *, required: Sequence[str]
) -> TableWork:
    """New values in the rows for which a condition is true. `nulls` are required columns that one would make NULL."""
    from pyspark.sql import functions as f

    with translated():
        changed = session.table(table).where(condition)
        new = changed.select(*(value.alias(name) for name, value in values.items()))
        check_deterministic(new)
        # Every value is computed, so that one that fails does so before anything is staged.
        filled = [f.count(quote(name)) for name in values]
        total, *counts = new.agg(f.count(f.lit(1)), *filled).collect()[0]

        def write(target: str) -> None:
            statement = _parsed(session, update_frame(target, list(values)))
            parts = statement.assignments()
            assigned = [
                parts.apply(index).copy(parts.apply(index).key(), _expression(session, value))
                for index, value in enumerate(values.values())
            ]
            java: Any = session._jvm
            chosen = java.scala.Some(_expression(session, condition))
            _run(session, statement.copy(statement.table(), scala_seq(java, assigned), chosen))

        held = zip(values, counts, strict=True)
        nulls = tuple(name for name, count in held if name in required and count < total)
        return TableWork(updated=total, nulls=nulls, statement=write)


def plan_insert(new: DataFrame, *, rows: int) -> TableWork:
    """Rows that have a value for every column of the table."""
    return TableWork(inserted=rows, statement=lambda target: new.writeTo(target).append())


def plan_dedupe(
    session: SparkSession,
    table: str,
    keys: Sequence[str],
    *,
    keep: str,
    order_by: Sequence[SortField],
    lineage: bool,
    whole_files: bool,
) -> TableWork:
    """All but one row of each key: the first or last by an order, else in the order in which the rows came.

    Without row lineage (format 2) that is not known, and the order is that of file names and places. Where merges write
    `whole_files` anew (copy-on-write), Spark does not know the places of rows in them: all rows of a key that is there
    several times go, and one comes.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    with translated():
        every = session.table(table)
        names = every.columns if whole_files else dict.fromkeys([*keys, *(item.term.column for item in order_by)])
        rows = every.select(*map(quote, names), *_places(lineage))
        order = [*map(sorted_by, order_by), *(f.col(name).asc_nulls_first() for name in _place_names(lineage))]
        among = Window.partitionBy(*map(quote, keys))
        place, copies = f.row_number().over(among.orderBy(*order)), f.count(f.lit(1)).over(among)
        doomed = place != (f.lit(1) if keep == "first" else copies)
        judged = rows.withColumns({_STEP: doomed, _COPIES: copies})
        if whole_files:
            several = judged.where(f"{_COPIES} > 1").select(*map(quote, names), _STEP).localCheckpoint(eager=False)
            return _keep_one(several, every.columns, keys)
        losers = judged.where(_STEP).select(_FILE, _POSITION).localCheckpoint(eager=False)

        def write(target: str) -> None:
            there = (f.col("_file") == f.col(_FILE)) & (f.col("_pos") == f.col(_POSITION))
            losers.mergeInto(target, there).whenMatched().delete().merge()

        return TableWork(deleted=losers.count(), statement=write)


def _keep_one(several: DataFrame, names: Sequence[str], keys: Sequence[str]) -> TableWork:
    """All rows of these keys go, and those come that are not to go."""
    from pyspark.sql import functions as f

    kept = several.where(f"NOT {_STEP}").drop(_STEP)
    steps = [_step(kept.select(*map(quote, keys)), "delete", names), _step(kept, "insert", names)]

    def write(target: str) -> None:
        _merge(steps, target, names, keys=keys, update=(), bounds=f.lit(True))

    return TableWork(deleted=several.where(_STEP).count(), statement=write)


def plan_upsert(
    session: SparkSession,
    table: str,
    given: Input,
    keys: Sequence[str],
    update: Sequence[str],
    *,
    required: Sequence[str],
    lineage: bool,
) -> TableWork:
    """Rows with a known key get new values, others come. Of several rows with one key one stays, and the others go.

    `nulls` are required columns that would get NULL.
    """
    from pyspark.sql import functions as f

    with translated():
        schema = session.table(table).schema
        names = schema.names
        known = _known_rows(session, table, given, keys, lineage=lineage)
        copies = known.groupBy(ORDER).agg(f.count(f.lit(1)).alias(_COPIES)).localCheckpoint(eager=False)
        found, held, several = copies.agg(
            f.count(f.lit(1)), f.coalesce(f.sum(_COPIES), f.lit(0)), f.count_if(f.col(_COPIES) > 1)
        ).collect()[0]
        new = given.frame.join(copies.select(ORDER), ORDER, "left_anti")
        steps = [_step(given.frame.join(copies.where(f"{_COPIES} = 1"), ORDER, "left_semi"), "update", names)]
        if several:
            steps += _single_out(known, copies, given, names, update, lineage=lineage)
        steps.append(_step(new, "insert", names))
        inserted = given.rows - found
        written = set(given.frame.columns) if inserted else {*update}
        nulls = [name for name in required if name in written and name in given.nulls]
        nulls += [name for name in required if inserted and name not in given.frame.columns]

        def write(target: str) -> None:
            if found:
                _merge(steps, target, names, keys=keys, update=update, bounds=inside(given, keys))
            else:
                lacking = {name: f.lit(None).cast(schema[name].dataType) for name in names if name not in new.columns}
                new.withColumns(lacking).select(*map(quote, names)).writeTo(target).append()

        return TableWork(
            deleted=held - found,
            updated=found if update else 0,
            inserted=inserted,
            nulls=tuple(nulls),
            statement=write,
        )


def _known_rows(session: SparkSession, table: str, given: Input, keys: Sequence[str], *, lineage: bool) -> DataFrame:
    """The rows of the table that have a key of the input, with the number of the input row that has it."""
    from pyspark.sql import functions as f

    rows = session.table(table)
    old = rows.where(inside(given, keys)).select(
        *(f.col(quote(key)).alias(f"_neve_key_{i}") for i, key in enumerate(keys)),
        f.struct(*map(quote, rows.columns)).alias(_FIRST),
        *_places(lineage),
    )
    new = broadcast_if_small(given).select(
        ORDER, *(f.col(quote(key)).alias(f"_neve_new_{i}") for i, key in enumerate(keys))
    )
    same = same_key([f"_neve_key_{i}" for i in range(len(keys))], [f"_neve_new_{i}" for i in range(len(keys))])
    return old.join(new, same)


def _single_out(
    known: DataFrame, copies: DataFrame, given: Input, names: Sequence[str], update: Sequence[str], *, lineage: bool
) -> list[DataFrame]:
    """Keys that are there several times: all their rows go, and one comes, the first one with its new values."""
    from pyspark.sql import functions as f

    twice = copies.where(f"{_COPIES} > 1").select(ORDER)
    first = (
        known.join(twice, ORDER).groupBy(ORDER).agg(f.min_by(_FIRST, f.struct(*_place_names(lineage))).alias(_FIRST))
    )
    rows = given.frame.join(first, ORDER)
    merged = rows.select(
        *((f.col(quote(name)) if name in update else f.col(_FIRST)[name]).alias(name) for name in names)
    )
    return [_step(rows, "delete", names), _step(merged, "insert", names)]


def _step(rows: DataFrame, step: str, names: Sequence[str]) -> DataFrame:
    """Input rows as the merge wants them: what to do, and a value for each column of the table."""
    from pyspark.sql import functions as f

    values = [f.col(quote(name)) if name in rows.columns else f.lit(None) for name in names]
    return rows.select(f.lit(step).alias(_STEP), *(value.alias(_value(i)) for i, value in enumerate(values)))


def _merge(
    steps: Sequence[DataFrame],
    target: str,
    names: Sequence[str],
    *,
    keys: Sequence[str],
    update: Sequence[str],
    bounds: Column,
) -> None:
    from pyspark.sql import functions as f

    source, *others = steps
    for other in others:
        source = source.unionAll(other)
    step = f.col(_STEP)
    value = {name: f.col(_value(index)) for index, name in enumerate(names)}
    same = same_key(keys, [_value(names.index(key)) for key in keys]) & (step != "insert") & bounds
    merge = source.mergeInto(target, same).whenMatched(step == "delete").delete()
    if update:
        merge = merge.whenMatched(step == "update").update({quote(name): value[name] for name in update})
    merge.whenNotMatched(step == "insert").insert({quote(name): value[name] for name in names}).merge()


def _value(place: int) -> str:
    return f"_neve_value_{place}"


def _place_names(lineage: bool) -> list[str]:
    return [*([_ROW_ID] if lineage else []), _FILE, _POSITION]


def _places(lineage: bool) -> list[Column]:
    """Where a row lies, and with lineage when it came."""
    from pyspark.sql import functions as f

    own = {_ROW_ID: "_row_id", _FILE: "_file", _POSITION: "_pos"}
    return [f.col(own[name]).alias(name) for name in _place_names(lineage)]


# ------------------------------------------------------------------------------------------------- statements as trees


def _parsed(session: SparkSession, text: str) -> Any:
    return session._jsparkSession.sessionState().sqlParser().parsePlan(text)


def _expression(session: SparkSession, column: Column) -> Any:
    java: Any = session._jsparkSession
    return java.expression(column._jc)


def _run(session: SparkSession, statement: Any) -> None:
    java: Any = session._jvm
    java.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, statement)
