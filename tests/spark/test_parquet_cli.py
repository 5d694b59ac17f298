"""The commands for plain folders: the same figures as in Python, questions before rows go, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import digests
from tests.spark.trades import KEYS, bag, files, read, trades, write

from neve.lake import Lake

pytestmark = pytest.mark.spark

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "level2", trades(), KEYS)
    return tmp_path / "level2"


def answer(cli: Cli, *words: str) -> Any:
    code, out, err = cli(*words, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def test_rows(cli: Cli, folder: Path, tmp_path: Path) -> None:
    before = digests(folder)
    where = ("--where", "spread_bps > 200", "--partition", "date=2025-11-26")
    code, out, err = cli("delete", str(folder), *where)
    assert (code, out) == (6, "")
    assert "--yes" in err
    dry = answer(cli, "delete", str(folder), *where, "--dry-run")
    assert (dry["rows_deleted"], dry["dry_run"]) == (2, True)
    assert digests(folder) == before
    stats = answer(cli, "delete", str(folder), *where, "--yes")
    assert stats["rows_deleted"] == 2
    assert (
        answer(cli, "update", str(folder), "--where", "true", "--set", "price=price * 2", "--yes")["rows_updated"] == 2
    )
    rows = tmp_path / "new.csv"
    rows.write_text("product_id,date,trade_id,price\nBTC-USD,2025-11-25,1,9.5\nSOL-USD,2025-11-27,7,1\n")
    given = answer(cli, "upsert", str(folder), "--key", "trade_id", "--from", str(rows), "--yes")
    assert (given["rows_inserted"], given["rows_updated"]) == (1, 1)
    assert sorted((row["trade_id"], row["price"]) for row in read(folder)) == [("1", 9.5), ("3", 6.0), ("7", 1.0)]
    assert answer(cli, "dedupe", str(folder), "--key", "size", "--order-by", "price", "--yes")["rows_deleted"] == 1
    code, out, err = cli("parquet", "restore", str(folder), "--yes")
    assert code == 0, err
    assert "✓ restored: 2 → 3 rows" in err


def test_options_of_rows(cli: Cli, tmp_path: Path) -> None:
    """What the verbs may be told beyond that: a new folder, columns, the last of several, codecs and backups."""
    rows, place, kept = tmp_path / "new.csv", str(tmp_path / "made"), tmp_path / "kept"
    rows.write_text("k,id,v,w\na,1,10,x\na,2,20,y\na,2,5,z\n")
    new = ("upsert", place, "--key", "id", "--from", str(rows), "--partition-by", "k")
    code, _, err = cli(*new)
    assert (code, "id" in err) == (6, True)  # a key twice
    last = ("--on-duplicate", "last", "--order-by", "v", "--compression", "snappy")
    assert answer(cli, *new, *last)["rows_inserted"] == 2
    assert sorted((row["id"], row["v"], row["w"]) for row in read(Path(place))) == [(1, 10, "x"), (2, 20, "y")]
    (file,) = Path(place).rglob("*.parquet")
    assert (file.parent.name, pq.read_metadata(file).row_group(0).column(0).compression) == ("k=a", "SNAPPY")
    rows.write_text("k,id,v,w\na,1,11,changed\n")
    some = ("upsert", place, "--key", "id", "--from", str(rows), "--update", "v", "--backup-dir", str(kept), "--yes")
    stats = answer(cli, *some)
    assert sorted((row["id"], row["v"], row["w"]) for row in read(Path(place))) == [(1, 11, "x"), (2, 20, "y")]
    assert stats["undo"] == f"neve parquet restore {place} {stats['run_id']} --backup-dir {kept}"
    assert not list(Path(place).glob(f"_backups/{stats['run_id']}*")), "it is elsewhere"
    assert cli(*stats["undo"].split()[1:], "--yes")[0] == 0
    assert sorted(row["v"] for row in read(Path(place))) == [10, 20]
    gone = answer(cli, "delete", place, "--where", "id = 1", "--no-backup", "--yes")
    assert (gone["rows_deleted"], gone["backup"], gone["undo"]) == (1, None, None)
    code, _, err = cli("delete", place, "--where", "nothing = 1", "--yes")
    assert (code, "_neve_" in err) == (3, False)
    answer(cli, "delete", place, "--where", "true", "--no-backup", "--yes")
    code, _, err = cli("delete", place, "--where", "id = 1", "--yes")
    assert (code, "holds no Parquet files" in err) == (3, True)


def test_files(cli: Cli, folder: Path, tmp_path: Path) -> None:
    write(folder, trades(), KEYS, name="b")
    rows = read(folder)
    code, out, err = cli("parquet", "fragmentation", str(folder))
    assert code == 0
    assert "6 files in 3 partitions" in err
    assert "product_id=BTC-USD/date=2025-11-26" in out
    assert answer(cli, "parquet", "fragmentation", str(folder))["files"] == 6
    stats = answer(cli, "parquet", "compact", str(folder), "--keep-source-files")
    assert (stats["files_before"], stats["files_after"]) == (6, 3)
    assert bag(read(folder)) == bag(rows)
    assert answer(cli, "parquet", "estimate", str(folder), "--by", "date")["num_partitions"] == 2
    code, _, err = cli("parquet", "repartition", str(folder), str(tmp_path / "new"), "--by", "date", "--swap")
    assert code == 6
    stats = answer(
        cli, "parquet", "repartition", str(folder), str(tmp_path / "new"), "--by", "date,product_id", "--swap", "--yes"
    )
    assert stats["partitions_created"] == 3
    assert (folder / "date=2025-11-25/product_id=BTC-USD").is_dir()
    assert bag(read(folder)) == bag(rows)


def test_repair(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "d/k=a").mkdir(parents=True)
    pq.write_table(pa.table({"k": ["b", "a"], "id": [1, 2]}), tmp_path / "d/k=a/x.parquet")
    code, _, err = cli("delete", str(tmp_path / "d"), "--where", "id = 1", "--yes")
    assert code == 6
    assert "neve parquet repair" in err
    assert answer(cli, "parquet", "repair", str(tmp_path / "d"), "--yes")["rows_updated"] == 1
    assert read(tmp_path / "d", "k=b/*.parquet") == [{"k": "b", "id": 1}]


def test_to_iceberg_and_back(cli: Cli, folder: Path, tmp_path: Path, spark_lake: Lake, namespace: str) -> None:
    """The table is made of the very files, which nothing touches, not even a change of its rows."""
    rows, before, inodes = read(folder), digests(folder), files(folder)
    name = f"{namespace}.level2"
    dry = answer(cli, "parquet", "to-iceberg", str(folder), name, "--dry-run")
    assert (dry["details"]["rows"], spark_lake.table(name).exists()) == (4, False)
    assert answer(cli, "parquet", "to-iceberg", str(folder), name)["details"]["files"] == 3
    table = spark_lake.table(name)
    assert {row.path.removeprefix("file:") for row in table.files()} == {f"{folder}/{path}" for path in inodes}
    assert table.show().partition_by == ["product_id", "date"]
    assert bag([row.asDict() for row in spark_lake.sql(f"SELECT * FROM {name}").collect()]) == bag(rows)
    assert answer(cli, "delete", name, "--where", "spread_bps > 200", "--yes")["rows_deleted"] == 2
    for words in (("parquet", "compact", str(folder)), ("delete", str(folder), "--where", "true", "--yes")):
        code, _, err = cli(*words)
        assert (code, f"neve compact {name}" in err) == (6, True), err
    assert (digests(folder), files(folder)) == (before, inodes)
    dry = answer(cli, "parquet", "from-iceberg", name, str(tmp_path / "back"), "--dry-run", "--where", "trade_id = '1'")
    assert (dry["details"]["rows"], (tmp_path / "back").exists()) == (1, False)
    answer(cli, "parquet", "from-iceberg", name, str(tmp_path / "back"))
    assert bag(read(tmp_path / "back")) == bag([row for row in rows if row["trade_id"] in ("1", "3")])
    code, _, err = cli("parquet", "from-iceberg", name, str(tmp_path / "back"))
    assert (code, "not empty" in err) == (6, True)

    (tmp_path / "wrong/k=a").mkdir(parents=True)
    pq.write_table(pa.table({"k": ["b"], "id": [1]}), tmp_path / "wrong/k=a/x.parquet")
    code, _, err = cli("parquet", "to-iceberg", str(tmp_path / "wrong"), f"{namespace}.wrong")
    assert (code, "k=a/x.parquet" in err) == (6, True)
    assert not spark_lake.table(f"{namespace}.wrong").exists()


def test_what_a_target_is(cli: Cli, folder: Path, spark_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is a folder and a name a table; one that is both is refused, and so is what is neither."""
    monkeypatch.chdir(folder.parent)
    spark_lake.tables.create("level2", "id bigint")
    try:
        code, _, err = cli("delete", "level2", "--where", "true", "--yes")
        assert (code, "./level2 for the folder, default.level2 for the table" in err) == (6, True)
        assert answer(cli, "delete", "./level2", "--where", "true", "--dry-run")["rows_deleted"] == 4
        assert answer(cli, "delete", "default.level2", "--where", "true", "--dry-run")["rows_before"] == 0
    finally:
        spark_lake.table("level2").drop(force=True)
    assert answer(cli, "delete", "level2", "--where", "true", "--dry-run")["rows_deleted"] == 4
    code, _, err = cli("delete", "./none", "--where", "true", "--yes")
    assert (code, "no folder ./none" in err) == (3, True)
