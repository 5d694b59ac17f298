"""`neve table rename`: only the name changes."""

from __future__ import annotations

import json

import pytest
from tests.lake.lakes import Cli, append, check_healthy, contents, facts, log_ingestion, make, names, undo_words

from neve.errors import AlreadyExists, DependentsExist, InvalidName, TableNotFound
from neve.lake import Lake


def test_case_2_a_rename_keeps_id_folder_snapshot_and_rows(lake: Lake) -> None:
    make(lake, "a", rows=3)
    before = facts(lake, "a")
    receipt = lake.table("a").rename("b")
    after = facts(lake, "b")
    assert (after.uuid, after.location, after.metadata_location, after.current_snapshot_id) == (
        before.uuid,
        before.location,
        before.metadata_location,
        before.current_snapshot_id,
    )
    assert after.current is not None
    assert after.current.rows == 3
    assert (receipt.snapshot_before, receipt.snapshot_after) == (before.current_snapshot_id, before.current_snapshot_id)
    assert names(lake) == ["default.b"]
    with pytest.raises(TableNotFound):
        lake.table("a").show()
    check_healthy(lake)


def test_case_2_a_name_that_is_taken_or_missing_is_refused(lake: Lake, cli: Cli) -> None:
    make(lake, "a", rows=1)
    make(lake, "b")
    before = contents(lake)
    for old, new, code in (("a", "b", 4), ("a", "a", 4), ("nope", "c", 3), ("a", "../c", 2), ("a", "", 2)):
        said = cli("table", "rename", old, new)
        assert (said.code, said.out) == (code, ""), said
    with pytest.raises(AlreadyExists):
        lake.table("a").rename("b")
    with pytest.raises(InvalidName):
        lake.table("a").rename("x/y")
    assert contents(lake) == before


def test_case_3_a_new_table_of_the_old_name_has_another_folder(lake: Lake) -> None:
    make(lake, "a", rows=2)
    lake.table("a").rename("b")
    make(lake, "a", rows=1)
    a, b = facts(lake, "a"), facts(lake, "b")
    assert a.location != b.location
    assert not a.location.startswith(b.location)
    assert not b.location.startswith(a.location)
    assert {row.path.startswith(f"{b.location}/") for row in lake.table("b").files()} == {True}
    lake.table("a").drop(force=True)
    assert lake.table("b").show().rows == 2
    assert all(lake._context.catalog.files.exists(row.path) for row in lake.table("b").files())
    check_healthy(lake)


def test_into_a_namespace_that_is_not_there_yet(lake: Lake) -> None:
    make(lake, "a")
    lake.table("a").rename("deep.down.a")
    assert names(lake) == ["deep.down.a"]
    assert ("deep", "down") in lake._context.catalog.namespaces()


def test_logs_and_the_registry_move_along(lake: Lake) -> None:
    make(lake, "a")
    log_ingestion(lake, "a")
    lake.table("a").rename("b")
    assert lake.table("b").status().ingestion.total_ingestions == 1
    make(lake, "a")
    assert lake.table("a").status().ingestion.total_ingestions == 0


def test_what_an_earlier_table_left_under_the_new_name_makes_room(lake: Lake) -> None:
    """A table dropped by another engine leaves its row and its logs behind."""
    make(lake, "b")
    log_ingestion(lake, "b", "2023-01-01")
    lake._context.catalog.drop(facts(lake, "b").name)
    make(lake, "a")
    log_ingestion(lake, "a", "2024-01-01")
    lake.table("a").rename("b")
    assert lake.table("b").status().ingestion.first_date == "2024-01-01"
    assert lake.table("b").status().ingestion.total_ingestions == 1


def test_undo_gives_the_old_name_back(lake: Lake, cli: Cli) -> None:
    make(lake, "a b", rows=1)
    log_ingestion(lake, "`a b`")
    before = facts(lake, "a b")
    receipt = json.loads(cli("table", "rename", "a b", "x.`c d`", "-o", "json").out)
    assert receipt["details"] == {"to": "x.`c d`"}
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert facts(lake, "a b") == before
    assert lake.table("a b").status().ingestion.total_ingestions == 1


def test_dependants_hold_a_name(lake: Lake, cli: Cli) -> None:
    make(lake, "base")
    make(lake, "derived")
    lake._context.catalog.set_properties(facts(lake, "derived").name, put={"neve.sources": '["default.base"]'})
    before = contents(lake)
    for words in (["rename", "base", "other"], ["delete", "base", "--yes"], ["delete", "base", "--force"]):
        said = cli("table", *words)
        assert said.code == 6
        assert "derived" in said.err
    with pytest.raises(DependentsExist, match="derived"):
        lake.table("base").drop(keep_data=True)
    assert contents(lake) == before
    assert cli("table", "delete", "derived", "--yes").code == 0
    assert cli("table", "rename", "base", "other").code == 0


def test_history_goes_on_after_a_rename(lake: Lake) -> None:
    make(lake, "a", rows=1)
    lake.table("a").rename("b")
    append(lake, "b", [{"id": 9, "v": "x"}])
    assert [row.rows for row in lake.table("b").history()] == [2, 1]
