"""Metadata commits made without a JVM, on tables that Spark writes: format 3, merge-on-read, deletion vectors.

After each commit Spark must read what a model in memory says, untouched rows must keep their lineage, and the metadata
file must have changed in the places that the commit is about and in no other.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from neve.catalog.files import local_path
from neve.lake import Lake, LakeTable
from neve.services.specs import alterations_from_words

Rows = dict[int, dict[str, object]]
ALWAYS = {"last-updated-ms", "metadata-log"}
COLUMNS = (
    "id bigint not null, name string, qty int, price decimal(8,2), pos struct<x: int, y: float>, tags array<string>"
)


class Written:
    """A table that Spark has inserted into, merged, updated and deleted from, and a model of its rows."""

    def __init__(self, lake: Lake, table: LakeTable) -> None:
        self.lake, self.table = lake, table
        self.model: Rows = {}
        self.sql = table.name.sql
        self.write(
            f"INSERT INTO {self.sql} SELECT id, concat('n', id), cast(id AS int), cast(id AS decimal(8,2)) / 4, "
            f"named_struct('x', cast(id AS int), 'y', float(id)), array(concat('t', id % 3)) FROM range(20)",
            {i: self.fresh(i) for i in range(20)},
        )
        self.write(
            f"MERGE INTO {self.sql} t USING (SELECT id FROM range(15, 25)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET qty = -1 "
            "WHEN NOT MATCHED THEN INSERT (id, name, qty) VALUES (s.id, 'merged', 0)",
            {i: {**self.model[i], "qty": -1} for i in range(15, 20)}
            | {i: self.bare(i, name="merged", qty=0) for i in range(20, 25)},
        )
        self.write(f"UPDATE {self.sql} SET name = NULL WHERE id = 3", {3: {**self.model[3], "name": None}})
        self.write(f"DELETE FROM {self.sql} WHERE id IN (1, 2, 16)", gone={1, 2, 16})
        kinds = {row.format for row in table.files() if row.content == "position_deletes"}
        assert kinds == {"puffin"}, "the deletes are deletion vectors"

    @staticmethod
    def fresh(i: int) -> dict[str, object]:
        return {
            "id": i, "name": f"n{i}", "qty": i, "price": f"{i / 4:.2f}", "pos": {"x": i, "y": float(i)},
            "tags": [f"t{i % 3}"],
        }  # fmt: skip

    @staticmethod
    def bare(i: int, **values: object) -> dict[str, object]:
        return {"id": i, "name": None, "qty": None, "price": None, "pos": None, "tags": None, **values}

    def write(self, statement: str, put: Rows | None = None, gone: Iterable[int] = ()) -> None:
        self.lake.sql(statement, write=True)
        self.model = {k: v for k, v in (self.model | (put or {})).items() if k not in set(gone)}

    def lineage(self) -> dict[int, tuple[int, int]]:
        rows = self.lake.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {self.sql}").collect()
        return {row[0]: (row[1], row[2]) for row in rows}

    def read(self) -> Rows:
        frame = self.lake.sql(f"SELECT * FROM {self.sql}")
        return {row["id"]: _plain(row.asDict(recursive=True)) for row in frame.collect()}

    def metadata(self) -> dict[str, Any]:
        path = local_path(self.table._context.catalog.metadata_location(self.table.name))
        assert path is not None
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content

    def commit(self, change: Callable[[], object], *, changes: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Makes a change without Spark; the metadata before and after."""
        before, lineage = self.metadata(), self.lineage()
        change()
        after = self.metadata()
        different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        assert different - ALWAYS == changes
        assert after["metadata-log"][:-1] == before["metadata-log"]
        assert after["metadata-log"][-1]["timestamp-ms"] == before["last-updated-ms"]
        assert self.lineage() == lineage
        return before, after

    def check(self) -> None:
        assert self.read() == self.model
        keys = self.lineage().values()
        assert len({row_id for row_id, _ in keys}) == len(self.model), "row ids are unique"

    def write_again(self, number: int) -> None:
        """Spark appends, updates and deletes on top of the commit; rows that it leaves alone keep their lineage."""
        before = self.lineage()
        self.write(
            f"MERGE INTO {self.sql} t USING (SELECT * FROM VALUES ({number}), (5), (6) AS v(id)) s ON t.id = s.id "
            "WHEN MATCHED AND t.id = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET id = t.id "
            "WHEN NOT MATCHED AND s.id > 6 THEN INSERT (id) VALUES (s.id)",
            {number: dict.fromkeys(self.model[0]) | {"id": number}},
            gone={6},
        )
        after = self.lineage()
        assert {k: v for k, v in after.items() if k not in (5, number)} == {
            k: v for k, v in before.items() if k not in (5, 6)
        }
        assert after[5][0] == before[5][0], "an updated row keeps its id"
        self.check()


def _plain(row: Mapping[str, Any]) -> dict[str, object]:
    return {
        key: str(value) if key in ("price", "amount") and value is not None else value for key, value in row.items()
    }


def alter(table: LakeTable, **words: Any) -> Callable[[], object]:
    return lambda: table.alter(alterations_from_words(**words))


@pytest.fixture
def written(spark_lake: Lake, make_table: Callable[..., LakeTable]) -> Written:
    return Written(spark_lake, make_table("t", COLUMNS))


SCHEMA = {"schemas", "current-schema-id"}


def test_columns_change_under_spark(written: Written) -> None:
    """Each alteration of a column is one commit; Spark reads old files through it and writes new ones."""
    table, model = written.table, written.model

    before, after = written.commit(
        alter(table, add=["note string after name", "pos.z bigint", "n int first"]), changes={*SCHEMA, "last-column-id"}
    )
    assert after["schemas"][:-1] == before["schemas"]
    for row in model.values():
        row.update(note=None, n=None)
        if isinstance(row["pos"], dict):
            row["pos"] = {**row["pos"], "z": None}
    written.check()
    assert written.lake.sql(f"SELECT * FROM {written.sql}").columns == [
        "n", "id", "name", "note", "qty", "price", "pos", "tags",
    ]  # fmt: skip
    written.write_again(101)

    written.commit(
        alter(table, types={"qty": "bigint", "price": "decimal(12,2)", "pos.y": "double"}, optional=["id"]),
        changes=SCHEMA,
    )
    written.check()
    written.write(
        f"UPDATE {written.sql} SET qty = 5000000000, pos = named_struct('x', 1, 'y', double(0.1), 'z', 7) WHERE id = 0",
        {0: {**model[0], "qty": 5_000_000_000, "pos": {"x": 1, "y": 0.1, "z": 7}}},
    )
    written.check()

    written.commit(alter(table, rename={"price": "amount", "pos.x": "lon"}), changes=SCHEMA)
    for row in written.model.values():
        row["amount"] = row.pop("price")
        if isinstance(row["pos"], dict):
            row["pos"] = {"lon" if key == "x" else key: value for key, value in row["pos"].items()}
    written.check()

    written.commit(
        alter(table, drop=["note", "pos.y", "tags"], move=["qty first", "id after qty"], comments={"id": "the key"}),
        changes=SCHEMA,
    )
    for row in written.model.values():
        del row["note"], row["tags"]
        if isinstance(row["pos"], dict):
            row["pos"].pop("y")
    written.check()
    shown = {row[0]: row[2] for row in written.lake.sql(f"DESCRIBE {written.sql}").collect()}
    assert shown["id"] == "the key"
    assert list(shown)[:2] == ["qty", "id"]
    written.write_again(102)

    written.commit(alter(table, add=["note string"]), changes={*SCHEMA, "last-column-id"})
    for row in written.model.values():
        row["note"] = None
    written.check()  # a new column of a dropped one's name does not see its values


def test_layout_evolves_under_spark(written: Written) -> None:
    """Partitioning and order change for new files only; old files and new ones are read together."""
    table = written.table
    spec = {"partition-specs", "default-spec-id", "last-partition-id"}

    before, after = written.commit(alter(table, partition_by=["bucket(4, id)"]), changes=spec)
    assert after["partition-specs"][: len(before["partition-specs"])] == before["partition-specs"]
    written.check()
    written.write_again(201)
    assert {row.partition for row in table.files()} > {""}, "old files have no partition, new ones do"

    written.commit(alter(table, partition_by=["truncate(2, name)", "qty"]), changes=spec)
    written.check()
    written.write_again(202)

    written.commit(
        alter(table, sort_by=["name desc nulls last", "id"]), changes={"sort-orders", "default-sort-order-id"}
    )
    written.check()
    written.write(
        f"INSERT INTO {written.sql} (id, name, qty) SELECT id, concat('s', 999 - id), 0 FROM range(300, 400)",
        {i: Written.bare(i, name=f"s{999 - i}", qty=0) for i in range(300, 400)},
    )
    written.check()
    order = written.lake.sql(f"SELECT name FROM {written.sql} WHERE id >= 300 ORDER BY _file, _pos").collect()
    names = [row[0] for row in order]
    assert names == sorted(names, reverse=True), "Spark writes in the order that was set without it"

    written.commit(alter(table, partition_by=[]), changes={"default-spec-id"})
    written.check()
    written.write_again(203)


def test_tags_branches_and_rollback_under_spark(written: Written) -> None:
    """References and the current snapshot move without a JVM; Spark reads and writes what they point to."""
    table, lake, sql = written.table, written.lake, written.sql
    old_model = dict(written.model)
    old = written.metadata()["current-snapshot-id"]

    written.commit(lambda: table.tag("v1"), changes={"refs"})
    written.commit(lambda: table.branch("side"), changes={"refs"})
    written.write_again(301)
    new_model, new = dict(written.model), written.metadata()["current-snapshot-id"]

    at_tag = lake.sql(f"SELECT * FROM {sql} VERSION AS OF 'v1'").collect()
    assert {row["id"]: _plain(row.asDict(recursive=True)) for row in at_tag} == old_model
    lake.sql(f"INSERT INTO {sql[:-1]}`.branch_side (id) VALUES (999)", write=True)
    assert lake.sql(f"SELECT count(*) FROM {sql} VERSION AS OF 'side'").collect()[0][0] == len(old_model) + 1
    written.check()

    moved = {"current-snapshot-id", "refs", "snapshot-log"}
    after = _rolled(written, old, moved)
    assert after["snapshot-log"][-1]["snapshot-id"] == old
    written.model = dict(old_model)
    written.check()
    _rolled(written, new, moved)
    written.model = dict(new_model)
    written.check()
    _rolled(written, "v1", moved)
    written.model = dict(old_model)
    written.write_again(302)
    assert {row.name for row in table.references()} == {"main", "v1", "side"}
    assert [row.snapshot for row in table.history() if row.ancestor][1] == old, "Spark wrote on what was rolled back to"

    written.commit(lambda: table.delete_tag("v1"), changes={"refs"})
    written.commit(lambda: table.delete_branch("side"), changes={"refs"})
    written.check()


def _rolled(written: Written, to: object, moved: set[str]) -> dict[str, Any]:
    """Rows change here, so lineage is not compared; the metadata is."""
    before = written.metadata()
    written.table.rollback(str(to))
    after = written.metadata()
    assert {key for key in before if before[key] != after.get(key)} - ALWAYS == moved
    assert after["snapshots"] == before["snapshots"]
    assert after["next-row-id"] == before["next-row-id"], "row ids are never given twice"
    return after


def test_properties_and_name_change_under_spark(written: Written) -> None:
    table = written.table
    _, after = written.commit(
        lambda: table.set({"write.parquet.compression-codec": "gzip", "team": "a 'b' \"c\" ü"}), changes={"properties"}
    )
    assert after["properties"]["team"] == "a 'b' \"c\" ü"
    written.check()
    written.write_again(401)
    shown = {row[0]: row[1] for row in written.lake.sql(f"SHOW TBLPROPERTIES {written.sql}").collect()}
    assert shown["team"] == "a 'b' \"c\" ü"
    written.commit(lambda: table.unset(["team"]), changes={"properties"})
    assert "team" not in {row[0] for row in written.lake.sql(f"SHOW TBLPROPERTIES {written.sql}").collect()}

    before, lineage = written.metadata(), written.lineage()
    table.rename(f"{table.name.namespace[0]}.`new name`")
    written.sql = table.name.sql
    assert written.metadata() == before, "a rename touches no file"
    assert written.lineage() == lineage
    written.check()
    written.write_again(402)


def test_old_metadata_goes_as_the_table_says(written: Written) -> None:
    """The log is as long as the table wants it, the folder holds what the log names, and Spark carries on."""
    written.table.set({"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        written.table.set({"number": str(number)})
    metadata = written.metadata()
    logged = {Path(entry["metadata-file"]).name for entry in metadata["metadata-log"]}
    present = {path.name for path in (Path(written.table.show().location) / "metadata").glob("*.metadata.json")}
    assert len(logged) == 2
    assert present - logged == {Path(written.table._context.catalog.metadata_location(written.table.name)).name}
    written.write_again(501)


def test_a_commit_keeps_what_no_library_knows(written: Written, spark_lake: Lake) -> None:
    """Keys of a later Iceberg, anywhere in the file, outlive every kind of commit."""
    metadata = written.metadata()
    metadata["x-top"] = {"nested": [1, None, {"a": 2.5}]}
    metadata["schemas"][-1]["x-schema"] = "s"
    metadata["schemas"][-1]["fields"][0]["x-field"] = True
    metadata["snapshots"][0]["x-snapshot"] = {"deep": 1}
    metadata["snapshots"][0]["summary"]["x-summary"] = "kept"
    metadata["partition-specs"][0]["x-spec"] = 1
    metadata["sort-orders"][0]["x-order"] = 1
    metadata["refs"]["main"]["x-ref"] = 1
    metadata["statistics"] = []
    _plant(spark_lake, written.table, metadata)
    snapshot = metadata["current-snapshot-id"]
    written.table.set({"a": "b"})
    written.table.tag("v1")
    written.table.alter(
        alterations_from_words(add=["extra int"], rename={"qty": "count"}, partition_by=["bucket(2, id)"])
    )
    written.table.alter(alterations_from_words(sort_by=["id"]))
    written.table.rollback(metadata["snapshots"][0]["snapshot-id"])
    written.table.rollback(snapshot)

    after = written.metadata()
    assert after["x-top"] == metadata["x-top"]
    assert after["snapshots"] == metadata["snapshots"]
    assert after["schemas"][: len(metadata["schemas"])] == metadata["schemas"]
    assert after["partition-specs"][0] == metadata["partition-specs"][0]
    assert after["sort-orders"][0] == metadata["sort-orders"][0]
    assert after["refs"]["main"]["x-ref"] == 1
    assert after["next-row-id"] == metadata["next-row-id"]
    for row in written.model.values():
        row["count"], row["extra"] = row.pop("qty"), None
    written.check()


def _plant(lake: Lake, table: LakeTable, metadata: Mapping[str, Any]) -> None:
    """Makes a hand-written metadata file the table's current one."""
    place = Path(table.show().location) / "metadata" / "00099-planted.metadata.json"
    place.write_text(json.dumps(metadata))
    with sqlite3.connect(lake.root / "catalog.db") as connection:
        changed = connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            (str(place), ".".join(table.name.namespace), table.name.name),
        )
        assert changed.rowcount == 1
    connection.close()


RIVAL = """
import sys
from neve.lake import Lake
with Lake(sys.argv[1]) as lake:
    table = lake.table(sys.argv[2])
    for i in range(25):
        table.set({f"p{i}": str(i)})
print("pyspark" in sys.modules)
"""


def test_commits_with_and_without_spark_interleave(spark_lake: Lake, make_table: Callable[..., LakeTable]) -> None:
    """Spark appends from two threads while another thread and another process commit metadata: nothing is lost."""
    table = make_table("t", "id bigint, v int")
    failed: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as exc:  # noqa: BLE001 - told below
                failed.append(exc)

        return threading.Thread(target=run)

    def append(first: int) -> None:
        for i in range(first, first + 12):
            spark_lake.sql(f"INSERT INTO {table.name.sql} (id) VALUES ({i})", write=True)

    def change() -> None:
        for i in range(12):
            table.alter(alterations_from_words(add=[f"c{i} int"]))
            if table.show().current_snapshot is not None:
                table.tag(f"tag{i}")

    spark_lake.sql(f"INSERT INTO {table.name.sql} (id) VALUES (-1)", write=True)
    rival = subprocess.Popen(
        [sys.executable, "-c", RIVAL, str(spark_lake.root), str(table.name)], stdout=subprocess.PIPE, text=True
    )
    threads = [guarded(lambda: append(0)), guarded(lambda: append(100)), guarded(change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rival.communicate()[0].strip() == "False", "the rival needed no Spark"

    assert not failed
    assert rival.returncode == 0
    ids = sorted(row[0] for row in spark_lake.sql(f"SELECT id FROM {table.name.sql}").collect())
    assert ids == [-1, *range(12), *range(100, 112)]
    details = table.show()
    assert {details.properties.get(f"p{i}") for i in range(25)} == {str(i) for i in range(25)}
    assert {f"c{i}" for i in range(12)} < {column.name for column in details.columns}
    assert {f"tag{i}" for i in range(12)} < {row.name for row in table.references()}
    assert details.snapshots == 25
