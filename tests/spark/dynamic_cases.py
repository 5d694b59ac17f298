"""Random lives of dynamic tables, as plain text: sources, queries over them and over each other, steps of changes.

A case is made without Spark and kept as JSON, so one that failed can be run again, cut smaller, and kept for good.
`{ns}` stands for the namespace that it runs in.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from tests.property.contents import KINDS, Table, random_rows, random_table
from tests.property.queries import QueryMaker

_VERBS = ("delete", "update", "merge")


@dataclass(frozen=True)
class Case:
    """Statements that make the sources, dynamic tables by name (parents first), and statements for each step."""

    sources: list[str]
    tables: dict[str, str]
    steps: list[list[str]]

    def keep(self, folder: Path, name: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(asdict(self), indent=1))
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        return cls(**json.loads(path.read_text()))


def random_case(seed: int, *, tables: int, steps: int) -> Case:
    rng = random.Random(seed)
    stories = [Story(rng, random_table(rng, f"{{ns}}.{name}")) for name in "abc"]
    begun = [statement for story in stories for statement in story.begin()]
    queries: dict[str, str] = {}
    known = [story.table for story in stories]
    for number in range(tables):
        over = tuple(rng.sample(known, rng.choice([2, 2, 3]))) if number else tuple(known)
        maker = QueryMaker(rng, over, first=100 * number)  # no table has a name that a later query gives
        while not spark_can(query := maker.query()):
            maker = QueryMaker(rng, over, first=100 * number)
        queries[f"d{number}"] = query
        known.append(Table(f"{{ns}}.d{number}", tuple(maker.columns)))
    happened = []
    for _ in range(steps):
        chosen = rng.sample(stories, rng.choice([2, 3]))
        happened.append([statement for story in chosen for statement in story.go_on()])
    return Case(begun, queries, happened)


def spark_can(query: str) -> bool:
    """Spark's own rewrite of EXCEPT ALL fails where a column is selected twice (RewriteExceptAll, an invalid plan)."""
    tree = sqlglot.parse_one(query.replace("{ns}", "ns"), read="spark")
    return not any(
        len({item.unalias() for item in side.selects}) < len(side.selects)
        for found in tree.find_all(exp.Except, exp.Intersect)
        for side in (found.left, found.right)
        if not found.args.get("distinct") and isinstance(side, exp.Select)
    )


class Story:
    """What happens to one source table, as Spark SQL."""

    def __init__(self, rng: random.Random, table: Table) -> None:
        self.rng, self.table = rng, table
        self.extra = 0

    def begin(self) -> list[str]:
        mode = self.rng.choice(["merge-on-read", "merge-on-read", "copy-on-write"])
        layout = self.rng.choice(["", "", "", "PARTITIONED BY (bucket(2, k))", "PARTITIONED BY (x)"])
        modes = "".join(f", 'write.{v}.mode'='{mode}', 'write.{v}.distribution-mode'='none'" for v in _VERBS)
        columns = ", ".join(f"{name} {kind}" for name, kind in self.table.columns)
        made = (
            f"CREATE TABLE {self.table.name} ({columns}) USING iceberg {layout} TBLPROPERTIES"
            f" ('format-version'='{self.rng.choice([2, 3, 3])}', 'write.distribution-mode'='none'{modes})"
        )
        return [made, *self.insert(6)]

    def go_on(self) -> list[str]:
        """One or two things happen; before them, most often, rows come."""
        moves: list[Callable[[], list[str]]] = [
            *(self.update, self.update, self.update, self.delete, self.delete, self.merge, self.merge),
            *(self.overwrite, self.compact, self.add_column, self.roll_back, self.truncate),
        ]
        come = self.insert(3) if self.rng.random() < 0.7 else []
        return come + [statement for _ in range(self.rng.choice([1, 1, 2])) for statement in self.rng.choice(moves)()]

    def insert(self, most: int) -> list[str]:
        rows = random_rows(self.rng, self.table, most)
        kinds = [kind for _, kind in self.table.columns]
        values = [f"({', '.join(literal(v, k) for v, k in zip(row, kinds, strict=True))})" for row in rows]
        return [f"INSERT INTO {self.table.name} ({self.names}) VALUES {', '.join(values)}"] if rows else []

    def update(self) -> list[str]:
        name, kind = self.rng.choice(self.table.columns)
        return [f"UPDATE {self.table.name} SET {name} = {self.value(kind)} WHERE {self.some()}"]

    def delete(self) -> list[str]:
        return [f"DELETE FROM {self.table.name} WHERE {self.some()}"]

    def merge(self) -> list[str]:
        keys = ", ".join(f"({key})" for key in self.rng.sample([0, 1, 2, 3, 4], 2))
        name, kind = self.rng.choice([column for column in self.table.columns if column[0] != "k"])
        values = ", ".join("sk" if own == "k" else self.value(kind) for own, kind in self.table.columns)
        return [
            f"MERGE INTO {self.table.name} USING (SELECT * FROM VALUES {keys} AS v(sk)) ON k = sk"
            f" WHEN MATCHED AND {self.some()} THEN DELETE WHEN MATCHED THEN UPDATE SET {name} = {self.value(kind)}"
            f" WHEN NOT MATCHED THEN INSERT ({self.names}) VALUES ({values})"
        ]

    def overwrite(self) -> list[str]:
        rows = f"SELECT {self.names} FROM {self.table.name} WHERE {self.some()}"
        return [f"INSERT OVERWRITE {self.table.name} ({self.names}) {rows}"]

    def truncate(self) -> list[str]:
        return [f"TRUNCATE TABLE {self.table.name}"] if self.rng.random() < 0.3 else self.insert(3)

    def compact(self) -> list[str]:
        options = "map('rewrite-all', 'true')"
        return [f"CALL lake.system.rewrite_data_files(table => 'lake.{self.table.name}', options => {options})"]

    def add_column(self) -> list[str]:
        self.extra += 1
        name, kind = f"e{self.extra}", self.rng.choice(["int", "string"])
        filled = f"UPDATE {self.table.name} SET {name} = {self.value(kind)} WHERE {self.some()}"
        return [f"ALTER TABLE {self.table.name} ADD COLUMN {name} {kind}", filled]

    def roll_back(self) -> list[str]:
        """To one of the snapshots there are by then; whoever runs it finds its id."""
        return [f"ROLL BACK {self.table.name} TO {self.rng.randrange(20)}"]

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self.table.columns)

    def some(self) -> str:
        """A condition that holds for some rows."""
        number = self.rng.randrange(4)
        return self.rng.choice(
            [f"k = {number}", f"x <= {number}", "k IS NULL", "x IS NULL", f"k > {number}", "k <=> x"]
        )

    def value(self, kind: str) -> str:
        return literal(None if self.rng.random() < 0.2 else self.rng.choice(KINDS[kind]), kind)


def literal(value: Any, kind: str) -> str:
    """A value as Spark writes it."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, list):
        return f"CAST(array({', '.join(map(str, value))}) AS {kind})"
    return f"CAST('{value}' AS {kind})"
