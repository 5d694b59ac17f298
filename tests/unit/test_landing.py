"""Looking at files without opening them, by whatever file system."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from neve.catalog import Files
from neve.errors import NotFound
from neve.services.landing import find_paths, look_at, look_into

NAMES = ["a.csv", "b/c.csv", "b/d.csv.part", ".hidden.csv", "_started/e.csv", "b/.f.csv", "g.csv._COPYING_", "h.csv~"]
WHEN = datetime(2024, 1, 31, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bucket's folder, on this machine."""
    place = tmp_path / "bucket" / "landing"
    for number, name in enumerate(NAMES):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * number)
        os.utime(path, ns=(0, round(WHEN.timestamp() * 1e6) * 1000 + 789))
    return place


@pytest.fixture
def remote(tmp_path: Path) -> Files:
    """Another pyarrow file system in place of S3's."""
    files = Files()
    files.__dict__["_s3"] = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    return files


def test_a_local_and_a_remote_folder_look_the_same(folder: Path, remote: Files) -> None:
    local = [
        (file.path.removeprefix(f"{folder}/"), file.bytes, file.modified_at) for file in look_into(str(folder), remote)
    ]
    assert local == [("a.csv", 0, WHEN), ("b/c.csv", 1, WHEN)]
    for spelling in ("s3://bucket/landing", "s3://bucket/landing/"):
        found = look_into(spelling, remote)
        assert [
            (file.path.removeprefix("s3://bucket/landing/"), file.bytes, file.modified_at) for file in found
        ] == local
        assert look_at([file.path for file in found], remote) == found
    assert look_into("s3://bucket/nothing", remote) == []


def test_files_of_both_kinds_in_one_look(folder: Path, remote: Files) -> None:
    found = look_at(["s3://bucket/landing/a.csv", str(folder / "b/c.csv")], remote)
    assert {(file.path, file.bytes) for file in found} == {
        ("s3://bucket/landing/a.csv", 0),
        (str(folder / "b" / "c.csv"), 1),
    }


def test_what_is_not_there_is_said(folder: Path, remote: Files) -> None:
    for path in (str(folder / "nope.csv"), "s3://bucket/landing/nope.csv"):
        with pytest.raises(NotFound, match=r"nope\.csv"):
            look_at([path], remote)
    with pytest.raises(NotFound, match="no such folder"):
        look_into(str(folder / "a.csv"), remote)


def test_a_file_has_one_path_however_it_is_spelled(folder: Path, remote: Files) -> None:
    (folder.parent / "link").symlink_to(folder)
    spellings = [
        f"{folder}/b/../a.csv",
        f"{folder}/../link/a.csv",
        f"{folder.parent}/link/a.*",
        f"{folder}/b/../?.csv",
        f"file://{folder}/b/../a.csv",
    ]
    for spelling in spellings:
        assert find_paths([spelling, f"{folder}/a.csv"], remote) == [f"{folder}/a.csv"]
    assert find_paths([f"{folder}/b/..", f"{folder.parent}/link"], remote) == [
        *(f"{folder}/a.csv", f"{folder}/b/c.csv", f"{folder}/b/d.csv.part", f"{folder}/g.csv._COPYING_"),
        f"{folder}/h.csv~",
    ]
