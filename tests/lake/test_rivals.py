"""Two to four real processes at one table at the same moment: one wins, the others are told, the lake stays whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lake.lakes import check_healthy, facts, make, names
from tests.lake.processes import Processes
from tests.postgres import Cluster

from neve import errors
from neve.lake import Lake

pytestmark = pytest.mark.faults
ROUNDS = 3
"""Each race is run on so many tables at once: the rivals meet more than once per start of a process."""


Race = Callable[..., list[list[str]]]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def arena(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake on either database, for the rivals too."""
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres_cluster")
        monkeypatch.setenv("NEVE_CATALOG__TYPE", "postgresql")
        monkeypatch.setenv("NEVE_CATALOG__URI", cluster.create_schema())
        monkeypatch.setenv("NEVE_STATE__URI", cluster.create_schema())
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def race(arena: Lake, processes: Processes) -> Race:
    """Runs deeds against each other, once per round, `#` being the round; per round, what came of each deed."""

    def run(*deeds: str) -> list[list[str]]:
        rivals = [[deed.replace("#", str(number)).split(" ") for number in range(ROUNDS)] for deed in deeds]
        outcomes = processes.compete(arena.root, rivals)
        assert all(len(outcome) == ROUNDS for outcome in outcomes), outcomes
        return [list(column) for column in zip(*outcomes, strict=True)]

    return run


def check_one_won(outcomes: list[str]) -> None:
    assert outcomes.count("done") == 1, outcomes
    told = [getattr(errors, outcome.split()[0]) for outcome in outcomes if outcome != "done"]
    assert all(issubclass(kind, errors.Conflict | errors.NotFound) for kind in told), outcomes


def check_whole(lake: Lake) -> None:
    check_healthy(lake)
    for name in names(lake):
        assert all(Path(file.path).exists() for file in lake.table(name).files())


def test_creating_the_same_table(arena: Lake, race: Race) -> None:
    for outcomes in race(*["create n.t#"] * 4):
        check_one_won(outcomes)
    assert names(arena) == sorted(f"n.t{number}" for number in range(ROUNDS))
    assert len(list((arena.root / "warehouse").iterdir())) == ROUNDS
    check_whole(arena)


def test_renaming_the_same_table(arena: Lake, race: Race) -> None:
    uuids = set()
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
        uuids.add(facts(arena, f"t{number}").uuid)
    for outcomes in race("rename t# a#", "rename t# b#", "rename t# c#"):
        check_one_won(outcomes)
    assert {facts(arena, name).uuid for name in names(arena)} == uuids
    assert len(names(arena)) == ROUNDS
    check_whole(arena)


def test_renaming_to_the_same_name(arena: Lake, race: Race) -> None:
    for number in range(ROUNDS):
        make(arena, f"a{number}", rows=1)
        make(arena, f"b{number}", rows=1)
    for outcomes in race("rename a# n.c#", "rename b# n.c#"):
        check_one_won(outcomes)
    assert len(names(arena)) == 2 * ROUNDS
    check_whole(arena)


@pytest.mark.parametrize("verb", ["delete", "force", "forget"])
def test_deleting_the_same_table(arena: Lake, race: Race, verb: str) -> None:
    make(arena, "other", rows=1)
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
    for outcomes in race(*[f"{verb} t#"] * 3):
        check_one_won(outcomes)
    assert names(arena) == ["default.other"]
    assert len(arena.tables.trash()) == (ROUNDS if verb == "delete" else 0)
    if verb == "delete":
        check_whole(arena)
        for number in range(ROUNDS):
            arena.tables.undelete(f"t{number}")
            assert arena.table(f"t{number}").show().rows == 1


def test_bringing_the_same_table_back(arena: Lake, race: Race) -> None:
    """Under the same name, and under different ones: a table never ends up with two."""
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
        arena.table(f"t{number}").drop()
    for outcomes in race("undelete t# t#", "undelete t# u#", "undelete t# v#"):
        check_one_won(outcomes)
    assert len(names(arena)) == ROUNDS
    assert arena.tables.trash() == []
    check_whole(arena)


@pytest.mark.parametrize("verb", ["delete", "force"])
def test_renaming_and_deleting_the_same_table(arena: Lake, race: Race, verb: str) -> None:
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
    for number, outcomes in enumerate(race("rename t# u#", f"{verb} t#")):
        check_one_won(outcomes)
        alive = f"default.u{number}" in names(arena)
        assert alive == (outcomes[0] == "done")
        assert f"default.t{number}" not in names(arena)
    trashed = {row.table for row in arena.tables.trash()}
    alive_names = {name.removeprefix("default.u") for name in names(arena)}
    assert not {f"t{number}" for number in alive_names} & trashed, "a live table lies in the trash"
    check_whole(arena)


def test_setting_different_properties_loses_none(arena: Lake, processes: Processes) -> None:
    make(arena)
    each = 5
    deeds = [[["put", "t", f"{rival}.{n}"] for n in range(each)] for rival in "abcd"]
    assert processes.compete(arena.root, deeds) == [["done"] * each] * 4
    found = facts(arena, "t").properties
    assert {f"{rival}.{n}" for rival in "abcd" for n in range(each)} <= set(found)
    check_whole(arena)


def test_appending_while_it_is_deleted_loses_no_row(arena: Lake, race: Race) -> None:
    """Rows whose writer was told they are in must be in what comes back from the trash."""
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
    for number, (appended, deleted) in enumerate(race("append t#", "delete t#")):
        assert deleted == "done"
        arena.tables.undelete(f"t{number}")
        assert arena.table(f"t{number}").show().rows == (2 if appended == "done" else 1)
    check_whole(arena)


def test_tagging_with_the_same_name(arena: Lake, race: Race) -> None:
    for number in range(ROUNDS):
        make(arena, f"t{number}", rows=1)
    for outcomes in race("tag t# v1", "tag t# v1"):
        check_one_won(outcomes)
    check_whole(arena)


def test_making_the_same_namespace(arena: Lake, race: Race) -> None:
    for outcomes in race(*["namespace n.n#"] * 3):
        check_one_won(outcomes)


def test_opening_a_lake_that_is_being_made(tmp_path: Path, processes: Processes) -> None:
    """Three processes open a lake of which only neve.yaml is there yet."""
    with Lake.create(tmp_path / "whole") as whole:
        text = (whole.root / "neve.yaml").read_text()
    root = tmp_path / "half"
    root.mkdir()
    (root / "neve.yaml").write_text(text)
    deeds = [[["create", f"t{number}"]] for number in range(3)]
    assert processes.compete(root, deeds) == [["done"]] * 3
    with Lake(root) as lake:
        assert len(names(lake)) == 3
        check_whole(lake)
