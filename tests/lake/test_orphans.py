"""Files that nothing names: what is found, and above all what is not."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.table import StaticTable
from tests.lake.lakes import V2, Cli, append, contents, facts, make
from tests.lake.test_expire import overwrite, rows, running

from neve.catalog.files import Files
from neve.errors import InvalidInput, Refused, StorageError
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.retention import OrphanReceipt

OLD = timedelta(days=10)


def age(*paths: Path | str, by: timedelta = OLD) -> None:
    moment = (datetime.now(UTC) - by).timestamp()
    for path in paths:
        os.utime(path, (moment, moment))


def folder(lake: Lake, name: str = "t") -> Path:
    return Path(facts(lake, name).location)


def age_all(lake: Lake, by: timedelta = OLD) -> None:
    """Every file of the warehouse is old, so that nothing is spared for its age."""
    age(*(path for path in (lake.root / "warehouse").rglob("*") if path.is_file()), by=by)


def stray(lake: Lake, place: str, name: str = "t", *, by: timedelta = OLD) -> str:
    path = folder(lake, name) / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    age(path, by=by)
    return str(path)


def paths(receipt: OrphanReceipt) -> list[str]:
    return [item.path for item in receipt.orphans]


@pytest.fixture
def busy(lake: Lake) -> Lake:
    """A table with everything that metadata can name: several snapshots, a tag, a branch, statistics; all of it old."""
    table = make(lake)
    first = append(lake, "t", [{"id": 0, "v": "x"}])
    overwrite(lake, 1)
    table.tag("v1", at=str(first))
    table.branch("side", at=str(first))
    table.rollback(first)
    metadata = json.loads(Path(facts(lake, "t").metadata_location).read_text())
    for key, name in (("statistics", "stats.puffin"), ("partition-statistics", "parts.parquet")):
        place = stray(lake, f"metadata/{name}")
        metadata[key] = [{"snapshot-id": first, "statistics-path": f"file://{place}", "file-size-in-bytes": 5}]
    metadata["statistics"][0] |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    Path(facts(lake, "t").metadata_location).write_text(json.dumps(metadata))
    stray(lake, "metadata/version-hint.text")
    age_all(lake)
    return lake


def test_what_something_names_is_no_orphan(busy: Lake) -> None:
    found = busy.table("t").orphans()
    assert (found.orphans, found.files, found.reason and found.reason.code) == ([], 0, "nothing_to_do")
    assert (found.young, found.unknown_age, found.others) == (0, 0, 0), "nothing was spared but for its name"


def test_listed_first_and_removed_when_asked(busy: Lake) -> None:
    table = busy.table("t")
    loose = sorted([
        stray(busy, "data/left.parquet"),
        stray(busy, "data/.left.parquet.crc"),
        stray(busy, "data/v=a%3Ab/ü left.parquet"),
        stray(busy, "metadata/09999-lost.metadata.json"),
    ])  # fmt: skip
    young = stray(busy, "data/young.parquet", by=timedelta(days=6))
    before = contents(busy, runs=False)
    found = table.orphans()
    assert (paths(found), found.files, found.bytes, found.young) == (loose, 4, 20, 1)
    assert [item.kind for item in found.orphans] == ["data", "data", "data", "metadata"]
    assert (found.run_id, found.removed, found.dry_run) == (None, 0, True)
    same = contents(busy, runs=False)
    same.pop(".metadata.db:orphan_scans")
    before.pop(".metadata.db:orphan_scans")
    assert same == before, "only that it looked is remembered"
    assert table.orphans(delete=True, dry_run=True).model_copy(update={"duration_ms": 0}) == found.model_copy(
        update={"duration_ms": 0}
    )
    done = table.orphans(delete=True)
    assert (paths(done), done.removed, done.dry_run) == (loose, 4, False)
    assert not any(Path(path).exists() for path in loose)
    assert Path(young).exists()
    assert rows(busy) == [0]
    assert busy.runs.show(done.run_id or "").result == {"files_removed": 4, "bytes_found": 20}
    assert table.orphans(delete=True).run_id is None


def test_where_it_does_not_look_is_told(busy: Lake, cli: Cli, tmp_path: Path) -> None:
    outside, inside = str(tmp_path / "data"), str(folder(busy) / "data")
    busy.table("t").set({"write.data.path": outside, "write.metadata.path": inside})
    age_all(busy)
    assert busy.table("t").orphans().elsewhere == [outside]
    assert f"not looked through: {outside}" in cli("orphans", "t").out


def test_age_is_honoured(busy: Lake) -> None:
    table = busy.table("t")
    two_days = stray(busy, "data/two.parquet", by=timedelta(days=2))
    nine = stray(busy, "data/nine.parquet", by=timedelta(days=9))
    assert paths(table.orphans()) == [nine]
    assert paths(table.orphans(older_than="24h")) == sorted([two_days, nine])
    assert paths(table.orphans(older_than=timedelta(days=9, hours=1))) == []
    with pytest.raises(InvalidInput, match="never taken for orphans"):
        table.orphans(older_than="23h59m")


def test_nothing_of_work_that_has_not_ended(busy: Lake) -> None:
    loose = stray(busy, "data/left.parquet")
    began = datetime.now(UTC) - timedelta(days=11)
    run = running(busy, table_name="t", kind="ingest", started_at=began)
    busy._context.store.runs.start(run)
    assert (paths(busy.table("t").orphans()), busy.table("t").orphans().young) == ([], 1)
    busy._context.store.runs.finish(run.run_id, state="failed", finished_at=datetime.now(UTC))
    assert paths(busy.table("t").orphans()) == [loose]


def test_what_health_shows(busy: Lake, cli: Cli) -> None:
    table = busy.table("t")
    assert (table.health().orphans_scanned_at, table.health().orphan_files) == (None, None)
    stray(busy, "data/left.parquet")
    table.orphans()
    found = table.health()
    assert found.orphans_scanned_at is not None
    assert datetime.now(UTC) - found.orphans_scanned_at < timedelta(minutes=1)
    assert (found.orphan_files, found.orphan_bytes) == (1, 5)
    assert "1 files (5 B) on 20" in cli("table", "health", "t").out
    table.orphans(delete=True)
    assert (table.health().orphan_files, table.health().orphan_bytes) == (0, 0)
    table.rename("u")
    assert busy.table("u").health().orphan_files == 0
    busy.table("u").drop(force=True)
    assert busy._context.store.scans.get(found.table) is None


# ---------------------------------------------------------------------------------------- what belongs to somebody else


def clone(lake: Lake, name: str, location: Path) -> None:
    """Another table that lies in a folder of our choice, with old files."""
    lake.tables.create(name, "id bigint, v string", properties=V2)
    own = folder(lake, name)
    metadata = Path(facts(lake, name).metadata_location)
    target = location / "metadata" / metadata.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(metadata.read_text().replace(str(own), str(location)))
    catalog = lake._context.catalog
    catalog.drop(TableName.parse(name))
    catalog.register(TableName.parse(name), str(target))
    shutil.rmtree(own)
    append(lake, name, [{"id": 7, "v": "x"}])
    age_all(lake)


@pytest.mark.parametrize("place", ["inner", "data/inner", ".", ".."])
def test_tables_within_around_and_in_the_same_folder(busy: Lake, place: str) -> None:
    """By DESIGN: a renamed table that shared its folder with a new one was destroyed by another tool."""
    clone(busy, "other", Path(os.path.normpath(folder(busy) / place)))
    loose = stray(busy, "data/left.parquet")
    found = busy.table("t").orphans(delete=True)
    assert paths(found) == [loose]
    assert (rows(busy, "t"), rows(busy, "other")) == ([0], [7])
    assert StaticTable.from_metadata(facts(busy, "other").metadata_location).scan().to_arrow().num_rows == 1
    busy.table("other").drop()
    assert busy.table("t").orphans().files == 0, "what is in the trash may come back"
    busy.tables.undelete("other")
    assert rows(busy, "other") == [7]


def test_loose_files_of_a_table_within_are_its_own(busy: Lake) -> None:
    clone(busy, "other", folder(busy) / "inner")
    stray(busy, "inner/data/left.parquet")
    found = busy.table("t").orphans()
    assert (found.files, found.others) == (0, 1)


def test_a_neighbour_that_cannot_be_read_stops_it(busy: Lake) -> None:
    clone(busy, "other", folder(busy) / "inner")
    stray(busy, "data/left.parquet")
    Path(facts(busy, "other").metadata_location).write_text("{")
    with pytest.raises(Refused, match=r"default\.other has files in the same folder"):
        busy.table("t").orphans()


def test_a_plain_folder_within(busy: Lake) -> None:
    """None can be made there, but one that was there before may be registered around."""
    described = busy.root / "days.yaml"
    described.write_text("name: days\nstorage: {format: parquet, base_path: days}\n")
    busy.tables.create(str(described))
    place = str(folder(busy) / "days")
    busy._context.store._database.write("UPDATE table_registry SET base_path = ? WHERE table_name = 'days'", place)
    stray(busy, "days/2024-01-01.parquet")
    assert busy.table("t").orphans().files == 0


def test_what_is_refused(busy: Lake, tmp_path: Path) -> None:
    table = busy.table("t")
    table.set({"gc.enabled": "false"})
    with pytest.raises(Refused, match="its files may not be its own"):
        table.orphans()
    make(busy, "far")
    outside = tmp_path / "outside"
    shutil.copytree(folder(busy, "far"), outside)
    metadata = outside / "metadata" / Path(facts(busy, "far").metadata_location).name
    metadata.write_text(metadata.read_text().replace(str(folder(busy, "far")), str(outside)))
    busy.table("far").drop(force=True)
    busy.tables.register("far", str(metadata))
    (outside / "somebody.txt").write_text("x")
    age(outside / "somebody.txt")
    assert busy.table("far").orphans().files == 1
    with pytest.raises(Refused, match="which this lake did not make"):
        busy.table("far").orphans(delete=True)


def test_a_warehouse_behind_a_link(tmp_path: Path) -> None:
    """Metadata names its files by one path, and they are listed by another."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Lake.create(tmp_path / "link" / "lake") as lake:
        make(lake, rows=2)
        age_all(lake)
    with Lake(tmp_path / "real" / "lake") as lake:
        assert lake.table("t").orphans().files == 0
        loose = stray(lake, "data/left.parquet")
        assert [Path(path).name for path in paths(lake.table("t").orphans())] == [Path(loose).name]
        assert len(rows(lake)) == 2


# ---------------------------------------------------------------------------------------------- where orphans come from


def test_what_a_lost_commit_and_old_metadata_leave_is_found(busy: Lake) -> None:
    """Spark's JDBC catalog leaves the metadata file of a loser; logs of metadata drop their oldest."""
    table = busy.table("t")
    lost = folder(busy) / "metadata" / "00099-loser.metadata.json"
    shutil.copy(facts(busy, "t").metadata_location, lost)
    own = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "false"}
    table.set(own)
    table.set({"owner": "me"})
    vectors = stray(busy, "metadata/0123-vectors.puffin")
    age_all(busy)
    log = json.loads(Path(facts(busy, "t").metadata_location).read_text())["metadata-log"]
    kept = {entry["metadata-file"] for entry in log} | {facts(busy, "t").metadata_location}
    off = {str(path) for path in (folder(busy) / "metadata").glob("*.metadata.json")} - kept
    found = table.orphans(delete=True)
    assert set(paths(found)) == {vectors, *off}
    assert str(lost) in off
    assert len(off) > 2
    assert rows(busy) == [0]


def test_what_a_dead_expiry_leaves_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(lake)
    append(lake, "t", [{"id": 0, "v": "x"}])
    overwrite(lake, 1)
    planned = table.expire(older_than="0", dry_run=True)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "remove_all", lambda _, locations: list(locations))  # as if it died before
        assert table.expire(older_than="0").files_removed == 0
    age_all(lake)
    found = table.orphans(delete=True)
    assert found.removed >= planned.files_removed > 0
    assert rows(lake) == [1]


def test_a_commit_that_comes_while_we_look(busy: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is old and loose when it is listed, and named before it would go."""
    catalog, todo = busy._context.catalog, [1]
    loose = stray(busy, "metadata/late.puffin")
    read = catalog.named_files

    def names_it_after(*arguments: object) -> list[str]:
        found = read(*arguments)  # type: ignore[arg-type]
        if todo:
            todo.pop()
            path = Path(facts(busy, "t").metadata_location)
            metadata = json.loads(path.read_text())
            metadata["partition-statistics"].append(
                {"snapshot-id": metadata["snapshots"][-1]["snapshot-id"], "statistics-path": loose}
            )
            later = path.with_name("99999-late.metadata.json")
            later.write_text(json.dumps(metadata))
            name = TableName.parse("t")
            assert catalog._backend._rows.replace(name, expected=str(path), location=str(later))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(catalog, "named_files", names_it_after)
    found = busy.table("t").orphans(delete=True)
    assert loose not in paths(found)
    assert Path(loose).exists()


def test_a_table_that_lacks_a_file_is_left_alone(busy: Lake) -> None:
    """Paths that cannot be compared look the same: what is named is not listed."""
    stray(busy, "data/left.parquet")
    Path(busy.table("t").files()[0].path).unlink()
    with pytest.raises(StorageError, match="or it is damaged"):
        busy.table("t").orphans(delete=True)


def test_a_log_may_name_metadata_that_is_gone(busy: Lake) -> None:
    log = json.loads(Path(facts(busy, "t").metadata_location).read_text())["metadata-log"]
    Path(log[0]["metadata-file"]).unlink()
    assert busy.table("t").orphans().files == 0


def test_a_file_that_cannot_be_removed_is_told(busy: Lake) -> None:
    loose = stray(busy, "data/left.parquet")
    Path(loose).unlink()
    Path(loose).mkdir()
    (Path(loose) / "x").write_text("x")
    age(Path(loose) / "x")
    found = busy.table("t").orphans(delete=True)
    assert (found.removed, found.files_left) == (1, [])


# ---------------------------------------------------------------------------------------------------- S3, by pyarrow


def test_object_stores_are_listed_by_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "bucket/t/data").mkdir(parents=True)
    (tmp_path / "bucket/t/data/a b.parquet").write_bytes(b"123")
    (tmp_path / "bucket/t2").mkdir()
    (tmp_path / "bucket/t2/other").write_bytes(b"1")
    files = Files()
    files.__dict__["_s3"] = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    (found,) = files.listing("s3a://bucket/t/")
    assert (found.path, found.bytes) == ("s3://bucket/t/data/a b.parquet", 3)
    assert found.modified_at is not None
    assert found.modified_at.tzinfo is not None
    assert files.size("s3://bucket/t/data/a b.parquet") == 3
    assert files.inside("s3://bucket/t")("s3a://bucket/t/data/x")
    assert not files.inside("s3://bucket/t")("s3://bucket/t2/x")
    assert list(files.listing("s3://bucket/none")) == []
    assert files.remove_all([found.path, "s3://bucket/t/none"]) == []
    assert list(files.listing("s3://bucket/t")) == []


# --------------------------------------------------------------------------------------------------- the command line


def test_the_command_line(busy: Lake, cli: Cli) -> None:
    loose = stray(busy, "data/left.parquet")
    said = cli("orphans", "t")
    assert said.code == 0
    assert "data/left.parquet" in said.out
    assert "default.t has 1 files (5 B) that nothing names, older than 7d" in said.out
    assert "remove them: neve orphans t --delete" in said.out
    refused = cli("orphans", "t", "--delete")
    assert (refused.code, "data/left.parquet" in refused.err, "--yes" in refused.err) == (6, True, True)
    assert Path(loose).exists()
    assert cli("orphans", "t", "--delete", "--dry-run").code == 0
    assert Path(loose).exists()
    done = cli("table", "orphans", "t", "--delete", "--yes", "-o", "json")
    assert (json.loads(done.out)["removed"], Path(loose).exists()) == (1, False)
    assert "= nothing to do for default.t" in cli("orphans", "t").out
    assert cli("orphans", "t", "--older-than", "1h").code == 2
    assert cli("orphans").code == cli("orphans", "t", "--all").code == 2
    assert cli("orphans", "tt").code == 3


def test_everything_at_once(busy: Lake, cli: Cli) -> None:
    loose = stray(busy, "data/left.parquet")
    make(busy, "broken")
    Path(facts(busy, "broken").metadata_location).write_text("{")
    make(busy, "kept", rows=1)
    make(busy, "trashed", rows=1)
    trashed = folder(busy, "trashed")
    busy.table("trashed").drop()
    nobody = busy.root / "warehouse" / "nobody"
    nobody.mkdir()
    (nobody / "x.parquet").write_bytes(b"1")
    age_all(busy)
    answers = busy.orphans(delete=True)
    assert [(answer.table, answer.files, answer.removed) for answer in answers] == [
        ("default.broken", 0, 0),
        ("default.kept", 0, 0),
        ("default.t", 1, 1),
        ("", 1, 0),
    ]
    assert answers[0].reason is not None
    assert answers[-1].location == str(nobody)
    assert (nobody / "x.parquet").exists(), "folders that belong to no table are only listed"
    assert not Path(loose).exists()
    assert trashed.exists()
    said = cli("orphans", "--all")
    assert f"{nobody} belongs to no table: 1 files (1 B)" in said.out
    assert [row["table"] for row in json.loads(cli("orphans", "--all", "-o", "json").out)] == [
        "default.broken", "default.kept", "default.t", "",
    ]  # fmt: skip
