"""Folders of data files for tests: their content, and other processes that change them and die at a given moment."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neve.directory import open_directory
from neve.directory.backups import Backups

KILLED = -signal.SIGKILL
_EFFECTS = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.lake.folders", "neve.parquet", "neve.engine.splitting", "pyarrow.parquet"])

Deed = Callable[[str], None]


def content(folder: Path) -> dict[str, str]:
    """What a reader sees who knows nothing of Névé: everything that `**/*` patterns for data files find."""
    return {
        file.relative_to(folder).as_posix(): file.read_text()
        for ending in ("parquet", "csv")
        for file in sorted(folder.rglob(f"*.{ending}"))
    }


def leftovers(folder: Path) -> list[str]:
    """Whatever of a change is still there."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("_neve*"))


def kill_at(effects: int, deed: Deed, folder: Path) -> int:
    """Does a deed in a new process that dies at its nth effect; how it ended: 0, or KILLED."""
    process = _processes.Process(target=_do_and_die, args=(effects, deed, str(folder)))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def start(deed: Deed, folder: Path | str) -> Any:
    """A deed in a process of its own, running."""
    process = _processes.Process(target=deed, args=(str(folder),))
    process.start()
    return process


def _do_and_die(effects: int, deed: Deed, folder: str) -> None:
    die_at(effects)
    deed(folder)


def die_at(effects: int) -> None:
    """Makes this process die right before its nth effect from now: whatever the outside can see of it."""
    left = effects

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)

        return wrapped

    for name in _EFFECTS:
        setattr(os, name, before(getattr(os, name)))


# ---------------------------------------------------------------------------------------------------------------- deeds


def put(path: str, text: str) -> None:
    Path(path).write_text(text)


def replace_and_add(folder: str) -> None:
    """One file gets new content, one comes in a new partition, one goes with its partition, one is kept aside."""
    with open_directory(folder).change("R1") as change:
        for name, text in {"k=1/a.parquet": "a2", "k=3/c.parquet": "c1"}.items():
            staged = change.stage(name)
            put(staged, text)
            change.publish(staged, name)
        change.remove("k=1/a.parquet")
        change.remove("k=2/b.parquet")
        change.keep("k=1/d.parquet")


def compact_and_keep(folder: str) -> None:
    """Three files become one that takes the name of the first; all three are kept."""
    with open_directory(folder).change("R2") as change:
        staged = change.stage("k=1/a.parquet")
        put(staged, "a1+d1+b1")
        change.publish(staged, "k=1/a.parquet")
        for name in ("k=1/a.parquet", "k=1/d.parquet", "k=2/b.parquet"):
            change.keep(name)


def only_remove(folder: str) -> None:
    with open_directory(folder).change("R3") as change:
        change.remove("k=1/a.parquet")


def remove_with_a_backup(folder: str) -> None:
    """The backup lies beside the folder."""
    directory = open_directory(folder)
    with directory.change("R4") as change:
        change.remove("k=1/a.parquet")
        backups = Backups(directory, f"{folder}.backups")
        backups.make(change, action="delete", replaced=["k=1/a.parquet"], now=datetime(2024, 1, 1, tzinfo=UTC))


def remove_with_a_backup_inside(folder: str) -> None:
    directory = open_directory(folder)
    with directory.change("R5") as change:
        change.remove("k=1/a.parquet")
        Backups(directory).make(
            change, action="delete", replaced=["k=1/a.parquet"], now=datetime(2024, 1, 1, tzinfo=UTC)
        )


def just_open(folder: str) -> None:
    open_directory(folder)


def compact(folder: str) -> None:
    """The public door, on files whose row groups are copied: no Spark."""
    from neve.parquet import ParquetCompactor

    ParquetCompactor(folder).compact(delete_source_files=False)


def compact_with_few_open_files(folder: str) -> None:
    """All files into one, also by copying small row groups."""
    from neve.parquet import ParquetCompactor
    from neve.services import directory_copies

    vars(directory_copies)["MIN_ROW_GROUP_BYTES"] = 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    ParquetCompactor(folder).compact(target_file_count=1)


def repartition(folder: str) -> None:
    """The public door, in two parts and with a swap at the end: no Spark."""
    from neve.parquet import Repartitioner

    work = Repartitioner(f"{folder}/old", f"{folder}/new", ["k"])
    object.__setattr__(work._request, "chunk_mb", 1 / 2**20)  # one byte: every file is a part
    work.repartition(swap_with_source=True)


def hold(folder: str) -> None:
    """Changes a folder so slowly that only a kill ends it."""
    with open_directory(folder).change("SLOW") as change:
        put(change.stage("k=9/z.parquet"), "half")
        Path(folder, "_ready").touch()
        signal.pause()


def append_mine(folder: str) -> None:
    """Twenty changes, each of which adds one to the number in a file: a lost change would show."""
    directory = open_directory(folder)
    for number in range(20):
        with directory.change(f"{os.getpid()}-{number}", patience=60) as change:
            staged = change.stage("n.csv")
            put(staged, str(int(Path(folder, "n.csv").read_text()) + 1))
            change.remove("n.csv")
            change.publish(staged, "n.csv")
