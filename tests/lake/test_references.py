"""Tags, branches, rollback: naming moments of a table and going back to them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.lake.lakes import Cli, append, contents, current, facts, make, undo_words

from neve.errors import AlreadyExists, InvalidInput, Refused, SnapshotNotFound, StalePlan
from neve.lake import Lake


@pytest.fixture
def written(lake: Lake) -> Lake:
    """A table with three snapshots of one, two and three rows."""
    make(lake)
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    return lake


def snapshots(lake: Lake) -> list[int]:
    """Oldest first."""
    return [row.snapshot for row in reversed(lake.table("t").history())]


def references(lake: Lake) -> dict[str, tuple[str, int]]:
    return {row.name: (row.kind, row.snapshot) for row in lake.table("t").references()}


@pytest.mark.parametrize(("verb", "kind"), [("tag", "tag"), ("branches", "branch")])
def test_a_name_is_made_listed_and_undone(written: Lake, cli: Cli, verb: str, kind: str) -> None:
    before = references(written)
    receipt = json.loads(cli("table", verb, "t", "it's v1", "-o", "json").out)
    assert references(written) == {**before, "it's v1": (kind, current(written, "t"))}
    listed = json.loads(cli("table", verb, "t", "-o", "json").out)
    assert "it's v1" in [row["name"] for row in listed]
    assert {row["kind"] for row in listed} == {kind}
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert references(written) == before


@pytest.mark.parametrize(("verb", "kind"), [("tag", "tag"), ("branches", "branch")])
def test_deleting_a_name_can_be_undone(written: Lake, cli: Cli, verb: str, kind: str) -> None:
    first = snapshots(written)[0]
    assert cli("table", verb, "t", "old", "--at", str(first)).code == 0
    receipt = json.loads(cli("table", verb, "t", "old", "--delete", "-o", "json").out)
    assert "old" not in references(written)
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert references(written)["old"] == (kind, first)


def test_every_way_to_say_when(written: Lake) -> None:
    table = written.table("t")
    first, second, third = snapshots(written)
    table.tag("one", at=str(first))
    table.branch("two", at=str(second))
    at = {row.snapshot: row.at for row in table.history()}
    assert references(written)["one"][1] == first
    table.tag("again", at="one")
    table.tag("by-branch", at="two")
    table.tag("by-time", at=at[second].isoformat())
    table.tag("just-before", at=(at[third] - timedelta(milliseconds=1)).isoformat())
    table.tag("far-future", at="2999-01-01")
    found = references(written)
    assert found["again"][1] == first
    assert found["by-branch"][1] == found["by-time"][1] == found["just-before"][1] == second
    assert found["far-future"][1] == third


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", InvalidInput),
        (" x", InvalidInput),
        ("x\n", InvalidInput),
        ("123", InvalidInput),
        ("-5", InvalidInput),
        ("--delete", InvalidInput),
        ("2024-01-01", InvalidInput),
        ("main", AlreadyExists),
        ("taken", AlreadyExists),
    ],
)
def test_a_name_that_would_confuse_is_refused(written: Lake, name: str, kind: type[Exception]) -> None:
    written.table("t").tag("taken")
    before = contents(written)
    for make_it in (written.table("t").tag, written.table("t").branch):
        with pytest.raises(kind):
            make_it(name)
    assert contents(written) == before


@pytest.mark.parametrize("when", ["nope", "999", "1" * 19, "9" * 5000, "--5", "²", "1970-01-01", "", "2024-13-01"])
def test_a_moment_that_is_not_there_is_refused(written: Lake, cli: Cli, when: str) -> None:
    before = contents(written)
    assert cli("table", "tag", "t", "x", "--at", when).code == 3
    said = cli("table", "rollback", "t", "--to", when, "--yes")
    assert (said.code, said.out) == (3, "")
    assert "should not happen" not in said.err
    assert contents(written) == before


def test_what_is_not_there_cannot_be_deleted(written: Lake, cli: Cli) -> None:
    written.table("t").tag("release")
    before = contents(written)
    said = cli("table", "tag", "t", "relaese", "--delete")
    assert said.code == 3
    assert "did you mean release?" in said.err
    assert cli("table", "branches", "t", "release", "--delete").code == 3
    assert cli("table", "branches", "t", "main", "--delete").code == 6
    with pytest.raises(Refused):
        written.table("t").delete_branch("main")
    assert contents(written) == before


def test_an_empty_table_has_nothing_to_name(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = contents(lake)
    assert cli("table", "tag", "t", "x").code == 3
    assert cli("table", "branches", "t", "x").code == 3
    assert contents(lake) == before
    with pytest.raises(SnapshotNotFound):
        lake.table("t").rollback("x")


def test_tag_names_are_data_not_sql(written: Lake, cli: Cli) -> None:
    names = ["x'; DROP TABLE iceberg_tables;--", 'a"b', "a`b", "$(touch pwned)", "a b", "été", "../up"]
    for name in names:
        receipt = json.loads(cli("table", "tag", "t", name, "-o", "json").out)
        assert name in references(written)
        for words in undo_words(receipt["undo"]):
            assert cli(*words).code == 0
        assert name not in references(written)
    assert [row.table for row in written.tables.list()] == ["default.t"]


@pytest.mark.parametrize("how", ["id", "tag", "time"])
def test_rollback_and_its_undo(written: Lake, cli: Cli, how: str) -> None:
    first, second, third = snapshots(written)
    written.table("t").tag("v1", at=str(first))
    at = next(row.at for row in written.table("t").history() if row.snapshot == first)
    to = {"id": str(first), "tag": "v1", "time": at.isoformat()}[how]
    receipt = json.loads(cli("table", "rollback", "t", "--to", to, "--yes", "-o", "json").out)
    assert (receipt["snapshot_before"], receipt["snapshot_after"]) == (third, first)
    assert receipt["details"] == {"rows_before": 3, "rows_after": 1}
    assert current(written, "t") == first
    assert written.table("t").show().rows == 1
    history = {row.snapshot: row for row in written.table("t").history()}
    assert (history[first].current, history[third].ancestor, history[second].ancestor) == (True, False, False)
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert current(written, "t") == third
    assert written.table("t").show().rows == 3


def test_a_rollback_asks_and_a_dry_run_changes_nothing(written: Lake, cli: Cli) -> None:
    first = str(snapshots(written)[0])
    before = contents(written)
    assert cli("table", "rollback", "t", "--to", first).code == 6
    said = cli("table", "rollback", "t", "--to", first, "--dry-run", "-o", "json")
    assert json.loads(said.out)["details"] == {"rows_before": 3, "rows_after": 1}
    assert contents(written) == before


def test_a_rollback_to_where_we_are_does_nothing(written: Lake, cli: Cli) -> None:
    before = contents(written)
    said = cli("table", "rollback", "t", "--to", str(current(written, "t")), "-o", "json")
    assert (said.code, json.loads(said.out)["reason"]["code"]) == (0, "nothing_to_do")
    assert contents(written) == before


def test_a_rollback_never_takes_back_what_it_did_not_see(written: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival appends between the look and the commit: its rows must not vanish without a word."""
    first = snapshots(written)[0]
    move = written._context.catalog.set_current_snapshot

    def append_first(*arguments: object, **more: object) -> None:
        append(written, "t", [{"id": 9, "v": "rival"}])
        move(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(written._context.catalog, "set_current_snapshot", append_first)
    with pytest.raises(StalePlan):
        written.table("t").rollback(first)
    assert written.table("t").show().rows == 4


def test_a_tag_that_a_rival_made_meanwhile_stays_the_rivals(written: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _, third = snapshots(written)
    create = written._context.catalog.create_tag

    def rival_first(*arguments: object, **more: object) -> None:
        create(facts(written, "t").name, "v1", snapshot_id=first)
        create(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(written._context.catalog, "create_tag", rival_first)
    with pytest.raises(AlreadyExists):
        written.table("t").tag("v1", at=str(third))
    assert references(written)["v1"] == ("tag", first)


def test_times_are_utc_unless_they_say_otherwise(written: Lake) -> None:
    second = snapshots(written)[1]
    at = next(row.at for row in written.table("t").history() if row.snapshot == second)
    elsewhere = at.astimezone(UTC).replace(tzinfo=None)
    written.table("t").tag("naive", at=elsewhere.isoformat())
    assert references(written)["naive"][1] == second
    assert at.tzinfo is UTC
    assert datetime.fromisoformat(f"{elsewhere.isoformat()}+00:00") == at
