"""Random lives of key-range tables beside a plain list of rows: nothing is lost, doubled, out of order or unfound.

`make fuzz` searches more of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark.searching import lives

from neve.engine.rewrites import matching_files
from neve.errors import InvalidInput
from neve.lake import Lake, LakeTable
from neve.model.regions import Side
from neve.model.splits import Key, format_points, order
from neve.plan.ranges import SplitPoint, need_keys, place_files
from neve.services.ranges.reading import Asked
from neve.services.ranges.splitting import commit_cut
from neve.sql.ranges import inside, literal

STEPS = 7
NUMBERS = count()
VALUES: dict[str, list[Key]] = {
    "int": [-3, 0, 1, 2, 5, 8],
    "string": ["", "a", "a'", "b\\", "é", "\U00010000"],
    "binary": [b"", b"\x00", b"a", b"a\x00", b"\xff"],
}
Row = tuple[Key, Key, int]
pytestmark = pytest.mark.usefixtures("quick")


def place(row: Row) -> tuple[Any, ...]:
    return order(row[0]), order(row[1]), row[2]


@dataclass
class Life:
    """A table, the rows that it should have, and what happened to it."""

    lake: Lake
    name: str
    folder: Path
    chance: Random
    kinds: tuple[str, str]
    rows: list[Row] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    serial: int = 0

    @property
    def table(self) -> LakeTable:
        return self.lake.table(self.name)

    def key(self, number: int) -> Key:
        return self.chance.choice(VALUES[self.kinds[number]])

    def new_rows(self) -> list[Row]:
        made: list[Row] = []
        for _ in range(self.chance.randint(1, 9)):
            self.serial += 1
            made.append((self.key(0), self.key(1), self.serial))
        return made

    def insert(self) -> None:
        """By SQL, which knows nothing of ranges."""
        new = self.new_rows()
        values = ", ".join(f"({literal(k).sql('spark')}, {literal(n).sql('spark')}, {v})" for k, n, v in new)
        self.lake.sql(f"INSERT INTO {self.name} (k, n, v) VALUES {values}", write=True)
        self.rows += new

    def load(self) -> None:
        new = [row for row in self.new_rows() if not any(isinstance(value, bytes) for value in row)]
        if not new:
            return
        self.serial += 1
        path = self.folder / f"{self.serial}.jsonl"
        path.write_text("".join(f"{json.dumps(dict(zip('knv', row, strict=True)))}\n" for row in new))
        self.table.ingest(str(path), date=f"2024-{1 + self.serial % 12:02}-{1 + self.serial // 12 % 28:02}")
        self.rows += new

    def split(self) -> None:
        leaves = [row.range for row in self.table.ranges() if row.leaf]
        self.table.split(self.chance.choice(leaves))

    def cut(self) -> None:
        """The tree alone: rows stay where they were written."""
        leaf = self.chance.choice([row.range for row in self.table.ranges() if row.leaf])
        key = self.chance.randrange(2)
        try:
            commit_cut(self.lake._context, self.table.name, leaf or 0, SplitPoint(key, self.key(key)))
        except InvalidInput:
            self.told.append("  not inside")

    def compact(self) -> None:
        self.table.compact(force=self.chance.random() < 0.5)
        assert {file.state for file in self.placed()} <= {"in_place"}

    def delete(self) -> None:
        gone = self.key(0)
        self.lake.sql(f"DELETE FROM {self.name} WHERE k = {literal(gone).sql('spark')}", write=True)
        self.rows = [row for row in self.rows if row[0] != gone]

    def reinitialise(self) -> None:
        points = sorted({self.key(0) for _ in range(2)}, key=order)
        self.table.reinitialise(split_points=format_points(points, encoded=True), base64=True)
        self.rows = []

    def step(self) -> None:
        deeds: list[Callable[[], None]] = [self.insert, self.load, self.split, self.cut, self.compact, self.delete]
        weights = [3, 3, 2, 2, 3, 1]
        deed = self.chance.choices([*deeds, self.reinitialise], [*weights, 1])[0]
        self.told.append(deed.__name__)
        deed()
        self.check()

    def placed(self) -> list[Any]:
        files = self.lake._context.catalog.table_files(self.table.name)
        return place_files(files, need_keys(files.facts))

    def check(self) -> None:
        found = [tuple(row) for row in self.table.range().collect()]
        assert found == sorted(self.rows, key=place), "\n".join(self.told)
        first, low, high = self.key(0), self.key(0), self.key(0)
        with_low, with_high = self.chance.random() < 0.5, self.chance.random() < 0.5
        wanted = [
            row
            for row in sorted(self.rows, key=place)
            if row[0] == first or _between(row[0], low, high, with_low, with_high)
        ]
        asked = Asked(exact=[first], between=[(low, high)], with_low=with_low, with_high=with_high)
        assert [tuple(row) for row in self.table.read(lambda _: asked).collect()] == wanted, "\n".join(self.told)
        plan = self.table.explain_read(lambda _: asked)
        side = Side(low=low, high=high, with_low=with_low, with_high=with_high)
        where = inside([(Side(low=first, high=first, with_high=True), Side()), (side, Side())], ["k", "n"])
        assert plan.files == len(matching_files(self.lake.spark, self.table.name, where)), "\n".join(self.told)
        for file in self.placed():
            if file.state == "in_place":
                columns = pq.read_table(file.file.path.removeprefix("file:"), columns=["k", "n"]).to_pydict()
                keys = [(order(k), order(n)) for k, n in zip(columns["k"], columns["n"], strict=True)]
                assert keys == sorted(keys), "\n".join(self.told)


def _between(value: Key, low: Key, high: Key, with_low: bool, with_high: bool) -> bool:
    above = order(value) > order(low) or (with_low and value == low)
    return above and (order(value) < order(high) or (with_high and value == high))


@lives(3)
def test_a_table_in_ranges_is_a_list_of_rows(spark_lake: Lake, namespace: str, tmp_path: Path, chance: Random) -> None:
    name = f"{namespace}.t{next(NUMBERS)}"
    kinds = (chance.choice(sorted(VALUES)), chance.choice(sorted(VALUES)))
    schema = f"k {kinds[0]} not null, n {kinds[1]} not null, v int"
    spark_lake.tables.create(name, schema, row_keys=["k, n"], sort_keys=["v"])
    life = Life(spark_lake, name, tmp_path, chance, kinds)
    for _ in range(STEPS):
        life.step()
