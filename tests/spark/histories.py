"""Random histories of a table, and the changes between two of its snapshots by an oracle of plain SQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from tests.spark.equality import delete_where_equal

from neve.engine.session import fresh_session
from neve.lake import Lake, LakeTable
from neve.model.changes import WEIGHT, Road
from neve.services.row_changes import RowChanges, changes_between

Bag = Counter[str]
_DAYS = "date_add(DATE'2024-01-30', CAST({} AS INT))"


def weights(frame: DataFrame) -> Bag:
    """A Z-set as a mapping from rows to weights; no row may carry both signs."""
    found: Bag = Counter()
    for row in frame.collect():
        values, weight = repr(tuple(row)[:-1]), row[WEIGHT]
        assert weight != 0
        assert found[values] * weight >= 0, f"{values} came and went"
        found[values] += weight
    return found


def read(
    lake: Lake, table: LakeTable, since: int | None, until: int | None, *, road: Road, columns: list[str] | None = None
) -> tuple[RowChanges, Bag]:
    """The changes as Névé reads them, and the plan it read them by."""
    earlier, later = (None if moment is None else str(moment) for moment in (since, until))
    with changes_between(lake._context, table.name, since=earlier, until=later, columns=columns, road=road) as changes:
        return changes, weights(changes.frame())


def oracle(spark: SparkSession, table: LakeTable, since: int, until: int, *, old: str = "*", new: str = "*") -> Bag:
    """EXCEPT ALL both ways of two time-travel reads, with a select list for each."""
    sides = [f"SELECT {items} FROM {table.name.sql} VERSION AS OF {at}" for items, at in ((new, until), (old, since))]
    came = spark.sql(f"({sides[0]}) EXCEPT ALL ({sides[1]})").selectExpr("*", f"1L AS {WEIGHT}")
    went = spark.sql(f"({sides[1]}) EXCEPT ALL ({sides[0]})").selectExpr("*", f"-1L AS {WEIGHT}")
    return weights(came.unionAll(went))


def head(table: LakeTable) -> int:
    """The current snapshot, without Spark."""
    current = table._context.catalog.facts(table.name).current_snapshot_id
    assert current is not None
    return current


def quick_session(lake: Lake) -> SparkSession:
    """A session for small tables: nothing is split, nothing is planned twice."""
    spark = fresh_session(lake.spark)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    return spark


@dataclass
class History:
    """A table that random statements change.

    `names` says how the columns are called now, `names_at` how each snapshot called them: `k`, `v` and `d` by whatever
    name they have got, and `x1`, `x2`… for columns that come and go.
    """

    lake: Lake
    spark: SparkSession
    table: LakeTable
    chance: random.Random
    told: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=lambda: {"k": "k", "v": "v", "d": "d"})
    names_at: dict[int, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def begin(cls, lake: Lake, spark: SparkSession, name: str, seed: int) -> History:
        chance = random.Random(seed)
        mode = chance.choice(["merge-on-read", "merge-on-read", "copy-on-write"])
        version = chance.choice([2, 3])
        layout = chance.choice(["", "", "PARTITIONED BY (d)", "PARTITIONED BY (months(d), bucket(2, k))"])
        grain = chance.choice(["file", "partition"])
        verbs = ("delete", "update", "merge")
        modes = "".join(f", 'write.{v}.mode'='{mode}', 'write.{v}.distribution-mode'='none'" for v in verbs)
        spark.sql(
            f"CREATE TABLE lake.{name} (k INT, v STRING, d DATE) USING iceberg {layout} TBLPROPERTIES"
            f" ('format-version'='{version}', 'write.delete.granularity'='{grain}',"
            f" 'write.distribution-mode'='none'{modes})"
        )
        history = cls(lake, spark, lake.table(name), chance, [f"v{version} {mode} {grain} {layout}"])
        history.insert()
        return history

    @property
    def snapshots(self) -> list[int]:
        return list(self.names_at)

    def grow(self, steps: int) -> None:
        moves: list[Callable[[], None]] = [
            *(self.insert, self.update, self.update, self.delete, self.delete, self.merge, self.overwrite),
            *(
                self.compact,
                self.compact_deletes,
                self.roll_back,
                self.relayout,
                self.truncate,
                self.evolve,
                self.evolve,
            ),
            *(self.equality_delete, self.equality_delete, self.write_audit_publish, self.branch),
        ]
        for _ in range(steps):
            self.chance.choice(moves)()

    def run(self, text: str) -> None:
        self.told.append(text)
        self.spark.sql(text.replace("TABLE_NAME", self.table.name.sql)).collect()
        self.note()

    def note(self) -> None:
        """Remembers the snapshots that have come."""
        for snapshot in self.table._context.catalog.facts(self.table.name).snapshots:
            self.names_at.setdefault(snapshot.id, dict(self.names))

    def insert(self, where: str = "TABLE_NAME") -> None:
        start, count = self.chance.randrange(40), self.chance.randrange(1, 30)
        v = "IF(id % 5 = 0, NULL, CAST(id % 3 AS STRING))"
        self.run(
            f"INSERT INTO {where} ({self.columns}) SELECT CAST(id % 37 AS INT), {v}, {_DAYS.format('id % 4')}"
            f" FROM range({start}, {start + count}, 1, 2)"
        )

    def update(self) -> None:
        k, v, d = self.names["k"], self.names["v"], self.names["d"]
        changes = [f"{v} = concat({v}, 'x')", f"{v} = NULL", f"{k} = {k} + 1", f"{d} = {_DAYS.format(f'{k} % 3')}"]
        changes += [f"{name} = 'set'" for key, name in self.names.items() if key.startswith("x")] * 2
        self.run(f"UPDATE TABLE_NAME SET {self.chance.choice(changes)} WHERE {self.some()}")

    def delete(self) -> None:
        self.run(f"DELETE FROM TABLE_NAME WHERE {self.some()}")

    def merge(self) -> None:
        k, v = self.names["k"], self.names["v"]
        source = f"(SELECT CAST(id AS INT) s FROM range({self.chance.randrange(40)}, 45))"
        self.run(
            f"MERGE INTO TABLE_NAME USING {source} ON {k} = s AND {v} = '1' WHEN MATCHED AND s % 2 = 0 THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {v} = 'merged'"
            f" WHEN NOT MATCHED THEN INSERT ({self.columns}) VALUES (s, 'new', DATE'2024-01-31')"
        )

    def overwrite(self) -> None:
        rows = f"SELECT {self.columns} FROM TABLE_NAME WHERE {self.some()}"
        self.run(f"INSERT OVERWRITE TABLE_NAME ({self.columns}) {rows}")

    def truncate(self) -> None:
        if self.chance.random() < 0.3:
            self.run("TRUNCATE TABLE TABLE_NAME")

    def compact(self) -> None:
        options = "map('rewrite-all', 'true')"
        self.run(f"CALL lake.system.rewrite_data_files(table => 'lake.{self.table.name}', options => {options})")

    def compact_deletes(self) -> None:
        options = "map('rewrite-all', 'true')"
        self.run(
            f"CALL lake.system.rewrite_position_delete_files(table => 'lake.{self.table.name}', options => {options})"
        )

    def roll_back(self) -> None:
        self.run(
            f"CALL lake.system.set_current_snapshot('lake.{self.table.name}', {self.chance.choice(self.snapshots)})"
        )

    def relayout(self) -> None:
        field, held = f"truncate(1, {self.names['v']})", self.table.show().partition_by
        verb = "DROP" if any("truncate" in item for item in held) else "ADD"
        self.run(f"ALTER TABLE TABLE_NAME {verb} PARTITION FIELD {field}")

    def evolve(self) -> None:
        """A column comes, goes, is called otherwise, or gets a wider type."""
        extra = [key for key in self.names if key.startswith("x")]
        match self.chance.choice(["come", "go" if extra else "come", "rename", "widen"]):
            case "come":
                key = f"x{len(self.told)}"
                self.names[key] = self.chance.choice([key, "x"]) if "x" not in self.names.values() else key
                self.run(f"ALTER TABLE TABLE_NAME ADD COLUMN {self.names[key]} STRING")
            case "go":
                self.run(f"ALTER TABLE TABLE_NAME DROP COLUMN {self.names.pop(self.chance.choice(extra))}")
            case "rename":
                key, new = self.chance.choice(["k", "v"]), f"n{len(self.told)}"
                old, self.names[key] = self.names[key], new
                self.run(f"ALTER TABLE TABLE_NAME RENAME COLUMN {old} TO {new}")
            case _:
                self.run(f"ALTER TABLE TABLE_NAME ALTER COLUMN {self.names['k']} TYPE BIGINT")

    def equality_delete(self) -> None:
        if self.table.show().partition_by:
            return
        value = self.chance.choice(["0", "1", "2", "merged"])
        self.told.append(f"equality delete of {self.names['v']} = {value}")
        delete_where_equal(self.spark, self.table.name, self.names["v"], [value])
        self.note()

    def write_audit_publish(self) -> None:
        """An append that is staged, and perhaps published after another commit."""
        self.run("ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('write.wap.enabled'='true')")
        known = set(self.names_at)
        self.spark.conf.set("spark.wap.id", f"wap{len(self.told)}")
        try:
            self.insert()
        finally:
            self.spark.conf.unset("spark.wap.id")
        staged = next(iter(set(self.names_at) - known))
        if self.chance.random() < 0.5:
            self.delete()
        if self.chance.random() < 0.7:
            self.run(f"CALL lake.system.cherrypick_snapshot('lake.{self.table.name}', {staged})")

    def branch(self) -> None:
        """Work on a branch, perhaps published."""
        name = f"b{len(self.told)}"
        self.run(f"ALTER TABLE TABLE_NAME CREATE BRANCH {name}")
        self.insert(f"TABLE_NAME.branch_{name}")
        self.run(f"DELETE FROM TABLE_NAME.branch_{name} WHERE {self.some()}")
        if self.chance.random() < 0.5:
            self.run(f"CALL lake.system.fast_forward('lake.{self.table.name}', 'main', '{name}')")

    @property
    def columns(self) -> str:
        return ", ".join(self.names[key] for key in ("k", "v", "d"))

    def some(self) -> str:
        """A condition that holds for some rows."""
        number, k, v = self.chance.randrange(37), self.names["k"], self.names["v"]
        few = [f"{k} = {number}", f"{k} % 7 = {number % 7}", f"{v} IS NULL", f"{v} = '2'"]
        return self.chance.choice([*few, f"{k} > {number}", f"{self.names['d']} = DATE'2024-01-31'"])
