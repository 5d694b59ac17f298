"""Random queries over random tables: stored rows + derived changes = the query over the new contents, as a bag.

`make fuzz N=…` searches further. A case that fails is written to .reports/fuzz; put it into `regressions/` to keep it.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.property.contents import Contents, random_contents
from tests.property.oracle import check
from tests.property.queries import QueryMaker

from neve.sql.delta import analyse

CASES = int(os.environ.get("NEVE_FUZZ") or 3000)  # read on import: a test's own environment holds no NEVE_*
BATCH, QUERIES = 100, 10
REGRESSIONS = sorted(Path(__file__).with_name("regressions").glob("*.json"))
FAILED = Path(".reports") / "fuzz"
CONSTRUCTS = {
    "filter", "project", "CASE", "OR", "inner join", "cross join", "left join", "right join", "full join", "self join",
    "semi join", "anti join", "three-way join", "equi join", "equi join with more", "non-equi join", "null-safe join",
    "EXISTS", "NOT EXISTS", "IN", "NOT IN", "correlated IN", "scalar subquery", "correlated scalar subquery",
    "subquery under OR", "subquery in SELECT", "GROUP BY", "GROUP BY expression", "global aggregate", "HAVING",
    "key not selected", "expression of aggregates", "COUNT(*)", "COUNT", "COUNT DISTINCT", "COUNT_IF", "SUM int",
    "SUM double", "SUM decimal", "SUM DISTINCT", "SUM of an expression", "AVG", "MIN", "MAX", "MEDIAN", "BOOL_AND",
    "collect_list", "FILTER", "GROUPING SETS", "ROLLUP", "CUBE", "DISTINCT", "UNION ALL", "UNION", "INTERSECT",
    "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "window", "RANK", "ROW_NUMBER", "COUNT OVER", "SUM OVER RANGE",
    "SUM OVER ROWS", "LAG", "two partitionings", "QUALIFY", "explode", "LIMIT", "CTE", "CTE used twice", "values",
    "present moment", "alias used again",
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET threads = 1")
        yield opened


def cases(seed: int) -> Iterator[tuple[Contents, str, Counter[str]]]:
    rng = random.Random(seed)
    contents = random_contents(rng)
    for _ in range(QUERIES):
        maker = QueryMaker(rng, contents.tables)
        yield contents, maker.query(), maker.used


@pytest.mark.parametrize("batch", range(max(1, CASES // BATCH)))
def test_stored_rows_and_changes_give_the_new_result(con: duckdb.DuckDBPyConnection, batch: int) -> None:
    followed = moved = 0
    for seed in range(batch * BATCH // QUERIES, (batch + 1) * BATCH // QUERIES):
        for number, (contents, query, _) in enumerate(cases(seed)):
            if number == 0:
                contents.create(con)
            analysis = analyse(query, contents.schemas)
            if not analysis.incremental:
                continue
            followed += 1
            try:
                moved += check(con, analysis, contents.changed, thorough=number == 0) > 0
            except (AssertionError, duckdb.Error) as exc:
                pytest.fail(
                    f"seed {seed}, query {number}, kept as {keep(seed, number, contents, query)}\n{query}\n{exc}"
                )
    assert followed >= BATCH * 0.9
    assert moved >= BATCH * 0.3


def keep(seed: int, number: int, contents: Contents, query: str) -> Path:
    """Writes a failed case where it can be looked into, and taken over as a regression."""
    FAILED.mkdir(parents=True, exist_ok=True)
    path = FAILED / f"seed_{seed}_{number}.json"
    path.write_text(json.dumps({"query": query, "tables": contents.to_json()}, indent=1))
    return path


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_failed_once_holds(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    case = json.loads(path.read_text())
    contents = Contents.from_json(case["tables"])
    contents.create(con)
    analysis = analyse(case["query"], contents.schemas)
    assert analysis.incremental
    check(con, analysis, contents.changed, thorough=True)


def test_every_construct_is_tried() -> None:
    """A generator that leaves out a construct proves nothing about it."""
    used: Counter[str] = Counter()
    for seed in range(300):
        for _, _, constructs in cases(seed):
            used.update(set(constructs))
    assert {construct: used[construct] for construct in CONSTRUCTS if used[construct] < 20} == {}
    assert set(used) - {"table"} <= CONSTRUCTS
