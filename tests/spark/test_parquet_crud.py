"""Document 002: delete, update, upsert, deduplicate, restore; every line of notes §C2 and §C4 that concerns them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import digests
from tests.spark.trades import KEYS, bag, files, read, read_with_duckdb, trades, write

from neve.errors import (
    ColumnNotFound,
    Conflict,
    InvalidInput,
    InvalidQuery,
    InvalidSchema,
    NotFound,
    Refused,
    Unsupported,
)
from neve.lake import Lake
from neve.parquet import ParquetCRUD, expr

pytestmark = pytest.mark.spark

Crud = Callable[..., ParquetCRUD]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "level2"
    write(root, trades(), KEYS)
    return root


@pytest.fixture
def crud(spark_lake: Lake, folder: Path) -> Crud:
    def make(at: Path = folder, **options: Any) -> ParquetCRUD:
        return ParquetCRUD(at, spark=spark_lake.spark, **options)

    return make


def both(do: Callable[..., dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Does it dry, then for real: the same figures, and only the second changes anything."""
    before = digests(folder)
    dry = do(dry_run=True)
    assert digests(folder) == before
    real = do(dry_run=False)
    own = ("run_id", "dry_run", "backup", "undo")
    assert {k: v for k, v in dry.items() if k not in own} == {k: v for k, v in real.items() if k not in own}
    assert dry["run_id"] is None
    return real


def test_null_is_not_true(folder: Path, crud: Crud) -> None:
    """C4: `spread_bps > 200` on 100, 300, NULL and 250 deletes two rows, and the NULL row stays."""
    stats = both(lambda dry_run: crud().delete("spread_bps > 200", dry_run=dry_run), folder)
    assert stats["rows_deleted"] == 2
    assert [row["trade_id"] for row in read(folder)] == ["1", "3"]
    assert (stats["rows_before"], stats["rows_after"]) == (4, 2)
    assert (stats["files_deleted"], stats["files_written"]) == (2, 1)  # the ETH file held nothing else
    assert stats["partitions_affected"] == 2
    assert not (folder / "product_id=ETH-USD").exists()


def test_files_whose_names_look_like_patterns_are_read_once(folder: Path, crud: Crud) -> None:
    paths = sorted(folder.rglob("*.parquet"))
    for number, path in enumerate(paths[:2]):
        path.rename(path.with_name(f"{{a,b}}[{number}]*?.parquet"))
    stats = crud().update("true", {"price": 7.0})
    assert (stats["rows_updated"], stats["rows_before"], stats["rows_after"]) == (4, 4, 4)
    assert sorted(row["trade_id"] for row in read(folder)) == sorted(row["trade_id"] for row in trades())


@pytest.mark.parametrize(
    "partition_filter",
    [
        None,
        {"product_id": "BTC-USD"},
        {"date": "2025-11-26"},
        {"date": "2025-11-26", "product_id": "BTC-USD"},
        {"product_id": "BTC-USD", "date": "2025-11-26"},
    ],
)
def test_a_partition_filter_changes_nothing_but_the_work(
    folder: Path, crud: Crud, partition_filter: dict[str, object] | None
) -> None:
    """C4: on a leading column, on another, on both in any order: the same rows."""
    before = files(folder)
    stats = crud().delete(
        "product_id = 'BTC-USD' AND date = '2025-11-26' AND trade_id = '3'", partition_filter=partition_filter
    )
    assert stats["rows_deleted"] == 1
    assert sorted(row["trade_id"] for row in read(folder)) == ["1", "12345", "4"]
    changed = {path for path, inode in files(folder).items() if before[path] != inode}
    assert changed == {"product_id=BTC-USD/date=2025-11-26/a.parquet"}
    expected: dict[Any, int] = {
        None: 3,
        ("product_id",): 2,
        ("date",): 2,
        ("date", "product_id"): 1,
        ("product_id", "date"): 1,
    }
    assert stats["files_read"] == expected[tuple(partition_filter) if partition_filter else None]


def test_a_partition_filter_must_make_sense(folder: Path, crud: Crud) -> None:
    with pytest.raises(InvalidInput, match="not a partition key") as caught:
        crud().delete("true", partition_filter={"side": "x"})
    assert "product_id, date" in str(caught.value.hint)
    assert crud().delete("true", partition_filter={"product_id": "none"})["rows_deleted"] == 0


def test_all_columns_of_an_update_see_the_old_row(folder: Path, crud: Crud) -> None:
    """C4: the guide's two columns are both set, although the first one is in the condition."""
    stats = both(
        lambda dry_run: crud().update(
            "spread_bps IS NULL",
            {"spread_bps": expr("price * 10"), "size": expr("spread_bps"), "price": 9},
            dry_run=dry_run,
        ),
        folder,
    )
    assert stats["rows_updated"] == 1
    row = next(row for row in read(folder) if row["trade_id"] == "3")
    assert (row["spread_bps"], row["size"], row["price"]) == (30.0, None, 9.0)
    assert len(read(folder)) == 4


def test_a_literal_is_text_and_a_column_is_a_column(folder: Path, crud: Crud, spark_lake: Lake) -> None:
    from pyspark.sql import functions as f

    crud().update(f.col("trade_id") == "1", {"trade_id": "price + 1", "size": f.col("price") * 7})
    row = next(row for row in read(folder) if row["date"] == "2025-11-25")
    assert (row["trade_id"], row["size"]) == ("price + 1", 7.0)


def test_a_missing_column_is_an_error_that_names_it(folder: Path, crud: Crud) -> None:
    before = digests(folder)
    with pytest.raises(ColumnNotFound, match="side_normalized"):
        crud().update("price > 1", {"side_normalized": "ask"})
    with pytest.raises(ColumnNotFound, match="sid") as caught:
        crud().delete("sid = 'offer'")
    assert caught.value.hint is None or "size" in caught.value.hint
    with pytest.raises(ColumnNotFound, match="trade") as caught:
        crud().deduplicate(["tradeid"])
    assert "trade_id" in str(caught.value.hint)
    for words in ("", "price >", "price"):
        with pytest.raises(InvalidQuery):
            crud().delete(words)
    with pytest.raises(InvalidInput, match="no column is given"):
        crud().update("true", {})
    with pytest.raises(Unsupported, match="each time"):
        crud().delete("rand() > 0.5")
    assert digests(folder) == before


def test_a_fraction_is_not_cut_off(tmp_path: Path, crud: Crud) -> None:
    write(tmp_path / "t", [{"id": 1, "n": 2}])
    with pytest.raises(InvalidSchema, match="fraction"):
        crud(tmp_path / "t").update("true", {"n": 1.5})
    assert read(tmp_path / "t") == [{"id": 1, "n": 2}]


def test_a_row_whose_partition_value_changes_moves(folder: Path, crud: Crud) -> None:
    stats = both(lambda dry_run: crud().update("trade_id = '3'", {"date": "2025-11-27"}, dry_run=dry_run), folder)
    assert (stats["rows_updated"], stats["files_written"], stats["files_deleted"]) == (1, 2, 1)
    assert [row["trade_id"] for row in read(folder, "product_id=BTC-USD/date=2025-11-27/*.parquet")] == ["3"]
    assert len(read(folder)) == 4
    crud().update("true", {"product_id": "X"})
    assert {file.parent.parent.name for file in folder.rglob("*.parquet")} == {"product_id=X"}
    assert len(read(folder)) == 4


SEED = {
    "product_id": ["BTC-USD", "BTC-USD"],
    "trade_id": ["12345", "99999"],
    "price": [50000.0, 50100.0],
    "size": [1.5, 2.0],
    "date": ["2025-11-26", "2025-11-26"],
}


def test_the_upsert_of_the_guide(folder: Path, crud: Crud) -> None:
    """C2 1, C4: one row inserted and one updated; the frame lacks a column, which keeps its value."""
    stats = both(
        lambda dry_run: crud().upsert(
            new_data=pa.table(SEED),
            key_cols=["product_id", "trade_id"],
            partition_cols=["product_id", "date"],
            update_cols=["price", "size"],
            dry_run=dry_run,
            create_backup=True,
        ),
        folder,
    )
    assert (stats["rows_inserted"], stats["rows_updated"], stats["rows_deleted"]) == (1, 1, 0)
    rows = {row["trade_id"]: row for row in read(folder)}
    assert len(rows) == 5
    assert (rows["12345"]["price"], rows["12345"]["size"], rows["12345"]["spread_bps"]) == (50000.0, 1.5, 300.0)
    assert (rows["99999"]["price"], rows["99999"]["spread_bps"]) == (50100.0, None)
    assert stats["files_read"] == 2  # the key names the product: other products are not looked at


def test_an_upsert_makes_partitions(folder: Path, crud: Crud, spark_lake: Lake) -> None:
    """C2 2, with a Spark frame and a partition that was not there."""
    frame = spark_lake.spark.createDataFrame(
        [("1", "BTC-USD", "2025-11-25", 5.0), ("8", "SOL-USD", "2025-11-25", 6.0), ("9", "SOL-USD", "2025-11-26", 7.0)],
        "trade_id string, product_id string, date string, price double",
    )
    stats = crud().upsert(frame, ["trade_id"], ["product_id", "date"])
    assert (stats["rows_inserted"], stats["rows_updated"]) == (2, 1)
    assert [row["price"] for row in read(folder, "product_id=SOL-USD/**/*.parquet")] == [6.0, 7.0]


def test_a_key_is_unique_wherever_its_old_copy_lay(folder: Path, crud: Crud) -> None:
    """C4: the same key with another partition value moves; two old copies become one."""
    write(folder, [{**trades()[0], "date": "2025-11-20"}], KEYS, name="copy")
    row = {**trades()[0], "date": "2025-12-01", "price": 77.0}
    stats = both(lambda dry_run: crud().upsert([row], ["trade_id"], list(KEYS), dry_run=dry_run), folder)
    assert (stats["rows_updated"], stats["rows_deleted"], stats["rows_inserted"]) == (1, 1, 0)
    found = [row for row in read(folder) if row["trade_id"] == "1"]
    assert [(row["date"], row["price"]) for row in found] == [("2025-12-01", 77.0)]
    assert stats["rows_after"] == len(read(folder)) == 4


def test_null_can_be_written_and_can_be_a_key(folder: Path, crud: Crud) -> None:
    schema = pa.schema([(name, pa.string() if name in ("trade_id", *KEYS) else pa.float64()) for name in trades()[0]])
    row = {**trades()[1], "spread_bps": None}
    crud().upsert(pa.Table.from_pylist([row], schema=schema), ["trade_id"], list(KEYS), update_cols=["spread_bps"])
    assert next(row for row in read(folder) if row["trade_id"] == "12345")["spread_bps"] is None
    news = [pa.Table.from_pylist([{**row, "trade_id": None, "price": price}], schema=schema) for price in (1.0, 2.0)]
    stats = [crud().upsert(new, ["trade_id"], list(KEYS)) for new in news]
    assert [(each["rows_inserted"], each["rows_updated"]) for each in stats] == [(1, 0), (0, 1)]
    assert [row["price"] for row in read(folder) if row["trade_id"] is None] == [2.0]


def test_duplicate_keys_in_the_input(folder: Path, crud: Crud, spark_lake: Lake) -> None:
    twice = [{**trades()[0], "price": price} for price in (10.0, 30.0, 20.0)]
    before = digests(folder)
    with pytest.raises(Refused, match="3 times: trade_id = '1'"):
        crud().upsert(twice, ["trade_id"], list(KEYS))
    assert digests(folder) == before
    assert crud().upsert(twice, ["trade_id"], list(KEYS), on_duplicate="last")["rows_updated"] == 1
    assert next(row for row in read(folder) if row["trade_id"] == "1")["price"] == 20.0
    crud().upsert(twice, ["trade_id"], list(KEYS), on_duplicate="last", order_by=["price"])
    assert next(row for row in read(folder) if row["trade_id"] == "1")["price"] == 30.0
    frame = spark_lake.spark.createDataFrame(twice)
    with pytest.raises(InvalidInput, match="no order"):
        crud().upsert(frame, ["trade_id"], list(KEYS), on_duplicate="last")
    crud().upsert(frame, ["trade_id"], list(KEYS), on_duplicate="last", order_by=["price desc"])
    assert next(row for row in read(folder) if row["trade_id"] == "1")["price"] == 10.0


def test_what_an_upsert_refuses(folder: Path, crud: Crud) -> None:
    row = trades()[0]
    before = digests(folder)
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ColumnNotFound, "trade", {"key_cols": ["tradeid"]}),
        (InvalidInput, "list of names", {"key_cols": "trade_id"}),
        (InvalidSchema, "partitioned by product_id, date", {"partition_cols": ["product_id"]}),
        (ColumnNotFound, "no column date in the new rows", {"new_data": [{"product_id": "x", "trade_id": "1"}]}),
        (InvalidSchema, "lacks: extra", {"new_data": [{**row, "extra": 1}]}),
        (ColumnNotFound, "prize", {"update_cols": ["prize"]}),
        (InvalidInput, "update_cols is a list", {"update_cols": "price"}),
        (InvalidInput, "partitioning is a list", {"partition_cols": "date"}),
        (InvalidInput, "part of the key", {"update_cols": ["trade_id"]}),
        (InvalidInput, "refuse or last", {"on_duplicate": "first"}),
        (InvalidInput, "cannot take rows from a dict", {"new_data": {"a": 1}}),
    ]
    for kind, words, change in wrong:
        with pytest.raises(kind, match=words):
            crud().upsert(**{"new_data": [row], "key_cols": ["trade_id"], "partition_cols": list(KEYS), **change})
    assert digests(folder) == before


def test_the_workflows_of_the_guide(tmp_path: Path, crud: Crud) -> None:
    """1 mends the data, 2 removes duplicates with polars, 3 loads more; 4 is the Repartitioner's."""
    import polars as pl

    names = ("product_id", "date", "trade_id", "side", "side_normalized", "bid", "ask", "spread", "spread_bps")
    table = [
        ("BTC-USD", "2025-11-25", 1, "offer", None, 1.0, 3.0, 9.0, 10.0),
        ("BTC-USD", "2025-11-25", 2, "bid", "bid", 1.0, 2.0, 9.0, 501.0),
        ("BTC-USD", "2025-11-26", 3, "bid", "bid", 1.0, 2.0, None, None),
        ("ETH-USD", "2025-11-26", 4, "offer", None, 5.0, 8.0, 9.0, 900.0),
    ]
    folder, backups = tmp_path / "level2", tmp_path / "backups"
    rows = [dict(zip(names, row, strict=True)) for row in table]
    schema = pa.Table.from_pylist(rows).schema
    write(folder, rows, KEYS, schema=schema)
    write(folder, rows[3:], KEYS, name="again", schema=schema)
    work = crud(folder, backup_dir=backups)
    assert work.delete("spread_bps > 500", {"product_id": "BTC-USD"}, create_backup=True)["rows_deleted"] == 1
    offers = work.update("side = 'offer'", {"side_normalized": "ask"}, {"product_id": "BTC-USD"})
    assert (offers["rows_updated"], offers["files_read"]) == (1, 2)
    assert work.update("spread IS NOT NULL", {"spread": expr("ask - bid")})["rows_updated"] == 3
    unique = pl.scan_parquet(folder / "**/*.parquet", hive_partitioning=False).unique(
        subset=["product_id", "trade_id"], keep="first"
    )
    stats = work.upsert(unique.collect(), ["product_id", "trade_id"], list(KEYS), create_backup=True)
    assert (stats["rows_before"], stats["rows_after"], stats["rows_deleted"]) == (4, 3, 1)
    news = pl.DataFrame([{**rows[0], "bid": 7.0, "side": "?"}, {**rows[0], "trade_id": 9, "date": "2025-11-27"}])
    stats = work.upsert(news, ["product_id", "trade_id"], list(KEYS), update_cols=["bid"])
    assert (stats["rows_updated"], stats["rows_inserted"]) == (1, 1)
    shown = ("trade_id", "side", "side_normalized", "bid", "spread")
    assert sorted(tuple(row[name] for name in shown) for row in read(folder)) == [
        (1, "offer", "ask", 7.0, 2.0),
        (3, "bid", "bid", 1.0, None),
        (4, "offer", None, 5.0, 3.0),
        (9, "offer", None, 1.0, 9.0),
    ]
    with pytest.raises(InvalidInput, match="cannot be a polars Expr"):
        work.delete(pl.col("bid") > 1)  # type: ignore[arg-type]


def test_frames_of_pandas_and_polars(tmp_path: Path, crud: Crud) -> None:
    """NULLs, decimals, dates and times with a zone come as they are; an empty frame changes nothing."""
    from datetime import UTC, datetime, timedelta, timezone

    import pandas as pd
    import polars as pl

    schema = pa.schema(
        [("id", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(10, 2)), ("day", pa.date32()),
         ("at", pa.timestamp("us", tz="UTC")), ("n", pa.int32())]
    )  # fmt: skip
    folder = tmp_path / "frames"
    old = {"id": 1, "s": "old", "d": Decimal("0.01"), "day": date(1999, 1, 1), "at": None, "n": 7}
    write(folder, [old], schema=schema)
    noon = datetime(2024, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    full: dict[str, Any] = {"id": 2, "s": "ü", "d": Decimal("1.5"), "day": date(2024, 2, 29), "at": noon, "n": 3}
    empty = {**dict.fromkeys(full), "id": 1}
    there = {**full, "at": noon.astimezone(timezone(timedelta(hours=2)))}
    pandas = pd.DataFrame([{**there, "id": 3}, empty])  # whole numbers with NULL are floats in pandas
    assert pandas["n"].dtype == "float64"
    polars = pl.DataFrame([{**full, "id": 4}, {**empty, "id": 5}], schema_overrides={"s": pl.Categorical})
    for frame, news in ((pandas, (1, 1)), (polars, (2, 0)), (polars.lazy(), (0, 2))):
        stats = crud(folder).upsert(frame, ["id"], [])
        assert (stats["rows_inserted"], stats["rows_updated"]) == news
    expected = [empty, {**full, "id": 3}, {**full, "id": 4}, {**empty, "id": 5}]
    assert bag(read(folder)) == bag([{**row, "d": row["d"] and Decimal("1.50")} for row in expected])
    before = digests(folder)
    for nothing in (pandas.iloc[:0], polars.clear()):
        stats = crud(folder).upsert(nothing, ["id"], [])
        assert (stats["rows_inserted"], stats["rows_updated"], stats["run_id"]) == (0, 0, None)
    with pytest.raises(InvalidSchema, match=r"n is int, and would not hold this value as it is: 1\.5"):
        crud(folder).upsert(pandas.assign(n=1.5), ["id"], [])
    with pytest.raises(InvalidSchema, match="d is decimal"):
        crud(folder).upsert(polars.with_columns(d=pl.lit(Decimal("1.005"))), ["id"], [])
    with pytest.raises(InvalidInput, match="two columns id"):
        crud(folder).upsert(polars.with_columns(ID=1), ["id"], [])
    assert digests(folder) == before


def test_an_upsert_makes_a_folder(tmp_path: Path, crud: Crud) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "day": date(2025, 1, 1), "amount": Decimal("1.50")},
        {"id": 2, "day": None, "amount": None},
    ]
    with pytest.raises(ColumnNotFound, match="no column days in the new rows"):
        crud(tmp_path / "new").upsert(rows, ["id"], ["days"])
    assert not (tmp_path / "new").exists()
    stats = crud(tmp_path / "new").upsert(rows, ["id"], ["day"])
    assert stats["rows_inserted"] == 2
    assert sorted(path.name for path in (tmp_path / "new").glob("day*")) == [
        "day=2025-01-01",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]
    assert bag(read(tmp_path / "new")) == bag(rows)
    with pytest.raises(NotFound):
        crud(tmp_path / "other").delete("true")


def test_deduplication(folder: Path, crud: Crud) -> None:
    """C4: the guide's workflow, and the verb for it: first, last, and by an order."""
    write(folder, [{**trades()[0], "price": 8.0}, {**trades()[1], "date": "2025-11-25"}], KEYS, name="b")
    stats = both(lambda dry_run: crud().deduplicate(["product_id", "trade_id"], dry_run=dry_run), folder)
    assert stats["rows_deleted"] == 2
    assert sorted((row["trade_id"], row["price"]) for row in read(folder)) == [
        ("1", 1.0),
        ("12345", 2.0),
        ("3", 3.0),
        ("4", 4.0),
    ]
    crud().restore()
    crud().deduplicate(["product_id", "trade_id"], keep="last", order_by=["price"])
    assert sorted((row["trade_id"], row["price"]) for row in read(folder)) == [
        ("1", 8.0),
        ("12345", 2.0),
        ("3", 3.0),
        ("4", 4.0),
    ]
    assert crud().deduplicate(["trade_id"])["rows_deleted"] == 0


def test_the_guides_own_deduplication(folder: Path, crud: Crud) -> None:
    write(folder, [{**trades()[0], "price": 8.0}], KEYS, name="b")
    unique = {(row["product_id"], row["trade_id"]): row for row in reversed(read(folder))}
    stats = crud().upsert(list(unique.values()), ["product_id", "trade_id"], list(KEYS))
    assert (stats["rows_updated"], stats["rows_deleted"]) == (4, 1)
    assert bag(read(folder)) == bag(trades())


def test_backup_and_restore(folder: Path, crud: Crud, tmp_path: Path) -> None:
    """C2 16: exactly the rows, in exactly the files; and nothing of a backup is seen by other readers."""
    for backup_dir in (None, tmp_path / "backups"):
        work = crud(backup_dir=backup_dir)
        before = {path: digest for path, digest in digests(folder).items() if not path.startswith("_")}
        first = work.delete("spread_bps > 200")
        second = work.update("true", {"price": 0})
        assert len(read(folder)) == 2
        assert [backup.run_id for backup in work.backups()] == [first["backup"], second["backup"]]
        with pytest.raises(Conflict, match="no longer as run"):
            work.restore(first["backup"], dry_run=True)
        with pytest.raises(Conflict, match="no longer as run") as caught:
            work.restore(first["backup"])
        assert second["backup"] in str(caught.value.hint)
        dry = work.restore("last", dry_run=True)
        assert (dry["rows_before"], dry["rows_after"]) == (2, 2)
        work.restore()
        stats = work.restore(first["backup"])
        assert (stats["rows_before"], stats["rows_after"]) == (2, 4)
        assert digests(folder) == before
        assert work.backups() == []
        with pytest.raises(NotFound, match="no backup"):
            work.restore()
    crud().delete("price = 1", create_backup=False)
    assert crud().backups() == []
    crud().delete("price = 2")
    crud().drop_backup("last")
    assert crud().backups() == []


def test_a_failed_change_leaves_no_backup(folder: Path, crud: Crud) -> None:
    before = digests(folder)
    with pytest.raises(Exception, match=r"(?i)divi"):
        crud().update("trade_id = '3'", {"price": expr("1 / (price - 3)")})
    assert digests(folder) == before


def test_odd_partition_values(tmp_path: Path, crud: Crud) -> None:
    """C2 17: `/`, spaces, `=`, unicode, quotes, dots, NULL and the empty string, there and back."""
    odd = [
        "BTC/USD",
        "a b",
        "k=v",
        "größe",
        "100%",
        "",
        None,
        "it's",
        "x#?*[1]{2}",
        "..",
        ".hidden",
        "_under",
        "a:b",
        "c\\d",
        "+",
    ]
    rows: list[dict[str, Any]] = [{"symbol": value, "id": number, "n": 0} for number, value in enumerate(odd)]
    folder = tmp_path / "odd"
    crud(folder).upsert(rows, ["id"], ["symbol"])
    assert bag(read(folder)) == bag(rows)
    assert bag(read_with_duckdb(folder)) == bag(rows)
    stats = crud(folder).update("true", {"n": expr("id + 1")})
    assert stats["rows_updated"] == len(rows)
    for number, value in enumerate(odd):
        assert crud(folder).delete(f"n = {number + 1}", {"symbol": value}, dry_run=True)["rows_deleted"] == 1, value
    assert bag(read(folder)) == bag([{**row, "n": row["id"] + 1} for row in rows])


def test_folders_of_other_writers(tmp_path: Path, crud: Crud) -> None:
    """Hive columns that are not inside, mixed widths, added columns, a file without an ending."""
    folder = tmp_path / "foreign"
    for place, table in {
        "year=2024/region=New%20York/a.parquet": pa.table({"id": pa.array([1, 2], pa.int32())}),
        "year=2024/region=__HIVE_DEFAULT_PARTITION__/000000_0": pa.table({"id": pa.array([3], pa.int64())}),
        "year=2025/region=eu/b.parquet": pa.table({"id": [4], "note": ["x"], "year": pa.array([2025], pa.int32())}),
    }.items():
        (folder / place).parent.mkdir(parents=True)
        pq.write_table(table, folder / place)
    stats = crud(folder).update("region = 'New York' AND id = 2", {"note": "y"}, {"year": 2024})
    assert (stats["rows_updated"], stats["files_read"]) == (1, 2)
    changed = read(folder, "year=2024/region=New%20York/*.parquet")
    assert changed == [
        {"id": 1, "note": None, "year": 2024, "region": "New York"},
        {"id": 2, "note": "y", "year": 2024, "region": "New York"},
    ]
    assert crud(folder).delete("region IS NULL")["rows_deleted"] == 1
    stats = crud(folder).upsert([{"id": 9, "year": 2024, "region": "New York"}], ["id"], ["year", "region"])
    assert stats["rows_inserted"] == 1
    assert not (folder / "year=2024/region=New York").exists()  # it joins the folder that is there


def test_a_folder_that_disagrees_with_its_rows(tmp_path: Path, crud: Crud) -> None:
    """C2 17: reported, not trusted; repair moves the rows and loses none."""
    folder = tmp_path / "wrong"
    rows = [{"symbol": "BTC/USD", "id": 1}, {"symbol": "BTC/USD", "id": 2}, {"symbol": "BTC-USD", "id": 3}]
    (folder / "symbol=BTC-USD").mkdir(parents=True)
    for number, members in enumerate((rows[:2], rows)):
        pq.write_table(
            pa.Table.from_pylist(members), folder / f"symbol=BTC-USD/{number}.parquet", write_statistics=not number
        )
    for deed in (lambda: crud(folder).delete("id = 1"), lambda: crud(folder).deduplicate(["id"])):
        with pytest.raises(Refused, match="its rows say otherwise") as caught:
            deed()
        assert "neve parquet repair" in str(caught.value.hint)
    stats = both(lambda dry_run: crud(folder).repair(dry_run=dry_run), folder)
    assert (stats["rows_updated"], stats["rows_before"], stats["rows_after"]) == (4, 5, 5)
    assert bag(read(folder)) == bag([*rows[:2], *rows])
    assert [row["id"] for row in read(folder, "symbol=BTC-USD/*.parquet")] == [3]
    assert crud(folder).repair()["rows_updated"] == 0
    assert crud(folder).delete("id = 1")["rows_deleted"] == 2


def test_other_types_survive_a_rewrite(tmp_path: Path, crud: Crud) -> None:
    """Nested, temporal and decimal values of rows that are not meant are written back as they were."""
    from datetime import UTC, datetime

    row = {
        "id": 1, "flag": True, "f": 0.1, "d": Decimal("12345678901234567890.12"), "b": b"\x00\xff",
        "day": date(1600, 1, 1), "at": datetime(2024, 1, 1, 12, 30, 1, 5, tzinfo=UTC),
        "local": datetime(1960, 1, 1, 0, 0, 0, 7),  # noqa: DTZ001
        "tags": ["a", None], "point": {"x": 1, "y": [{"z": "q"}]},
    }  # fmt: skip
    folder = tmp_path / "types"
    schema = pa.Table.from_pylist([row]).schema.append(pa.field("m", pa.map_(pa.string(), pa.int64())))
    write(folder, [{**row, "m": [("k", 1)]}, {"id": 2}, {**row, "id": 3, "m": []}], schema=schema)
    before = read(folder)
    crud(folder, compression="snappy").delete("id = 2")
    assert read(folder) == [row for row in before if row["id"] != 2]
    assert pq.read_metadata(next(folder.rglob("*.parquet"))).row_group(0).column(0).compression == "SNAPPY"
    with pytest.raises(InvalidInput, match="compression"):
        crud(folder, compression="zst")


def test_runs_of_a_folder_in_a_lake(spark_lake: Lake) -> None:
    folder = spark_lake.root / "landing" / "t"
    write(folder, [{"id": 1}, {"id": 2}])
    stats = ParquetCRUD(folder, lake=spark_lake).delete("id = 1")
    run = spark_lake.runs.show(stats["run_id"])
    assert (run.kind, run.state) == ("parquet delete", "succeeded")
    assert run.result is not None
    assert run.result["rows_deleted"] == 1
    assert run.undo == stats["undo"] == f"neve parquet restore {folder} {stats['run_id']}"
