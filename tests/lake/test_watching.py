"""`neve table watch`: complete files are loaded once each, as they arrive."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lake.landing import World

from neve.errors import InvalidInput, NotFound, StorageError
from neve.lake import Lake
from neve.model.batching import BatchOutcome

DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)]


@pytest.fixture
def world(lake: Lake, tmp_path: Path) -> World:
    return World(lake, tmp_path / "landing")


def states(outcomes: list[BatchOutcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_a_file_is_loaded_when_it_has_not_changed_for_a_while(world: World) -> None:
    world.write("sales_2024-01-01.csv", "id\n1")
    for second in (4, 8, 12):
        world.at(second, world.write, "sales_2024-01-01.csv", f"id\n1\n{second}")
    assert world.watch(seconds=16) == []
    assert states(world.watch(seconds=11)) == ["loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n1\n12"]}
    assert world.table.loads == [["sales_2024-01-01.csv"]]


def test_an_unchanged_size_with_a_new_time_is_a_change(world: World) -> None:
    world.write("sales_2024-01-01.csv", "id\n1")
    world.at(6, world.write, "sales_2024-01-01.csv", "id\n2")
    assert states(world.watch(seconds=21)) == ["loaded", "loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n2"]}


def test_hidden_and_unfinished_files_are_passed_over_until_they_get_their_name(world: World) -> None:
    for name in (".sales_2024-01-01.csv", "_sales_2024-01-01.csv", "_tmp/sales_2024-01-01.csv"):
        world.write(name, "id\n0")
    for ending in (".part", ".tmp", ".CRDOWNLOAD", "._COPYING_", ".filepart"):
        world.write(f"sales_2024-01-01.csv{ending}", "id\n0")
    world.at(30, (world.folder / "sales_2024-01-01.csv.part").rename, world.folder / "sales_2024-01-01.csv")
    assert states(world.watch(seconds=60)) == ["loaded"]
    assert world.table.loads == [["sales_2024-01-01.csv"]]


def test_once_ends_when_all_is_complete_and_loaded_though_the_minima_do_not_hold(lake: Lake, tmp_path: Path) -> None:
    world = World(lake, tmp_path / "landing")
    config = tmp_path / "sales.yaml"
    config.write_text("name: sales\ncolumns: {id: bigint}\ningestion: {batch: {min_files: 9, max_age: 1m}}\n")
    known = lake._context.store.registry.get("sales")
    assert known is not None
    lake._context.store.registry.put(known.model_copy(update={"config_path": str(config)}))
    world.write("sales_2024-01-01.csv", "id\n1")
    world.at(6, world.write, "sales_2024-01-02.csv", "id\n2")
    assert world.watch(seconds=14) == [], "two files are fewer than nine"
    (outcome,) = world.watch()
    assert (outcome.state, outcome.dates) == ("loaded", DAYS[:2])
    world.write("sales_2024-01-03.csv", "id\n3")
    assert world.watch(seconds=55) == []
    assert states(world.watch(seconds=20)) == ["loaded"], "a minute has passed"


def test_a_watch_that_is_started_again_loads_nothing_twice(world: World) -> None:
    for day in DAYS:
        world.write(f"sales_{day}.csv", f"id\n{day.day}")
    assert states(world.watch()) == ["loaded"]
    loads, before = list(world.table.loads), world.now
    assert world.watch() == []
    assert world.now == before, "there is nothing to wait for"
    assert world.watch(seconds=60) == []
    assert world.table.loads == loads


def test_a_late_file_joins_its_date_and_a_changed_one_takes_its_own_place(world: World) -> None:
    world.write("a/2024-01-01.csv", "id\n1")
    world.write("a/2024-01-02.csv", "id\n2")
    assert states(world.watch(pattern="{date}.csv")) == ["loaded"]
    world.write("b/2024-01-01.csv", "id\n11")
    world.write("a/2024-01-02.csv", "id\n22")
    assert states(world.watch(pattern="{date}.csv")) == ["loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n1", "id\n11"], DAYS[1]: ["id\n22"]}


def test_a_date_waits_while_a_file_of_it_that_was_loaded_is_written_anew(world: World) -> None:
    world.write("a/2024-01-01.csv", "id\n1")
    world.watch(pattern="{date}.csv")
    world.write("b/2024-01-01.csv", "id\n2")
    for second in (4, 8):
        world.at(second, world.write, "a/2024-01-01.csv", f"id\nhalf {second}")
    world.at(12, world.write, "a/2024-01-01.csv", "id\n111")
    assert states(world.watch(seconds=40, pattern="{date}.csv")) == ["loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n111", "id\n2"]}


@pytest.mark.slow
def test_a_bad_file_is_told_once_holds_nobody_back_and_is_tried_when_it_changes(world: World) -> None:
    for day in DAYS:
        world.write(f"sales_{day}.csv", "id\nbad" if day == DAYS[1] else f"id\n{day.day}")
    world.at(100, world.write, "sales_2024-01-02.csv", "id\nstill bad")
    world.at(200, world.write, "sales_2024-01-02.csv", "id\n2")
    outcomes = world.watch(seconds=4000)
    assert [(outcome.state, outcome.dates) for outcome in outcomes] == [
        ("loaded", [DAYS[0]]),
        ("failed", [DAYS[1]]),
        ("loaded", [DAYS[2]]),
        ("failed", [DAYS[1]]),
        ("loaded", [DAYS[1]]),
    ]
    assert outcomes[1].reason is not None
    assert outcomes[1].reason.detail == "this file is bad"
    assert len(world.table.loads) == 3


def test_files_that_cannot_be_submitted_are_told_once(world: World) -> None:
    world.write("readme.csv", "id\n1")
    world.write("sales_2024-01-01.csv", "id\n1")
    outcomes = world.watch(seconds=300)
    assert [(outcome.state, [Path(file).name for file in outcome.files]) for outcome in outcomes] == [
        ("failed", ["readme.csv"]),
        ("loaded", ["sales_2024-01-01.csv"]),
    ]
    world.write("readme.csv", "id\n1\n2")
    assert states(world.watch(seconds=300)) == ["failed"]
    assert world.pending() == []


@pytest.mark.slow
def test_what_may_pass_by_itself_is_tried_again_and_told_once(world: World) -> None:
    world.write("sales_2024-01-01.csv", "id\n1")
    world.table.error = StorageError("no route to the storage")
    world.at(600, setattr, world.table, "error", None)
    outcomes = world.watch(seconds=3600)
    assert states(outcomes) == ["failed", "loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n1"]}


def test_a_loaded_file_that_is_gone_is_not_dropped_from_its_date(world: World) -> None:
    first = world.write("a/2024-01-01.csv", "id\n1")
    world.watch(pattern="{date}.csv")
    kept = world.folder.parent / "kept.csv"
    shutil.move(first, kept)
    world.write("b/2024-01-01.csv", "id\n2")
    (outcome,) = world.watch(seconds=300, pattern="{date}.csv")
    assert (outcome.state, outcome.dates) == ("failed", [DAYS[0]])
    assert outcome.reason is not None
    assert str(first) in outcome.reason.detail
    assert world.table.rows == {DAYS[0]: ["id\n1"]}
    world.at(20, shutil.move, kept, first)
    assert states(world.watch(seconds=60, pattern="{date}.csv")) == ["failed", "loaded"]
    assert world.table.rows == {DAYS[0]: ["id\n1", "id\n2"]}


def test_a_folder_that_goes_away_and_comes_back_ends_nothing(world: World) -> None:
    away = world.folder.with_name("away")
    world.at(10, world.folder.rename, away)
    world.at(40, away.rename, world.folder)
    world.at(50, world.write, "sales_2024-01-01.csv", "id\n1")
    outcomes = world.watch(seconds=100)
    assert states(outcomes) == ["failed", "loaded"]
    with pytest.raises(NotFound, match="nowhere"):
        list(world.lake.table("sales").watch("nowhere", date_from_name="{date}.csv"))


@pytest.mark.parametrize("pattern", ["sales_{year}.csv", "sales.csv", "{moon}.csv"])
def test_a_pattern_without_a_day_is_refused_at_once(world: World, pattern: str) -> None:
    with pytest.raises(InvalidInput):
        world.lake.table("sales").watch(world.folder, date_from_name=pattern)


def test_a_watch_needs_time_between_looks(world: World) -> None:
    for every in ("0", "soon"):
        with pytest.raises(InvalidInput):
            world.lake.table("sales").watch(world.folder, date_from_name="{date}.csv", every=every)


@pytest.mark.faults
def test_ctrl_c_ends_a_watch_in_peace(world: World) -> None:
    world.write("notes.csv", "id\n1")
    words = ["table", "watch", "sales", str(world.folder), "--date-from-name", "{date}.csv", "-o", "jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "neve", *words, "--every", "100ms", "--settle", "0"],
        cwd=world.lake.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["state"] == "failed"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, ""), err
    assert err == "stopped watching; what was not loaded yet is loaded next time\n"


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["a/2024-01-01.csv", "b/2024-01-01.csv", "a/2024-01-02.csv", "b/2024-01-03.csv"]),
        st.integers(0, 40),
        st.integers(1, 4),
        st.sampled_from(["good", "good", "bad"]),
    ),
    max_size=8,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITES, st.integers(0, 60), st.sampled_from([1, 3, 5, 13]))
@pytest.mark.slow
def test_however_files_are_written_the_table_ends_as_the_folder_and_never_holds_a_half(
    lake: Lake, tmp_path: Path, writes: list[tuple[str, int, int, str]], first_watch: int, every: int
) -> None:
    """Each file is written in two steps, less than the settling time apart, over and over; the watcher restarts."""
    number = len(lake.tables.list())
    world = World(lake, tmp_path / f"landing{number}", name=f"t{number}")
    for version, (name, second, gap, kind) in enumerate(writes):
        world.at(second, world.write, name, "half")
        world.at(second + gap, world.write, name, f"{kind} {version}")
    last = max((second + gap for _, second, gap, _ in writes), default=0)
    world.watch(seconds=first_watch, every=every, pattern="{date}.csv")
    world.watch(seconds=last + 10, every=every, pattern="{date}.csv")
    outcomes = world.watch(every=every, pattern="{date}.csv")
    found: dict[date, list[str]] = {}
    for path in sorted(world.folder.rglob("*.csv")):
        found.setdefault(date.fromisoformat(path.stem), []).append(path.read_text())
    for day, texts in found.items():
        if any("bad" in text for text in texts):
            assert [day] in [outcome.dates for outcome in outcomes if outcome.state == "failed"]
        else:
            assert world.table.rows[day] == sorted(texts)
    assert not [text for texts in world.table.rows.values() for text in texts if "half" in text]
    loads = list(world.table.loads)
    world.watch(pattern="{date}.csv")
    assert world.table.loads == loads
