"""Work on a plain folder inside a lake: a run of the lake, with a bar for a person at a terminal. No JVM."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake import folders

from neve.cli import options
from neve.directory import open_directory
from neve.directory.backups import Backups
from neve.directory.storage import LocalStorage
from neve.errors import AlreadyExists
from neve.lake import Lake
from neve.model.directories import RowStats
from neve.parquet import ParquetCompactor, ParquetCRUD
from neve.services import directory_rows
from neve.services.directories import Workplace, workplace_for
from neve.services.directory_compaction import CompactRequest, compact_files
from neve.services.directory_rows import How, change_rows


def fill(folder: Path, codec: str = "zstd") -> None:
    """Two files with a row group of more than 1 MB each: they are copied, and need no Spark."""
    folder.mkdir(parents=True)
    for number in range(2):
        values = pa.array(memoryview(random.Random(number).randbytes(8 * 150_000)).cast("q"), pa.int64())
        pq.write_table(pa.table({"v": values}), folder / f"{number}.parquet", compression=codec)


def test_a_run_and_a_bar(lake: Lake) -> None:
    folder = lake.root / "landing" / "t"
    fill(folder)
    told: list[str] = []
    work = workplace_for(str(folder), tell=told.append)
    stats = compact_files(work, str(folder), CompactRequest(target_file_size_mb=100))
    assert (stats.files_before, stats.files_after, stats.rows) == (2, 1, 300_000)
    assert any(re.search(r"█{20} (\S+ MB) of \1…$", line) for line in told)
    assert not told[-1].endswith("…")  # a last line of its own, which nothing is drawn over
    run = lake.runs.show(str(stats.run_id))
    assert (run.kind, run.state, (run.plan or {})["directory"]) == ("parquet compact", "succeeded", str(folder))
    assert (run.result or {})["files_after"] == 1


def test_a_folder_elsewhere_is_nobodys_run(lake: Lake, tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere")
    assert ParquetCompactor(tmp_path / "elsewhere").compact()["files_after"] == 1
    assert lake.runs.list(kind="parquet compact") == []


def test_only_a_terminal_gets_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    options.tell("half…")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    options.tell("half…")
    options.tell("whole")
    assert capsys.readouterr().err == "\r\033[Khalf…\r\033[Kwhole\n"


def test_row_groups_of_any_codec_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("neve.services.directories.Workplace.spark")
    for codec in ("zstd", "snappy", "gzip", "lz4", "none"):
        fill(tmp_path / codec, codec)
        assert ParquetCompactor(tmp_path / codec, compression=codec).compact()["files_after"] == 1


def test_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    for number in range(200):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number:03}.parquet", compression="zstd")
    process = folders.start(folders.compact_with_few_open_files, tmp_path)
    process.join()
    assert process.exitcode == 0
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_table(file)["id"].to_pylist() == list(range(200))


def test_ctrl_c_after_a_change_leaves_its_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change has happened as soon as its journal is there; what comes then only clears up."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")

    def carry_out(_: object, change: Any, *, codec: str) -> RowStats:
        change.remove("a.parquet")
        return RowStats(files_deleted=len(codec))

    def interrupted(storage: LocalStorage, folder: str) -> None:
        if list(storage.root.glob(f"{folder}/*/trash/*")):
            raise KeyboardInterrupt
        clear(storage, folder)

    clear = LocalStorage.clear
    monkeypatch.setattr(directory_rows, "_carry_out", carry_out)
    monkeypatch.setattr(directory_rows, "_prepared", lambda *_, **__: None)
    monkeypatch.setattr(LocalStorage, "clear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        change_rows(Workplace(), str(tmp_path), "parquet delete", lambda _: None, how=How(), plan={})  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(LocalStorage, "clear", clear)
    crud = ParquetCRUD(tmp_path)
    assert not (tmp_path / "a.parquet").exists()
    assert len(crud.backups()) == 1
    crud.restore()
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"id": 1}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet"]


def test_backups_of_a_folder_that_goes_by_another_name(tmp_path: Path) -> None:
    """It was moved, or is reached by a link. A place of its own tells folders apart, by where they really are."""
    folder, place = tmp_path / "d", tmp_path / "backups"
    (tmp_path / "link").symlink_to(folder)
    for number, at in enumerate((None, place)):
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
        directory = open_directory(folder)
        with directory.change(f"R{number}") as change:
            change.remove("a.parquet")
            backups = Backups(directory, at)
            backups.make(change, action="delete", replaced=["a.parquet"], now=datetime(2024, 1, 1, tzinfo=UTC))
        if at is None:
            folder.rename(tmp_path / "moved")
        crud = ParquetCRUD(tmp_path / ("moved" if at is None else "link"), backup_dir=at)
        assert [backup.run_id for backup in crud.backups()] == [f"R{number}"]
        crud.restore()
        assert crud.backups() == []
    assert (folder / "a.parquet").exists()
    assert (tmp_path / "moved/a.parquet").exists()


def test_a_backup_that_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    (tmp_path / "_backups/R").mkdir(parents=True)
    (tmp_path / "_backups/R/backup.json").touch()
    with pytest.raises(AlreadyExists, match="a backup of run R"):
        remove_as_run_r(tmp_path)
    assert (tmp_path / "_backups/R/backup.json").exists()
    assert (tmp_path / "a.parquet").exists()


def remove_as_run_r(folder: Path) -> None:
    directory = open_directory(folder)
    with directory.change("R") as change:
        change.remove("a.parquet")
        Backups(directory).make(change, action="delete", replaced=[], now=datetime(2024, 1, 1, tzinfo=UTC))
