"""What a newcomer does wrong with plain folders: every mistake is one sentence, and leaves nothing behind. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.lakes import Cli

from neve.errors import ColumnNotFound, InvalidInput, NeveError, NotFound, Refused, StorageError, Unsupported
from neve.lake import Lake
from neve.parquet import ParquetCompactor, ParquetCRUD, Repartitioner


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "größe 東/k=ä b"
    place.mkdir(parents=True)
    for name in ("ü", "ö"):
        pq.write_table(pa.table({"k": ["ä b"] * 3, "v": [1, 2, 3]}), place / f"{name}.parquet")
    return place.parent


DOORS: list[Callable[[Path, Path], Any]] = [
    lambda folder, _: ParquetCompactor(folder).compact(dry_run=True),
    lambda folder, _: ParquetCompactor(folder).fragmentation(),
    lambda folder, new: Repartitioner(folder, new, ["v"]).repartition(),
    lambda folder, _: ParquetCRUD(folder).delete("v = 1"),
    lambda folder, _: ParquetCRUD(folder).restore(),
]


@pytest.mark.parametrize("door", DOORS)
def test_folders_that_are_none(tmp_path: Path, door: Callable[[Path, Path], Any]) -> None:
    for name in ("text", "cut", "nothing"):
        (tmp_path / name).mkdir()
    (tmp_path / "text/x.parquet").write_text("hello")
    pq.write_table(pa.table({"v": [1]}), tmp_path / "whole.parquet")
    (tmp_path / "cut/x.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:-20])
    (tmp_path / "nothing/x.parquet").touch()
    cases: dict[str, tuple[type[NeveError], str]] = {
        "missing": (NotFound, "no folder"),
        "whole.parquet": (NotFound, "is a file, not a folder"),
        "text": (Refused, r"x\.parquet is not a readable Parquet file"),
        "cut": (Refused, r"x\.parquet is not a readable Parquet file"),
        "nothing": (Refused, r"x\.parquet is not a readable Parquet file"),
    }
    for name, (kind, words) in cases.items():
        restores = door is DOORS[-1] and kind is Refused  # what files hold does not matter to it
        with pytest.raises(NotFound if restores else kind, match="no backup last" if restores else words):
            door(tmp_path / name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("place", ["s3://bucket/x", "gs://bucket/x"])
def test_other_stores_are_refused_and_no_folder_of_such_a_name_is_made(
    folder: Path, place: str, tmp_path: Path, lake: Lake, cli: Cli
) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: ParquetCompactor(place).compact(),
        lambda: ParquetCompactor(place).fragmentation(),
        lambda: ParquetCRUD(place).delete("v = 1"),
        lambda: ParquetCRUD(place).restore(),
        lambda: ParquetCRUD(folder, backup_dir=place).delete("v = 1"),
        lambda: Repartitioner(place, tmp_path / "new", ["v"]).repartition(),
        lambda: Repartitioner(folder, place, ["v"]).repartition(),
        lambda: Repartitioner(folder, place, ["v"]).repartition(dry_run=True),
    ]
    for call in calls:
        with pytest.raises(Unsupported, match=f"{place}: .* local disks only"):
            call()
    commands = [
        ["parquet", "compact", place],
        ["parquet", "repartition", str(folder), place, "--by", "v"],
        ["delete", place, "--where", "v = 1", "--yes"],
        ["delete", str(folder), "--where", "v = 1", "--yes", "--backup-dir", place],
    ]
    for command in commands:
        found = cli(*command)
        assert (found.code, found.out) == (Unsupported.exit_code, "")
        assert place in found.err
        assert "local disks only" in found.err
    for here in (tmp_path, lake.root):
        assert not list(here.glob("*:*"))


def test_a_refused_repartition_leaves_no_folder(folder: Path, tmp_path: Path) -> None:
    cases: list[tuple[list[str], type[NeveError], str]] = [
        (["nope"], ColumnNotFound, "no column nope"),
        (["v", "v"], InvalidInput, "names a column twice"),
    ]
    for columns, kind, words in cases:
        with pytest.raises(kind, match=words):
            Repartitioner(folder, tmp_path / "new", columns).repartition()
        assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(ColumnNotFound):
        Repartitioner(folder, tmp_path / "mine", ["nope"]).repartition()
    assert (tmp_path / "mine").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises((NotFound, StorageError), match="file"):
        Repartitioner(folder, tmp_path / "file", ["v"]).repartition()


def test_folders_without_rows(tmp_path: Path) -> None:
    """Nothing to do is no mistake."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/readme.txt").write_text("no data")
    (tmp_path / "zero").mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"k": pa.array([], pa.string())}), tmp_path / f"zero/{name}.parquet")
    for name in ("empty", "other", "zero"):
        assert ParquetCompactor(tmp_path / name).fragmentation()["rows"] == 0
        assert ParquetCompactor(tmp_path / name).compact(dry_run=True)["rows"] == 0
        stats = Repartitioner(tmp_path / name, tmp_path / f"new {name}", ["k"] if name == "zero" else []).repartition()
        assert (stats["records_written"], stats["partitions_created"]) == (0, 0)


def test_paths_beyond_ascii(folder: Path, tmp_path: Path) -> None:
    Repartitioner(folder, tmp_path / "neu ✓", ["v", "k"]).repartition()
    found = [path.relative_to(tmp_path / "neu ✓").parent.as_posix() for path in (tmp_path / "neu ✓").rglob("*.parquet")]
    assert sorted(found) == [f"v={number}/k=ä b" for number in (1, 2, 3)]
