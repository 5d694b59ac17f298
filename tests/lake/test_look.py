"""Looking: list, show, status, history, files, partitions. JSON is the Python value, word for word."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.lake.lakes import V2, Cli, append, append_files, contents, facts, log_ingestion, make, names

from neve.errors import TableNotFound
from neve.lake import Lake

LOOKS = ("show", "status", "health", "history", "files", "partitions", "properties")


def dumped(value: BaseModel | Sequence[BaseModel]) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [row.model_dump(mode="json") for row in value]


@pytest.mark.parametrize("look", LOOKS)
def test_json_is_the_python_value(lake: Lake, cli: Cli, look: str) -> None:
    table = make(lake, rows=3)
    value = getattr(table, look)()
    said = cli("table", look, "t", "-o", "json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == dumped(value)
    lines = [json.loads(line) for line in cli("table", look, "t", "-o", "jsonl").out.splitlines()]
    assert lines == (dumped(value) if isinstance(value, list) else [dumped(value)])
    rows = list(csv.DictReader(io.StringIO(cli("table", look, "t", "-o", "csv").out)))
    assert len(rows) == len(lines)
    assert list(rows[0]) == list(lines[0])
    assert cli("table", look, "t").code == 0


def test_an_empty_list_is_no_error(lake: Lake, cli: Cli) -> None:
    for words in (["table", "list"], ["table", "trash"], ["runs", "list"]):
        assert json.loads(cli(*words, "-o", "json").out) == []
        said = cli(*words)
        assert (said.code, said.out) == (0, "")
        assert said.err
        for output in ("jsonl", "csv"):
            assert cli(*words, "-o", output).out == ""


def test_list_is_sorted_and_narrowed_by_namespace(lake: Lake, cli: Cli) -> None:
    for name in ("b", "raw.z", "a", "raw.eu.y", "rawer.x", "B"):
        make(lake, name)
    assert names(lake) == ["default.B", "default.a", "default.b", "raw.z", "raw.eu.y", "rawer.x"]
    assert {row.table for row in lake.tables.list("raw")} == {"raw.z", "raw.eu.y"}
    assert [row["table"] for row in json.loads(cli("table", "list", "raw.eu", "-o", "json").out)] == ["raw.eu.y"]
    assert json.loads(cli("table", "list", "-o", "json").out) == dumped(lake.tables.list())


def test_list_counts_rows_files_and_bytes(lake: Lake) -> None:
    make(lake, rows=3)
    append(lake, "t", [{"id": 9, "v": "x"}])
    (row,) = lake.tables.list()
    files = lake.table("t").files()
    assert (row.rows, row.files, row.snapshots, row.online) == (4, 2, 2, True)
    assert row.bytes == sum(file.bytes for file in files) == sum(Path(file.path).stat().st_size for file in files)


def test_history_tells_each_snapshot_newest_first(lake: Lake) -> None:
    make(lake)
    first = append(lake, "t", [{"id": 1, "v": "a"}])
    second = append(lake, "t", [{"id": 2, "v": "b"}, {"id": 3, "v": "c"}])
    newest, oldest = lake.table("t").history()
    assert (newest.snapshot, newest.parent, newest.current, newest.rows, newest.rows_added) == (
        second,
        first,
        True,
        3,
        2,
    )
    assert (oldest.snapshot, oldest.parent, oldest.current, oldest.ancestor, oldest.rows) == (
        first,
        None,
        False,
        True,
        1,
    )
    assert newest.references == ["main"]


def test_partitions_add_up_to_the_files(lake: Lake) -> None:
    lake.tables.create("t", "id bigint, v string", partition_by=["v", "bucket(2, id)"], properties=V2)
    append_files(lake, "t", [{"v": "ab"[n % 2], "id_bucket_2": n % 3 % 2} for n in range(10)])
    append_files(lake, "t", [{"v": None, "id_bucket_2": 0}, {"v": None, "id_bucket_2": None}])
    table = lake.table("t")
    files, partitions = table.files(), table.partitions()
    assert sum(row.rows for row in partitions) == sum(row.rows for row in files) == sum(range(11)) + 1 + 2
    assert sum(row.files for row in partitions) == len(files) == 12
    assert sum(row.bytes for row in partitions) == sum(row.bytes for row in files)
    assert {row.partition for row in partitions} == {row.partition for row in files}
    assert [row.partition for row in partitions][-2:] == ["v=null/id_bucket_2=0", "v=null/id_bucket_2=null"]
    assert partitions[0].smallest_file <= partitions[0].largest_file


def test_status_counts_small_files_and_ingestions(lake: Lake) -> None:
    make(lake, rows=2)
    log_ingestion(lake, "t", "2024-01-02", 5)
    log_ingestion(lake, "t", "2024-01-01", 4)
    status = lake.table("t").status()
    assert (status.rows, status.files, status.small_files) == (2, 1, 1)
    assert status.ingestion.model_dump() == {
        "total_ingestions": 2,
        "first_date": "2024-01-01",
        "last_date": "2024-01-02",
        "total_rows": 9,
        "missing_dates": [],
        "rows_rejected": 0,
    }


def test_status_tells_missing_dates_and_rejected_rows(lake: Lake, cli: Cli) -> None:
    make(lake, rows=2)
    make(lake, "t__rejected", rows=3)
    for day in ("01", "02", "05", "07"):
        log_ingestion(lake, "t", f"2024-01-{day}", 5)
    found = lake.table("t").status().ingestion
    assert [day.isoformat() for day in found.missing_dates] == ["2024-01-03", "2024-01-04", "2024-01-06"]
    assert (found.total_ingestions, found.total_rows, found.rows_rejected) == (4, 20, 3)
    said = cli("table", "status", "t").out
    assert "Date range: 2024-01-01 → 2024-01-07" in said
    assert "Rejected rows: 3" in said
    assert "Missing dates: 2024-01-03" in said


@pytest.mark.parametrize("look", LOOKS)
def test_an_unknown_table_names_the_nearest(lake: Lake, cli: Cli, look: str) -> None:
    make(lake, "sales")
    before = contents(lake)
    said = cli("table", look, "salse")
    assert (said.code, said.out) == (3, "")
    assert "no table default.salse" in said.err
    assert "did you mean" in said.err
    assert "sales" in said.err
    problem = json.loads(cli("table", look, "salse", "-o", "json").err)
    assert problem["code"] == "table_not_found"
    assert contents(lake) == before
    with pytest.raises(TableNotFound):
        getattr(lake.table("salse"), look)()


def test_one_broken_table_does_not_hide_the_others(lake: Lake, cli: Cli) -> None:
    make(lake, "good", rows=1)
    make(lake, "bad")
    Path(facts(lake, "bad").metadata_location).write_text("{}")
    rows = {row.table: row for row in lake.tables.list()}
    assert rows["default.good"].rows == 1
    assert rows["default.bad"].model_dump(exclude={"table"}) == dict.fromkeys(
        ("online", "rows", "files", "bytes", "snapshots", "updated_at")
    )
    assert cli("table", "list").code == 0
    assert cli("table", "show", "bad").code == 1
    assert cli("table", "show", "good").code == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format-version": 2}', "\x1f\x8bnot gzip", "not json"])
def test_broken_metadata_is_said_plainly(lake: Lake, cli: Cli, content: str) -> None:
    make(lake)
    Path(facts(lake, "t").metadata_location).write_bytes(content.encode("latin-1"))
    said = cli("table", "show", "t")
    assert (said.code, said.out) == (1, "")
    assert "metadata" in said.err
    assert "should not happen" not in said.err


def test_looking_changes_nothing(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    before = contents(lake)
    for look in LOOKS:
        cli("table", look, "t")
    for words in (["table", "list"], ["namespace", "list"], ["config", "show"], ["runs", "list"], ["table", "trash"]):
        assert cli(*words).code == 0
    assert contents(lake) == before


def test_dependants_are_shown(lake: Lake) -> None:
    make(lake, "base")
    make(lake, "derived")
    derived = facts(lake, "derived").name
    lake._context.catalog.set_properties(derived, put={"neve.sources": '["default.base"]'})
    assert lake.table("base").show().dependants == ["default.derived"]
    assert lake.table("derived").show().dependants == []
