"""The contract of dynamic tables, checked by Spark itself: stored rows are those of the query, as a bag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import SparkSession

from neve.lake import Lake
from neve.model.names import TableName

Difference = tuple[Counter[str], Counter[str]]
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# Few rows: what makes large queries fast makes small ones slow.
QUICK = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false", **INTERPRETED}


def differences(lake: Lake, spark: SparkSession, queries: Mapping[str, str]) -> dict[str, Difference]:
    """By table: rows of its query that are not stored, and stored rows that its query has not. One job for all."""
    sides = [side for name, query in queries.items() for side in _sides(lake, name, query)]
    found: dict[tuple[str, str], Counter[str]] = {}
    for name, side, row in spark.sql(" UNION ALL ".join(sides)).collect():
        found.setdefault((name, side), Counter())[row] += 1
    pairs = {n: (found.get((n, "query"), Counter()), found.get((n, "stored"), Counter())) for n in queries}
    return {name: (query - stored, stored - query) for name, (query, stored) in pairs.items() if query != stored}


def _sides(lake: Lake, name: str, query: str) -> list[str]:
    table = TableName.parse(name)
    columns = [c.name for c in lake._context.catalog.facts(table).columns if not c.name.startswith("_neve_")]
    row = f"to_json(struct({', '.join(f'`{c}`' for c in columns)}), map('ignoreNullFields', 'false'))"
    both = {"query": f"({query}) AS q", "stored": table.sql}
    return [f"SELECT '{name}', '{side}', {row} FROM {rows}" for side, rows in both.items()]
