"""`neve table alter`: every change in one commit, no data rewritten, bad ones refused whole."""

from __future__ import annotations

import json
import re

import pytest
from pyiceberg.table import StaticTable
from tests.lake.lakes import V2, Cli, append, append_files, contents, facts, make, undo_words

from neve.errors import InvalidInput, InvalidSchema, NeveError
from neve.lake import Lake
from neve.services.specs import alterations_from_words

SCHEMA = "id int not null, name string, price decimal(10,2), at timestamp, place struct<street:string,zip:int>"


@pytest.fixture
def table(lake: Lake) -> Lake:
    lake.tables.create("t", SCHEMA, partition_by=["day(at)"], sort_by=["id"], properties=V2)
    return lake


def columns(lake: Lake) -> list[str]:
    return [f"{c.name} {c.type}{' not null' if c.required else ''}" for c in lake.table("t").show().columns]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--add", "note string comment 'free text, before use'"], "place.* note string$"),
        (["--add", "note string first"], "^note string id int"),
        (["--add", "note decimal(5, 1) after id"], "id int not null note decimal\\(5,1\\) name"),
        (["--add", "`a b` int before `name`"], "id int not null a b int name"),
        (["--add", "place.country string"], "zip:int,country:string"),
        (["--add", "place.country string after street"], "street:string,country:string,zip:int"),
        (["--add", "tags array<map<string,int>>"], "tags array<map<string,int>>"),
        (["--drop", "name"], "^id int not null price"),
        (["--drop", "place.zip"], "struct<street:string>"),
        (["--rename", "name=title"], "id int not null title string price"),
        (["--rename", "at=when"], "when timestamp"),
        (["--rename", "place.zip=code"], "street:string,code:int"),
        (["--move", "price first"], "^price decimal\\(10,2\\) id"),
        (["--move", "price before name"], "not null price decimal\\(10,2\\) name"),
        (["--move", "place.zip first"], "struct<zip:int,street:string>"),
        (["--type", "id=bigint"], "^id bigint not null"),
        (["--type", "price=decimal(12,2)"], "price decimal\\(12,2\\)"),
        (["--type", "place.zip=bigint"], "zip:bigint"),
        (["--optional", "id"], "^id int name"),
        (["--drop", "name", "--add", "title string", "--move", "title first"], "^title string id"),
        (["--rename", "id=key", "--type", "price=decimal(11,2)"], "^key int .*decimal\\(11,2\\)"),
    ],
)
@pytest.mark.slow
def test_columns_change(table: Lake, cli: Cli, words: list[str], expected: str) -> None:
    before = facts(table, "t")
    said = cli("table", "alter", "t", *words)
    assert said.code == 0, said
    after = facts(table, "t")
    assert re.search(expected, " ".join(columns(table))), columns(table)
    assert (after.uuid, after.location, after.current_snapshot_id) == (
        before.uuid,
        before.location,
        before.current_snapshot_id,
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--add", "name int"], 2),
        (["--add", "NAME int"], 2),
        (["--add", "x int", "--add", "x int"], 2),
        (["--add", "x int not null"], 2),
        (["--add", "x nonsense"], 2),
        (["--add", "x"], 2),
        (["--add", "_row_id bigint"], 2),
        (["--add", "x int after nowhere"], 2),
        (["--add", "nowhere.x int"], 3),
        (["--add", "name.x int"], 2),
        (["--drop", "nope"], 3),
        (["--drop", "at"], 2),
        (["--drop", "id"], 2),
        (["--drop", "name", "--drop", "price", "--drop", "place", "--drop", "id", "--drop", "at"], 2),
        (["--rename", "name=price"], 2),
        (["--rename", "name=PRICE"], 2),
        (["--rename", "name=_file"], 2),
        (["--rename", "name=a.b"], 2),
        (["--rename", "nope=x"], 3),
        (["--rename", "name"], 2),
        (["--rename", "name=x", "--rename", "name=y"], 2),
        (["--move", "name"], 2),
        (["--move", "name after name"], 2),
        (["--move", "name after nope"], 2),
        (["--move", "nope first"], 3),
        (["--type", "name=int"], 2),
        (["--type", "price=decimal(9,2)"], 2),
        (["--type", "price=decimal(12,3)"], 2),
        (["--type", "place=int"], 2),
        (["--type", "nope=int"], 3),
        (["--optional", "nope"], 3),
        (["--comment", "nope=x"], 3),
        (["--partition-by", "nope"], 2),
        (["--partition-by", "day(name)"], 2),
        (["--partition-by", "place"], 2),
        (["--partition-by", "truncate(2, name), truncate(3, name)"], 2),
        (["--sort-by", "nope"], 2),
        (["--sort-by", "place"], 2),
        (["--sort-by", "day(name)"], 2),
        (["--drop", "name", "--add", "good int", "--type", "price=int"], 2),
    ],
)
@pytest.mark.slow
def test_a_refused_change_leaves_the_table_as_it_was(table: Lake, cli: Cli, words: list[str], code: int) -> None:
    before = contents(table, runs=False)
    said = cli("table", "alter", "t", *words)
    assert said.code == code, said
    assert said.out == ""
    assert "should not happen" not in said.err
    assert contents(table, runs=False) == before


def test_a_dry_run_says_and_changes_nothing(table: Lake, cli: Cli) -> None:
    before = contents(table)
    said = cli("table", "alter", "t", "--add", "x int", "--drop", "name", "--dry-run", "-o", "json")
    assert said.code == 0
    receipt = json.loads(said.out)
    assert receipt["dry_run"] is True
    assert receipt["run_id"] is None
    assert receipt["details"]["changes"] == ["add x int", "drop name"]
    assert "Would alter default.t" in cli("table", "alter", "t", "--add", "x int", "--dry-run").out
    assert contents(table) == before


@pytest.mark.parametrize(
    "words",
    [
        ["--add", "x int"],
        ["--add", "place.x int"],
        ["--add", "`a b` int"],
        ["--rename", "name=title"],
        ["--rename", "place.zip=code"],
        ["--rename", "id=the key"],
    ],
)
def test_undo_brings_the_columns_back(table: Lake, cli: Cli, words: list[str]) -> None:
    before, properties = columns(table), table.table("t").properties()
    receipt = json.loads(cli("table", "alter", "t", *words, "-o", "json").out)
    assert columns(table) != before
    for line in undo_words(receipt["undo"]):
        said = cli(*line)
        assert said.code == 0, said
    assert columns(table) == before
    assert table.table("t").properties() == properties


def test_what_cannot_be_undone_says_so(table: Lake) -> None:
    assert table.table("t").alter(alterations_from_words(drop=["name"])).undo is None


def test_the_layout_evolves_without_touching_files(lake: Lake, cli: Cli) -> None:
    lake.tables.create("t", "id bigint, v string, at timestamp", partition_by=["v"], properties=V2)
    append_files(lake, "t", [{"v": "a"}])
    files = lake.table("t").files()
    assert cli("table", "alter", "t", "--partition-by", "day(at), bucket(8, id)", "--sort-by", "at desc").code == 0
    shown = lake.table("t").show()
    assert shown.partition_by == ["day(at)", "bucket(8, id)"]
    assert shown.sort_by == ["at desc nulls last"]
    assert lake.table("t").files() == files
    append_files(lake, "t", [{"at_day": 19000, "id_bucket_8": 3}])
    assert [row.partition for row in lake.table("t").partitions()] == ["at_day=2022-01-08/id_bucket_8=3", "v=a"]
    assert cli("table", "alter", "t", "--partition-by", "", "--sort-by", "").code == 0
    shown = lake.table("t").show()
    assert (shown.partition_by, shown.sort_by) == ([], [])


def test_a_layout_may_use_a_column_that_the_same_change_makes(table: Lake, cli: Cli) -> None:
    said = cli("table", "alter", "t", "--add", "region string", "--rename", "name=title",
               "--partition-by", "region, truncate(4, title)")  # fmt: skip
    assert said.code == 0, said
    assert table.table("t").show().partition_by == ["region", "truncate(4, title)"]


def test_a_column_that_old_files_are_partitioned_by_stays(lake: Lake) -> None:
    lake.tables.create("t", "id bigint, v string", partition_by=["v"], properties=V2)
    table = lake.table("t")
    table.alter(alterations_from_words(partition_by=[""]))
    with pytest.raises(InvalidSchema, match="cannot be dropped"):
        table.alter(alterations_from_words(drop=["v"]))


def test_properties_about_a_column_follow_it(lake: Lake) -> None:
    """Iceberg itself refuses a table whose metrics settings name a column that is not there."""
    lake.tables.create("t", "id bigint, s struct<a:int,b:int>, v string", sort_by=["id"], properties=V2)
    table = lake.table("t")
    table.set({"write.metadata.metrics.column.s.a": "none", "write.metadata.metrics.column.v": "counts"})
    table.alter(alterations_from_words(rename={"id": "key", "s": "r"}, drop=["v"]))
    metrics = {
        row.key.removeprefix("write.metadata.metrics.column."): row.value
        for row in table.properties()
        if ".metrics.column." in row.key
    }
    assert metrics == {"key": "full", "r.a": "none"}


def test_rows_written_before_are_read_by_the_new_names(lake: Lake) -> None:
    make(lake, rows=2)
    lake.table("t").alter(alterations_from_words(rename={"v": "w"}, add=["x int"]))
    append(lake, "t", [{"id": 5, "w": "five", "x": 7}])
    rows = StaticTable.from_metadata(facts(lake, "t").metadata_location).scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 0, "w": "0", "x": None},
        {"id": 1, "w": "1", "x": None},
        {"id": 5, "w": "five", "x": 7},
    ]


def test_the_receipt_tells_each_change_in_words(table: Lake) -> None:
    changes = alterations_from_words(
        add=["x int first"], rename={"name": "title"}, move=["price after id"], types={"id": "bigint"},
        comments={"at": "when"}, optional=["id"], partition_by=["day(at)", "x"], sort_by=[""],
    )  # fmt: skip
    assert table.table("t").alter(changes, dry_run=True).details["changes"] == [
        "add x int",
        "rename name to title",
        "move price after id",
        "change id to bigint",
        "comment at: when",
        "make id optional",
        "partition by day(at), x",
        "sort by nothing",
    ]


def test_all_changes_are_one_commit(table: Lake) -> None:
    files = len(list((table.root / "warehouse").rglob("*.metadata.json")))
    table.table("t").alter(alterations_from_words(add=["x int", "y int"], drop=["name"], sort_by=["x"]))
    assert len(list((table.root / "warehouse").rglob("*.metadata.json"))) == files + 1


def test_nothing_to_alter_is_said(table: Lake) -> None:
    with pytest.raises(InvalidInput, match="nothing to alter"):
        table.table("t").alter([])
    with pytest.raises(InvalidInput, match="not an alteration: 'drop name'"):
        table.table("t").alter(["drop name"])  # type: ignore[list-item]


def test_fields_inside_lists_and_maps_are_added_and_taken_back(lake: Lake) -> None:
    lake.tables.create("t", "l array<struct<a:int>>, m map<string,struct<a:int>>")
    lake.table("t").alter(alterations_from_words(add=["m.value.b array<int>"]))
    receipt = lake.table("t").alter(alterations_from_words(add=["l.element.b int"]))
    assert columns(lake) == ["l array<struct<a:int,b:int>>", "m map<string,struct<a:int,b:array<int>>>"]
    for path in ("l.element.B", "l.none.b", "m.key.b"):
        with pytest.raises(NeveError):
            lake.table("t").alter(alterations_from_words(add=[f"{path} int"]))
    assert undo_words(receipt.undo) == [["table", "alter", "t", "--drop", "l.element.b"]]
    lake.table("t").alter(alterations_from_words(drop=["l.element.b"]))
    assert columns(lake)[0] == "l array<struct<a:int>>"
