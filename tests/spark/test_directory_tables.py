"""Directory tables: document 000's walk-through on every format and layout, and what may go wrong on the way."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import duckdb
import pytest
from tests.spark.sales import COLUMNS, DATASET, Rows, model, write_days

from neve.directory import open_directory
from neve.errors import AlreadyExists, CheckFailed, InvalidSchema, NeveError, Refused, Unsupported
from neve.lake import Lake, LakeTable

Make = Callable[..., LakeTable]
Cli = Callable[..., tuple[int, str, str]]
LAYOUTS = [("iceberg", "flat"), ("parquet", "flat"), ("parquet", "hive"), ("csv", "flat"), ("csv", "hive")]


@pytest.fixture
def make(spark_lake: Lake, namespace: str, tmp_path: Path) -> Make:
    """A table of sales, described by a file as a user would."""

    def made(format: str = "parquet", strategy: str = "flat", more: str = "", name: str = "sales") -> LakeTable:  # noqa: A002
        (tmp_path / "dataset.yaml").write_text(DATASET)
        storage = f"{{format: {format}}}"
        if format != "iceberg":
            storage = f"{{type: local, base_path: {tmp_path}/tables/{name}/, format: {format}}}"
        layout = f"partitioning: {{strategy: {strategy}}}\n" if strategy == "hive" else ""
        config = tmp_path / f"{name}.yaml"
        config.write_text(
            f"name: {namespace}.{name}\nstorage: {storage}\n{layout}"
            f"ingestion: {{dataset_config: {tmp_path}/dataset.yaml}}\n{more}"
        )
        spark_lake.tables.create(str(config))
        return spark_lake.table(str(config))

    return made


def rows_of(table: LakeTable, columns: str = COLUMNS) -> Rows:
    return sorted(map(tuple, table.query(f"SELECT {columns} FROM {table.name.name}").collect()), key=repr)


def expected(paths: list[Path]) -> Rows:
    return sorted((row for path in paths for row in model(path)[0]), key=repr)


def folder(table: LakeTable) -> Path:
    return Path(table.show().location)


def seen_outside(table: LakeTable) -> Rows:
    """What another tool reads that globs the folder, and knows nothing of Névé."""
    where, kind = folder(table), table.show().format
    reader = "read_parquet" if kind == "parquet" else "read_csv"
    with duckdb.connect() as database:
        found = database.execute(f"SELECT {COLUMNS} FROM {reader}('{where}/**/*.{kind}')").fetchall()
    return sorted(found, key=repr)


def names(table: LakeTable) -> list[str]:
    where = folder(table)
    return sorted(str(path.relative_to(where)) for path in where.rglob("*") if path.is_file())


@pytest.mark.parametrize(("format", "strategy"), LAYOUTS)
def test_the_walk_through_of_the_document(
    make: Make,
    cli: Cli,
    tmp_path: Path,
    format: str,  # noqa: A002
    strategy: str,
) -> None:
    """A2 1–7: create, one day, the month, status, query, compact and keep, compact and delete, replace, skip."""
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 31)
    table = make(format, strategy)
    config = str(tmp_path / "sales.yaml")
    code, out, _ = cli("table", "status", config)
    assert (code, "Total ingestions: 0" in out, "Total compactions: 0" in out) == (0, True, True)

    first = len(model(paths[0])[0])
    code, out, _ = cli("table", "ingest", config, str(paths[0]), "--date", "2024-01-01")
    assert code == 0
    assert out.startswith(f"✓ Ingested {first} rows\nDestination: ")
    if format != "iceberg":
        named = {"flat": f"2024-01-01.{format}", "hive": f"year=2024/month=01/day=01/data.{format}"}[strategy]
        assert out.splitlines()[1] == f"Destination: {folder(table)}/{named}"
    receipt = table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    assert [row.action for row in receipt.dates] == ["skip", *["load"] * 30]

    total = len(expected(paths))
    code, out, _ = cli("table", "status", config)
    assert "Total ingestions: 31\n  Date range: 2024-01-01 → 2024-01-31" in out
    assert f"Total rows: {total:,}" in out
    assert rows_of(table) == expected(paths)
    daily = table.query("SELECT date, count(*), sum(quantity) FROM sales GROUP BY date ORDER BY date LIMIT 3").collect()
    for row, path in zip(daily, paths, strict=False):
        taken = model(path)[0]
        assert tuple(row) == (taken[0][0], len(taken), sum(int(str(item[2])) for item in taken))

    before = len(table.files())
    dry = table.compact("2024-01", dry_run=True)
    kept = table.compact("2024-01")
    assert (kept.rows, kept.files_before) == (dry.rows, dry.files_before) == (total, before)
    assert kept.files_after == 1
    assert rows_of(table) == expected(paths), "nothing is counted twice"
    assert table.compact("2024-01").run_id is None

    write_days(tmp_path / "landing", date(2024, 1, 15), 1, rows=25, seed=9)
    again = table.ingest(paths[14], date="2024-01-15")
    assert [row.action for row in again.dates] == ["replace"]
    assert rows_of(table) == expected(paths)
    merged = table.compact("2024-01", delete_source=True)
    assert merged.rows == len(expected(paths))
    assert rows_of(table) == expected(paths)
    skipped = table.compact("2024-02")
    assert skipped.reason is not None
    assert (skipped.reason.code, "2024-02" in skipped.reason.detail) == ("no_files", True)
    assert all(row.state == "ok" for row in table.verify())
    status = table.status()
    assert (status.compaction.total_compactions, status.compaction.last_date) == (1, "2024-01-31")
    assert (status.ingestion.total_rows, status.rows) == (merged.rows, merged.rows)
    if format != "iceberg":
        ending = ".parquet" if format == "parquet" else ".csv"
        assert [row.path for row in table.files()] == [f"{folder(table)}/2024-01{ending}"]
        assert seen_outside(table) == expected(paths)
        assert len([name for name in names(table) if name.startswith("_sources/")]) == 31
        assert {name for name in names(table) if not name.startswith("_")} == {f"2024-01{ending}"}


def test_the_logs_answer_the_sqlite3_query_of_the_document(spark_lake: Lake, make: Make, tmp_path: Path) -> None:
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 2)
    table = make()
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    table.compact("2024-01")
    with sqlite3.connect(spark_lake.root / ".metadata.db") as database:
        database.row_factory = sqlite3.Row
        logged = database.execute("SELECT * FROM ingestion_log WHERE table_name = ?", [table.name.short]).fetchall()
        compacted = database.execute("SELECT * FROM compaction_log WHERE table_name = ?", [table.name.short]).fetchall()
        (known,) = database.execute("SELECT * FROM table_registry WHERE table_name = ?", [table.name.short]).fetchall()
    assert [row["rows_ingested"] for row in logged] == [len(model(path)[0]) for path in paths]
    assert logged[0]["destination_file"] == f"{folder(table)}/2024-01-01.parquet"
    assert [(row["period"], row["output_file"]) for row in compacted] == [
        ("2024-01", f"{folder(table)}/2024-01.parquet")
    ]
    assert (known["base_path"], known["format"]) == (str(folder(table)), "parquet")


def test_weeks_months_and_years_take_each_other_in(spark_lake: Lake, make: Make, tmp_path: Path) -> None:
    """Hierarchical: days into months, months into a year, a late day into its month and then into the year."""
    paths = write_days(tmp_path / "landing", date(2023, 12, 30), 4) + write_days(
        tmp_path / "landing", date(2024, 2, 1), 1
    )
    table = make(more="compaction: {strategy: {type: hierarchical, delete_source: true}}\n")
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    assert table.compact("2024-01").files_before == 2
    assert table.compact("2024-02").files_before == 1
    assert table.compact("2024").files_before == 2
    assert [row.partition for row in table.files()] == ["2023-12-30", "2023-12-31", "2024"]
    assert rows_of(table) == seen_outside(table) == expected(paths)
    paths += write_days(tmp_path / "landing", date(2024, 1, 20), 1)
    table.ingest(paths[-1], date="2024-01-20")
    table.compact("2024-01")
    assert table.compact("2024").files_before == 2, "the year's own file and the month's"
    assert rows_of(table) == seen_outside(table) == expected(paths)
    paths[2] = write_days(tmp_path / "landing", date(2024, 1, 1), 1, rows=3, seed=8)[0]
    table.ingest(paths[2], date="2024-01-01")
    assert rows_of(table) == seen_outside(table) == expected(paths), "out of the year's file, into its own"


def test_missing_days_leave_everything_as_it_was(make: Make, tmp_path: Path) -> None:
    """A2 8 and 9."""
    write_days(tmp_path / "landing", date(2025, 11, 1), 29)
    table = make(more="compaction: {strategy: {type: monthly, expected: complete}}\n")
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    before = names(table)
    with pytest.raises(CheckFailed, match="2025-11 has 29 of 30 days; missing: 2025-11-30"):
        table.compact("2025-11")
    assert names(table) == before
    assert table.status().compaction.total_compactions == 0


def test_a_damaged_file_stops_a_compaction_and_changes_nothing(make: Make, tmp_path: Path) -> None:
    """A2 9: one of two files unreadable."""
    write_days(tmp_path / "landing", date(2024, 1, 1), 2)
    table = make()
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    damaged = folder(table) / "2024-01-02.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-7] + b"broken!")
    before = names(table)
    with pytest.raises(NeveError):
        table.compact("2024-01")
    assert names(table) == before


def test_a_failed_ingest_leaves_rows_files_and_logs(spark_lake: Lake, make: Make, tmp_path: Path) -> None:
    """A4: the public implementation overwrites the success row of a date whose second ingest fails."""
    (path,) = write_days(tmp_path / "landing", date(2024, 1, 1), 1)
    table = make()
    table.ingest(path, date="2024-01-01")
    rows, before = rows_of(table), names(table)
    path.write_text("date,product_id,quantity,price,customer_id,region\n2024-01-01,P1,0,1.0,1,NORTH\n")
    with pytest.raises(CheckFailed, match="1 of 1 rows were rejected"):
        table.ingest(path, date="2024-01-01", max_rejected=0)
    assert (rows_of(table), names(table)) == (rows, before)
    assert table.status().ingestion.total_ingestions == 1
    assert [row.state for row in table.verify()] == ["ok"]
    assert spark_lake.runs.list(table=table.name.short, kind="ingest")[0].state == "failed"


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_new_column_is_refused_or_added(spark_lake: Lake, namespace: str, tmp_path: Path, format: str) -> None:  # noqa: A002
    config, old, new = tmp_path / "words.yaml", tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text('id,word\n1,"a ""quoted"" word"\n2,\n2,\n3," spaced, "\n')
    new.write_text("extra,id,word\nx,4,four\n")
    text = f"name: {namespace}.words\nstorage: {{base_path: {tmp_path}/words, format: {format}}}\n"
    config.write_text(text)
    spark_lake.tables.create(str(config))
    spark_lake.table(str(config)).ingest(old, date="2024-01-01")
    with pytest.raises(Refused, match="has no column extra"):
        spark_lake.table(str(config)).ingest(new, date="2024-01-02")
    config.write_text(f"{text}schema: evolve\n")
    table = spark_lake.table(str(config))
    table.ingest(new, date="2024-01-02")
    expected_rows = Counter(
        [(1, 'a "quoted" word', None), (2, None, None), (2, None, None), (3, " spaced, ", None), (4, "four", "x")]
    )
    query = "SELECT id, word, extra FROM words"
    assert Counter(map(tuple, table.query(query).collect())) == expected_rows
    table.compact("2024-01")
    assert Counter(map(tuple, table.query(query).collect())) == expected_rows


def test_a_file_that_somebody_else_put_there_counts_and_is_replaced_by_its_date(make: Make, tmp_path: Path) -> None:
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 2)
    table = make()
    table.ingest(paths[0], date="2024-01-01")
    where = folder(table)
    duckdb.sql(
        f"COPY (SELECT DATE '2024-01-02' AS date, 'P9' AS product_id, 7::INT AS quantity, 1.5::DOUBLE AS price,"
        f" 3::INT AS customer_id, 'EAST' AS region) TO '{where}/2024-01-02.parquet' (FORMAT parquet)"
    )
    foreign: Rows = [(date(2024, 1, 2), "P9", 7, 1.5, 3, "EAST")]
    assert rows_of(table) == sorted([*model(paths[0])[0], *foreign], key=repr)
    assert [row.state for row in table.verify()] == ["ok", "not_logged"]
    table.compact("2024-01", delete_source=True)
    assert rows_of(table) == seen_outside(table) == sorted([*model(paths[0])[0], *foreign], key=repr)
    table.ingest(paths[1], date="2024-01-02")
    assert rows_of(table) == seen_outside(table) == expected(paths)


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_columns_of_somebody_elses_file_are_not_lost(make: Make, tmp_path: Path, format: str) -> None:  # noqa: A002
    """Of a table that has loaded nothing yet no column is known: a compaction would have left the dates alone."""
    table = make(format)
    where = folder(table)
    duckdb.sql(f"COPY (SELECT 1 AS id, 'x' AS extra) TO '{where}/2024-01-02.{format}' (FORMAT {format})")
    with pytest.raises(Refused, match="would lose: extra, id"):
        table.compact("2024-01", delete_source=True)
    (path,) = write_days(tmp_path / "landing", date(2024, 1, 1), 1)
    table.ingest(path, date="2024-01-01")
    with pytest.raises(Refused, match="would lose: extra, id"):
        table.compact("2024-01", delete_source=True)
    with duckdb.connect() as database:
        kept = database.execute(f"SELECT id, extra FROM '{where}/2024-01-02.{format}'").fetchall()
    assert kept == [(1, "x")]


def rewrite(path: Path, query: str) -> None:
    """Another tool writes a file anew, by a query over what was in it."""
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE old AS SELECT * FROM read_{path.suffix[1:]}('{path}', hive_partitioning=false)")
        database.execute(f"COPY ({query}) TO '{path}' (FORMAT {path.suffix[1:]})")


@pytest.mark.parametrize("strategy", ["flat", "hive"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_days_that_another_tool_wrote_anew_keep_their_date(
    spark_lake: Lake,
    namespace: str,
    tmp_path: Path,
    format: str,  # noqa: A002
    strategy: str,
) -> None:
    """One without its date, one with some rows without: they are rows of their days, and stay when others go."""
    config, place = tmp_path / "t.yaml", tmp_path / "a b%20c+d"
    config.write_text(
        f"name: {namespace}.t\nstorage: {{base_path: '{place}', format: {format}}}\n"
        f"partitioning: {{strategy: {strategy}}}\n"
    )
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))
    for day in (1, 2, 3):
        (tmp_path / f"2024-01-0{day}.csv").write_text(f"id\n{day}\n")
    table.ingest(tmp_path / "2024*.csv", date_from_name="{date}.csv")
    first, second, _ = sorted(place.rglob(f"*.{format}"))
    rewrite(first, "SELECT * FROM old UNION ALL BY NAME SELECT * EXCLUDE (id, _ingest_date), 10 AS id FROM old")
    rewrite(second, "SELECT * EXCLUDE (_ingest_date) FROM old")
    rows = [(1, "2024-01-01"), (2, "2024-01-02"), (3, "2024-01-03"), (10, "2024-01-01")]
    query = "SELECT id, string(_ingest_date) FROM t ORDER BY id"
    assert [tuple(row) for row in table.query(query).collect()] == rows
    assert [(row.date, row.state) for row in table.verify()][1:] == [(date(2024, 1, 2), "ok"), (date(2024, 1, 3), "ok")]
    table.compact("2024-01", delete_source=True)
    (tmp_path / "2024-01-03.csv").write_text("id\n30\n")
    table.ingest(tmp_path / "2024-01-03.csv", date="2024-01-03")
    rows = [*rows[:2], rows[3], (30, "2024-01-03")]
    assert [tuple(row) for row in table.query(query).collect()] == rows


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_folders_say_what_files_of_other_tools_leave_out(
    spark_lake: Lake,
    namespace: str,
    tmp_path: Path,
    format: str,  # noqa: A002
) -> None:
    """In a file without these columns, in one with rows without them, and in a folder that nothing was loaded into."""
    config, place = tmp_path / "t.yaml", tmp_path / "a b%20c+d"
    config.write_text(
        f"name: {namespace}.t\nstorage: {{base_path: '{place}', format: {format}}}\n"
        f"partitioning: {{pattern: 'year={{year}}/m={{year}}-{{month}}/day={{day}}/data.{format}'}}\n"
    )
    for day in (1, 2, 3):
        (tmp_path / f"2024-01-0{day}.csv").write_text(f"id\n{day}\n")
    foreign = place / "year=2023/m=2023-12/day=09" / f"data.{format}"
    foreign.parent.mkdir(parents=True)
    with duckdb.connect() as database:
        database.execute(f"COPY (SELECT 9::INTEGER AS id) TO '{foreign}' (FORMAT {format})")
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))
    query = "SELECT id, year, m, day FROM t ORDER BY id"
    assert [tuple(row) for row in table.query(query).collect()] == [(9, 2023, "2023-12", 9)]
    assert [column.name for column in table.show().columns] == ["year", "m", "day"]
    table.ingest(tmp_path / "2024*.csv", date_from_name="{date}.csv")
    _, first, second, _ = sorted(place.rglob(f"*.{format}"))
    without = "SELECT * EXCLUDE (year, m, day) FROM old"
    rewrite(first, f"SELECT * FROM old UNION ALL BY NAME {without}")
    rewrite(second, without)
    rows = [(1, 2024, "2024-01", 1)] * 2 + [(day, 2024, "2024-01", day) for day in (2, 3)]
    assert [tuple(row) for row in table.query(query).collect()][:-1] == rows
    assert [row[0] for row in table.query("SELECT id FROM t WHERE m = '2023-12' OR day = 2 ORDER BY id").collect()] == [
        2,
        9,
    ]
    table.compact("2024-01", delete_source=True)
    assert [tuple(row) for row in table.query(query).collect()][:-1] == rows


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_period_that_another_tool_wrote_anew_loses_nothing(make: Make, tmp_path: Path, format: str) -> None:  # noqa: A002
    """Neither columns of its own, nor rows of which nobody knows whether they are of the date that is replaced."""
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 3)
    table = make(format)
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    rewrite(folder(table) / f"2024-01-02.{format}", "SELECT *, 7 AS extra FROM old")
    with pytest.raises(Refused, match="would lose: extra"):
        table.compact("2024-01", delete_source=True)
    rewrite(folder(table) / f"2024-01-02.{format}", "SELECT * EXCLUDE (extra) FROM old")
    table.compact("2024-01", delete_source=True)
    month = folder(table) / f"2024-01.{format}"
    write_days(tmp_path / "landing", date(2024, 1, 3), 1, rows=4, seed=9)
    for query, why in (
        ("SELECT *, 7 AS extra FROM old", "would lose: extra"),
        ("SELECT * EXCLUDE (extra, _ingest_date) FROM old", "has rows without _ingest_date"),
    ):
        rewrite(month, query)
        before, rows = names(table), seen_outside(table)
        with pytest.raises(Refused, match=why):
            table.ingest(paths[2], date="2024-01-03")
        assert (names(table), seen_outside(table)) == (before, rows)
    month.unlink()
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv", replace=True)
    assert rows_of(table) == seen_outside(table) == expected(paths)


def test_a_period_takes_late_days_in_under_another_name(make: Make, tmp_path: Path) -> None:
    """`output_pattern` was changed after the month was compacted: its file is found by the name that it has."""
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 2)
    strategy = 'compaction: {strategy: {delete_source: true, output_pattern: "NAME-{year}-{month}.parquet"}}\n'
    table = make(more=strategy.replace("NAME", "a"))
    table.ingest(paths[0], date="2024-01-01")
    table.compact("2024-01")
    config = tmp_path / "sales.yaml"
    config.write_text(config.read_text().replace("a-{year}", "b-{year}"))
    assert table.compact("2024-01").run_id is None
    table.ingest(paths[1], date="2024-01-02")
    assert table.compact("2024-01").files_before == 2
    assert names(table) == ["_neve_ledger.json", "b-2024-01.parquet"]
    assert rows_of(table) == seen_outside(table) == expected(paths)
    (paths[0],) = write_days(tmp_path / "landing", date(2024, 1, 1), 1, rows=5, seed=9)
    table.ingest(paths[0], date="2024-01-01")
    assert rows_of(table) == seen_outside(table) == expected(paths)
    assert (table.compact("2024-01").files_before, table.compact("2024-01").run_id) == (2, None)


def test_a_week_across_the_year_and_a_file_of_somebody_else_in_its_place(make: Make, tmp_path: Path) -> None:
    """A2 11: what stands where the week's file would go is neither read twice nor written over."""
    paths = write_days(tmp_path / "landing", date(2024, 12, 29), 5)
    table = make(more='compaction: {strategy: {type: weekly, output_pattern: "{year}-W{week}.parquet"}}\n')
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    foreign = folder(table) / "2025-W01.parquet"
    shutil.copy(folder(table) / "2024-12-30.parquet", foreign)
    before = names(table)
    with pytest.raises(NeveError, match=r"2025-W01.parquet"):
        table.compact("2025-W01")
    assert names(table) == before
    foreign.unlink()
    done = table.compact("2025-W01")
    assert (done.files_before, Path(done.output or "").name) == (4, "2025-W01.parquet")
    assert [row.partition for row in table.files()] == ["2024-12-29", "2025-W01"]
    assert rows_of(table) == seen_outside(table) == expected(paths)


def test_a_date_whose_rows_are_all_rejected_holds_none(make: Make, tmp_path: Path) -> None:
    (path,) = write_days(tmp_path / "landing", date(2024, 1, 1), 1)
    table = make()
    table.ingest(path, date="2024-01-01")
    path.write_text("date,product_id,quantity,price,customer_id,region\n2024-01-01,P1,0,1.0,1,NORTH\n")
    assert table.ingest(path, date="2024-01-01").rows_rejected == 1
    assert rows_of(table) == []
    assert names(table) == ["_neve_ledger.json"]
    assert table.ingest(path, date="2024-01-01").run_id is None, "and nothing is to do"


def test_big_days_of_several_files_become_one_file_each(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neve.engine.reading.SPLIT_BYTES", 10)
    landing = tmp_path / "landing"
    paths = write_days(landing, date(2024, 1, 1), 2)
    for path in write_days(tmp_path / "second", date(2024, 1, 1), 2, seed=5):
        target = landing / f"b_{path.name}"
        path.rename(target)
        paths.append(target)
    table = make()
    for day in ("2024-01-01", "2024-01-02"):
        table.ingest(landing / f"*{day}.csv", date=day)
    assert rows_of(table) == expected(paths)
    assert len(table.files()) == 2


def test_what_only_iceberg_tables_can_do_is_said(spark_lake: Lake, make: Make, cli: Cli) -> None:
    table = make()
    name = table.name.short
    for words in (["rollback", name, "--to", "1", "--yes"], ["history", name], ["alter", name, "--drop", "x"]):
        code, _, err = cli("table", *words)
        assert (code, "is a directory of parquet files" in err) == (6, True), words
    with pytest.raises(Unsupported, match="has no past"):
        table.query("SELECT 1 FROM sales", as_of="2024-01-01")
    with pytest.raises(AlreadyExists):
        spark_lake.tables.create(name, "id bigint")
    assert name in [row.table for row in spark_lake.tables.list()]
    code, out, _ = cli("table", "delete", name, "--yes")
    assert (code, "stays in" in out) == (0, True)
    assert folder_is_kept(table, spark_lake)


def folder_is_kept(table: LakeTable, lake: Lake) -> bool:
    return str(table.name) not in [row.table for row in lake.tables.list()]


def test_a_forgotten_table_comes_back_with_its_rows(spark_lake: Lake, make: Make, tmp_path: Path) -> None:
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 2)
    table = make()
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    table.drop()
    spark_lake.tables.create(str(tmp_path / "sales.yaml"))
    assert rows_of(table) == expected(paths)
    assert table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv").run_id is None


def test_a_changed_file_of_the_table_is_refused(make: Make, spark_lake: Lake, tmp_path: Path) -> None:
    make()
    config = tmp_path / "sales.yaml"
    config.write_text(config.read_text().replace("/tables/sales/", "/tables/elsewhere/"))
    with pytest.raises(Refused, match=r"storage\.base_path"):
        spark_lake.table(str(config)).status()


def test_two_tables_do_not_share_a_folder(make: Make, spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    make()
    other = tmp_path / "other.yaml"
    other.write_text(f"name: {namespace}.other\nstorage: {{base_path: {tmp_path}/tables/sales/sub, format: parquet}}\n")
    with pytest.raises(Refused, match="is the folder of"):
        spark_lake.tables.create(str(other))


def test_a_column_that_is_a_folder_too_is_refused(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    config, source = tmp_path / "clash.yaml", tmp_path / "in.csv"
    config.write_text(
        f"name: {namespace}.clash\nstorage: {{base_path: {tmp_path}/clash, format: parquet}}\n"
        "partitioning: {strategy: hive}\n"
    )
    source.write_text("id,month\n1,2\n")
    spark_lake.tables.create(str(config))
    with pytest.raises(InvalidSchema, match="month is a column of the files and a folder"):
        spark_lake.table(str(config)).ingest(source, date="2024-01-01")


def test_nested_columns_lie_in_parquet_and_are_refused_in_csv(spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "s": {"a b": 2, "l": [{"x": "y"}]}}\n')
    tables = {}
    for kind in ("parquet", "csv"):
        config = tmp_path / f"{kind}.yaml"
        config.write_text(
            f"name: {namespace}.{kind}\nstorage: {{base_path: {tmp_path}/{kind}, format: {kind}}}\nschema: evolve\n"
        )
        spark_lake.tables.create(str(config))
        tables[kind] = spark_lake.table(str(config))
    with pytest.raises(Unsupported, match="CSV has no form for it"):
        tables["csv"].ingest(source, date="2024-01-01")
    assert names(tables["csv"]) == ["_neve_ledger.json"]
    table = tables["parquet"]
    table.ingest(source, date="2024-01-01")
    source.write_text('{"id": 2, "s": {"l": [{"z": 1}]}}\n')
    table.ingest(source, date="2024-01-02")
    expected_rows = [(1, 2, "y", None), (2, None, None, 1)]
    asked = "SELECT id, s.`a b`, s.l[0].x, s.l[0].z FROM parquet ORDER BY id"
    assert [tuple(row) for row in table.query(asked).collect()] == expected_rows
    assert (table.compact("2024-01").rows, table.compact("2024-01").run_id) == (2, None)
    assert [tuple(row) for row in table.query(asked).collect()] == expected_rows


SCRIPT = """
import os, signal, sys
from neve import Lake
from neve.directory import change, journal
from neve.directory.storage import LocalStorage

verb, step = sys.argv[4], int(sys.argv[3])
count = 0

def counted(real):
    def wrapped(*args, **kwargs):
        global count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return wrapped

table = Lake(sys.argv[1]).table(sys.argv[2])
table._context.session.spark
for name in ("move", "remove", "write", "clear"):
    setattr(LocalStorage, name, counted(getattr(LocalStorage, name)))
import neve.services.directory_tables.ingest as ingest, neve.services.directory_tables.compaction as compaction
ingest.log_ingest = counted(ingest.log_ingest)
compaction.log_compaction = counted(compaction.log_compaction)
if verb == "ingest":
    table.ingest(sys.argv[5], date="2024-01-01")
else:
    table.compact("2024-01", delete_source=True)
print("steps", count)
"""


def killed(lake: Lake, table: LakeTable, step: int, verb: str, source: Path) -> int | None:
    """Runs a verb in a process that dies at a step; how many steps there are, when it lived."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lake.root), str(table.name), str(step), verb, str(source)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NEVE_SPARK__DRIVER_MEMORY": "1g"},
        capture_output=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 0:
        return int(done.stdout.split()[-1])
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    return None


STEPS = [(9, "ingest"), (5, "compact")]
"""A few of those that a change takes: each is tried without Spark in tests/lake/test_directory_crash."""


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize(("step", "verb"), STEPS)
def test_killed_at_any_step_it_is_done_or_not_at_all(
    spark_lake: Lake, make: Make, tmp_path: Path, verb: str, step: int
) -> None:
    paths = write_days(tmp_path / "landing", date(2024, 1, 1), 3)
    table = make()
    table.ingest(tmp_path / "landing", date_from_name="sales_{date}.csv")
    if verb == "ingest":
        table.compact("2024-01")
    old = expected(paths)
    (path,) = write_days(tmp_path / "landing", date(2024, 1, 1), 1, rows=9, seed=6)
    new = expected(paths) if verb == "ingest" else old
    killed(spark_lake, table, step, verb, path)
    open_directory(folder(table))
    assert seen_outside(table) in (old, new)
    assert rows_of(table) == seen_outside(table)
    if verb == "ingest":
        table.ingest(path, date="2024-01-01")
    else:
        table.compact("2024-01")
    assert rows_of(table) == seen_outside(table) == new
    assert all(row.state == "ok" for row in table.verify())
    assert "running" not in [run.state for run in spark_lake.runs.list(table=table.name.short)]
    assert not list((spark_lake.root / ".neve" / "spool").glob("*"))


SMALL_HEAP = """
import sys
from neve import Lake

table = Lake(sys.argv[1]).table(sys.argv[2])
done = table.compact("2024-01", delete_source=True)
print(done.rows, done.files_before, done.files_after)
"""
HEAP = 512


@pytest.mark.soak
def test_a_period_larger_than_memory_compacts(spark_lake: Lake, make: Make, tmp_path: Path) -> None:
    """Days that another tool wrote, more of them than Java has room for."""
    table = make("parquet")
    (path,) = write_days(tmp_path / "landing", date(2023, 12, 31), 1)
    table.ingest(path, date="2023-12-31")
    where, rows = folder(table), 31 * 200_000
    read = f"read_parquet('{where}/2024-*.parquet')"
    content = f"SELECT count(*), sum(hash(product_id, customer_id, region)::HUGEINT) FROM {read}"
    with duckdb.connect() as database:
        for day in range(31):
            database.execute(
                f"COPY (SELECT DATE '2024-01-{day + 1:02}' AS date, md5(i::VARCHAR) AS product_id, 1 AS quantity,"
                " 2.5::DOUBLE AS price, i::INT AS customer_id, md5('x' || i) || md5('y' || i) AS region"
                f" FROM range({day * 200_000}, {(day + 1) * 200_000}) t(i))"
                f" TO '{where}/2024-01-{day + 1:02}.parquet' (FORMAT parquet, COMPRESSION uncompressed)"
            )
        assert sum(path.stat().st_size for path in where.glob("*.parquet")) > HEAP * 1024 * 1024
        before = database.execute(content).fetchone()
        done = subprocess.run(
            [sys.executable, "-c", SMALL_HEAP, str(spark_lake.root), str(table.name)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NEVE_SPARK__DRIVER_MEMORY": f"{HEAP}m"},
            capture_output=True,
            check=False,
            timeout=900,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.split() == [str(rows), "31", "1"]
        assert database.execute(content).fetchone() == before
    assert [path.name for path in where.glob("2024-*.parquet")] == ["2024-01.parquet"]
