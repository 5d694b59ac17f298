"""Ingest by date into an Iceberg table: once and exactly, cleaned, with nothing lost silently."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from examples.sales.generate import write_day
from pyspark.sql import DataFrame, SparkSession
from tests.spark.sales import DATASET, Rows, model

from neve.engine import ingest as engine
from neve.engine import plain_csv, reading, staging, tracking
from neve.errors import CheckFailed, ColumnNotFound, InvalidInput, InvalidSchema, NotFound, Refused, Unsupported
from neve.lake import Lake, LakeTable
from neve.model.ingest import IngestReceipt, SourceFile
from neve.services import landing
from neve.services.look import RUN_ID


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three days of dirty sales."""
    days = [date(2024, 1, 30), date(2024, 1, 31), date(2024, 2, 1)]
    paths = [tmp_path / f"sales_{day}.csv" for day in days]
    for path, day in zip(paths, days, strict=True):
        write_day(path, day, rows=120, seed=3)
    return paths


@pytest.fixture
def sales(spark_lake: Lake, namespace: str, tmp_path: Path) -> LakeTable:
    """A table that is described by files, as a user would."""
    (tmp_path / "dataset.yaml").write_text(DATASET)
    config = tmp_path / "sales.yaml"
    cleaning = f"ingestion: {{dataset_config: {tmp_path}/dataset.yaml}}"
    config.write_text(f"name: {namespace}.sales\nstorage: {{format: iceberg}}\n{cleaning}\n")
    spark_lake.tables.create(str(config))
    return spark_lake.table(str(config))


@pytest.fixture
def loaded(spark_lake: Lake) -> Callable[..., Rows]:
    def rows(table: LakeTable, day: str | None = None) -> Rows:
        where = "" if day is None else f"WHERE _ingest_date = DATE'{day}'"
        columns = "date, product_id, quantity, price, customer_id, region"
        found = spark_lake.sql(f"SELECT {columns} FROM {table.name.sql} {where}").collect()
        return sorted(map(tuple, found), key=repr)

    return rows


def test_a_day_is_cleaned_and_every_row_is_accounted_for(
    spark_lake: Lake, sales: LakeTable, files: list[Path], loaded: Callable[..., Rows]
) -> None:
    expected, rejected = model(files[0])
    assert rejected > 0, "the generator must make dirty rows"
    receipt = sales.ingest(files[0], date="2024-01-30")
    assert (receipt.rows_ingested, receipt.rows_rejected) == (len(expected), rejected)
    assert loaded(sales) == expected
    kept = spark_lake.sql(
        f"SELECT source_line, rules, raw FROM {sales.name.sql.replace('sales', 'sales__rejected')}"
        f" WHERE run_id = '{receipt.run_id}'"
    ).collect()
    lines = files[0].read_text().splitlines()
    assert len(kept) == rejected
    for line, rules, raw in kept:
        assert rules
        assert list(json.loads(raw).values())[:2] == lines[line - 1].split(",")[:2]


@pytest.mark.parametrize(
    ("layout", "once"),
    [
        ("storage: {{format: iceberg}}", True),
        ("storage: {{format: iceberg}}\npartition_by: [region]", False),
        ("storage: {{format: parquet, base_path: {0}/t}}", True),
        ("storage: {{format: csv, base_path: {0}/t}}\npartitioning: {{strategy: hive}}", True),
    ],
)
def test_rejected_rows_of_many_files_keep_their_places(
    spark_lake: Lake,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    layout: str,
    once: bool,
) -> None:
    """In the pass that loads the others where they have files of their own; otherwise their files are read again."""
    (tmp_path / "dataset.yaml").write_text(f"{DATASET}order_by: [price]\n")
    config = tmp_path / "t.yaml"
    cleaning = f"ingestion: {{dataset_config: {tmp_path}/dataset.yaml}}"
    config.write_text(f"name: {namespace}.t\n{layout.format(tmp_path)}\n{cleaning}\n")
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))
    header, good = "date,product_id,quantity,price,customer_id,region", "2024-01-01,P1,1,2.5,7,north"
    (tmp_path / "sales_2024-01-01.csv").write_text(f"{header}\n{good}\n2024-01-01,P2,1,n/a,7,south\n{good},more\n")
    (tmp_path / "sales_2024-01-02.csv").write_text(f"{header}\n2024-13-02,P3,0,-1,8,east\n{good}\n{good}\n")
    (tmp_path / "sales_2024-01-03.csv").write_text(f"{header}\n{good}\n")
    (tmp_path / "sales_2024-02-04.csv").write_text(f'{header}\n{good}\n{good}\n2024-01-01,"P ""é""",x,1,9,west\n')
    reads = []

    def counted(*given: Any, **more: Any) -> DataFrame:
        reads.append(more)
        return reading.read_rows(*given, **more)

    monkeypatch.setattr(engine, "read_rows", counted)
    with pytest.raises(CheckFailed, match="4 of 10 rows were rejected"):
        table.ingest(str(tmp_path / "sales_*.csv"), date_from_name="sales_{date}.csv", max_rejected=3)
    assert len(reads) == 1
    receipt = table.ingest(str(tmp_path / "sales_*.csv"), date_from_name="sales_{date}.csv")
    assert len(reads) == (2 if once else 3)
    assert (receipt.rows_ingested, receipt.rows_rejected) == (6, 4)
    assert receipt.rejected_by_rule == {
        "cast:date": 1,
        "cast:quantity": 1,
        "cast:price": 1,
        "filter:quantity > 0": 2,
        "filter:price > 0": 2,
        "malformed": 1,
    }
    assert {str(row.date): row.rows_ingested for row in receipt.dates} == {
        "2024-01-01": 1,
        "2024-01-02": 2,
        "2024-01-03": 1,
        "2024-02-04": 2,
    }
    kept = spark_lake.sql(f"SELECT * FROM {namespace}.t__rejected ORDER BY source_file, source_line").collect()
    assert {row.run_id for row in kept} == {receipt.run_id}, "the load that failed kept none"
    assert [(Path(row.source_file).name[6:16], str(row.ingest_date), row.source_line) for row in kept] == [
        ("2024-01-01", "2024-01-01", 3),
        ("2024-01-01", "2024-01-01", 4),
        ("2024-01-02", "2024-01-02", 2),
        ("2024-02-04", "2024-02-04", 4),
    ]
    assert kept[1].raw == f"{good},more"
    assert kept[2].rules == ["cast:date", "filter:quantity > 0", "filter:price > 0"]
    assert json.loads(kept[3].raw)["product_id"] == 'P "é"'
    where = Path(table.show().location.removeprefix("file:"))
    assert not [path for path in where.rglob("*") if path.is_file() and "0001-01" in str(path)]


def test_the_same_content_again_is_nothing_to_do(sales: LakeTable, files: list[Path], tmp_path: Path) -> None:
    first = sales.ingest(files[0], date="2024-01-30")
    history = sales.history()
    moved = tmp_path / "elsewhere.csv"
    moved.write_bytes(files[0].read_bytes())
    again = sales.ingest(moved, date="2024-01-30")
    assert (again.run_id, again.rows_ingested) == (None, 0)
    assert again.reason is not None
    assert first.run_id is not None
    assert first.run_id in again.reason.detail
    assert sales.history() == history


def test_new_content_replaces_exactly_its_date_also_after_compaction(
    spark_lake: Lake, sales: LakeTable, files: list[Path], loaded: Callable[..., Rows]
) -> None:
    receipt = sales.ingest(*files, date_from_name="sales_{date}.csv")
    assert [row.action for row in receipt.dates] == ["load"] * 3
    spark_lake.sql(
        f"CALL lake.system.rewrite_data_files(table => 'lake.{sales.name}', options => map('rewrite-all', 'true'))",
        write=True,
    )
    write_day(files[1], date(2024, 1, 31), rows=50, seed=99)
    replaced = sales.ingest(*files, date_from_name="sales_{date}.csv")
    assert [row.action for row in replaced.dates] == ["skip", "replace", "skip"]
    for path, day in zip(files, ("2024-01-30", "2024-01-31", "2024-02-01"), strict=True):
        assert loaded(sales, day) == model(path)[0], day


@pytest.mark.parametrize("together", [True, False])
def test_a_load_counts_its_own_rows_only(spark_lake: Lake, sales: LakeTable, files: list[Path], together: bool) -> None:
    """Rows that somebody put into a date by hand are no rows of its load, and `verify` finds them."""
    spark_lake.sql(
        f"INSERT INTO {sales.name.sql} (product_id, _ingest_date) VALUES ('by hand', DATE'2024-01-31')", write=True
    )
    loads = [files] if together else [[path] for path in files]
    receipts = [sales.ingest(*paths, date_from_name="sales_{date}.csv") for paths in loads]
    brought = {path.stem[-10:]: len(model(path)[0]) for path in files}
    assert {str(row.date): row.rows_ingested for receipt in receipts for row in receipt.dates} == brought
    found = {str(row.date): (row.logged, row.counted) for row in sales.verify() if row.state != "ok"}
    assert found == {"2024-01-31": (brought["2024-01-31"], brought["2024-01-31"] + 1)}


def test_readers_never_see_a_date_without_its_rows(spark_lake: Lake, sales: LakeTable, files: list[Path]) -> None:
    """A replacement is one publish: every snapshot that was ever current holds the old rows or the new ones."""
    sales.ingest(files[0], date="2024-01-30")
    before = len(model(files[0])[0])
    write_day(files[0], date(2024, 1, 30), rows=60, seed=5)
    sales.ingest(files[0], date="2024-01-30")
    after = len(model(files[0])[0])
    facts = spark_lake._context.catalog.facts(sales.name)
    counts = {
        spark_lake.sql(f"SELECT count(*) FROM {sales.name.sql} VERSION AS OF {snapshot}").collect()[0][0]
        for _, snapshot in facts.made_current
    }
    assert counts <= {0, before, after}
    assert {before, after} <= counts


def test_too_many_rejected_rows_leave_everything_as_it_was(sales: LakeTable, files: list[Path]) -> None:
    sales.ingest(files[0], date="2024-01-30")
    before = (sales.show().rows, sales.show().current_snapshot, sales.status().ingestion, sales.references())
    with pytest.raises(CheckFailed, match="rejected"):
        sales.ingest(files[1], date="2024-01-31", max_rejected=0)
    after = (sales.show().rows, sales.show().current_snapshot, sales.status().ingestion, sales.references())
    assert after == before


def test_a_validation_of_severity_error_stops_the_run_and_one_of_warn_is_told(
    sales: LakeTable, files: list[Path], tmp_path: Path
) -> None:
    check = "validations:\n  - {name: enough, metric: row_count, operator: '>', threshold: 100000, severity: %s}\n"
    strict, lenient = tmp_path / "strict.yaml", tmp_path / "lenient.yaml"
    strict.write_text(DATASET + check % "error")
    lenient.write_text(DATASET + check % "warn")
    with pytest.raises(CheckFailed, match="enough"):
        sales.ingest(files[0], date="2024-01-30", dataset_config=strict)
    assert sales.show().rows == 0
    receipt = sales.ingest(files[0], date="2024-01-30", dataset_config=lenient)
    assert [(row.validation, row.severity) for row in receipt.findings] == [("enough", "warn")]
    assert sales.show().rows == len(model(files[0])[0])


def test_what_was_rolled_back_can_be_loaded_again(sales: LakeTable, files: list[Path]) -> None:
    sales.ingest(files[0], date="2024-01-30")
    second = sales.ingest(files[1], date="2024-01-31")
    sales.rollback(second.snapshot_before or 0)
    again = sales.ingest(files[1], date="2024-01-31")
    assert again.rows_ingested == len(model(files[1])[0])


def test_a_load_is_remembered_after_its_snapshot_expired(spark_lake: Lake, sales: LakeTable, files: list[Path]) -> None:
    first = sales.ingest(files[0], date="2024-01-30")
    sales.ingest(files[1], date="2024-01-31")
    spark_lake.sql(
        f"CALL lake.system.expire_snapshots(table => 'lake.{sales.name}', older_than => now(), retain_last => 1)",
        write=True,
    )
    assert first.run_id not in {row.run_id for row in sales.history()}
    assert sales.ingest(files[0], date="2024-01-30").run_id is None


def test_a_load_is_remembered_when_the_process_died_before_the_log(
    spark_lake: Lake, sales: LakeTable, files: list[Path]
) -> None:
    sales.ingest(files[0], date="2024-01-30")
    spark_lake._context.store.ingestions.forget(sales.name.short)
    assert sales.ingest(files[0], date="2024-01-30").run_id is None


def test_files_with_other_headers_are_read_by_their_own(
    spark_lake: Lake, make_table: Callable[..., LakeTable], tmp_path: Path
) -> None:
    """Spark alone reads a csv file by the header of another one in the same load."""
    table = make_table(schema="id bigint, name string")
    (tmp_path / "d_2024-01-01.csv").write_text("id,name\n1,a\n")
    (tmp_path / "d_2024-01-02.csv").write_text("name,id\nb,2\n")
    table.ingest(tmp_path, date_from_name="d_{date}.csv")
    assert sorted(map(tuple, table.query("SELECT id, name FROM t").collect())) == [(1, "a"), (2, "b")]


def test_a_new_column_is_refused_with_the_command_to_run_or_added(
    spark_lake: Lake, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    (tmp_path / "b.csv").write_text("id,name,extra\n2,b,e\n")
    for mode in ("strict", "evolve"):
        config = tmp_path / f"{mode}.yaml"
        config.write_text(f"name: {namespace}.{mode}\ncolumns: {{id: bigint, name: string}}\nschema: {mode}\n")
        spark_lake.tables.create(str(config))
        spark_lake.table(str(config)).ingest(tmp_path / "a.csv", date="2024-01-01")
    with pytest.raises(Refused, match="extra") as caught:
        spark_lake.table(f"{namespace}.strict").ingest(tmp_path / "b.csv", date="2024-01-02")
    assert "--add 'extra string'" in (caught.value.hint or "")
    spark_lake.table(f"{namespace}.evolve").ingest(tmp_path / "b.csv", date="2024-01-02")
    rows = spark_lake.sql(f"SELECT id, name, extra FROM {namespace}.evolve ORDER BY id").collect()
    assert list(map(tuple, rows)) == [(1, "a", None), (2, "b", "e")]


def test_the_first_files_decide_the_columns_of_a_table_without_any(
    spark_lake: Lake, namespace: str, tmp_path: Path
) -> None:
    config = tmp_path / "t.yaml"
    config.write_text(f"name: {namespace}.bare\nstorage: {{format: iceberg}}\n")
    spark_lake.tables.create(str(config))
    (tmp_path / "a.csv").write_text("id,score,name\n1,1.5,x\n2,,y\n")
    table = spark_lake.table(str(config))
    table.ingest(tmp_path / "a.csv", date="2024-01-01")
    assert [(column.name, column.type) for column in table.show().columns] == [
        ("_ingest_date", "date"),
        ("id", "int"),
        ("score", "double"),
        ("name", "string"),
    ]


def test_texts_of_windows_decide_columns_and_keep_their_letters(
    spark_lake: Lake, namespace: str, tmp_path: Path
) -> None:
    """Names and values of a file with tabs, in an encoding that is not Java's own."""
    (tmp_path / "dataset.yaml").write_text("name: t\nsource: {encoding: cp1252}\n")
    (tmp_path / "t.yaml").write_text(
        f"name: {namespace}.t\nstorage: {{format: iceberg}}\ningestion: {{dataset_config: {tmp_path}/dataset.yaml}}\n"
    )
    (tmp_path / "day.tsv").write_bytes("id\tgröße\n1\t5 €\n2\t“é”\n".encode("cp1252"))
    spark_lake.tables.create(str(tmp_path / "t.yaml"))
    table = spark_lake.table(str(tmp_path / "t.yaml"))
    assert table.ingest(tmp_path / "day.tsv", date="2024-01-30").rows_ingested == 2
    found = spark_lake.sql(f"SELECT id, `größe` FROM {table.name.sql} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, "5 €"), (2, "“é”")]


def test_first_files_of_several_kinds_decide_together(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n,day\n1,2,2024-01-30\n")
    (tmp_path / "b.tsv").write_text("n\tid\tmore\n0.5\t2\tx,y\n")
    (tmp_path / "c.jsonl").write_text('{"id": 3, "day": "soon"}\n')
    (tmp_path / "t.yaml").write_text(f"name: {namespace}.t\nstorage: {{format: iceberg}}\n")
    spark_lake.tables.create(str(tmp_path / "t.yaml"))
    table = spark_lake.table(str(tmp_path / "t.yaml"))
    receipt = table.ingest(*(tmp_path / name for name in ("a.csv", "b.tsv", "c.jsonl")), date="2024-01-30")
    assert (receipt.rows_ingested, receipt.rows_rejected) == (3, 0)
    found = spark_lake.sql(f"SELECT id, n, day, more FROM {table.name.sql} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [
        (1, 2.0, "2024-01-30", None),
        (2, 0.5, None, "x,y"),
        (3, None, "soon", None),
    ]


def test_commas_and_tabs_in_one_load(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    """Files of the same header are not read alike for that: else the rows of one kind were all malformed."""
    (tmp_path / "a.csv").write_text("id,name\n1,x\ty\n")
    (tmp_path / "b.tsv").write_text("id\tname\n2\tx,y\n")
    spark_lake.tables.create(f"{namespace}.kinds", "id int, name string")
    table = spark_lake.table(f"{namespace}.kinds")
    receipt = table.ingest(tmp_path / "a.csv", tmp_path / "b.tsv", date="2024-01-30")
    assert (receipt.rows_ingested, receipt.rows_rejected) == (2, 0)
    found = spark_lake.sql(f"SELECT id, name FROM {table.name.sql} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, "x\ty"), (2, "x,y")]


def test_a_dry_run_tells_the_plan_and_changes_nothing(sales: LakeTable, files: list[Path]) -> None:
    sales.ingest(files[0], date="2024-01-30")
    before = (sales.show(), sales.history())
    plan = sales.ingest(*files, date_from_name="sales_{date}.csv", dry_run=True)
    assert [row.action for row in plan.dates] == ["skip", "load", "load"]
    assert (sales.show(), sales.history()) == before


def test_the_run_is_in_the_snapshot_and_the_log(spark_lake: Lake, sales: LakeTable, files: list[Path]) -> None:
    receipt = sales.ingest(files[0], date="2024-01-30")
    facts = spark_lake._context.catalog.facts(sales.name)
    assert facts.current is not None
    assert facts.current.summary[RUN_ID] == receipt.run_id
    (row,) = spark_lake._context.store.ingestions.for_table(sales.name.short)
    assert (row.run_id, row.status, row.rows_ingested) == (receipt.run_id, "success", receipt.rows_ingested)
    status = sales.status()
    assert (status.ingestion.total_ingestions, status.ingestion.total_rows) == (1, receipt.rows_ingested)


def test_select_star_leaves_the_ingest_date_out_unless_it_is_named(
    spark_lake: Lake, make_table: Callable[..., LakeTable], tmp_path: Path
) -> None:
    table = make_table(schema="id bigint")
    (tmp_path / "a.csv").write_text("id\n1\n")
    table.ingest(tmp_path / "a.csv", date="2024-01-01")
    assert table.query("SELECT * FROM t").columns == ["id"]
    assert table.query("SELECT *, _ingest_date FROM t").columns == ["id", "_ingest_date", "_ingest_date"]
    assert spark_lake.sql(f"SELECT _ingest_date FROM {table.name}").collect()[0][0] == date(2024, 1, 1)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"date": "2024-13-01"}, InvalidInput),
        ({}, InvalidInput),
        ({"date": "2024-01-01", "date_from_name": "x_{date}.csv"}, InvalidInput),
        ({"date_from_name": "other_{date}.csv"}, InvalidInput),
    ],
)
def test_bad_requests_are_refused(
    sales: LakeTable, files: list[Path], words: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        sales.ingest(files[0], date=words.get("date"), date_from_name=words.get("date_from_name"))


def test_every_format_a_folder_and_a_glob_bring_the_same_rows(
    spark_lake: Lake, sales: LakeTable, files: list[Path], loaded: Callable[..., Rows], tmp_path: Path
) -> None:
    text = spark_lake.spark.read.csv(str(files[0]), header=True)
    ways = {"csv": "gzip", "json": "gzip", "parquet": "zstd", "orc": "zstd", "avro": "deflate"}
    for form, codec in ways.items():
        text.coalesce(1).write.option("header", True).option("compression", codec).format(form).save(
            str(tmp_path / form)
        )
    expected, rejected = model(files[0])
    for number, form in enumerate(ways, 1):
        source = tmp_path / form if number % 2 else f"{tmp_path / form}/part-*"
        receipt = sales.ingest(source, date=f"2024-03-{number:02}")
        assert (receipt.rows_ingested, receipt.rows_rejected) == (len(expected), rejected), form
        assert loaded(sales, f"2024-03-{number:02}") == expected, form


def test_hourly_files_packed_lines_and_a_broken_one(
    spark_lake: Lake, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2 9, 10 and 12: nothing is lost between many files of one day, and what cannot be read is kept apart."""
    spark_lake.tables.create(f"{namespace}.t", "id bigint, price double")
    table = spark_lake.table(f"{namespace}.t")

    def ids(day: str) -> list[int]:
        found = spark_lake.sql(f"SELECT id FROM {namespace}.t WHERE _ingest_date = '{day}'").collect()
        return sorted(row[0] for row in found)

    (tmp_path / "hours").mkdir()
    for hour in range(24):
        lines = "".join(f"{number},1\n" for number in range(hour * 100, hour * 100 + 100))
        (tmp_path / "hours" / f"{hour:02}.csv").write_text(f"id,price\n{lines}")
    table.ingest(tmp_path / "hours", date="2024-01-01")
    assert ids("2024-01-01") == list(range(2400))
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as file:
        file.writelines(f'{{"id": {number}, "price": "NaN"}}\n' for number in range(50))
    table.ingest(tmp_path / "packed.jsonl.gz", date="2024-01-02")
    assert ids("2024-01-02") == list(range(50))
    assert spark_lake.sql(f"SELECT count(price) FROM {namespace}.t WHERE id < 50").collect()[0][0] == 50
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": 1, "price": 2.5}\n{"id": "broken", "value": }\n{"id": 2, "price": 3}\n')
    with pytest.raises(CheckFailed, match="1 of 3 rows were rejected"):
        table.ingest(broken, date="2024-01-03", max_rejected=0)
    assert ids("2024-01-03") == []
    assert table.ingest(broken, date="2024-01-03").rejected_by_rule == {"malformed": 1}
    assert ids("2024-01-03") == [1, 2]
    kept = spark_lake.sql(f"SELECT source_line, raw FROM {namespace}.t__rejected").collect()
    assert [tuple(row) for row in kept] == [(2, '{"id": "broken", "value": }')]
    read_again: list[str] = []

    def watched(spark: SparkSession, found: Mapping[SourceFile, date], *rest: Any, **more: Any) -> DataFrame:
        read_again.extend(Path(file.path).name for file in found if more.get("with_lines"))
        return reading.read_rows(spark, found, *rest, **more)

    monkeypatch.setattr(engine, "read_rows", watched)
    (tmp_path / "hours" / "24.csv").write_text("id,price\n5000,x\n")
    assert table.ingest(tmp_path / "hours", date="2024-01-01").rows_rejected == 1
    assert read_again == ["24.csv"], "clean files are read once"


@pytest.mark.parametrize("storage", ["{{format: iceberg}}", "{{format: parquet, base_path: {0}/t}}"])
def test_two_at_once_load_a_date_once_and_lose_none(
    spark_lake: Lake, namespace: str, tmp_path: Path, storage: str
) -> None:
    config = tmp_path / "t.yaml"
    config.write_text(f"name: {namespace}.t\nstorage: {storage.format(tmp_path)}\ncolumns: {{id: bigint}}\n")
    spark_lake.tables.create(str(config))
    for day in (1, 2, 3):
        (tmp_path / f"in_2024-01-0{day}.csv").write_text(f"id\n{day}\n{day}\n")

    def load(days: tuple[int, ...]) -> IngestReceipt:
        with Lake(spark_lake.root) as lake:
            sources = [tmp_path / f"in_2024-01-0{day}.csv" for day in days]
            return lake.table(str(config)).ingest(*sources, date_from_name="in_{date}.csv")

    with ThreadPoolExecutor(2) as pool:
        receipts = list(pool.map(load, [(1, 2), (2, 3)]))
    rows = spark_lake.sql(f"SELECT id, count(*) FROM {namespace}.t GROUP BY id ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, 2), (2, 2), (3, 2)]
    assert sum(receipt.rows_ingested for receipt in receipts) == 6, "whoever came second left the shared date alone"
    assert all(row.state == "ok" for row in spark_lake.table(str(config)).verify())


@pytest.mark.parametrize("is_first", [True, False])
def test_rejected_rows_of_rivals_are_kept_once_each(
    spark_lake: Lake,
    make_table: Callable[..., LakeTable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_first: bool,
) -> None:
    """A rival that publishes first makes this load begin anew; one that comes after it adds to the table beside."""
    table = make_table(schema="id bigint, v string")
    for day in (1, 2):
        (tmp_path / f"2024-01-0{day}.csv").write_text(f"id,v\n{day},a\nx{day},b\ny{day},b\n")
    publish, rivals = staging.publish, [tmp_path / "2024-01-02.csv"]

    def beside(*given: Any, **more: Any) -> int:
        coming = [rivals.pop()] if rivals else []
        if coming and is_first:
            table.ingest(*coming, date="2024-01-02")
        snapshot = publish(*given, **more)
        if coming and not is_first:
            table.ingest(*coming, date="2024-01-02")
        return snapshot

    monkeypatch.setattr("neve.services.ingest.publish", beside)
    receipt = table.ingest(tmp_path / "2024-01-01.csv", date="2024-01-01")
    assert [(row.rows_ingested, row.rows_rejected) for row in receipt.dates] == [(1, 2)]
    kept = spark_lake.sql(f"SELECT ingest_date, raw FROM {table.name.sql.replace('`t`', '`t__rejected`')}").collect()
    assert sorted((str(day), json.loads(raw)["id"]) for day, raw in kept) == [
        *(("2024-01-01", "x1"), ("2024-01-01", "y1"), ("2024-01-02", "x2"), ("2024-01-02", "y2")),
    ]
    logged = spark_lake._context.store.ingestions.for_table(table.name.short)
    assert [(row.rows_ingested, row.rows_rejected) for row in logged] == [(1, 2), (1, 2)]


def test_a_missing_file_is_not_found(sales: LakeTable, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        sales.ingest(tmp_path / "none.csv", date="2024-01-01")


@pytest.mark.parametrize("format", ["iceberg", "parquet", "csv"])
def test_a_missing_column_is_refused_or_null_as_the_tables_file_says(
    spark_lake: Lake,
    namespace: str,
    tmp_path: Path,
    format: str,  # noqa: A002
) -> None:
    """With a cleaning file, whose own word counts more, and without one."""
    place = "" if format == "iceberg" else f", base_path: {tmp_path}/t"
    text = f"name: {namespace}.t\nstorage: {{format: {format}{place}}}\ncolumns: {{id: int, word: string}}\n"
    config, dataset = tmp_path / "t.yaml", tmp_path / "dataset.yaml"
    (tmp_path / "in.csv").write_text("id\n1\n")
    columns = "name: t\ncolumns: [{name: id, type: int}, {name: word, type: string}]\n"

    def load(said: str, cleaning: str | None, *files: str) -> None:
        named = "" if cleaning is None else f", dataset_config: {dataset}"
        dataset.write_text(cleaning or "")
        config.write_text(f"{text}ingestion: {{missing_columns: {said}{named}}}\n")
        spark_lake.tables.create(str(config), if_not_exists=True)
        paths = [tmp_path / name for name in files or ["in.csv"]]
        spark_lake.table(str(config)).ingest(*paths, date="2024-01-01", replace=True)

    for cleaning in (None, columns, f"{columns}missing_columns: error\n"):
        with pytest.raises(ColumnNotFound, match="the source has no column 'word'"):
            load("null" if cleaning and "missing" in cleaning else "refuse", cleaning)
    for said, cleaning in (("null", None), ("null", columns), ("refuse", f"{columns}missing_columns: null\n")):
        load(said, cleaning)
        found = spark_lake.table(str(config)).query("SELECT id, word FROM t").collect()
        assert [tuple(row) for row in found] == [(1, None)]
    (tmp_path / "more.csv").write_text("id,word\n2,b\n")
    for cleaning in (None, columns):
        with pytest.raises(ColumnNotFound, match=r"in\.csv has no column word, which other files"):
            load("refuse", cleaning, "more.csv", "in.csv")
    load("refuse", "name: t\ncolumns: [{name: id, type: int}]\n", "more.csv", "in.csv")
    load("null", columns, "more.csv", "in.csv")
    found = spark_lake.table(str(config)).query("SELECT id, word FROM t ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, None), (2, "b")]


def test_a_missing_nested_column_is_refused(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    config, source = tmp_path / "t.yaml", tmp_path / "in.jsonl"
    config.write_text(
        f"name: {namespace}.t\nstorage: {{format: iceberg}}\ncolumns: {{id: int, place: 'struct<zip:int>'}}\n"
    )
    source.write_text('{"id": 1}\n')
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))
    assert table.ingest(source, date="2024-01-01").rows_ingested == 1
    config.write_text(f"{config.read_text()}ingestion: {{missing_columns: refuse}}\n")
    with pytest.raises(ColumnNotFound, match="the source has no column 'place'"):
        table.ingest(source, date="2024-01-02")


def test_nested_columns_are_loaded_and_their_new_fields_are_refused_or_added(
    spark_lake: Lake, namespace: str, tmp_path: Path
) -> None:
    """JSON lines and parquet; structs, lists and maps; what does not fit is rejected or refused, never cut."""
    config, source = tmp_path / "t.yaml", tmp_path / "in.jsonl"
    config.write_text(f"name: {namespace}.nested\nstorage: {{format: iceberg}}\n")
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))

    def load(day: int, *lines: str) -> IngestReceipt:
        source.write_text("\n".join(lines))
        return table.ingest(source, date=f"2024-01-0{day}")

    def rows(day: int) -> list[str]:
        found = spark_lake.sql(
            f"SELECT to_json(struct(* EXCEPT (_ingest_date))) FROM {namespace}.nested "
            f"WHERE _ingest_date = '2024-01-0{day}'"
        )
        return sorted(row[0] for row in found.collect())

    load(1, '{"id": 1, "s": {"a": 2, "t": ["x", null]}, "l": [{"k": 1.5}, {"k": 2}]}', '{"id": 2}')
    types = {column.name: column.type for column in table.show().columns}
    assert types == {
        "id": "bigint", "l": "array<struct<k:double>>", "s": "struct<a:bigint,t:array<string>>", "_ingest_date": "date"
    }  # fmt: skip
    assert [json.loads(row) for row in rows(1)] == [
        {"id": 1, "l": [{"k": 1.5}, {"k": 2.0}], "s": {"a": 2, "t": ["x", None]}}, {"id": 2}
    ]  # fmt: skip

    with pytest.raises(Refused, match=r"has no column l.element.n, s.b, which the files have") as refused:
        load(2, '{"id": 3, "s": {"a": 4, "b": true}, "l": [{"n": "y"}]}')
    assert "--add 'l.element.n string' --add 's.b boolean'" in (refused.value.hint or "")
    receipt = load(2, '{"id": 3, "s": {"a": 4.5}}', '{"id": 4, "s": "no"}', '{"id": 5, "s": {"a": 6}}')
    assert (receipt.rows_ingested, receipt.rejected_by_rule) == (1, {"malformed": 2})
    assert [json.loads(row) for row in rows(2)] == [{"id": 5, "s": {"a": 6}}]
    assert len(spark_lake.sql(f"SELECT * FROM {namespace}.nested__rejected WHERE raw LIKE '%id%'").collect()) == 2
    with pytest.raises(InvalidSchema, match="id is array<bigint> in the files, but bigint in the table"):
        load(3, '{"id": [1]}')

    config.write_text(config.read_text() + "schema: evolve\n")
    load(3, '{"id": 6, "s": {"a": 4, "b": true}, "l": [{"n": "y"}], "m": {"u": {"v": 1}}}')
    assert [json.loads(row) for row in rows(3)] == [
        {"id": 6, "l": [{"n": "y"}], "s": {"a": 4, "b": True}, "m": {"u": {"v": 1}}}
    ]
    assert len(rows(1)) == 2
    assert json.loads(rows(1)[0])["s"] == {"a": 2, "t": ["x", None]}

    spark_lake.spark.sql(
        "SELECT 7 AS id, named_struct('c', date'2024-01-01', 'a', 8) AS s, "
        "array(named_struct('k', float(1)), NULL) AS l"
    ).write.parquet(str(tmp_path / "typed/1"))
    spark_lake.spark.sql("SELECT 9 AS id, map('k', named_struct('x', 1)) AS n").write.parquet(str(tmp_path / "typed/2"))
    table.ingest(tmp_path / "typed", date="2024-01-04")
    assert [json.loads(row) for row in rows(4)] == [
        {"id": 7, "l": [{"k": 1.0}, None], "s": {"a": 8, "c": "2024-01-01"}}, {"id": 9, "n": {"k": {"x": 1}}}
    ]  # fmt: skip
    with pytest.raises(Unsupported, match=r"s\.c is date, which is not read exactly"):
        load(5, '{"id": 9, "s": {"c": "2024-01-01"}}')


def test_fields_that_a_failed_load_added_go_again(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    config, source = tmp_path / "t.yaml", tmp_path / "in.jsonl"
    config.write_text(
        f"name: {namespace}.t\nstorage: {{format: iceberg}}\ncolumns: {{s: 'struct<a:int>'}}\nschema: evolve\n"
    )
    spark_lake.tables.create(str(config))
    source.write_text('{"s": {"a": 1, "b": 2}}\n{"s": "bad"}\n')
    table = spark_lake.table(str(config))
    with pytest.raises(CheckFailed, match="1 of 2 rows"):
        table.ingest(source, date="2024-01-01", max_rejected=0)
    assert [(column.name, column.type) for column in table.show().columns] == [
        ("s", "struct<a:int>"),
        ("_ingest_date", "date"),
    ]


@pytest.mark.parametrize("cut", [True, False])
def test_progress_tells_files_rows_bytes_and_time(
    spark_lake: Lake, sales: LakeTable, files: list[Path], monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    """Also where Python's workers read the files, which Spark does not see."""
    told: list[str] = []
    monkeypatch.setattr(plain_csv, "_WORTH", 0 if cut else 1 << 40)
    monkeypatch.setattr(spark_lake._context, "tell", told.append)
    monkeypatch.setattr(sales._context, "tell", told.append)
    monkeypatch.setattr(tracking, "_EVERY", 0.01)
    monkeypatch.setattr(landing, "_TELL_EVERY", 0.0)
    receipt = sales.ingest(*files, date_from_name="sales_{date}.csv")
    assert told[2].startswith("looking at files ████████████████████ 3 of 3")
    shown = [line for line in told if line.startswith("ingesting 3 files, ")]
    assert all(re.fullmatch(r"ingesting 3 files, [0-9,]+ rows [█░]{20} .+ of .+…", line) for line in shown)
    rows = [int(line.split()[3].replace(",", "")) for line in shown]
    assert rows == sorted(rows)
    assert rows[-1] >= receipt.rows_ingested + receipt.rows_rejected
