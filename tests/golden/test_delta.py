"""Each delta/*.sql: a query, then its derivation as kept. `NEVE_UPDATE_GOLDEN=1 pytest tests/golden` writes it anew.

The file begins with the query; what follows the line `-- derived` is how it is applied, its rules, and the text for
Spark when tables a and b have both changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from neve.model.delta import Step
from neve.sql.columns import parse_columns
from neve.sql.delta import Analysis, Moments, analyse, derive, explain, full, stepwise

CASES = sorted(Path(__file__).with_name("delta").glob("*.sql"))
UPDATE = os.environ.get("NEVE_UPDATE_GOLDEN") == "1"  # read on import: a test's own environment holds no NEVE_*
SCHEMAS = {
    "a": parse_columns("k int not null, g string, x int, d double, m decimal(12,2), l array<int>"),
    "b": parse_columns("k int, y bigint"),
}
MARK = "-- derived\n"


def query_of(path: Path) -> str:
    return path.read_text().partition(MARK)[0].strip()


def analysed(path: Path) -> Analysis:
    return analyse(query_of(path), SCHEMAS)


def show(path: Path) -> Iterator[str]:
    analysis = analysed(path)
    for reason in analysis.reasons:
        yield f"-- {reason.code}: {reason}"
    yield from drawn(explain(analysis), "-- ")
    derived = derive(analysis, frozenset({"a", "b"})) if analysis.incremental else None
    if derived is not None:
        yield f"-- reads: {', '.join(read.relation for read in derived.reads)}"
        steps = stepwise(derived).steps
        yield f"-- kept: {', '.join(step.name for step in steps if step.kept) or 'nothing'}"
        yield f"-- few: {', '.join(step.name for step in steps if step.few)}"
        yield derived.sql


def drawn(step: Step, indent: str) -> Iterator[str]:
    yield f"{indent}{step.operator} [{step.rule}]"
    for item in step.inputs:
        yield from drawn(item, f"{indent}  ")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_changes_are_derived_as_kept(path: Path) -> None:
    text = f"{query_of(path)}\n{MARK}" + "\n".join(show(path)) + "\n"
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_it_reads_only_what_it_says(path: Path) -> None:
    """Read again by sqlglot, the text is one query over the promised relations, and gives the promised columns."""
    analysis = analysed(path)
    derived = derive(analysis, frozenset({"a", "b"})) if analysis.incremental else None
    if derived is None:
        return
    tree = sqlglot.parse_one(derived.sql, read="spark")
    assert isinstance(tree, exp.Select)
    steps = {cte.alias for cte in tree.find_all(exp.CTE)}
    assert {table.name for table in tree.find_all(exp.Table)} - steps == {read.relation for read in derived.reads}
    assert tree.named_selects == [*derived.columns, "_w"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_source_that_did_not_change_is_read_once(path: Path) -> None:
    """Terms of an unchanged source are dropped: its changes and its old contents are not read."""
    analysis = analysed(path)
    if not analysis.incremental:
        return
    for changed, still in (("a", "b"), ("b", "a")):
        derived = derive(analysis, frozenset({changed}))
        read = {} if derived is None else {r.relation for r in derived.reads}
        assert not {f"delta_{still}", f"old_{still}"} & set(read)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_places_are_told_where_stored_rows_are_read(path: Path) -> None:
    """One more column before the weight, read from the stored table and nowhere else."""
    analysis = analysed(path)
    derived = derive(analysis, frozenset({"a", "b"}), places=True) if analysis.incremental else None
    if derived is None:
        return
    assert (derived.place is not None) == (derived.apply.kind != "bag")
    assert {read.place for read in derived.reads if read.kind != "stored"} <= {None}
    if derived.place is not None:
        assert derived.tree.named_selects == [*derived.columns, derived.place, "_w"]
        assert [read.place for read in derived.reads if read.kind == "stored"] == [derived.place]
        assert derived.place not in derived.columns


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_was_understood_once_can_be_derived_from_again(path: Path) -> None:
    """A worker keeps it for its next refresh, which another part of the sources may have changed for."""

    def texts(analysis: Analysis, changed: frozenset[str]) -> list[str]:
        moments = Moments(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        found = [derive(analysis, changed, moments=moments, places=places) for places in (False, True)]
        return [full(analysis).sql, *("" if query is None else query.sql + repr(stepwise(query)) for query in found)]

    kept = analysed(path)
    if not kept.incremental:
        return
    every = [frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})]
    for changed in (*every, *reversed(every)):
        assert texts(kept, changed) == texts(analysed(path), changed)
