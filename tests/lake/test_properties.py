"""`set`, `unset`, `properties`, `online`, `offline`."""

from __future__ import annotations

import json

import pytest
from tests.lake.lakes import Cli, check_healthy, contents, facts, make, undo_words

from neve.errors import InvalidInput
from neve.lake import Lake


def properties(lake: Lake, name: str = "t") -> dict[str, str]:
    return {row.key: row.value for row in lake.table(name).properties()}


def test_set_and_undo(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.table("t").set({"owner": "me"})
    before = properties(lake)
    odd = ["owner=it's & you", "empty=", "eq=a=b", "spaced= x ", 'tricky=$(touch x) `y` \\ "z"', "été=où"]
    receipt = json.loads(cli("table", "set", "t", *odd, "-o", "json").out)
    assert properties(lake) == before | dict(word.split("=", 1) for word in odd)
    assert receipt["details"]["owner"] == {"before": "me", "after": "it's & you"}
    for words in undo_words(receipt["undo"]):
        said = cli(*words)
        assert said.code == 0, said
    assert properties(lake) == before
    check_healthy(lake)


def test_unset_and_undo(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.table("t").set({"owner": "a 'quoted' one", "team": "x"})
    before = properties(lake)
    receipt = json.loads(cli("table", "unset", "t", "owner", "team", "-o", "json").out)
    assert set(before) - set(properties(lake)) == {"owner", "team"}
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert properties(lake) == before


def test_the_same_value_again_is_nothing_to_do(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.table("t").set({"owner": "me"})
    before = contents(lake)
    said = cli("table", "set", "t", "owner=me", "-o", "json")
    assert (said.code, json.loads(said.out)["run_id"]) == (0, None)
    assert contents(lake) == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["set", "t", "novalue"], 2),
        (["set", "t", "=x"], 2),
        (["set", "t", "a=1", "a=2"], 2),
        (["set", "t", "format-version=3"], 2),
        (["set", "t", "uuid=x"], 2),
        (["set", "t", "location=/tmp/x"], 2),
        (["set", "t", "neve.online=false"], 2),
        (["set", "t", "neve.deleting=x"], 2),
        (["set", "t", "current-snapshot-id=1"], 2),
        (["set", "t", "a\tb=1"], 2),
        (["set", "t", "commit.retry.num-retries=many"], 2),
        (["set", "t", "commit.retry.num-retries="], 2),
        (["set", "t", "write.target-file-size-bytes=128MB"], 2),
        (["set", "t", "history.expire.max-snapshot-age-ms=-1"], 2),
        (["set", "t", "write.format.default=csv"], 2),
        (["set", "t", "gc.enabled=no"], 2),
        (["create", "u", "--schema", "id int", "--property", "write.delete.mode=merge"], 2),
        (["set", "nope", "a=1"], 3),
        (["unset", "t", "nope"], 2),
        (["unset", "t", "neve.sources"], 2),
        (["unset", "nope", "a"], 3),
        (["set", "t"], 2),
        (["unset", "t"], 2),
    ],
)
def test_what_cannot_be_set_is_refused(lake: Lake, cli: Cli, words: list[str], code: int) -> None:
    make(lake)
    before = contents(lake)
    said = cli("table", *words)
    assert (said.code, said.out) == (code, ""), said
    assert "should not happen" not in said.err
    assert contents(lake) == before


@pytest.mark.parametrize("key", ["", " ", " a", "-a", "--yes", "a=b", "a\nb", "\x00"])
def test_python_refuses_keys_that_no_command_could_undo(lake: Lake, key: str) -> None:
    make(lake)
    before = contents(lake)
    with pytest.raises(InvalidInput):
        lake.table("t").set({key: "x"})
    assert contents(lake) == before


def test_an_unknown_key_names_the_nearest(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.table("t").set({"owner": "me"})
    assert "did you mean owner?" in cli("table", "unset", "t", "onwer").err


def test_values_are_data_not_sql(lake: Lake) -> None:
    make(lake)
    evil = {"x'; DROP TABLE iceberg_tables;--": "'; DROP TABLE runs;--", 'q"': '"); DELETE FROM trash;--'}
    lake.table("t").set(evil)
    assert evil.items() <= properties(lake).items()
    assert [row.table for row in lake.tables.list()] == ["default.t"]
    assert lake.runs.list()
    lake.table("t").unset(list(evil))
    assert not evil.keys() & properties(lake).keys()


def test_a_metadata_folder_that_cannot_be_leaves_the_table_as_it_was(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = contents(lake, runs=False)
    for place in ("relative/path", "ftp://host/x", "/proc/none/x"):
        said = cli("table", "set", "t", f"write.metadata.path={place}")
        assert said.code == 1, said
        assert "should not happen" not in said.err
    assert contents(lake, runs=False) == before


def test_setting_keeps_snapshot_and_folder(lake: Lake) -> None:
    make(lake, rows=2)
    before = facts(lake, "t")
    lake.table("t").set({"a": "1"})
    after = facts(lake, "t")
    assert after.metadata_location != before.metadata_location
    assert (after.current_snapshot_id, after.location, after.uuid) == (
        before.current_snapshot_id,
        before.location,
        before.uuid,
    )


def test_offline_is_shown_and_undone(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = properties(lake)
    receipt = json.loads(cli("table", "offline", "t", "-o", "json").out)
    assert [row["online"] for row in json.loads(cli("table", "list", "-o", "json").out)] == [False]
    assert lake.table("t").show().online is False
    assert lake.table("t").status().online is False
    (words,) = undo_words(receipt["undo"])
    back = json.loads(cli(*words, "-o", "json").out)
    assert properties(lake) == before
    for words in undo_words(back["undo"]):
        assert cli(*words).code == 0
    assert lake.table("t").show().online is False


def test_online_when_it_is_online_does_nothing(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = contents(lake)
    said = cli("table", "online", "t")
    assert said.code == 0
    assert "nothing to do" in said.out
    assert contents(lake) == before


def test_all_tables_at_once(lake: Lake, cli: Cli) -> None:
    assert cli("table", "offline", "--all").code == 0
    for name in ("a", "x.b"):
        make(lake, name)
    receipts = json.loads(cli("table", "offline", "--all", "-o", "json").out)
    assert [(row["table"], row["action"]) for row in receipts] == [("default.a", "offline"), ("x.b", "offline")]
    assert [row.online for row in lake.tables.list()] == [False, False]
    lake.tables.set_all_online(online=True)
    assert [row.online for row in lake.tables.list()] == [True, True]


@pytest.mark.parametrize("words", [[], ["t", "--all"]])
def test_a_table_or_all_but_not_both_or_neither(lake: Lake, cli: Cli, words: list[str]) -> None:
    make(lake)
    assert cli("table", "offline", *words).code == 2
    assert cli("table", "offline", "nope").code == 3
    assert lake.table("t").show().online
