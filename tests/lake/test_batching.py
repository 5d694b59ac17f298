"""`neve table submit` and `neve table batch`: what waits, what is loaded together, and what becomes of the rest."""

from __future__ import annotations

import json
import os
import signal
from datetime import date, timedelta
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, make
from tests.lake.landing import World

from neve.errors import Cancelled, InvalidInput, LeaseHeld, NotFound, Refused, SparkUnavailable, TableNotFound
from neve.lake import Lake
from neve.services import batching
from neve.services.leases import TTL, leased

FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)


@pytest.fixture
def world(lake: Lake, tmp_path: Path) -> World:
    return World(lake, tmp_path / "landing")


def test_submitting_reads_no_file_and_is_all_or_nothing(world: World) -> None:
    sales = world.lake.table("sales")
    world.write("sales_2024-01-01.csv", "no header, no matter")
    world.write("sales_2024-01-02.csv", "x" * 50)
    receipt = sales.submit(world.folder, date_from_name="sales_{date}.csv")
    assert receipt.details == {"files": 2, "bytes": 70, "dates": "2024-01-01 to 2024-01-02"}
    assert world.pending() == ["sales_2024-01-01.csv", "sales_2024-01-02.csv"]
    world.write("sales_2024-01-03.csv", "id")
    world.write("zebra.csv", "id")
    with pytest.raises(InvalidInput, match=r"zebra\.csv does not look like"):
        sales.submit(world.folder, date_from_name="sales_{date}.csv")
    assert len(world.pending()) == 2


def test_what_makes_no_sense_is_refused(world: World) -> None:
    sales, path = world.lake.table("sales"), world.write("a.csv", "id\n1")
    for wrong in ({}, {"date": "2024-01-01", "date_from_name": "{date}.csv"}, {"date": "yesterday"}):
        with pytest.raises(InvalidInput):
            sales.submit(path, **wrong)
    with pytest.raises(InvalidInput, match="format"):
        sales.submit(world.write("a.txt", "x"), date="2024-01-01")
    with pytest.raises(NotFound, match="nope"):
        sales.submit(world.folder / "nope.csv", date="2024-01-01")
    with pytest.raises(TableNotFound):
        world.lake.table("slaes").submit(path, date="2024-01-01")
    with pytest.raises(TableNotFound):
        world.lake.table("slaes").ingest_batches()
    assert world.pending() == []


def test_a_path_has_one_row_however_it_is_spelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.write("a.csv", "id\n1")
    link = world.folder.parent / "link"
    link.symlink_to(world.folder)
    monkeypatch.chdir(world.folder)
    for spelling in (path, "a.csv", "../landing/a.csv", link / "a.csv", f"file://{path}", "*.csv"):
        world.lake.table("sales").submit(spelling, date="2024-01-01")
    assert [row.path for row in world.lake._context.store.submissions.for_table("sales")] == [str(path)]


def test_a_loaded_file_cannot_move_to_another_date_but_a_waiting_one_can(world: World) -> None:
    path = world.write("a.csv", "id\n1")
    world.submit(path, day="2024-01-02")
    world.submit(path, day="2024-01-01")
    world.batch()
    assert world.table.rows == {FIRST: ["id\n1"]}
    with pytest.raises(Refused, match="has been loaded for 2024-01-01"):
        world.submit(path, day="2024-01-02")
    world.submit(path, day="2024-01-01")
    assert world.pending() == ["a.csv"]


def test_a_second_file_of_a_date_does_not_drop_the_first(world: World) -> None:
    first, second = world.write("a.csv", "id\n1"), world.write("b.csv", "id\n2")
    world.submit(first)
    (outcome,) = world.batch()
    run = outcome.receipt.run_id if outcome.receipt else None
    world.submit(second)
    (again,) = world.batch()
    assert again.receipt is not None
    assert world.table.rows == {FIRST: ["id\n1", "id\n2"]}
    assert {row.run_id for row in world.lake._context.store.submissions.for_table("sales")} == {again.receipt.run_id}
    assert again.receipt.run_id != run
    assert [outcome.state for outcome in world.batch(force=True)] == ["waiting"]


def test_a_file_submitted_again_unchanged_loads_nothing_and_waits_no_more(world: World) -> None:
    path = world.write("a.csv", "id\n1")
    world.submit(path)
    world.batch()
    (before,) = world.lake._context.store.submissions.for_table("sales")
    world.now += timedelta(hours=1)
    world.submit(path)
    (outcome,) = world.batch()
    assert outcome.receipt is not None
    assert outcome.receipt.reason is not None
    assert (outcome.state, outcome.receipt.run_id) == ("loaded", None)
    (after,) = world.lake._context.store.submissions.for_table("sales")
    assert after.run_id == before.run_id
    assert len(world.table.loads) == 1


def test_a_death_between_the_commit_and_the_mark_loads_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(world.write("a.csv", "id\n1"))
    with monkeypatch.context() as patch:
        patch.setattr(batching._Loading, "_mark", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            world.batch()
    assert (world.pending(), len(world.table.loads)) == (["a.csv"], 1)
    (outcome,) = world.batch()
    assert (outcome.state, world.pending(), len(world.table.loads)) == ("loaded", [], 1)


def test_a_file_that_is_gone_is_refused_with_its_date_and_the_others_are_loaded(world: World) -> None:
    gone, stays = world.write("gone.csv", "id\n1"), world.write("stays.csv", "id\n2")
    other = world.write("other.csv", "id\n3")
    world.submit(gone, stays)
    world.submit(other, day="2024-01-02")
    gone.unlink()
    refused, loaded = world.batch()
    assert (refused.state, refused.dates, loaded.state, loaded.dates) == ("failed", [FIRST], "loaded", [SECOND])
    assert refused.reason is not None
    assert refused.reason.detail.startswith(f"{gone}, submitted for 2024-01-01, is gone")
    assert refused.hint is not None
    assert "neve table batch sales --drop-missing" in refused.hint
    assert world.pending() == ["gone.csv", "stays.csv"]
    assert [outcome.state for outcome in world.batch(drop_missing=True, dry_run=True)] == ["planned"]
    assert world.pending() == ["gone.csv", "stays.csv"]
    assert [outcome.state for outcome in world.batch(drop_missing=True)] == ["loaded"]
    assert (world.table.rows[FIRST], world.pending()) == (["id\n2"], [])


def test_dropping_the_only_waiting_file_leaves_what_its_date_holds(world: World) -> None:
    loaded, gone = world.write("a.csv", "id\n1"), world.write("b.csv", "id\n2")
    world.submit(loaded)
    world.batch()
    world.submit(gone)
    gone.unlink()
    assert world.batch(drop_missing=True) == []
    assert (world.table.rows, world.pending(), len(world.table.loads)) == ({FIRST: ["id\n1"]}, [], 1)


def test_a_failure_that_is_nobodys_file_is_tried_once_and_all_stays(world: World) -> None:
    for number in range(4):
        world.submit(world.write(f"{number}.csv", "id\n1"), day=f"2024-01-0{number + 1}")
    world.table.error = SparkUnavailable("no Java")
    (outcome,) = world.batch()
    assert (outcome.state, len(outcome.dates)) == ("failed", 4)
    assert len(world.pending()) == 4


def test_a_cancelled_load_is_not_tried_in_halves_and_all_stays(world: World) -> None:
    for number in range(4):
        world.submit(world.write(f"{number}.csv", "id\n1"), day=f"2024-01-0{number + 1}")
    world.table.error = Cancelled("the run was cancelled")
    with pytest.raises(Cancelled):
        world.batch()
    assert len(world.pending()) == 4
    world.table.error = None
    assert [outcome.state for outcome in world.batch()] == ["loaded"]


def test_one_process_at_a_time_makes_batches(world: World) -> None:
    world.submit(world.write("a.csv", "id\n1"))
    with leased(world.lake._context, "the batches of sales"), pytest.raises(LeaseHeld):
        world.batch()
    assert world.pending() == ["a.csv"]
    assert [outcome.state for outcome in world.batch()] == ["loaded"]


def test_whoever_lost_the_lease_leaves_the_dates_to_be_loaded_again(world: World) -> None:
    """A machine slept in the middle of a load; another loaded more of the same date and was replaced by ours."""
    world.submit(world.write("a.csv", "id\n1"))
    ingest, context = world.table.ingest, world.lake._context

    def sleep_meanwhile(*arguments: object) -> object:
        world.submit(world.write("b.csv", "id\n2"))
        (late,) = [row for row in context.store.submissions.for_table("sales") if row.path.endswith("b.csv")]
        world.now += 2 * TTL
        rival = context.store.leases.acquire("the batches of sales", owner="rival", ttl=TTL, now=world.now)
        context.store.submissions.mark(late, "01M7GZH7380000000000000000")
        receipt = ingest(*arguments)  # type: ignore[arg-type]
        context.store.leases.release(rival)
        return receipt

    world.table.ingest = sleep_meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaseHeld):
        world.batch()
    world.table.ingest = ingest  # type: ignore[method-assign]
    assert world.pending() == ["a.csv", "b.csv"]
    assert [outcome.state for outcome in world.batch()] == ["loaded"]
    assert world.table.rows == {FIRST: ["id\n1", "id\n2"]}


def test_submissions_follow_their_table_through_rename_delete_and_back(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    make(lake, "a")
    lake.table("a").submit(path, date="2024-01-01")

    def waiting(name: str) -> list[str]:
        return [Path(row.path).name for row in lake._context.store.submissions.for_table(name)]

    lake.table("a").rename("b")
    assert (waiting("a"), waiting("b")) == ([], ["a.csv"])
    lake.table("b").drop()
    make(lake, "b")
    assert waiting("b") == [], "a new table of the name has nothing to load"
    lake.tables.undelete("b", new_name="c")
    assert waiting("c") == ["a.csv"]
    lake.table("c").drop(force=True)
    make(lake, "c")
    assert waiting("c") == []


def test_the_commands_say_what_waits_and_what_would_be_loaded(lake: Lake, cli: Cli) -> None:
    config = lake.root / "sales.yaml"
    config.write_text("name: sales\ncolumns: {id: bigint}\ningestion: {batch: {min_files: 2, max_age: 1h}}\n")
    assert cli("table", "create", "sales.yaml").code == 0
    (lake.root / "sales_2024-01-01.csv").write_text("id\n1\n")
    said = cli("table", "batch", "sales")
    assert (said.code, said.out) == (0, "= nothing to load yet: no submitted file waits to be loaded\n")
    said = cli("table", "submit", "sales", "sales_2024-01-01.csv", "--date-from-name", "sales_{date}.csv")
    assert said.code == 0
    assert "files: 1" in said.out
    assert "neve table batch sales" in said.err
    said = cli("table", "batch", "sales", "-o", "json")
    (outcome,) = json.loads(said.out)
    assert (said.code, outcome["state"], outcome["reason"]["code"]) == (0, "waiting", "min_files")
    said = cli("table", "batch", "sales.yaml", "--force", "--dry-run")
    assert said.out == "Would ingest 2024-01-01 (1 files, 5 B) into default.sales. Nothing was changed.\n"
    (lake.root / "sales_2024-01-01.csv").unlink()
    said = cli("table", "batch", "sales", "--force")
    assert (said.code, said.out) == (5, "")
    assert "is gone" in said.err
    assert "--drop-missing" in said.err
    assert cli("table", "submit", "sales", "gone.csv", "--date", "2024-01-01").code == 3
    assert cli("table", "watch", "sales", ".", "--date-from-name", "{date}.csv", "-o", "json").code == 2
    assert cli("table", "watch", "sales", ".", "--date-from-name", "{date}.csv", "--settle", "5").code == 2
