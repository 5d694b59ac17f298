"""Each cleaning/*.yaml against the SQL beside it. `NEVE_UPDATE_GOLDEN=1 pytest tests/golden` writes the SQL anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from neve.documents import load_document, parse_mapping
from neve.model.dataset import Dataset
from neve.model.types import Field
from neve.sql.cleaning import Cleaning, Validation, build_cleaning, build_validations
from neve.sql.columns import parse_type

CASES = sorted(Path(__file__).with_name("cleaning").glob("*.yaml"))
UPDATE = os.environ.get("NEVE_UPDATE_GOLDEN") == "1"  # read on import: a test's own environment holds no NEVE_*


def build(path: Path) -> tuple[Cleaning, tuple[Validation, ...]]:
    data: dict[str, Any] = load_document(path).data
    dataset = parse_mapping(data["dataset"], Dataset, where=path.name)
    source = [c if isinstance(c, str) else Field(c["name"], parse_type(c["type"])) for c in data["source_columns"]]
    cleaning = build_cleaning(dataset, source)
    return cleaning, build_validations(dataset, cleaning.columns)


def show(cleaning: Cleaning, validations: tuple[Validation, ...]) -> Iterator[str]:
    yield "-- columns"
    yield from (f"--   {f.name}: {f.type}{' not null' if f.required else ''}" for f in cleaning.columns)
    for title, items in [
        ("rules", cleaning.rules),
        ("order by", map(str, cleaning.order_by)),
        ("unused", cleaning.unused),
        ("missing", cleaning.missing),
    ]:
        yield f"-- {title}"
        yield from (f"--   {item!r}" for item in items)
    yield cleaning.select
    for check in validations:
        must = f"at most {check.limit}" if check.metric is None else f"{check.operator} {check.threshold!r}"
        yield f"-- {check.severity}: {must}"
        yield check.sql


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cleaning_is_written_as_kept(path: Path) -> None:
    text = "\n".join(show(*build(path))) + "\n"
    kept = path.with_suffix(".sql")
    if UPDATE:
        kept.write_text(text)
    assert text == kept.read_text()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_it_is_one_query_over_source_alone(path: Path) -> None:
    """Read again by sqlglot, the text is one SELECT of the promised columns: nothing got out of its quotes."""
    cleaning, validations = build(path)
    statements = sqlglot.parse(cleaning.select, read="spark")
    assert len(statements) == 1
    query = statements[0]
    assert isinstance(query, exp.Select)
    steps = {cte.alias for cte in query.find_all(exp.CTE)}
    assert {table.name for table in query.find_all(exp.Table)} - steps == {"source"}
    assert not list(query.find_all(exp.Join, exp.Where))
    names = [field.name for field in cleaning.columns]
    added = ["_source_file", "_source_line", "_ingest_date", "_neve_corrupt", "_neve_rejected", "_neve_raw"]
    assert query.named_selects == [*names, *added]
    for check in validations:
        (aliased,) = sqlglot.parse_one(f"SELECT {check.sql} FROM cleaned", read="spark").expressions
        assert aliased.alias == check.name
        assert aliased.find(exp.AggFunc, exp.Count)


def test_every_sql_file_has_its_case() -> None:
    folder = CASES[0].parent
    assert {path.stem for path in folder.glob("*.sql")} == {path.stem for path in CASES}
