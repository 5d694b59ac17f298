"""kill -9 at every step of a change, and of the recovery from it: old content or new content, never anything else."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake import folders
from tests.lake.folders import KILLED, Deed, append_mine, content, hold, just_open, kill_at, leftovers, start

from neve.directory import open_directory
from neve.directory.backups import Backups
from neve.directory.journal import HIDDEN
from neve.directory.locks import FolderLock
from neve.errors import LeaseHeld, NotEmpty

pytestmark = pytest.mark.faults

OLD = {"k=1/a.parquet": "a1", "k=1/d.parquet": "d1", "k=2/b.parquet": "b1"}
CASES: dict[str, tuple[Deed, dict[str, str]]] = {
    "replace": (folders.replace_and_add, {"k=1/a.parquet": "a2", "k=3/c.parquet": "c1"}),
    "compact": (folders.compact_and_keep, {"k=1/a.parquet": "a1+d1+b1"}),
    "remove": (folders.only_remove, {"k=1/d.parquet": "d1", "k=2/b.parquet": "b1"}),
}


def fill(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    for name, text in OLD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_all_of_each_deed(tmp_path: Path) -> None:
    for deed, new in CASES.values():
        fill(tmp_path / "d")
        deed(str(tmp_path / "d"))
        assert content(tmp_path / "d") == new
        assert leftovers(tmp_path / "d") == []


@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_step(tmp_path: Path, name: str) -> None:
    deed, new = CASES[name]
    folder, dead = tmp_path / "d", tmp_path / "dead"
    outcomes, effects, ended = [], 0, KILLED
    while ended:
        effects += 1
        fill(folder)
        ended = kill_at(effects, deed, folder)
        assert ended in (0, KILLED)
        assert not set(content(folder)) - set(OLD) - set(new), "an outside reader sees a file that is not data"
        shutil.rmtree(dead, ignore_errors=True)
        shutil.copytree(folder, dead)
        outcomes.append(check_recovers(folder, new))
        if effects % 7 == 0:
            check_recovery_is_killed(dead, folder, outcomes[-1])
    assert effects > 12, "the change had hardly any effects: are they still watched?"
    assert outcomes == sorted(outcomes, key=lambda seen: seen == new), "what was committed came undone"
    assert outcomes[0] == OLD
    assert outcomes[-1] == new


def check_recovers(folder: Path, new: dict[str, str]) -> dict[str, str]:
    """A reader that opens through Névé sees the old or the new, and nothing of the change is left."""
    directory = open_directory(folder)
    seen = content(folder)
    assert seen in (OLD, new)
    assert [file.path for file in directory.files()] == sorted(seen)
    assert leftovers(folder) == []
    for kept in folder.glob("_sources/**/*.kept"):
        assert kept.read_text() == OLD[str(kept.relative_to(folder / "_sources")).removesuffix(".kept")]
        assert seen == new
    return seen


def check_recovery_is_killed(dead: Path, folder: Path, expected: dict[str, str]) -> None:
    effects, ended = 0, KILLED
    while ended:
        effects += 1
        shutil.rmtree(folder)
        shutil.copytree(dead, folder)
        ended = kill_at(effects, just_open, folder)
        open_directory(folder)
        assert content(folder) == expected
        assert leftovers(folder) == []


@pytest.mark.parametrize("deed", [folders.remove_with_a_backup, folders.remove_with_a_backup_inside])
def test_a_backup_is_there_exactly_if_its_change_is(tmp_path: Path, deed: Deed) -> None:
    folder, place = tmp_path / "d", tmp_path / "d.backups"
    outcomes, effects, ended = [], 0, KILLED
    while ended:
        effects += 1
        shutil.rmtree(place, ignore_errors=True)
        fill(folder)
        ended = kill_at(effects, deed, folder)
        directory = open_directory(folder)
        happened = "k=1/a.parquet" not in content(folder)
        for backups in (Backups(directory, place), Backups(directory)):
            assert not backups.place.exists() or happened
        own = place if deed is folders.remove_with_a_backup else None
        assert len(Backups(directory, own).list()) == happened
        assert leftovers(folder) == []
        outcomes.append(happened)
    assert outcomes == sorted(outcomes)
    assert (outcomes[0], outcomes[-1]) == (False, True)


def test_a_compaction_killed_at_every_step(tmp_path: Path) -> None:
    """By the public door: never a lost or doubled row, for Névé or for anyone who reads `**/*.parquet`."""
    kept, folder = tmp_path / "kept", tmp_path / "d"
    kept.mkdir()
    random = Random(3)
    for number in range(2):
        table = pa.table({"id": [random.getrandbits(62) for _ in range(150_000)]})
        pq.write_table(table, kept / f"{number}.parquet", compression="zstd")
    rows = ids(kept)
    files, effects, ended = [], 0, KILLED
    while ended:
        effects += 1
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        ended = kill_at(effects, folders.compact, folder)
        assert ended in (0, KILLED)
        files.append(len(open_directory(folder).files()))
        assert ids(folder) == rows
        assert leftovers(folder) == []
    assert effects > 10
    assert files == sorted(files, reverse=True), "what was committed came undone"
    assert (files[0], files[-1]) == (2, 1)


@pytest.mark.slow
def test_a_repartition_killed_at_many_steps(tmp_path: Path) -> None:
    """By the public door, in parts and swapped at the end: the source holds its rows, and the same call goes on."""
    kept, folder = tmp_path / "kept", tmp_path / "d"
    (kept / "old").mkdir(parents=True)
    for number in range(2):
        table = pa.table({"id": range(number * 1000, number * 1000 + 1000), "k": ["a", "b"] * 500})
        pq.write_table(table, kept / f"old/{number}.parquet", compression="zstd")
    swapped, effects, ended = [], 2, KILLED
    while ended:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        ended = kill_at(effects, folders.repartition, folder)
        assert ended in (0, KILLED)
        swapped.append("/" in open_directory(folder / "old").files()[0].path)
        assert ids(folder / "old") == list(range(2000))
        if ended:
            check_goes_on(folder, swapped=swapped[-1])
            assert ids(folder / "old") == list(range(2000))
            assert leftovers(folder / "old") == []
        effects += 9
    assert len(swapped) > 10
    assert swapped == sorted(swapped), "what was committed came undone"
    assert (swapped[0], swapped[-1]) == (False, True)
    assert not (folder / "new").exists()


def check_goes_on(folder: Path, *, swapped: bool) -> None:
    if not swapped:
        folders.repartition(str(folder))
        assert not (folder / "new").exists()
    elif (folder / "new").exists() and open_directory(folder / "new").files():
        with pytest.raises(NotEmpty, match="a run that then died had swapped them"):
            folders.repartition(str(folder))


def ids(folder: Path) -> list[int]:
    found = [pq.read_table(file)["id"] for file in sorted(folder.glob("**/*.parquet"))]
    return sorted(number for column in found for number in column.to_pylist())


def test_a_living_writer_is_not_recovered_away(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    fill(folder)
    writer = start(hold, folder)
    try:
        while not (folder / "_ready").exists():
            assert writer.is_alive()
            time.sleep(0.01)
        assert content(folder) == OLD
        directory = open_directory(folder)  # a reader neither waits nor takes anything away
        assert [file.path for file in directory.files()] == sorted(OLD)
        assert len(list(folder.glob("_neve/SLOW/*.staged"))) == 1
        with pytest.raises(LeaseHeld), directory.change("MINE"):
            pytest.fail("two writers in one folder")
    finally:
        writer.kill()
        writer.join()
    open_directory(folder)
    assert leftovers(folder) == []
    assert content(folder) == OLD


def test_rivals_lose_no_change(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("0")
    rivals = [start(append_mine, tmp_path) for _ in range(3)]
    for rival in rivals:
        rival.join()
    assert [rival.exitcode for rival in rivals] == [0, 0, 0]
    assert (tmp_path / "n.csv").read_text() == "60"
    assert leftovers(tmp_path) == []


def test_a_change_keeps_the_folder_that_its_lock_is_on(tmp_path: Path) -> None:
    """Were it gone before the change has ended, a rival would lock a new one, and lose what it stages there."""
    (tmp_path / "n.csv").write_text("0")
    seen: list[bool] = []

    class Watched(FolderLock):
        @contextmanager
        def swapping(self) -> Iterator[None]:
            with super().swapping():
                yield
            seen.append(self.hidden.is_dir())

    directory = open_directory(tmp_path, lock=Watched(tmp_path, tmp_path / HIDDEN))
    with directory.change("R1") as change:
        change.remove("n.csv")
        change.write("n.csv", b"1")
    with directory.change("R2") as change:
        change.remove("n.csv")
    assert seen == [True, True]
    assert leftovers(tmp_path) == []


def test_a_reader_never_sees_half_a_swap(tmp_path: Path) -> None:
    """Every change replaces a whole generation of files: a listing is one generation, never a mix."""
    folder = tmp_path / "d"
    folder.mkdir()
    for number in range(8):
        (folder / f"g0-{number}.csv").write_text("")
    writer = start(generations, folder)
    try:
        directory = open_directory(folder, format="csv")
        seen = set()
        while writer.is_alive():
            names = [file.path for file in directory.files()]
            assert len({name.partition("-")[0] for name in names}) == 1, names
            assert len(names) == 8
            seen.add(names[0])
    finally:
        writer.join()
    assert writer.exitcode == 0
    assert len(seen) > 1


def generations(folder: str) -> None:
    directory = open_directory(folder, format="csv")
    for generation in range(1, 25):
        old = directory.files()
        with directory.change(f"G{generation}") as change:
            for file in old:
                change.remove(file.path)
            for number in range(8):
                change.write(f"g{generation}-{number}.csv", b"")
