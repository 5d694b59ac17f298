"""Directory tables and the files that describe them: what an edit means, and what is left when the file is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.lake.lakes import Cli

from neve.errors import NotFound, Refused, StoreError
from neve.lake import Lake
from neve.model.results import DuePeriod

FILE = "name: days\nstorage: {format: parquet, base_path: days}\ncolumns: {id: bigint}\n"
WEEKLY = "compaction: {trigger: {schedule: '0 3 * * *'}, strategy: {type: weekly}}\n"


@pytest.fixture
def described(lake: Lake) -> Path:
    """A table with two days, and the file that it was made of."""
    path = lake.root / "days.yaml"
    path.write_text(FILE)
    lake.tables.create(str(path))
    for day in ("2024-01-01", "2024-01-02"):
        (lake.root / "days" / f"{day}.parquet").write_bytes(b"PAR1")
    return path


def told(lake: Lake) -> list[str]:
    said: list[str] = []
    lake._context.tell = said.append
    return said


def due(lake: Lake, table: str) -> list[DuePeriod]:
    return list(lake.table(table).status().compaction.next)


def test_an_edited_file_counts_whoever_asks(lake: Lake, described: Path) -> None:
    assert [(row.period, row.reason.code) for row in due(lake, "days")] == [("2024-01", "manual")]
    assert not [row for row in lake.schedule() if row.table == "default.days"]
    described.write_text(FILE + WEEKLY)
    assert due(lake, "days") == due(lake, str(described))
    assert [(row.period, row.due) for row in due(lake, "days")] == [("2024-W01", True)]
    assert [row.action for row in lake.schedule() if row.table == "default.days"] == ["compact 2024-W01"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "days.yaml: no such file"),
        ("name: days\nstorage: [", "days.yaml:2:"),
        ("name: other\n", "days.yaml describes other"),
    ],
)
def test_without_its_file_a_table_is_what_it_was_made_as(
    lake: Lake, described: Path, text: str | None, why: str
) -> None:
    said = told(lake)
    before = due(lake, "days")
    assert said == []
    described.unlink() if text is None else described.write_text(text)
    assert due(lake, "days") == before
    (line,) = said
    assert why in line
    assert line.endswith("default.days goes by what its file said when it was made")
    assert lake.table("days").show().format == "parquet"
    assert len(said) == 1, "it is told once"
    with pytest.raises(NotFound, match=r"no such file or folder: nowhere\.csv"):
        lake.table("days").ingest("nowhere.csv", date="2024-01-01")


@pytest.mark.parametrize(
    "text",
    [
        FILE.replace("parquet", "csv"),
        FILE.replace("base_path: days", "base_path: elsewhere"),
        FILE + "partitioning: {strategy: hive}\n",
        FILE + "partitioning: {date_format: '%Y%m%d'}\n",
        FILE.replace("base_path: days", "base_path: 's3://bucket/days'"),
        "name: days\ncolumns: {id: bigint}\n",
    ],
)
def test_what_cannot_change_is_refused_by_name_too(lake: Lake, described: Path, text: str) -> None:
    described.write_text(text)
    for table in ("days", str(described)):
        with pytest.raises(Refused, match=r"default\.days has .*, and the file says .*"):
            lake.table(table).status()
    said = told(lake)
    assert [row for row in lake.schedule() if row.table == "default.days"] == []
    assert any("and the file says" in line for line in said)
    assert "default.days" in [row.table for row in lake.tables.list()]
    (row,) = lake.status()
    assert (row.state, row.reason.code if row.reason else None) == ("unreadable", "refused")
    lake.table("days").drop()
    assert not lake.table("days").exists()


def test_a_warning_is_printed_where_progress_is_not(lake: Lake, described: Path, cli: Cli) -> None:
    described.unlink()
    said = cli("table", "status", "days")
    assert said.code == 0
    assert said.err.startswith(f"! {described}: no such file; default.days goes by what its file said")
    assert cli("table", "list", "-o", "json").err == ""


@pytest.mark.parametrize("place", [".", "warehouse", "warehouse/x"])
def test_a_folder_of_files_is_not_in_the_warehouse(lake: Lake, place: str) -> None:
    """The files of tables that are made there later would count as its rows."""
    path = lake.root / "days.yaml"
    path.write_text(FILE.replace("base_path: days", f"base_path: {place}"))
    with pytest.raises(Refused, match="is the lake's warehouse, or lies in it, or around it"):
        lake.tables.create(str(path))


def test_a_folder_in_place_of_a_table_is_told_so(lake: Lake, described: Path, cli: Cli) -> None:
    said = cli("table", "status", "data/days")
    assert (said.code, "by its name or its YAML file, not by its folder" in said.err) == (2, True)


def test_a_table_does_not_load_its_own_files(lake: Lake, described: Path) -> None:
    (lake.root / "days" / "2024-01-03.csv").write_text("id\n1\n")
    for source in ("days", "days/2024-01-03.csv", "*/*.csv"):
        with pytest.raises(Refused, match=r"lies in the folder of default\.days: its rows would be there twice"):
            lake.table("days").ingest(lake.root / source, date="2024-01-03", dry_run=True)


def test_a_folder_that_has_gone_says_whose_it_was(lake: Lake, described: Path, cli: Cli) -> None:
    (lake.root / "days").rename(lake.root / "gone")
    said = cli("table", "status", "days")
    assert said.code == 3
    assert "days, where the rows of default.days lie" in said.err
    assert "bring it back, or forget the table: neve table delete days" in said.err


def test_a_table_of_which_nothing_is_understood_can_be_forgotten(lake: Lake, described: Path, cli: Cli) -> None:
    """As the error says that tells of it."""
    known = lake._context.store.registry.get("days")
    assert known is not None
    lake._context.store.registry.put(known.model_copy(update={"config": {"storage": "of another time"}}))
    said = cli("table", "status", "days")
    assert said.code == 1
    assert "delete the table and create it anew from its file; its folder stays" in said.err
    why = "what table_registry says of default.days cannot be understood: name"
    for words in (("table", "list"), ("status",)):
        said = cli(*words)
        assert "days" in said.out, "it is there, though nobody knows what it is"
        assert f"! {why}" in said.err
    assert [(row.table, row.online, row.rows) for row in lake.tables.list()] == [("default.days", None, None)]
    (row,) = lake.status()
    assert (row.state, row.reason and row.reason.detail.startswith(why)) == ("unreadable", True)
    (check,) = [row for row in lake.doctor(spark=False) if row.check == "registry"]
    assert (check.state, check.fix) == ("failed", "neve table delete days")
    assert check.detail.startswith(why)
    assert cli("table", "delete", "days", "--yes").code == 0
    assert cli("table", "create", str(described)).code == 0


def test_a_row_of_the_registry_that_is_no_row_is_told_in_a_sentence(lake: Lake, described: Path, cli: Cli) -> None:
    with sqlite3.connect(lake.root / ".metadata.db") as database:
        database.execute("UPDATE table_registry SET config = '{'")
    said = cli("table", "list")
    assert said.code == StoreError.exit_code
    assert "a row that cannot be understood, RegisteredTable days: Expecting property name" in said.err
    with sqlite3.connect(lake.root / ".metadata.db") as database:
        database.execute("UPDATE table_registry SET config = '{}', table_name = 'no name'")
    said = cli("table", "list")
    assert (said.code, said.out) == (0, "")
    assert "! table_registry has a table that nobody can ask for" in said.err
