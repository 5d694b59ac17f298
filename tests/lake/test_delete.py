"""`neve table delete`, `undelete` and the trash."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.lake.lakes import (
    Cli,
    append,
    at_terminal,
    check_healthy,
    contents,
    current,
    facts,
    log_ingestion,
    make,
    names,
    undo_words,
)

from neve.catalog.files import Files
from neve.config import load_settings
from neve.errors import AlreadyExists, InvalidInput, Refused, StorageError, TableNotFound
from neve.lake import Lake
from neve.model.names import TableName
from neve.plan.tables import DELETING
from neve.services.context import Context
from neve.services.trash import empty_expired_trash


def folder(lake: Lake, name: str) -> Path:
    return Path(facts(lake, name).location)


def test_delete_goes_to_the_trash_and_undo_brings_it_back(lake: Lake, cli: Cli) -> None:
    make(lake, rows=3)
    log_ingestion(lake, "t")
    before, files = facts(lake, "t"), lake.table("t").files()
    said = cli("table", "delete", "t", "--yes", "-o", "json")
    receipt = json.loads(said.out)
    assert (receipt["details"]["rows"], receipt["snapshot_before"]) == (3, before.current_snapshot_id)
    assert names(lake) == []
    assert [(row.table, row.uuid) for row in lake.tables.trash()] == [("t", before.uuid)]
    assert all(Path(file.path).exists() for file in files)
    check_healthy(lake)
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert facts(lake, "t") == before
    assert lake.table("t").files() == files
    assert lake.table("t").status().ingestion.total_ingestions == 1
    assert lake.tables.trash() == []
    check_healthy(lake)


def test_case_4_force_takes_the_files_and_nothing_else(lake: Lake, cli: Cli) -> None:
    make(lake, "t", rows=2)
    make(lake, "other", rows=2)
    gone = folder(lake, "t")
    other = {str(path) for path in folder(lake, "other").rglob("*")}
    said = cli("table", "delete", "t", "--force", "-o", "json")
    assert said.code == 0
    assert json.loads(said.out)["undo"] is None
    assert not gone.exists()
    assert names(lake) == ["default.other"]
    assert {str(path) for path in folder(lake, "other").rglob("*")} == other
    assert lake.tables.trash() == []
    with pytest.raises(TableNotFound):
        lake.tables.undelete("t")
    check_healthy(lake)


def test_case_4_a_failure_on_the_way_leaves_it_listed_and_can_be_repeated(
    lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "t", rows=2)
    make(lake, "other", rows=1)
    gone = folder(lake, "t")

    def refuse(_: Files, location: str, *, keep: tuple[str, ...] = ()) -> int:
        raise StorageError(f"cannot remove {location}: Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Files, "remove_tree", refuse)
        said = cli("table", "delete", "t", "--force")
        assert said.code == 1
        assert "Input/output error" in said.err
    assert names(lake) == ["default.other", "default.t"]
    assert [row.state for row in lake.doctor(spark=False) if "t is being deleted" in row.detail] == ["warning"]
    assert cli("table", "rename", "t", "u").code == 4
    assert cli("table", "delete", "t", "--force").code == 0
    assert names(lake) == ["default.other"]
    assert not gone.exists()
    assert lake.table("other").show().rows == 1
    check_healthy(lake)


@pytest.mark.slow
def test_case_4_the_answer_no_leaves_it_intact(lake: Lake) -> None:
    make(lake, rows=2)
    before = contents(lake)
    screen, code = at_terminal(lake, "table", "delete", "t", answer="n\n")
    assert code == 6
    assert "Delete default.t with 2 rows" in screen
    assert "nothing was changed" in screen
    assert contents(lake) == before


@pytest.mark.slow
def test_the_answer_yes_deletes(lake: Lake) -> None:
    make(lake, rows=2)
    screen, code = at_terminal(lake, "table", "delete", "t", answer="y\n")
    assert (code, names(lake)) == (0, []), screen


@pytest.mark.slow
def test_ctrl_c_at_the_question_leaves_it_intact(lake: Lake) -> None:
    make(lake)
    _, code = at_terminal(lake, "table", "delete", "t", answer="\x03")
    assert (code, names(lake)) == (130, ["default.t"])


def test_without_a_terminal_yes_is_demanded(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, rows=2)
    before = contents(lake)
    said = cli("table", "delete", "t")
    assert (said.code, said.out) == (6, "")
    assert "--yes" in said.err
    assert contents(lake) == before


@pytest.mark.parametrize("flags", [[], ["--force"], ["--keep-data"]])
def test_a_dry_run_changes_nothing(lake: Lake, cli: Cli, flags: list[str]) -> None:
    make(lake, rows=2)
    before = contents(lake)
    said = cli("table", "delete", "t", *flags, "--dry-run", "-o", "json")
    receipt = json.loads(said.out)
    assert (said.code, receipt["dry_run"], receipt["run_id"], receipt["details"]["rows"]) == (0, True, None, 2)
    assert "Nothing was changed" in cli("table", "delete", "t", *flags, "--dry-run").out
    assert contents(lake) == before


def test_keep_data_forgets_the_name_and_undo_registers_it(lake: Lake, cli: Cli) -> None:
    make(lake, rows=2)
    log_ingestion(lake, "t")
    before = facts(lake, "t")
    receipt = json.loads(cli("table", "delete", "t", "--keep-data", "--yes", "-o", "json").out)
    assert names(lake) == []
    assert lake.tables.trash() == []
    assert Path(before.metadata_location).exists()
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert facts(lake, "t") == before
    assert lake.table("t").status().ingestion.total_ingestions == 1
    check_healthy(lake)


def test_force_and_keep_data_exclude_each_other(lake: Lake, cli: Cli) -> None:
    make(lake)
    assert cli("table", "delete", "t", "--force", "--keep-data").code == 2
    with pytest.raises(InvalidInput):
        lake.table("t").drop(force=True, keep_data=True)
    assert names(lake) == ["default.t"]


def test_deleting_what_is_not_there(lake: Lake, cli: Cli) -> None:
    make(lake, "sales")
    before = contents(lake)
    for words in (["delete", "salse", "--yes"], ["delete", "salse", "--force"], ["undelete", "sales"]):
        said = cli("table", *words)
        assert (said.code, said.out) == (3, ""), said
    assert contents(lake) == before


def test_the_trash_gives_back_the_newest_then_the_older(lake: Lake) -> None:
    make(lake, rows=1)
    first = facts(lake, "t")
    lake.table("t").drop()
    make(lake, rows=2)
    second = facts(lake, "t")
    lake.table("t").drop()
    assert [row.uuid for row in lake.tables.trash()] == [second.uuid, first.uuid]
    lake.tables.undelete("t")
    assert facts(lake, "t") == second
    with pytest.raises(AlreadyExists):
        lake.tables.undelete("t")
    lake.tables.undelete("t", new_name="old")
    assert facts(lake, "old").uuid == first.uuid
    assert lake.table("old").show().rows == 1
    assert lake.tables.trash() == []
    check_healthy(lake)


def test_logs_wait_under_the_uuid(lake: Lake) -> None:
    make(lake)
    log_ingestion(lake, "t", "2024-01-01")
    first = facts(lake, "t").uuid
    lake.table("t").drop()
    make(lake)
    assert lake.table("t").status().ingestion.total_ingestions == 0
    log_ingestion(lake, "t", "2024-02-01")
    lake.table("t").drop()
    store = lake._context.store
    assert [row.date.isoformat() for row in store.ingestions.for_table(first)] == ["2024-01-01"]
    lake.tables.undelete("t")
    assert lake.table("t").status().ingestion.first_date == "2024-02-01"
    lake.tables.undelete("t", new_name="u")
    assert lake.table("u").status().ingestion.first_date == "2024-01-01"


def test_undelete_under_another_name_and_its_undo(lake: Lake, cli: Cli) -> None:
    make(lake, "a", rows=1)
    lake.table("a").drop()
    receipt = json.loads(cli("table", "undelete", "a", "--as", "x.b", "-o", "json").out)
    assert names(lake) == ["x.b"]
    assert receipt["details"] == {"rows": 1}
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert names(lake) == []
    assert [row.table for row in lake.tables.trash()] == ["x.b"]


def test_a_table_never_gets_two_names(lake: Lake) -> None:
    """What a delete that died left in the trash must not come back beside the live table."""
    make(lake, rows=1)
    lake.table("t").drop()
    (row,) = lake._context.store.trash.list()
    lake.tables.undelete("t")
    lake._context.store.trash.put(row)
    lake.table("t").rename("u")
    with pytest.raises(AlreadyExists, match=r"default\.u"):
        lake.tables.undelete("t", new_name="v")
    assert names(lake) == ["default.u"]


def expired(lake: Lake) -> Context:
    """The lake as it will be when the trash period is over."""
    context = lake._context
    now = context.clock() + context.loaded.settings.trash.keep + timedelta(seconds=1)
    return Context(context.loaded, clock=lambda: now)


def test_the_trash_empties_itself_when_its_time_is_over(lake: Lake) -> None:
    make(lake, "t", rows=1)
    log_ingestion(lake, "t")
    gone, uuid = folder(lake, "t"), facts(lake, "t").uuid
    lake.table("t").drop()
    assert empty_expired_trash(lake._context) == []
    later = expired(lake)
    assert empty_expired_trash(later) == ["t"]
    assert not gone.exists()
    assert lake.tables.trash() == []
    assert later.store.ingestions.for_table(uuid) == ()
    later.close()
    check_healthy(lake)


def test_emptying_the_trash_never_touches_a_live_table(lake: Lake) -> None:
    make(lake, "t", rows=2)
    lake.table("t").drop()
    (row,) = lake._context.store.trash.list()
    assert row.metadata_location is not None
    lake.tables.register("t", row.metadata_location)
    later = expired(lake)
    assert empty_expired_trash(later) == ["t"]
    later.close()
    assert lake.table("t").show().rows == 2
    assert all(Path(file.path).exists() for file in lake.table("t").files())


def test_an_expired_table_that_cannot_be_removed_does_not_stop_other_deletes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake, "stuck", rows=1)
    stuck = folder(lake, "stuck")
    lake.table("stuck").drop()
    make(lake, "t")
    later = expired(lake)
    whole = Files.remove_tree

    def refuse(self: Files, location: str, *, keep: tuple[str, ...] = ()) -> int:
        if location == str(stuck):
            raise StorageError("cannot")
        return whole(self, location, keep=keep)

    with monkeypatch.context() as broken:
        broken.setattr(Files, "remove_tree", refuse)
        assert empty_expired_trash(later) == []
        lake.table("t").drop()
    assert stuck.exists()
    with pytest.raises(TableNotFound):
        lake.tables.undelete("stuck")
    assert empty_expired_trash(later) == ["stuck", "t"]
    assert not stuck.exists()
    later.close()


def test_a_trash_period_of_nothing_removes_at_once(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, rows=1)
    gone = folder(lake, "t")
    monkeypatch.setenv("NEVE_TRASH__KEEP", "0s")
    said = cli("table", "delete", "t", "--yes", "-o", "json")
    assert json.loads(said.out)["details"]["data"] == "is removed for ever"
    assert not gone.exists()


def test_a_table_that_cannot_be_read_is_not_destroyed_by_a_plain_delete(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    location = Path(facts(lake, "t").metadata_location)
    text = location.read_text()
    location.write_text("broken")
    before = contents(lake)
    said = cli("table", "delete", "t", "--yes")
    assert said.code == 6
    assert "--force" in said.err
    assert contents(lake) == before
    location.write_text(text)
    assert lake.table("t").show().rows == 1


@pytest.mark.parametrize("how", ["missing", "broken"])
def test_a_table_that_cannot_be_read_can_be_forced_away(lake: Lake, cli: Cli, how: str) -> None:
    make(lake, rows=1)
    make(lake, "other", rows=1)
    found = facts(lake, "t")
    if how == "missing":
        Path(found.metadata_location).unlink()
    else:
        Path(found.metadata_location).write_text("broken")
    assert cli("table", "delete", "t", "--force").code == 0
    assert names(lake) == ["default.other"]
    assert not Path(found.location).exists()
    check_healthy(lake)


def test_files_that_two_tables_share_stay(lake: Lake) -> None:
    """Another engine may have registered the same table twice: no delete may take the other's files."""
    make(lake, "a", rows=1)
    context = lake._context
    context.catalog.register(TableName.parse("b"), facts(lake, "a").metadata_location)
    receipt = lake.table("b").drop(force=True)
    assert "stays" in str(receipt.details["data"])
    assert all(Path(file.path).exists() for file in lake.table("a").files())
    assert lake.table("a").show().rows == 1


def test_a_table_outside_the_warehouse_keeps_its_files(lake: Lake, new_lake: Path, tmp_path: Path) -> None:
    with Lake.create(tmp_path / "elsewhere") as other:
        make(other, "t", rows=1)
        found = facts(other, "t")
    lake.tables.register("t", found.metadata_location)
    receipt = lake.table("t").drop(force=True)
    assert "stays" in str(receipt.details["data"])
    assert Path(found.metadata_location).exists()


def test_a_location_that_climbs_out_of_the_warehouse_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    victim = tmp_path / f"victim-{'0' * 32}"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    make(lake, rows=1)
    found = facts(lake, "t")
    metadata = json.loads(Path(found.metadata_location).read_text())
    metadata |= {"location": f"{lake.root}/warehouse/../../{victim.name}", "table-uuid": "11111111-" + found.uuid[9:]}
    crafted = tmp_path / "v1.metadata.json"
    crafted.write_text(json.dumps(metadata))
    lake.tables.register("evil", str(crafted))
    lake.table("evil").drop(force=True)
    assert (victim / "precious").read_text() == "mine"


def test_a_commit_between_look_and_deed_is_not_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival appends after the delete has read the table: what comes back has the rival's rows."""
    make(lake, rows=1)
    drop = lake._context.catalog.drop
    rival: list[int] = []

    def append_first(name: TableName, *, expected: str | None = None) -> bool:
        if not rival:
            rival.append(append(lake, "t", [{"id": 7, "v": "rival"}]))
        return drop(name, expected=expected)

    monkeypatch.setattr(lake._context.catalog, "drop", append_first)
    lake.table("t").drop()
    lake.tables.undelete("t")
    assert current(lake, "t") == rival[0]
    assert lake.table("t").show().rows == 2


@pytest.mark.parametrize("force", [False, True])
def test_another_table_that_took_the_name_meanwhile_is_spared(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    make(lake, rows=1)
    context = lake._context
    drop = context.catalog.drop
    swapped: list[str] = []

    def swap_first(name: TableName, *, expected: str | None = None) -> bool:
        if not swapped:
            swapped.append("done")
            assert drop(name)
            make(lake, "t", rows=2)
        return drop(name, expected=expected)

    monkeypatch.setattr(context.catalog, "drop", swap_first)
    with pytest.raises(Exception, match="another table now"):
        lake.table("t").drop(force=force)
    assert lake.table("t").show().rows == 2
    assert all(Path(file.path).exists() for file in lake.table("t").files())


def test_a_half_deleted_table_is_finished_by_a_plain_delete(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    gone = folder(lake, "t")
    lake._context.catalog.set_properties(TableName.parse("t"), put={DELETING: "x"})
    said = cli("table", "delete", "t", "--yes", "-o", "json")
    assert json.loads(said.out)["details"]["data"] == "is removed for ever"
    assert not gone.exists()


def test_undelete_when_its_files_are_gone(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    location = Path(facts(lake, "t").metadata_location)
    lake.table("t").drop()
    location.unlink()
    before = contents(lake)
    said = cli("table", "undelete", "t")
    assert (said.code, said.out) == (1, "")
    assert "cannot read" in said.err
    assert contents(lake) == before


def test_refused_is_a_neve_error(lake: Lake) -> None:
    make(lake)
    Path(facts(lake, "t").metadata_location).unlink()
    with pytest.raises(Refused):
        lake.table("t").drop()


def test_settings_say_how_long(lake: Lake) -> None:
    loaded = load_settings(lake.root, flags={"trash.keep": "12h"}, env={})
    context = Context(loaded)
    make(lake)
    from neve.services.deletion import delete_table

    assert delete_table(context, TableName.parse("t")).details["data"] == "stays in the trash for 12h"
    (row,) = context.store.trash.list()
    assert row.purge_after - row.deleted_at == timedelta(hours=12)
    context.close()
