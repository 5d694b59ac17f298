"""What a newcomer does wrong with plain folders: every mistake is one sentence, and leaves nothing behind. No Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.lakes import Cli

from neve.errors import ColumnNotFound, InvalidInput, NeveError, NotFound, Refused, StorageError, Unsupported
from neve.lake import Lake
from neve.model.directories import RowStats
from neve.model.names import TableName
from neve.model.specs import TableSpec
from neve.model.types import Field, Primitive
from neve.parquet import ParquetCompactor, ParquetCRUD, Repartitioner
from neve.plan.adopt import ADOPTED_FROM
from neve.services.changes import create_table


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


CHANGES: list[Callable[[Path, Path], Any]] = [
    lambda folder, _: ParquetCompactor(folder).compact(),
    lambda folder, _: ParquetCompactor(folder).compact(dry_run=True),
    lambda folder, _: ParquetCRUD(folder).delete("v = 1"),
    lambda folder, _: ParquetCRUD(folder).update("v = 1", {"v": 2}),
    lambda folder, _: ParquetCRUD(folder).upsert([{"k": "ä b", "v": 1}], ["v"], ["k"]),
    lambda folder, _: ParquetCRUD(folder).deduplicate(["v"]),
    lambda folder, _: ParquetCRUD(folder).repair(),
    lambda folder, _: ParquetCRUD(folder).restore(),
    lambda folder, new: Repartitioner(folder, new, ["v"]).repartition(swap_with_source=True),
    lambda folder, new: Repartitioner(folder, new, ["v"]).repartition(delete_source=True),
    lambda folder, new: Repartitioner(new.parent / "plain", folder / "x", ["v"]).repartition(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_files_of_tables_are_not_changed(folder: Path, tmp_path: Path, change: Callable[[Path, Path], Any]) -> None:
    """A table would miss what goes. Whoever only reads may."""
    shutil.copytree(folder, tmp_path / "plain")
    marks = {
        f"{folder}/_delta_log/0.json": "a table of Delta Lake.*",
        f"{folder}/.hoodie/hoodie.properties": "a table of Apache Hudi.*",
        f"{folder}/_neve_ledger.json": "a directory table in",
        f"{folder}/metadata/00000-x.metadata.json": "an Iceberg table in",
        f"{folder.parent}/metadata/v1.gz.metadata.json": "an Iceberg table in",
    }
    for mark, words in marks.items():
        place = Path(mark).parent
        place.mkdir(exist_ok=True)
        Path(mark).touch()
        with pytest.raises(Refused, match=words):
            change(folder, tmp_path / "new")
        Path(mark).unlink()
        if place not in (folder, folder.parent):
            place.rmdir()
    assert not (tmp_path / "new").exists()
    assert not (folder / "x").exists()
    (folder / "_delta_log").mkdir()
    Repartitioner(folder, tmp_path / "new", ["v"]).repartition()
    assert ParquetCompactor(folder).fragmentation()["rows"] == 6


def test_files_of_the_lakes_own_tables(
    folder: Path, tmp_path: Path, lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a folder elsewhere, for whoever is in the lake, and a folder below or above the one that a table names."""
    spec = TableSpec(name=TableName.parse("adopted"), columns=(Field("v", Primitive("long")),))
    create_table(lake._context, spec, own={ADOPTED_FROM: str(folder.resolve())})  # as `to-iceberg` does, on Spark
    (lake.root / "days.yaml").write_text("name: days\nstorage: {format: parquet, base_path: days}\n")
    lake.tables.create(str(lake.root / "days.yaml"))
    fill = Path(str(lake.tables.create("own", "v bigint").details["location"]), "elsewhere")
    for place in (lake.root / "days", fill):
        shutil.copytree(folder, place, dirs_exist_ok=True)
    (tmp_path / "link").symlink_to(folder)
    cases = {
        folder: "neve compact adopted",
        folder / "k=ä b": "neve compact adopted",
        tmp_path / "link": "neve compact adopted",
        lake.root / "days": "neve compact days",
        fill: "neve compact",
    }
    for place, words in cases.items():
        said = cli("parquet", "compact", str(place))
        assert said.code == Refused.exit_code, (place, said)
        assert words in said.err
    assert cli("parquet", "fragmentation", str(folder)).code == 0
    lake.table("adopted").drop()
    said = cli("parquet", "compact", str(folder))
    assert (said.code, "neve table undelete adopted" in said.err) == (Refused.exit_code, True), said
    lake.tables.undelete("adopted")
    lake.table("adopted").drop(force=True)
    assert cli("parquet", "compact", str(folder), "--dry-run").code == 0, "nobody can bring it back"
    monkeypatch.chdir(tmp_path)
    assert ParquetCompactor(folder).compact(dry_run=True)["files_after"] == 1


@pytest.mark.parametrize("part", ["STATE", "CATALOG"])
def test_a_lake_that_does_not_answer_keeps_nobody_from_other_folders(
    folder: Path, lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Its own folder and its warehouse may hold files of its tables, and so may the folder of a lake that was named."""
    warehouse = lake.root.parent / "warehouse"
    monkeypatch.setenv("NEVE_WAREHOUSE", str(warehouse))
    monkeypatch.setenv(f"NEVE_{part}__URI", "postgresql://127.0.0.1:1/x")
    if part == "CATALOG":
        monkeypatch.setenv("NEVE_CATALOG__TYPE", "postgresql")
    for place in (lake.root / "plain", warehouse / "plain"):
        shutil.copytree(folder, place)
        said = cli("parquet", "compact", str(place), "--dry-run")
        assert said.code == Refused.exit_code, said
        assert f"the lake in {lake.root} cannot say whether {place} holds files of its tables: cannot reach" in said.err
        assert "check that the server runs" in said.err
    assert cli("--lake", str(lake.root), "parquet", "compact", str(folder), "--dry-run").code == Refused.exit_code
    said = cli("parquet", "compact", str(folder), "--dry-run")
    assert said.code == 0, said
    assert "cannot reach" in said.err
    assert "the folder lies outside of the lake, and is changed" in said.err


@pytest.mark.parametrize("name", ["a.parquet", "a.parq", "A.PQ", "000000_0"])
def test_an_upsert_asks_whatever_the_files_are_called(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A folder that holds rows says what a column's type is: `007` is no number there."""
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"zip": ["007"]}), tmp_path / "d" / name)
    (tmp_path / "new.csv").write_text("zip\n007\n")
    given: list[Any] = []

    def upsert_rows(_: object, __: str, rows: Any, **options: Any) -> RowStats:
        given.append(rows.to_pylist())
        return RowStats(rows_inserted=len(options))

    monkeypatch.setattr("neve.services.directory_upsert.upsert_rows", upsert_rows)
    command = ("upsert", str(tmp_path / "d"), "--key", "zip", "--from", str(tmp_path / "new.csv"))
    assert cli(*command).code == Refused.exit_code
    assert given == []
    assert cli(*command, "--yes").code == 0
    assert given == [[{"zip": "007"}]]


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
