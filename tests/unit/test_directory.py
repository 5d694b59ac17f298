"""A plain folder: what counts as its data, what a change may do, and what a failure leaves behind."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from neve.directory import Directory, open_directory
from neve.directory.journal import JOURNAL
from neve.directory.locks import FolderLock
from neve.directory.storage import RemoteStorage
from neve.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    Refused,
    SchemaTooNew,
    StalePlan,
    StorageError,
    Unsupported,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "d"
    for name in ("a.parquet", "k=1/b.parquet"):
        put(root / name, name)
    return root


def put(path: Path | str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def tree(root: Path) -> dict[str, str]:
    """Every file below a folder, hidden or not."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def paths(directory: Directory) -> list[str]:
    return [file.path for file in directory.files()]


def test_what_counts_as_data(folder: Path) -> None:
    for name in (
        "_SUCCESS",
        ".a.parquet.crc",
        "_sources/old.parquet.kept",
        "notes.txt",
        "_k=2/c.parquet",
        "k=1/000000_0",
    ):
        put(folder / name, "x")
    put(folder / "_hidden/d.parquet", "x")
    directory = open_directory(folder)
    assert paths(directory) == ["_k=2/c.parquet", "a.parquet", "k=1/000000_0", "k=1/b.parquet"]
    assert [file.bytes for file in directory.files()] == [1, 9, 1, 13]
    put(folder / "x.csv", "1")
    put(folder / "x.csv.gz", "1")
    assert paths(open_directory(folder, format="csv")) == ["x.csv", "x.csv.gz"]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        open_directory(tmp_path / "none")
    assert paths(open_directory(tmp_path / "new", create=True)) == []
    with pytest.raises(Unsupported, match="cannot reach"):
        open_directory("ftp://host/x")


def test_a_link_to_a_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (folder / "k=3").symlink_to(tmp_path / "else")
    with pytest.raises(Refused, match="link"):
        open_directory(folder).files()


def test_nothing_done_leaves_no_trace(folder: Path) -> None:
    before, stamp = tree(folder), folder.stat().st_mode
    with open_directory(folder).change("R"):
        pass
    with open_directory(folder).change("R") as change:
        put(change.stage("x.parquet"), "never published")
    assert tree(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["a.parquet", "k=1"]
    assert folder.stat().st_mode == stamp


def test_a_look_needs_no_right_to_write(folder: Path) -> None:
    folder.chmod(0o555)
    try:
        assert paths(open_directory(folder)) == ["a.parquet", "k=1/b.parquet"]
    finally:
        folder.chmod(0o755)


def test_staged_files_match_no_pattern(folder: Path) -> None:
    with open_directory(folder).change("R") as change:
        staged = change.stage("k=1/new.parquet")
        put(staged, "x")
        put(f"{change.stage_folder()}/task-1.staged", "y")
        assert len(list(folder.rglob("*.parquet"))) == 2
        change.publish(staged, "k=1/new.parquet")
        change.publish(f"{change.stage_folder()}/task-1.staged", "k=2/other.parquet")
    assert tree(folder) == {
        "a.parquet": "a.parquet", "k=1/b.parquet": "k=1/b.parquet", "k=1/new.parquet": "x", "k=2/other.parquet": "y",
    }  # fmt: skip


def test_kept_files_stay_apart(folder: Path) -> None:
    directory = open_directory(folder)
    for run, text in (("R1", b"second"), ("R2", b"third")):
        with directory.change(run) as change:
            change.keep("a.parquet")
            change.write("a.parquet", text)
    assert tree(folder / "_sources") == {"a.parquet.kept": "a.parquet", "a.parquet.R2.kept": "second"}
    assert (folder / "a.parquet").read_text() == "third"
    with directory.change("R3") as change:
        change.remove("a.parquet")
        change.restore("_sources/a.parquet.kept", "a.parquet")
    assert (folder / "a.parquet").read_text() == "a.parquet"
    assert tree(folder / "_sources") == {"a.parquet.R2.kept": "second"}


def test_an_exception_rolls_back(folder: Path) -> None:
    before = tree(folder)
    with pytest.raises(ZeroDivisionError):
        fail_inside(folder)
    assert tree(folder) == before
    assert not (folder / "k=7").exists()


def fail_inside(folder: Path) -> None:
    with open_directory(folder).change("R") as change:
        change.write("k=7/x.parquet", b"x")
        change.remove("a.parquet")
        raise ZeroDivisionError


def test_what_a_change_refuses(folder: Path) -> None:
    before = tree(folder)
    directory = open_directory(folder)

    def deny(kind: type[Exception], words: str, deed: Callable[[Any], object]) -> None:
        with pytest.raises(kind, match=words), directory.change("R") as change:
            deed(change)
        assert tree(folder) == before

    deny(AlreadyExists, "there already", lambda change: change.write("a.parquet", b"x"))
    deny(StalePlan, "has gone", lambda change: change.remove("none.parquet"))
    deny(StalePlan, "has gone", lambda change: change.keep("none.parquet"))
    deny(StalePlan, "not kept", lambda change: change.restore("_sources/none.kept", "x.parquet"))
    deny(AlreadyExists, "twice", lambda change: [change.write("x.parquet", b"x") for _ in range(2)])
    deny(InvalidInput, "twice", lambda change: [change.remove("a.parquet"), change.keep("a.parquet")])
    deny(StorageError, "never written", lambda change: change.publish(change.stage("x"), "x.parquet"))
    deny(InvalidInput, "not staged", lambda change: change.publish(str(folder / "a.parquet"), "x.parquet"))
    for name in ("../x", "/etc/x", "k=1//x", "_x.parquet", "k/.x", ""):
        deny(InvalidInput, "name", partial(write_x, name))


def write_x(name: str, change: Any) -> None:
    change.write(name, b"x")


def test_a_full_disk_leaves_the_old_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever call first finds no space: before the journal all is undone, after it the next opening ends it."""
    import shutil

    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    new = {"k=1/b.parquet": "new", "k=5/x.parquet": "x"}
    seen, number = set(), 0
    while True:
        number += 1
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        with monkeypatch.context() as patch:
            fail_at(patch, number)
            if change_something(folder):
                break
        committed = (folder / JOURNAL).exists()
        open_directory(folder)
        assert tree(folder) == (new if committed else tree(kept))
        assert not (folder / "_neve").exists()
        seen.add(committed)
    assert number > 8
    assert seen == {False, True}


def change_something(folder: Path) -> bool:
    """Whether there was space enough."""
    try:
        with open_directory(folder).change("R") as change:
            change.write("k=1/b.parquet", b"new")
            change.write("k=5/x.parquet", b"x")
            change.remove("k=1/b.parquet")
            change.remove("a.parquet")
    except StorageError as exc:
        return "No space left" not in str(exc)
    return True


def fail_at(patch: pytest.MonkeyPatch, number: int) -> None:
    left = number

    def full(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(*arguments, **more)

        return wrapped

    for name in ("fsync", "mkdir", "replace"):
        patch.setattr(os, name, full(getattr(os, name)))


def test_a_journal_of_the_future_is_left_alone(folder: Path) -> None:
    put(folder / JOURNAL, json.dumps({"version": 99}))
    before = tree(folder)
    with pytest.raises(SchemaTooNew):
        open_directory(folder)
    put(folder / JOURNAL, "{")
    with pytest.raises(StorageError, match="not a journal"):
        open_directory(folder)
    (folder / JOURNAL).write_text(json.dumps({"version": 99}))
    assert tree(folder) == before


def test_a_folder_that_was_moved_is_not_locked_by_its_old_name(tmp_path: Path, folder: Path) -> None:
    lock = FolderLock(folder, folder / "_neve", patience=0)
    with lock.reading():
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        with FolderLock(folder, folder / "_neve", patience=0).swapping():
            pass


class Bucket(RemoteStorage):
    """What an S3 folder does, on pyarrow's local filesystem: no locks, no folders, no rename."""

    def filesystem(self) -> tuple[Any, str]:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), self.location

    def write(self, path: str, content: bytes) -> None:
        put(Path(self.location) / path, content.decode())

    def move(self, source: str, target: str) -> None:
        (Path(self.location) / target).parent.mkdir(parents=True, exist_ok=True)
        super().move(source, target)


def test_a_store_without_locks(folder: Path) -> None:
    from neve.directory.locks import NoLock

    storage = Bucket(str(folder), {})
    unlocked = Directory(storage, NoLock("s3://b/d"))
    assert paths(unlocked) == ["a.parquet", "k=1/b.parquet"]
    with pytest.raises(Unsupported, match="no locks"), unlocked.change("R"):
        pass
    locked = Directory(storage, FolderLock(folder, folder / "_lock"))  # stands for a lease
    with locked.change("R") as change:
        change.write("k=1/b.parquet", b"new")
        change.remove("k=1/b.parquet")
        change.keep("a.parquet")
    assert paths(unlocked) == ["k=1/b.parquet"]
    assert tree(folder) == {"_sources/a.parquet.kept": "a.parquet", "k=1/b.parquet": "new"}
    put(
        folder / JOURNAL, json.dumps({"version": 1, "run": "X", "publish": {}, "keep": {}, "remove": ["k=1/b.parquet"]})
    )
    with pytest.raises(Unsupported):
        Directory(storage, NoLock("s3://b/d"))
    assert paths(Directory(storage, FolderLock(folder, folder / "_lock"))) == []


def test_s3_settings_reach_the_store() -> None:
    directory = RemoteStorage("s3://bucket/prefix", {"region": "eu-west-1", "endpoint_override": "127.0.0.1:1"})
    filesystem, root = directory.filesystem()
    assert root == "bucket/prefix"
    assert filesystem.region == "eu-west-1"
    assert directory.address("k=1/a.parquet") == "s3://bucket/prefix/k=1/a.parquet"
