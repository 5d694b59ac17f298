"""The law that every rule obeys: stored rows + changes = the query over the new contents, as bags."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from neve.sql.delta import Analysis, DeltaQuery, Moments, Version, derive, full, stepwise

Bag = Counter[tuple[Any, ...]]
MOMENTS = Moments(datetime(2024, 1, 10, tzinfo=UTC), datetime(2024, 3, 10, tzinfo=UTC))  # a date lies between


_UNIONS = 16  # parts of a union, each as large as the changes at most


class Broken(AssertionError):
    """The law does not hold; carries what is needed to look into it."""


def normal(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, list):
        return tuple(map(normal, value))
    return value


def bag(con: duckdb.DuckDBPyConnection, sql: str) -> Bag:
    return Counter(tuple(map(normal, row)) for row in con.execute(sql).fetchall())


def to_duckdb(query: DeltaQuery, *, reread: bool = False) -> str:
    """The query for DuckDB; `reread`: by way of the Spark text, as whoever runs it will get it."""
    return _from_spark(query.sql) if reread else _spoken(query.tree)


def _from_spark(text: str) -> str:
    return _spoken(sqlglot.parse_one(text, read="spark"))


def _spoken(tree: exp.Expr) -> str:
    return _duckdb_text(tree).replace("RAISE_ERROR(", "error(").replace("TIMESTAMPTZ", "TIMESTAMP")


def _duckdb_text(tree: exp.Expr) -> str:
    """DuckDB's count_if over nothing is NULL; Spark's is 0."""
    if tree.find(exp.CountIf):
        tree = tree.copy()
    for call in list(tree.find_all(exp.CountIf)):
        call.replace(exp.Count(this=exp.case().when(call.this, exp.Literal.number(1))))
    return tree.sql("duckdb")


def as_written(analysis: Analysis, version: str) -> str:
    """The user's own query over one version of the tables, not rewritten by any rule."""
    tree = analysis.tree.copy()
    day = MOMENTS.old if version == "old" else MOMENTS.new
    for call in list(tree.find_all(exp.CurrentDate)):
        call.replace(exp.cast(exp.Literal.string(day.date().isoformat()), "date"))
    sources = {source.name.rsplit(".", 1)[-1] for source in analysis.sources}
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if table.name in sources - ctes:
            table.replace(exp.to_table(f"{version}_{table.name}", alias=table.alias_or_name))
    return _duckdb_text(tree)


def check(
    con: duckdb.DuckDBPyConnection, analysis: Analysis, changed: frozenset[str], *, thorough: bool = False
) -> int:
    """Holds the law to one query; the number of changed rows.

    `thorough`: the texts are read again as Spark SQL, and the full text is held to the query by itself.
    """
    visible = [index for index, column in enumerate(analysis.columns) if not column.hidden]
    before = to_duckdb(full(analysis, Version.OLD, moment=MOMENTS.old), reread=thorough)
    con.execute(f"CREATE OR REPLACE TEMP TABLE stored AS {before}")
    stored = bag(con, "SELECT * FROM stored")
    if thorough:
        written = bag(con, as_written(analysis, "old"))
        same(_seen(stored, visible), written, "the full text differs from the query", before)
    query = derive(analysis, changed, moments=MOMENTS)
    changes: Bag = Counter()
    text = "nothing"
    if query is not None:
        text = to_duckdb(query, reread=thorough)
        for *row, weight in con.execute(text).fetchall():
            key = tuple(map(normal, row))
            if key in changes or not weight:
                raise Broken(f"not net: {key} {weight}\n{text}")
            changes[key] = weight
    if query is not None and thorough:
        same(_stepwise(con, query), changes, "computed step by step the changes differ", text)
    after = _applied(stored, changes, text)
    same(_seen(after, visible), bag(con, as_written(analysis, "new")), "stored + changes differ from the query", text)
    if thorough or len(visible) < len(analysis.columns):
        expected = bag(con, to_duckdb(full(analysis, Version.NEW, moment=MOMENTS.new)))
        same(after, expected, "stored + changes differ from the full text", text)
    if query is not None:
        _check_keys(query, after, changes)
    return sum(map(abs, changes.values()))


def _stepwise(con: duckdb.DuckDBPyConnection, query: DeltaQuery) -> Bag:
    """The changes as Spark computes them, each step before the next; those said to be few are."""
    text = stepwise(query)
    changed = sum(_size(con, step.name) for step in text.steps if step.sql is None)
    for step in text.steps:
        if step.sql is not None:
            con.execute(f'CREATE OR REPLACE TEMP TABLE "{step.name}" AS {_from_spark(step.sql)}')
        if step.few and _size(con, step.name) > 1 + _UNIONS * changed:
            raise Broken(f"{step.name} is not few\n{step.sql}")
    return Counter({tuple(map(normal, row)): weight for *row, weight in con.execute(_from_spark(text.sql)).fetchall()})


def _size(con: duckdb.DuckDBPyConnection, relation: str) -> int:
    return int(con.execute(f'SELECT count(*) FROM "{relation}"').fetchall()[0][0])


def _applied(stored: Bag, changes: Bag, text: str) -> Bag:
    after = Counter(stored)
    for row, weight in changes.items():
        after[row] += weight
        if after[row] < 0:
            raise Broken(f"removes a row that is not there: {row}\n{text}")
    return +after


def _check_keys(query: DeltaQuery, after: Bag, changes: Bag) -> None:
    """Keyed tables hold one row per key, before and after."""
    if query.apply.kind != "keyed":
        return
    places = [query.columns.index(key) for key in query.apply.keys]
    for rows in (after, {row: 1 for row, weight in changes.items() if weight > 0}):
        keys = Counter(tuple(row[place] for place in places) for row, count in rows.items() for _ in range(count))
        if any(count > 1 for count in keys.values()):
            raise Broken(f"more than one row of a key\n{query.sql}")


def _seen(rows: Bag, places: list[int]) -> Bag:
    found: Bag = Counter()
    for row, count in rows.items():
        found[tuple(row[place] for place in places)] += count
    return found


def same(one: Bag, other: Bag, what: str, text: str) -> None:
    if one != other:
        raise Broken(f"{what}\n only here: {one - other}\n only there: {other - one}\n{text}")
