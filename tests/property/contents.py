"""Random tables in DuckDB: old and new contents with NULLs and duplicates, and the net changes between them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from neve.model.types import Field
from neve.sql.columns import parse_columns

Row = tuple[Any, ...]
KINDS: dict[str, list[Any]] = {
    "int": [0, 1, 2, 3],
    "bigint": [0, 1, 5_000_000_000],
    "double": [0.5, 1.0, 2.5, float("nan")],
    "decimal(10,2)": ["0.50", "1.25", "2.00"],
    "string": ["a", "b", "B", ""],
    "date": ["2024-01-01", "2024-02-29"],
    "boolean": [True, False],
    "array<int>": [[], [1], [1, 2], [2, 2]],
}
COLUMNS = {"k": "int", "g": "string", "x": "int", "y": "bigint", "d": "double", "m": "decimal(10,2)", "t": "date"}
MORE = {"b": "boolean", "l": "array<int>"}
_DUCK = {"array<int>": "int[]", "string": "varchar"}


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def schema(self) -> tuple[Field, ...]:
        return parse_columns(", ".join(f"{name} {kind}" for name, kind in self.columns))


def random_table(rng: random.Random, name: str) -> Table:
    """A table with the key columns that joins use, and some others."""
    others = rng.sample(sorted({**COLUMNS, **MORE}), rng.randint(2, 5))
    chosen = list(dict.fromkeys(["k", "x", *others]))
    rng.shuffle(chosen)
    return Table(name, tuple((c, {**COLUMNS, **MORE}[c]) for c in chosen))


def random_rows(rng: random.Random, table: Table, most: int) -> list[Row]:
    rows = [
        tuple(None if rng.random() < 0.2 else rng.choice(KINDS[kind]) for _, kind in table.columns)
        for _ in range(rng.randint(0, most))
    ]
    return rows + [rng.choice(rows) for _ in range(rng.randint(0, 2)) if rows]


def random_change(rng: random.Random, table: Table, old: list[Row]) -> list[Row]:
    """New contents: rows kept, gone, altered and added; now and then nothing is left."""
    if rng.random() < 0.08:
        return []
    kept = [row for row in old if rng.random() > 0.35]
    return kept + random_rows(rng, table, 3)


def literal(value: Any, kind: str) -> str:
    duck = _DUCK.get(kind, kind)
    if value is None:
        return f"CAST(NULL AS {duck})"
    if isinstance(value, list):
        return f"CAST([{', '.join(map(str, value))}] AS {duck})"
    return f"CAST('{value}' AS {duck})"


def create(con: duckdb.DuckDBPyConnection, name: str, columns: tuple[tuple[str, str], ...], rows: list[Row]) -> None:
    spelled = ", ".join(f'"{c}" {_DUCK.get(kind, kind)}' for c, kind in columns)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({spelled})")
    if rows:
        kinds = [kind for _, kind in columns]
        values = ", ".join(
            f"({', '.join(literal(v, kind) for v, kind in zip(row, kinds, strict=True))})" for row in rows
        )
        con.execute(f"INSERT INTO {name} VALUES {values}")


@dataclass(frozen=True)
class Contents:
    """Tables with their old and new rows."""

    tables: tuple[Table, ...]
    old: dict[str, list[Row]]
    new: dict[str, list[Row]]

    @cached_property
    def schemas(self) -> dict[str, tuple[Field, ...]]:
        return {table.name: table.schema for table in self.tables}

    @property
    def changed(self) -> frozenset[str]:
        """The tables that differ; where none does, one that is only said to."""
        found = {t.name for t in self.tables if _net(self.old[t.name], self.new[t.name])}
        return frozenset(found or {self.tables[0].name})

    def create(self, con: duckdb.DuckDBPyConnection) -> None:
        """Creates old_, new_ and delta_ of every table."""
        for table in self.tables:
            old, new = self.old[table.name], self.new[table.name]
            create(con, f"old_{table.name}", table.columns, old)
            create(con, f"new_{table.name}", table.columns, new)
            create(con, f"delta_{table.name}", (*table.columns, ("_w", "bigint")), _net(old, new))

    def to_json(self) -> dict[str, Any]:
        return {t.name: {"columns": t.columns, "old": self.old[t.name], "new": self.new[t.name]} for t in self.tables}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Contents:
        tables = tuple(Table(name, tuple((c, kind) for c, kind in item["columns"])) for name, item in data.items())
        rows = {side: {n: [tuple(r) for r in item[side]] for n, item in data.items()} for side in ("old", "new")}
        return cls(tables, rows["old"], rows["new"])


def random_contents(rng: random.Random) -> Contents:
    """Three tables; a quarter of them does not change."""
    tables = tuple(random_table(rng, name) for name in "abc")
    old = {table.name: random_rows(rng, table, 6) for table in tables}
    new = {
        table.name: random_change(rng, table, old[table.name]) if rng.random() < 0.75 else list(old[table.name])
        for table in tables
    }
    return Contents(tables, old, new)


def _net(old: list[Row], new: list[Row]) -> list[Row]:
    """Rows added and removed, with their weights."""
    counts: Counter[str] = Counter()
    rows: dict[str, Row] = {}
    for weight, contents in ((-1, old), (1, new)):
        for row in contents:
            rows[repr(row)] = row
            counts[repr(row)] += weight
    return [(*rows[key], weight) for key, weight in counts.items() if weight]
