"""delete, update, upsert and dedupe on Iceberg tables: as on folders, one commit each, and the way back.

`make fuzz` searches further.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.searching import lives
from tests.spark.test_parquet_model import SCHEMA, Game, play

from neve.errors import (
    ColumnNotFound,
    InvalidInput,
    InvalidQuery,
    InvalidSchema,
    JobFailed,
    NeveError,
    Refused,
    TableNotFound,
    Unsupported,
)
from neve.lake import Lake, LakeTable
from neve.parquet import expr

pytestmark = pytest.mark.spark

MakeTable = Callable[..., LakeTable]
RowsOf = Callable[..., list[tuple[object, ...]]]
Cli = Callable[..., tuple[int, str, str]]
NUMBERS = count()


class TableAsCrud:
    """A table with the words of `ParquetCRUD`; every change is one commit."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.before: int | None = None

    def _do(self, change: Callable[..., Any]) -> dict[str, Any]:
        snapshots = len(self.table.history())
        real = change(dry_run=False)
        assert len(self.table.history()) == snapshots + (real.run_id is not None)
        self.before = real.snapshot_before
        return real.model_dump()  # type: ignore[no-any-return]

    def delete(self, sql: str, partition_filter: dict[str, object] | None) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.delete(sql, partition_filter=partition_filter, dry_run=dry_run))

    def update(self, sql: str, values: dict[str, object], partition_filter: dict[str, object] | None) -> dict[str, Any]:
        return self._do(
            lambda dry_run: self.table.update(values, sql, partition_filter=partition_filter, dry_run=dry_run)
        )

    def upsert(self, new: Any, keys: list[str], _: list[str], update_cols: list[str] | None) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.upsert(new, keys, update_cols=update_cols, dry_run=dry_run))

    def deduplicate(self, keys: list[str], keep: str, order_by: list[str]) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.dedupe(keys, keep, order_by, dry_run=dry_run))

    def restore(self) -> None:
        assert self.before is not None
        self.table.rollback(self.before)


class TableGame(Game):
    def __init__(self, random: Random, lake: Lake, name: str) -> None:
        super().__init__(random)
        self.lake = lake
        lake.tables.create(name, "id bigint, k string, j int, v double, s string", partition_by=self.keys)
        self.table = lake.table(name)
        if random.random() < 0.3:
            self.table.set({f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")})
        schema = lake.spark.table(self.table.name.sql).schema

        def fill(rows: list[dict[str, Any]], _: int) -> None:
            lake.spark.createDataFrame(rows, schema).writeTo(self.table.name.sql).append()

        self.start(fill)
        self.crud = TableAsCrud(self.table)

    def check(self) -> None:
        rows = self.lake.spark.table(self.table.name.sql).collect()
        assert Counter(repr(row.asDict()) for row in rows) == Counter(
            repr({name: row[name] for name in SCHEMA.names}) for row in self.rows
        )


@lives(5)
def test_like_a_list_in_memory(spark_lake: Lake, namespace: str, chance: Random) -> None:
    """Every verb on random tables and partitionings, merge-on-read and copy-on-write."""
    play(TableGame(chance, spark_lake, f"{namespace}.t{next(NUMBERS)}"), 3)


@pytest.fixture
def trades(make_table: MakeTable) -> LakeTable:
    return make_table(
        "trades",
        "trade_id bigint not null, product string, day date, price decimal(10,2), spread double, size int",
        partition_by=("product", "months(day)"),
        rows="""(1, 'BTC', DATE'2025-11-25', 1.00, 100, 1), (2, 'BTC', DATE'2025-11-26', 2.00, 300, 2),
                (3, 'BTC', DATE'2025-11-26', 3.00, NULL, 3), (4, 'ETH', DATE'2025-11-26', 4.00, 250, 4)""",
    )


def both(change: Callable[..., Any], table: LakeTable) -> Any:
    """Does it dry, then for real: the same figures, and only the second changes anything."""
    before = table.show()
    dry = change(dry_run=True)
    assert (table.show(), dry.run_id, dry.dry_run) == (before, None, True)
    real = change(dry_run=False)
    own = {"run_id", "dry_run", "backup", "undo", "duration_ms", "snapshot_after"}
    assert dry.model_dump(exclude=own) == real.model_dump(exclude=own)
    return real


def test_a_change_and_its_way_back(spark_lake: Lake, trades: LakeTable, rows_of: RowsOf, cli: Cli) -> None:
    """NULL is not true; the receipt names run, snapshots, tag and undo; whole files go by metadata alone."""
    all_rows = rows_of(trades)
    receipt = both(lambda dry_run: trades.delete("spread > 200 -- both", dry_run=dry_run), trades)
    assert (receipt.rows_before, receipt.rows_deleted, receipt.rows_after) == (4, 2, 2)
    assert [row[0] for row in rows_of(trades)] == [1, 3]
    run = spark_lake.runs.show(receipt.run_id)
    assert (run.kind, run.state, run.undo) == ("delete_rows", "succeeded", receipt.undo)
    assert run.result is not None
    assert (run.result["rows_deleted"], run.result["backup"]) == (2, receipt.backup)
    (tag,) = [reference for reference in trades.references() if reference.kind == "tag"]
    assert (tag.name, tag.snapshot) == (receipt.backup, receipt.snapshot_before)
    assert [row.snapshot for row in trades.history() if row.current] == [receipt.snapshot_after]
    code, _, err = cli(*receipt.undo.split()[1:], "--yes")
    assert code == 0, err
    assert rows_of(trades) == all_rows

    whole = trades.delete("true", partition_filter={"product": "BTC"}, create_backup=False)
    assert (whole.rows_deleted, whole.backup, whole.undo is None) == (3, None, False)
    assert [reference.name for reference in trades.references()] == ["main", receipt.backup]
    assert whole.run_id not in [row.run_id for row in trades.history()]  # Spark's delete of files: see `settle_rows`
    nothing = trades.delete("trade_id = 77")
    assert nothing.reason is not None
    assert (nothing.run_id, nothing.reason.code, nothing.snapshot_after) == (None, "nothing_to_do", None)


def test_updates_see_the_old_row(trades: LakeTable, rows_of: RowsOf, spark_lake: Lake) -> None:
    from pyspark.sql import functions as f

    values = {"spread": expr("cast(price as double) * 10"), "size": expr("cast(spread as int)"), "price": 9}
    receipt = both(lambda dry_run: trades.update(values, "spread IS NULL", dry_run=dry_run), trades)
    assert (receipt.rows_updated, receipt.rows_after) == (1, 4)
    (row,) = [row for row in rows_of(trades, "trade_id, spread, size, price") if row[0] == 3]
    assert (row[1], row[2], str(row[3])) == (30.0, None, "9.00")
    moved = {"product": f.concat("product", f.lit("/x")), "day": "2026-01-01"}
    assert trades.update(moved, f.col("trade_id") == 1, partition_filter={"PRODUCT": "BTC"}).rows_updated == 1
    assert ("BTC/x", 1) in [(row[0], row[1]) for row in rows_of(trades, "product, trade_id")]
    assert trades.update({"size": 0}, "true", partition_filter={"product": None}).rows_updated == 0


def test_an_upsert_leaves_each_key_once(trades: LakeTable, rows_of: RowsOf, spark_lake: Lake) -> None:
    """Two old copies become the first of them with its new values; columns that are not given stay, or are NULL."""
    spark_lake.sql(
        f"INSERT INTO {trades.name.sql} VALUES (2, 'SOL', NULL, 7, 7, 7), (2, 'SOL', NULL, 8, 8, 8)", write=True
    )
    table = pa.table({"TRADE_ID": [2, 9, 1], "price": ["20.5", None, "1.5"]})
    receipt = both(lambda dry_run: trades.upsert(table, ["trade_id"], dry_run=dry_run), trades)
    assert (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted, receipt.rows_after) == (1, 2, 2, 5)
    found = {row[0]: row[1:] for row in rows_of(trades, "trade_id, product, cast(price as string), size")}
    assert (found[2], found[9], found[1]) == (("BTC", "20.50", 2), (None, None, None), ("BTC", "1.50", 1))
    twice = [{"trade_id": 5, "size": size} for size in (1, 3, 2)]
    with pytest.raises(Refused, match="3 times: trade_id = 5"):
        trades.upsert(twice, ["trade_id"])
    trades.upsert(twice, ["trade_id"], on_duplicate="last", order_by=["size"])
    assert trades.upsert(twice[:1], ["trade_id"], update_cols=[]).reason is not None  # known, and nothing to update
    frame = spark_lake.spark.createDataFrame([(5, None)], "trade_id int, size bigint")
    assert trades.upsert(frame, ["trade_id"]).rows_updated == 1
    assert (5, None) in rows_of(trades, "trade_id, size")


def test_one_row_of_each_key_stays(make_table: MakeTable, rows_of: RowsOf, spark_lake: Lake) -> None:
    """As they came, by an order, on format 2 and with NULL keys."""
    table = make_table(rows="(1, 'first'), (2, NULL)")
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (1, 'later'), (1, 'again'), (3, NULL)", write=True)
    receipt = both(lambda dry_run: table.dedupe(["id"], dry_run=dry_run), table)
    assert (receipt.rows_deleted, rows_of(table)) == (2, [(1, "first"), (2, None), (3, None)])
    assert table.dedupe(["name"], "last", ["id"]).rows_deleted == 1
    assert rows_of(table) == [(1, "first"), (3, None)]
    old = f"{table.name.namespace[0]}.v2"
    spark_lake.sql(f"CREATE TABLE {old} (id int) USING iceberg TBLPROPERTIES ('format-version'='2')", write=True)
    spark_lake.sql(f"INSERT INTO {old} VALUES (1), (1), (2)", write=True)
    assert spark_lake.table(old).dedupe(["id"]).rows_deleted == 1
    assert spark_lake.table(old).upsert([{"id": 2}, {"id": 3}], ["id"]).rows_inserted == 1


@pytest.mark.parametrize("version", ["2", "3"])
def test_one_row_of_each_key_stays_where_files_are_written_anew(
    spark_lake: Lake, namespace: str, rows_of: RowsOf, version: str
) -> None:
    """Copy-on-write, as other tools' tables are: equal rows, NULL keys, and files without such a key are left alone."""
    properties = {"format-version": version, "write.merge.mode": "copy-on-write"}
    spark_lake.tables.create(f"{namespace}.whole", "id int, name string", properties=properties)
    table = spark_lake.table(f"{namespace}.whole")
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (7, 'only')", write=True)
    alone = {row.path for row in table.files()}
    for rows in ("(1, 'a'), (1, 'a'), (NULL, 'x')", "(NULL, 'y'), (1, 'b')"):
        spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES {rows}", write=True)
    receipt = both(lambda dry_run: table.dedupe(["id"], "last", ["name"], dry_run=dry_run), table)
    assert (receipt.rows_deleted, receipt.rows_after) == (3, 3)
    assert Counter(rows_of(table, "id, name")) == Counter([(None, "y"), (1, "b"), (7, "only")])
    assert alone < {row.path for row in table.files()}
    assert table.dedupe(["id"]).reason is not None


def test_what_is_refused_leaves_everything_as_it_was(
    trades: LakeTable, make_table: MakeTable, spark_lake: Lake
) -> None:
    before = trades.show()
    row = {"trade_id": 1, "price": 1}
    wrong: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ColumnNotFound, "sprea", lambda: trades.delete("sprea > 1")),
        (InvalidQuery, "empty", lambda: trades.delete(" ")),
        (InvalidQuery, "not a boolean", lambda: trades.delete("price")),
        (Unsupported, "each time", lambda: trades.delete("rand() > 0.5")),
        (InvalidInput, "not a partition key", lambda: trades.delete("true", partition_filter={"size": 1})),
        (InvalidInput, r"partitioned by month\(day\)", lambda: trades.delete("true", partition_filter={"day": "x"})),
        (ColumnNotFound, "no column prize", lambda: trades.update({"prize": 1}, "true")),
        (InvalidInput, "no column is given", lambda: trades.update({}, "true")),
        (InvalidSchema, "fraction", lambda: trades.update({"size": 1.5}, "true")),
        (InvalidSchema, "trade_id .* cannot be NULL", lambda: trades.update({"trade_id": None}, "true")),
        (InvalidInput, "Névé's own", lambda: make_table("o", "_neve_x int").update({"_neve_x": 1}, "true")),
        (JobFailed, "(?i)divi", lambda: trades.update({"spread": expr("1 / (price - 3)")}, "true")),
        (InvalidSchema, "lacks: extra", lambda: trades.upsert([{**row, "extra": 1}], ["trade_id"])),
        (InvalidSchema, "price is decimal", lambda: trades.upsert([{**row, "price": 1.005}], ["trade_id"])),
        (InvalidSchema, "size is int", lambda: trades.upsert([{**row, "size": 1.5}], ["trade_id"], dry_run=True)),
        (InvalidSchema, "day is date", lambda: trades.upsert([{**row, "day": "2025-01-01 10:00"}], ["trade_id"])),
        (InvalidSchema, "cannot be NULL", lambda: trades.upsert([{"trade_id": None, "price": 1}], ["trade_id"])),
        (InvalidSchema, "cannot be NULL", lambda: trades.upsert([{"product": "X"}], ["product"])),
        (NeveError, "'x'", lambda: trades.upsert([{**row, "size": "x"}], ["trade_id"])),
        (ColumnNotFound, "no column trade_id in the new rows", lambda: trades.upsert([{"price": 1}], ["trade_id"])),
        (InvalidInput, "part of the key", lambda: trades.upsert([row], ["trade_id"], update_cols=["trade_id"])),
        (InvalidInput, "refuse or last", lambda: trades.upsert([row], ["trade_id"], on_duplicate="first")),
        (InvalidInput, "first or last", lambda: trades.dedupe(["trade_id"], "any")),
        (InvalidInput, "not by month", lambda: trades.dedupe(["trade_id"], order_by=["month(day)"])),
        (InvalidInput, "list of names", lambda: trades.dedupe("trade_id")),
        (TableNotFound, "no table", lambda: spark_lake.table("nope").delete("true")),
    ]
    for kind, words, deed in wrong:
        with pytest.raises(kind, match=words) as raised:
            deed()
        if words == "lacks: extra":
            assert "--add 'NAME TYPE'" in str(getattr(raised.value, "hint", None)), "as the command takes it"
    assert trades.show() == before


def test_rivals_and_the_dead(
    trades: LakeTable, rows_of: RowsOf, spark_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival between count and commit: counted anew, nothing lost. A process that dies: settled by the tag."""
    from neve.engine import staging
    from neve.services.repair import settle
    from neve.services.row_commits import backup_tag

    publish = staging.publish
    late: list[int] = []

    def overtaken(*args: Any, **options: Any) -> int:
        if not late:
            late.append(1)
            spark_lake.sql(f"INSERT INTO {trades.name.sql} VALUES (7, 'BTC', NULL, 1, 999, 1)", write=True)
        return publish(*args, **options)

    monkeypatch.setattr(staging, "publish", overtaken)
    receipt = trades.delete("spread > 200")
    assert (receipt.rows_before, receipt.rows_deleted, receipt.rows_after) == (5, 3, 2)
    assert [row[0] for row in rows_of(trades)] == [1, 3]
    assert [reference.kind for reference in trades.references()] == ["branch", "tag"]

    class Death(BaseException):
        pass

    def killed(*args: Any, **options: Any) -> int:
        if len(late) == 1:
            late.append(2)
            raise Death
        publish(*args, **options)
        raise Death

    monkeypatch.setattr(staging, "publish", killed)
    for published in (False, True):
        with pytest.raises(Death):
            trades.delete("trade_id = 3")
        run = spark_lake.runs.list(table=trades.name.short, limit=1)[0]
        assert settle(spark_lake._context, run).endswith("had been made" if published else "had not been made")
        tags = {reference.name for reference in trades.references()}
        assert (backup_tag(run.run_id) in tags) is published
        assert len(rows_of(trades)) == (1 if published else 2)


def test_the_commands(cli: Cli, trades: LakeTable, tmp_path: Path, rows_of: RowsOf, spark_lake: Lake) -> None:
    def answer(*words: str) -> Any:
        code, out, err = cli(*words, "-o", "json")
        assert code == 0, err
        return json.loads(out)

    name = trades.name.short
    where = ("--where", "spread > 200", "--partition", "product=BTC")
    code, out, err = cli("delete", name, *where)
    assert (code, out, "--yes" in err) == (6, "", True)
    assert answer("delete", name, *where, "--dry-run")["rows_deleted"] == 1
    assert answer("delete", name, *where, "--yes")["rows_deleted"] == 1
    code, out, _ = cli("update", name, "--where", "true", "--set", "price=price * 2", "--yes")
    assert (code, f"updated 3 rows of {trades.name}" in out, "undo: neve table rollback" in out) == (0, True, True)
    source = tmp_path / "new.csv"
    source.write_text('trade_id,product,price\n1,007,\n9,"",2.5\n')
    given = answer("upsert", name, "--key", "trade_id", "--from", str(source), "--yes")
    assert (given["rows_inserted"], given["rows_updated"]) == (1, 1)
    rows = rows_of(trades, "trade_id, product, cast(price as string)")
    assert rows[0] == (1, "007", None)  # as it is written, and nothing for nothing
    assert rows[-1] == (9, "", "2.50")
    source = tmp_path / "new.jsonl"
    source.write_text('{"trade_id": 1, "product": "2024-01-01"}\n{"trade_id": 10, "size": 3}\n')
    assert answer("upsert", name, "--key", "trade_id", "--from", str(source), "--yes")["rows_inserted"] == 1
    assert (1, "2024-01-01") in rows_of(trades, "trade_id, product")
    assert answer("dedupe", name, "--key", "product", "--order-by", "trade_id", "--yes")["rows_deleted"] == 0
    for words, message in {
        ("--backup-dir", str(tmp_path)): "is for folders",
        ("--compression", "zstd"): "is for folders",
    }.items():
        code, _, err = cli("delete", name, "--where", "true", "--yes", *words)
        assert (code, message in err) == (2, True)
    code, _, err = cli("delete", f"{name}s", "--where", "true", "--yes")
    assert (code, f"did you mean {trades.name}" in err) == (3, True)


def test_the_first_rows(make_table: MakeTable, rows_of: RowsOf, cli: Cli) -> None:
    """Columns that are not given are NULL; the way back is to be empty again."""
    table = make_table()
    receipt = table.upsert([{"id": 1}, {"id": 2}], ["id"])
    assert (receipt.rows_inserted, receipt.backup, rows_of(table)) == (2, None, [(1, None), (2, None)])
    code, _, err = cli(*str(receipt.undo).split()[1:], "--yes")
    assert code == 0, err
    assert rows_of(table) == []


def test_tables_that_are_not_changed_by_hand(
    spark_lake: Lake, namespace: str, make_table: MakeTable, tmp_path: Path, cli: Cli
) -> None:
    table = make_table()
    spark_lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {namespace}.d TARGET_LAG = '1 hour' AS SELECT id FROM {table.name}"
    )
    with pytest.raises(Refused, match="dynamic table") as caught:
        spark_lake.table(f"{namespace}.d").delete("true")
    assert f"neve dynamic refresh {namespace}.d" in str(caught.value.hint)
    config = tmp_path / "folder.yaml"
    config.write_text(f"name: {namespace}.folder\nstorage: {{format: parquet, base_path: {tmp_path}/folder/}}\n")
    spark_lake.tables.create(str(config))
    code, _, err = cli("delete", f"{namespace}.folder", "--where", "true", "--yes")
    assert (code, "is a directory of parquet files" in err) == (6, True)
