"""kill -9 at every effect of every verb: the lake opens, lists right, takes the same command again, and heals."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.lake.lakes import check_healthy, facts, log_ingestion, make, names
from tests.lake.processes import KILLED, Processes, do

from neve.errors import AlreadyExists, Conflict, NotFound
from neve.lake import Lake
from neve.model.runs import Run, new_run_id
from neve.plan.tables import DELETING
from neve.services.repair import dead_runs, settle_dead_runs

pytestmark = pytest.mark.faults


@dataclass(frozen=True)
class Case:
    """A deed, and the tables there are (`t` first) before and after it."""

    deed: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    trash: tuple[str, ...] = ()
    """What lies in the trash before."""


CASES = {
    "create": Case(("create", "n.new"), ("default.other", "default.t"), ("default.other", "default.t", "n.new")),
    "rename": Case(("rename", "t", "n.u"), ("default.other", "default.t"), ("default.other", "n.u")),
    "delete": Case(("delete", "t"), ("default.other", "default.t"), ("default.other",)),
    "force": Case(("force", "t"), ("default.other", "default.t"), ("default.other",)),
    "forget": Case(("forget", "t"), ("default.other", "default.t"), ("default.other",)),
    "undelete": Case(("undelete", "t", "n.u"), ("default.other",), ("default.other", "n.u"), trash=("t",)),
    "set": Case(("set", "t"), ("default.other", "default.t"), ("default.other", "default.t")),
}


def prepare(root: Path, case: Case) -> None:
    with Lake.create(root) as lake:
        for name in ("other", "t"):
            make(lake, name, rows=2)
            log_ingestion(lake, name)
        for name in case.trash:
            lake.table(name).drop()


def restore(kept: Path, root: Path) -> None:
    if root.exists():
        shutil.rmtree(root)
    shutil.copytree(kept, root)


def files_of(lake: Lake, name: str) -> dict[str, str]:
    """Every file of a table, by its hash."""
    folder = Path(facts(lake, name).location)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", CASES)
def test_killed_at_every_effect(tmp_path: Path, processes: Processes, verb: str) -> None:
    case, root, kept, dead = CASES[verb], tmp_path / "lake", tmp_path / "kept", tmp_path / "dead"
    prepare(root, case)
    with Lake(root) as lake:
        other = files_of(lake, "other")
    shutil.copytree(root, kept)
    effects = 0
    while True:
        effects += 1
        restore(kept, root)
        ended = processes.kill_at(effects, root, case.deed)
        if ended == 0:
            break
        assert ended == KILLED
        if dead.exists():
            shutil.rmtree(dead)
        shutil.copytree(root, dead)
        check_repeats(root, case, other)
        restore(dead, root)
        check_heals(root, case, other)
    assert effects > 4, "the deed had hardly any effects: is it still watched?"
    with Lake(root) as lake:
        assert tuple(names(lake)) == case.after
        check_consistent(lake, case, other)


def check_repeats(root: Path, case: Case, other: dict[str, str]) -> None:
    """Right after the crash the list is right, and the same command can be given again."""
    with Lake(root) as lake:
        seen = tuple(names(lake))
        assert seen in (case.before, case.after)
        try:
            do(lake, *case.deed)
        except (AlreadyExists, NotFound):
            assert seen == case.after, "the command was refused though its work had not been done"
            settle_dead_runs(lake._context)
        assert tuple(names(lake)) == case.after
        check_consistent(lake, case, other)


def check_heals(root: Path, case: Case, other: dict[str, str]) -> None:
    """`doctor --repair` alone makes the lake whole, whichever way the deed went."""
    with Lake(root) as lake:
        seen = tuple(names(lake))
        lake.doctor(repair=True, spark=False)
        assert tuple(names(lake)) == seen
        half = [name for name in seen if DELETING in facts(lake, name).properties]
        for name in half:
            lake.table(name).drop(force=True)
        check_consistent(lake, case, other)


def check_consistent(lake: Lake, case: Case, other: dict[str, str]) -> None:
    amiss = [row for row in lake.doctor(spark=False) if row.state != "ok"]
    if case.deed[0] == "forget":  # whose files stay and belong to no table, as was asked
        amiss = [row for row in amiss if "belongs to no table" not in row.detail]
    assert not amiss, amiss
    assert files_of(lake, "other") == other
    assert lake.table("other").status().ingestion.total_ingestions == 1
    assert not lake._context.store.runs.unfinished()
    for name in names(lake):
        if not name.endswith((".new", ".other")):
            assert lake.table(name).show().rows == 2
            assert all(Path(file.path).exists() for file in lake.table(name).files())
            assert lake.table(name).status().ingestion.total_ingestions == 1
    uuids = [facts(lake, name).uuid for name in names(lake)]
    assert not set(uuids) & {row.uuid for row in lake.tables.trash()}, "a table is in the lake and in the trash"
    if case.deed[0] in ("delete", "undelete"):
        assert len(names(lake)) + len(lake.tables.trash()) == 2, "a table is in neither place"


def test_a_killed_register(tmp_path: Path, processes: Processes) -> None:
    with Lake.create(tmp_path / "elsewhere") as elsewhere:
        make(elsewhere, "t", rows=2)
        place = facts(elsewhere, "t").metadata_location
    root, kept = tmp_path / "lake", tmp_path / "kept"
    Lake.create(root).close()
    shutil.copytree(root, kept)
    effects, ended = 0, KILLED
    while ended:
        effects += 1
        restore(kept, root)
        ended = processes.kill_at(effects, root, ["register", "n.t", place])
        with Lake(root) as lake:
            if names(lake) == []:
                lake.tables.register("n.t", place)
            settle_dead_runs(lake._context)
            assert lake.table("n.t").show().rows == 2
            check_healthy(lake)
    assert effects > 3


def start_dead_run(lake: Lake, *, pid: int, started: datetime, host: str | None = None) -> Run:
    import socket

    run = Run(
        run_id=new_run_id(started, bytes),
        kind="set",
        table_name="t",
        plan={"a": "1"},
        started_at=started,
        host=host or socket.gethostname(),
        pid=pid,
    )
    lake._context.store.runs.start(run)
    return run


def test_a_number_that_another_process_inherited_is_not_taken_for_the_dead(lake: Lake) -> None:
    """Process numbers come round again: this very process is younger than the run."""
    import os

    make(lake)
    run = start_dead_run(lake, pid=os.getpid(), started=datetime(2020, 1, 1, tzinfo=UTC))
    assert [dead.run_id for dead in dead_runs(lake._context)] == [run.run_id]
    lake.table("t").set({"b": "2"})
    assert lake.runs.show(run.run_id).state == "failed"


def test_the_living_and_those_of_other_machines_are_left_alone(lake: Lake) -> None:
    import os

    make(lake)
    now = datetime.now(UTC)
    living = start_dead_run(lake, pid=os.getpid(), started=now)
    far = start_dead_run(lake, pid=2**22 + 1, started=now - timedelta(seconds=1), host="elsewhere")
    lake.table("t").set({"b": "2"})
    assert lake.runs.show(living.run_id).state == "running"
    assert lake.runs.show(far.run_id).state == "running"


@pytest.mark.parametrize("made", [True, False])
def test_the_next_change_settles_what_a_dead_process_left(lake: Lake, made: bool) -> None:
    make(lake)
    if made:
        lake.table("t").set({"a": "1"})
    run = start_dead_run(lake, pid=2**22 + 1, started=datetime.now(UTC))
    lake.table("t").set({"b": "2"})
    settled = lake.runs.show(run.run_id)
    assert settled.state == ("succeeded" if made else "failed")
    assert settled.finished_at is not None
    if not made:
        assert settled.error_code == "died"


def test_a_dead_run_that_cannot_be_settled_stops_nobody(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    start_dead_run(lake, pid=2**22 + 1, started=datetime.now(UTC))
    from neve.services import repair

    def fail(*_: object) -> None:
        raise Conflict("cannot")

    monkeypatch.setattr(repair, "settle", fail)
    lake.table("t").set({"b": "2"})
    assert facts(lake, "t").properties["b"] == "2"
