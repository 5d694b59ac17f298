"""Random operations on random partitionings come to the same as on a list of rows in memory.

`make fuzz` searches further.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.searching import lives
from tests.spark.trades import Row, bag, read, write

from neve.lake import Lake
from neve.parquet import ParquetCompactor, ParquetCRUD, Repartitioner, expr
from neve.plan.folders import partition_of

pytestmark = pytest.mark.spark

NUMBERS = count()
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("j", pa.int32()), ("v", pa.float64()), ("s", pa.string())])
PARTITIONINGS: tuple[list[str], ...] = ([], ["k"], ["j", "k"], ["k", "j"], ["j"])
Truth = bool | None


def more(row: Row) -> Truth:
    return None if row["v"] is None else row["v"] > 2


def is_a(row: Row) -> Truth:
    return None if row["s"] is None else row["s"] == "a"


def either(one: Truth, other: Truth) -> Truth:
    return True if one or other else None if one is None or other is None else False


CONDITIONS: list[tuple[str, Callable[[Row], Truth]]] = [
    ("v > 2", more),
    ("NOT (v > 2)", lambda row: None if more(row) is None else not more(row)),
    ("v > 2 OR s = 'a'", lambda row: either(more(row), is_a(row))),
    ("v IS NULL", lambda row: row["v"] is None),
    ("k = 'x/y'", lambda row: None if row["k"] is None else row["k"] == "x/y"),
    ("j <=> NULL", lambda row: row["j"] is None),
    ("id % 3 = 0", lambda row: None if row["id"] is None else row["id"] % 3 == 0),
]


def constant(value: Any, _: Row) -> Any:
    return value


class Game:
    """What is played with, and the list of rows that it should hold. `crud` speaks as `ParquetCRUD` does."""

    crud: Any

    def __init__(self, random: Random) -> None:
        self.random = random
        self.keys = random.choice(PARTITIONINGS)
        self.rows: list[Row] = []
        self.before: list[Row] | None = None

    def start(self, fill: Callable[[list[Row], int], None]) -> None:
        for number in range(self.random.randint(1, 3)):
            new = [self.row() for _ in range(self.random.randint(1, 8))]
            fill(new, number)
            self.rows += new

    def row(self, number: int | None = None) -> Row:
        choose = self.random.choice
        return {
            "id": choose([None, *range(12)]) if number is None else number,
            "k": choose([None, "", "x/y", "a b", "ü=1"]),
            "j": choose([None, 1, 2]),
            "v": choose([None, 0.0, 1.5, 3.0, 7.0]),
            "s": choose([None, "a", "b", ""]),
        }

    def verbs(self) -> list[tuple[Callable[[], None], int]]:
        return [(self.delete, 3), (self.update, 4), (self.upsert, 4), (self.deduplicate, 2), (self.restore, 2)]

    def play(self) -> str:
        verbs, weights = zip(*self.verbs(), strict=True)
        verb = self.random.choices(verbs, weights=weights)[0]
        verb()
        return str(verb.__name__)

    def filter(self) -> tuple[dict[str, object] | None, Callable[[Row], bool]]:
        if not self.keys or self.random.random() < 0.5:
            return None, lambda _: True
        chosen = self.random.sample(self.keys, self.random.randint(1, len(self.keys)))
        values = {key: self.row()[key] for key in chosen}
        return dict(values), lambda row: all(row[key] == value for key, value in values.items())

    def change(self, rows: list[Row], stats: dict[str, Any]) -> None:
        assert stats["rows_before"] == len(self.rows)
        assert stats["rows_after"] == len(rows)
        self.before = self.rows if stats["backup"] else None
        self.rows = rows

    def delete(self) -> None:
        sql, holds = self.random.choice(CONDITIONS)
        only, inside = self.filter()
        kept = [row for row in self.rows if not (holds(row) and inside(row))]
        stats = self.crud.delete(sql, partition_filter=only)
        assert stats["rows_deleted"] == len(self.rows) - len(kept)
        self.change(kept, stats)

    def update(self) -> None:
        sql, holds = self.random.choice(CONDITIONS)
        only, inside = self.filter()
        new: dict[str, Callable[[Row], Any]] = {}
        expressions: dict[str, object] = {}
        for column in self.random.sample(["k", "j", "v", "s"], self.random.randint(1, 3)):
            if column == "v":
                expressions["v"] = expr("id * 0.5")
                new["v"] = lambda row: None if row["id"] is None else row["id"] * 0.5
            elif column == "s":
                expressions["s"] = expr("k")
                new["s"] = lambda row: row["k"]
            else:
                value = self.row()[column]
                expressions[column] = value
                new[column] = partial(constant, value)
        changed = [
            {**row, **{name: make(row) for name, make in new.items()}} if holds(row) and inside(row) else row
            for row in self.rows
        ]
        stats = self.crud.update(sql, expressions, partition_filter=only)
        assert stats["rows_updated"] == sum(bool(holds(row)) and inside(row) for row in self.rows)
        self.change(changed, stats)

    def upsert(self) -> None:
        numbers = self.random.sample(range(16), self.random.randint(1, 5))
        new = [self.row(number) for number in numbers]
        known = [row["id"] for row in self.rows]
        single = all(known.count(number) <= 1 for number in numbers)
        update = self.random.sample(["k", "v", "s"], 2) if single and self.random.random() < 0.5 else None
        kept = [row for row in self.rows if row["id"] not in numbers]
        for row in new:
            old = next((old for old in self.rows if old["id"] == row["id"]), None)
            kept.append(row if old is None or update is None else {**old, **{name: row[name] for name in update}})
        stats = self.crud.upsert(pa.Table.from_pylist(new, schema=SCHEMA), ["id"], self.keys, update_cols=update)
        assert stats["rows_updated"] == sum(number in known for number in numbers)
        assert stats["rows_inserted"] == sum(number not in known for number in numbers)
        self.change(kept, stats)

    def deduplicate(self) -> None:
        order = ["v", "id", "k", "j", "s"]
        keep = self.random.choice(["first", "last"])
        key = self.random.choice([["s"], ["id"], ["k", "j"]])
        ordered = sorted(self.rows, key=lambda row: tuple(() if row[name] is None else (row[name],) for name in order))
        kept: dict[tuple[Any, ...], Row] = {}
        for row in ordered if keep == "last" else reversed(ordered):
            kept[tuple(row[name] for name in key)] = row
        self.change(list(kept.values()), self.crud.deduplicate(key, keep=keep, order_by=order))

    def restore(self) -> None:
        if self.before is not None:
            self.crud.restore()
            self.rows, self.before = self.before, None

    def check(self) -> None:
        raise NotImplementedError


class FolderGame(Game):
    def __init__(self, random: Random, folder: Path, spark: Any) -> None:
        super().__init__(random)
        self.folder = folder
        self.spark = spark
        self.start(lambda rows, number: write(folder, rows, self.keys, name=f"f{number}", schema=SCHEMA))
        self.crud = ParquetCRUD(folder, spark=spark)

    def verbs(self) -> list[tuple[Callable[[], None], int]]:
        return [*super().verbs(), (self.compact, 1), (self.swap, 1)]

    def compact(self) -> None:
        stats = ParquetCompactor(self.folder, spark=self.spark).compact(delete_source_files=self.random.random() < 0.5)
        assert stats["rows"] == len(self.rows)
        self.before = None

    def swap(self) -> None:
        self.keys = self.random.choice(PARTITIONINGS)
        Repartitioner(self.folder, self.folder.with_name("other"), self.keys, spark=self.spark).repartition(
            swap_with_source=True
        )
        self.before = None

    def check(self) -> None:
        assert bag(read(self.folder)) == bag(self.rows)
        for file in self.folder.glob("**/*.parquet"):
            place = dict(partition_of(str(file.relative_to(self.folder))))
            assert list(place) == self.keys
            for row in pq.read_table(file, partitioning=None).to_pylist():
                assert {key: str(row[key]) if row[key] not in (None, "") else None for key in self.keys} == place


def play(game: Game, rounds: int) -> None:
    played = []
    for _ in range(rounds):
        if not game.rows:
            break
        played.append(game.play())
        try:
            game.check()
        except AssertionError as exc:
            raise AssertionError(f"after {', '.join(played)}: {exc}") from exc


@lives(7)
def test_like_a_list_in_memory(spark_lake: Lake, tmp_path: Path, chance: Random) -> None:
    play(FolderGame(chance, tmp_path / str(next(NUMBERS)) / "d", spark_lake.spark), 3)
