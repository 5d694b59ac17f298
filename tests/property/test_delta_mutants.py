"""The search must be able to fail: each wrong rule that the literature knows is put in, and found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from sqlglot import exp
from tests.property.oracle import check
from tests.property.test_delta_fuzz import QUERIES, cases

from neve.sql.delta import analyse, touch
from neve.sql.delta import merge as merging
from neve.sql.delta.binding import selects, subqueries
from neve.sql.delta.columns import column, relation, wrapped
from neve.sql.delta.operators import Keys, Version
from neve.sql.delta.rules import joins, rows
from neve.sql.delta.script import Script
from neve.sql.delta.selects import weighed

MOST = 3000
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET threads = 1")
        yield opened


def both_new(patch: pytest.MonkeyPatch) -> None:
    """ΔA⋈B_new + A_new⋈ΔB: rows new on both sides count twice."""
    right = touch.matched
    patch.setattr(
        joins, "matched", lambda script, op, _, equal, changes: right(script, op, Version.NEW, equal, changes)
    )


def plain_not_in(patch: pytest.MonkeyPatch) -> None:
    """NOT IN as one anti-join: NULLs are forgotten."""
    right = subqueries.not_in
    patch.setattr(selects, "not_in", lambda *args: right(*args)[:1])


def keys_by_equality(patch: pytest.MonkeyPatch) -> None:
    """Touched keys found with = instead of <=>: the NULL group is never touched."""

    def condition(self: Keys) -> exp.Expr:
        same = [exp.EQ(this=column(key), expression=wrapped(e)) for e, key in self.pairs]
        one = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=relation(self.relation)))
        one.set("where", exp.Where(this=exp.and_(*same)))
        return exp.Exists(this=one)

    patch.setattr(Keys, "condition", property(condition))


def padded_by_old(patch: pytest.MonkeyPatch) -> None:
    """Changed rows judged by the old other side."""
    right = touch.matched
    patch.setattr(
        touch, "matched", lambda script, op, _, equal, changes: right(script, op, Version.OLD, equal, changes)
    )


def extremum_kept(patch: pytest.MonkeyPatch) -> None:
    """MIN and MAX merged although the extremum went away."""
    patch.setattr(merging.Merge, "_again", lambda _: None)


def sum_of_nothing(patch: pytest.MonkeyPatch) -> None:
    """A sum over NULLs alone as 0 instead of NULL."""
    right = merging.Merge._new
    patch.setattr(merging.Merge, "_new", lambda s, part: s._sum_of(part) if part.kind == "sum" else right(s, part))


def count_of_nothing(patch: pytest.MonkeyPatch) -> None:
    """A correlated COUNT without rows as NULL instead of 0."""
    right = selects.SelectBinder._single
    patch.setattr(selects.SelectBinder, "_single", lambda s, columns: (right(s, columns)[0], None))


def added_only(patch: pytest.MonkeyPatch) -> None:
    """Affected scope without what goes away."""

    def recompute(self: Script, operator: Any, keys: Any) -> exp.Query:
        return weighed(self.rows(operator, Version.NEW, keys), 1)

    patch.setattr(Script, "recompute", recompute)


def time_stands_still(patch: pytest.MonkeyPatch) -> None:
    """Rows that stay are not looked at again when time goes on."""
    patch.setattr(rows.Filter, "_passing", lambda *_: [])


@pytest.mark.parametrize(
    ("mutant", "constructs"),
    [
        (both_new, {"inner join", "self join"}),
        (plain_not_in, {"NOT IN"}),
        (keys_by_equality, {"GROUP BY", "window"}),
        (padded_by_old, {"left join", "full join"}),
        (extremum_kept, {"MIN", "MAX"}),
        (sum_of_nothing, {"SUM int", "SUM decimal"}),
        (count_of_nothing, {"correlated scalar subquery"}),
        (added_only, {"DISTINCT", "window"}),
        (time_stands_still, {"present moment"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_rule_is_found(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, mutant: Patch, constructs: set[str]
) -> None:
    mutant(monkeypatch)
    for seed in range(MOST // QUERIES):
        for number, (contents, query, used) in enumerate(cases(seed)):
            if number == 0:
                contents.create(con)
            if constructs.isdisjoint(used):
                continue
            try:
                analysis = analyse(query, contents.schemas)
                if analysis.incremental:
                    check(con, analysis, contents.changed)
            except (AssertionError, TypeError, duckdb.Error):
                return
    pytest.fail(f"{mutant.__name__} was not found in {MOST} cases")
