"""Health of real tables and of the whole lake: metadata alone, and through every door."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fastavro
import pytest
from pyiceberg.manifest import DataFileContent
from tests.lake.dynamic import declare, fill
from tests.lake.lakes import V2, Cli, append, append_files, contents, facts, make, put_properties

from neve.catalog.files import Files
from neve.lake import Lake, LakeTable
from neve.model.health import StatusRow
from neve.model.names import TableName
from neve.plan.health import command_for
from neve.services.specs import alterations_from_words


def compacting(table: str) -> str:
    return command_for("compact", TableName.parse(table))


@pytest.fixture(autouse=True)
def no_spark(lake: Lake) -> Iterator[None]:
    yield
    assert "session" not in lake._context.__dict__


@pytest.fixture
def crowded(lake: Lake) -> LakeTable:
    """A table with more small files than is good for it, in three partitions."""
    lake.tables.create("crowd", "id bigint, v string", partition_by=["v"], properties=V2)
    append_files(lake, "crowd", [{"v": "abc"[number % 3]} for number in range(150)])
    return lake.table("crowd")


def list_without_manifests() -> bytes:
    """An Avro file of records that are no manifests."""
    stream = io.BytesIO()
    fastavro.writer(stream, {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, [{"a": 1}])
    return stream.getvalue()


def status(lake: Lake) -> dict[str, StatusRow]:
    return {row.table.removeprefix("default."): row for row in lake.status()}


def test_a_new_table_is_healthy(lake: Lake, cli: Cli) -> None:
    found = make(lake).health()
    assert (found.score, found.state, found.files, found.snapshots, found.manifests) == (100, "healthy", 0, 0, 0)
    assert found.metadata_bytes == Path(facts(lake, "t").metadata_location).stat().st_size
    assert (found.action, found.freshness, found.orphans_scanned_at) == (None, None, None)
    said = cli("table", "health", "t")
    assert "score          100 of 100, healthy" in said.out
    assert "never scanned" in said.out
    assert "Helps most" not in said.out


def test_what_is_counted_is_what_is_there(lake: Lake) -> None:
    table = make(lake)
    for number in range(5):
        append(lake, "t", [{"id": number, "v": "x"}])
    found, files = table.health(), table.files()
    assert (found.files, found.small_files, found.snapshots, found.manifests) == (5, 5, 5, 5)
    assert found.bytes == sum(file.bytes for file in files) == sum(item.bytes for item in found.histogram)
    folder = Path(facts(lake, "t").location) / "metadata"
    assert found.manifest_bytes == sum(path.stat().st_size for path in folder.glob("*-m*.avro"))
    assert found.writes is not None
    assert (found.writes.last_hour, found.writes.last_day, found.writes.per_day) == (5, 5, 5)
    assert [item.reason.code for item in found.deductions] == ["small_files"]
    assert found.action is not None
    assert found.action.command == compacting("t")
    lake._context.clock = lambda: datetime.now(UTC) + timedelta(days=10)
    later = table.health().writes
    assert later is not None
    assert (later.last_day, later.per_day) == (0, 0.5)


def test_small_is_what_compaction_would_take(lake: Lake) -> None:
    table = make(lake, rows=3)
    assert table.health().small_below == 64 * 1024**2
    table.set({"write.target-file-size-bytes": "100"})
    found = table.health()
    assert (found.small_below, found.small_files) == (75, 0)


@pytest.mark.parametrize("target", ["0", "-1", "many", ""])
def test_a_target_size_that_is_none_is_the_lakes(lake: Lake, target: str) -> None:
    table = make(lake)
    append_files(lake, "t", [{}] * 9, rows=100)
    append_files(lake, "t", [{}], rows=900, content=DataFileContent.POSITION_DELETES)
    expected = table.health()
    put_properties(lake, "t", {"write.target-file-size-bytes": target})
    found = table.health()
    assert (found.small_below, found.score, found.action) == (64 * 1024**2, expected.score, expected.action)


def test_partitions_with_the_most_small_files(crowded: LakeTable, cli: Cli) -> None:
    found = crowded.health()
    assert (found.partitions, found.skew) == (3, 1.01)
    assert {(load.partition, load.files, load.small_files) for load in found.worst} == {
        (f"v={letter}", 50, 50) for letter in "abc"
    }
    assert (found.score, found.state) == (40, "unhealthy")
    said = cli("table", "health", "crowd").out
    assert "−60" in said
    assert "150 files become about 3 (+60 points)" in said


def test_delete_files_are_told_apart(lake: Lake) -> None:
    make(lake)
    append_files(lake, "t", [{}], rows=100)
    append_files(lake, "t", [{}], rows=40, content=DataFileContent.POSITION_DELETES)
    append_files(lake, "t", [{}] * 8, rows=7, content=DataFileContent.EQUALITY_DELETES)
    found = lake.table("t").health()
    assert found.deletes is not None
    assert (found.files, found.deletes.delete_files, found.deletes.equality_delete_files) == (1, 9, 8)
    assert (found.deletes.rows_deleted, found.deletes.share) == (40, 0.4)
    assert {"deleted_rows", "equality_deletes"} <= {item.reason.code for item in found.deductions}


def test_overlap_of_the_column_that_rows_are_sorted_by(lake: Lake) -> None:
    lake.tables.create("t", "id bigint, v string", sort_by=["id desc", "v"], properties=V2)
    for ids in ([1, 3], [2, 5], [5, 9], [10]):
        append(lake, "t", [{"id": number, "v": f"a fairly long text {number}"} for number in ids])
    table = lake.table("t")
    sort = table.health().sort
    assert sort is not None
    assert (sort.column, sort.files, sort.overlapping, sort.depth) == ("id", 4, 2, 1.5)
    table.alter(alterations_from_words(sort_by=["v"]))
    by_text = table.health().sort
    assert by_text is not None
    assert (by_text.column, by_text.files) == ("v", 4)
    table.alter(alterations_from_words(sort_by=["bucket(4, id)"]))
    assert table.health().sort is None, "buckets have no order"
    assert make(lake, "unsorted", rows=2).health().sort is None


@pytest.mark.slow
def test_ten_thousand_files_are_looked_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    for _ in range(4):
        append_files(lake, "t", [{}] * 2500)
    reads: Counter[str] = Counter()
    read = Files.read

    def counted(self: Files, location: str) -> bytes:
        reads[location] += 1
        return read(self, location)

    monkeypatch.setattr(Files, "read", counted)
    found = lake.table("t").health()
    assert (found.files, found.small_files, found.manifests) == (10_000, 10_000, 4)
    manifests = [location for location in reads if location.endswith(".avro")]
    assert len(manifests) == 5
    assert {reads[location] for location in manifests} == {1}, "the list and each manifest once"
    assert sum(reads.values()) == 7, "and the metadata file twice: for the table, and for its files"


def test_status_of_all_tables(lake: Lake, crowded: LakeTable, cli: Cli) -> None:
    make(lake, "calm", rows=1)
    found = status(lake)
    assert list(found) == ["calm", "crowd"]
    assert (found["calm"].state, found["calm"].due, found["calm"].reason, found["calm"].next_command) == (
        "healthy",
        [],
        None,
        None,
    )
    row = found["crowd"]
    assert (row.state, row.score, row.files, row.small_files, row.due) == ("unhealthy", 40, 150, 150, ["compact"])
    assert row.next_command == compacting("crowd")
    said = cli("status")
    assert (said.code, said.err) == (
        0,
        f"1 unhealthy, 1 healthy\nNext: {compacting('crowd')}\n",
    )
    assert json.loads(cli("status", "-o", "json").out) == [row.model_dump(mode="json") for row in lake.status()]


def test_looking_changes_nothing(lake: Lake, crowded: LakeTable, cli: Cli) -> None:
    before = contents(lake)
    for words in (["status"], ["status", "--late"], ["table", "health", "crowd"]):
        assert cli(*words).code == 0
    assert contents(lake) == before


def test_check_is_five_when_something_is_amiss(lake: Lake, cli: Cli) -> None:
    assert (cli("status", "--check").code, cli("status").out) == (0, "")
    make(lake, "calm", rows=1)
    assert cli("status", "--check").code == 0
    lake.tables.create("crowd", "id bigint", properties=V2)
    append_files(lake, "crowd", [{}] * 100)
    assert cli("status").code == 0
    said = cli("status", "--check")
    assert said.code == 5
    assert "default.crowd" in said.out
    assert "✗ 1 of 2 tables are late or unhealthy: default.crowd" in said.err
    assert "neve table health default.crowd" in said.err
    asked = cli("status", "--check", "-o", "json")
    assert (asked.code, json.loads(asked.err)["code"]) == (5, "check_failed")
    assert [row["state"] for row in json.loads(asked.out)] == ["healthy", "unhealthy"]


def test_a_table_that_cannot_be_read_is_told_and_hides_no_other(lake: Lake, cli: Cli) -> None:
    make(lake, "good", rows=1)
    make(lake, "gone", rows=1)
    make(lake, "torn", rows=1)
    Path(facts(lake, "gone").metadata_location).write_text("{}")
    snapshot = facts(lake, "torn").current
    assert snapshot is not None
    Path(snapshot.manifest_list).write_bytes(b"not avro")
    found = status(lake)
    assert {name: row.state for name, row in found.items()} == {
        "good": "healthy",
        "gone": "unreadable",
        "torn": "unreadable",
    }
    assert found["torn"].reason is not None
    assert "not an Avro file" in found["torn"].reason.detail
    Path(snapshot.manifest_list).write_bytes(list_without_manifests())
    torn = status(lake)["torn"]
    assert torn.reason is not None
    assert "lists files that Névé cannot read (KeyError: 'manifest_path')" in torn.reason.detail
    assert cli("status", "--check").code == 5
    assert cli("table", "health", "torn").code == 1


@pytest.mark.parametrize("text", [None, "name: told\ncolumms: {id: bigint}\n"])
def test_a_tables_file_that_is_gone_or_misspelled_is_told_and_hides_no_other(
    lake: Lake, cli: Cli, text: str | None
) -> None:
    make(lake, "good", rows=1)
    file = lake.root / "told.yaml"
    file.write_text("name: told\ncolumns: {id: bigint}\n")
    lake.tables.create(str(file))
    file.unlink() if text is None else file.write_text(text)
    found = status(lake)
    assert {name: row.state for name, row in found.items()} == {"good": "healthy", "told": "unreadable"}
    reason = found["told"].reason
    assert reason is not None
    assert (reason.code, "told.yaml" in reason.detail) == ("config", True)
    said = cli("status", "--check")
    assert (said.code, "told.yaml" in said.out, "default.told" in said.err) == (5, True, True)


def test_dynamic_tables_are_late_or_not(lake: Lake, cli: Cli) -> None:
    make(lake, "orders", rows=1)
    declare(lake, "slow", "SELECT id, v FROM orders", "orders", lag="1h")
    declare(lake, "quick", "SELECT id, v FROM orders", "orders", lag="5m")
    for name in ("slow", "quick"):
        fill(lake, name)
    assert {row.freshness for row in lake.status()} == {None, "fresh"}
    assert (cli("status", "--late").out, cli("status", "--late").err) == ("", "no table is late\n")
    append(lake, "orders", [{"id": 2, "v": "x"}])
    start = lake._context.clock()
    lake._context.clock = lambda: start + timedelta(minutes=10)
    found = status(lake)
    assert {name: row.freshness for name, row in found.items()} == {"orders": None, "quick": "late", "slow": "due"}
    quick = found["quick"]
    assert (quick.current_lag, quick.target_lag, quick.due) == ("10m", "5m", ["refresh"])
    assert quick.reason is not None
    assert quick.reason.detail == "10m behind, for a target of 5m"
    assert (quick.state, quick.next_command) == ("healthy", "neve dynamic refresh quick")
    assert [row.table for row in lake.status(late=True)] == ["default.quick"]
    assert (lake.dynamic("quick").show().table, lake.table("quick").health().freshness) == ("default.quick", "late")
    listed = {row.table: (row.freshness, row.current_lag, row.target_lag) for row in lake.dynamic.list()}
    assert listed == {
        f"default.{name}": (found[name].freshness, found[name].current_lag, found[name].target_lag)
        for name in ("quick", "slow")
    }


def test_late_tables_fail_the_check(lake: Lake, cli: Cli) -> None:
    make(lake, "orders", rows=1)
    declare(lake, "quick", "SELECT id, v FROM orders", "orders", lag="1ms")
    fill(lake, "quick")
    assert cli("status", "--check").code == 0
    append(lake, "orders", [{"id": 2, "v": "x"}])
    for words in (["status", "--check"], ["status", "--late", "--check"]):
        said = cli(*words)
        assert said.code == 5
        assert "default.quick" in said.err
        assert "Next: neve dynamic refresh quick" in said.err
    assert "freshness      late:" in cli("table", "health", "quick").out


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_plain_folder(lake: Lake, cli: Cli, kind: str) -> None:
    folder = lake.root / "days"
    folder.mkdir()
    for day in range(1, 32):
        (folder / f"2024-01-{day:02}.{kind}").write_text("id\n1\n")
    (folder / f"2024-02-01.{kind}").write_text("id\n1\n")
    described = lake.root / "days.yaml"
    described.write_text(
        f"name: days\nstorage: {{format: {kind}, base_path: days}}\npartitioning: {{pattern: '{{date}}.{kind}'}}\n"
    )
    lake.tables.create(str(described))
    found = lake.table("days").health()
    assert (found.format, found.files, found.small_files, found.bytes) == (kind, 32, 32, 32 * 5)
    assert [(load.partition, load.files) for load in found.worst] == [("period=2024-01", 31), ("period=2024-02", 1)]
    absent = ("deletes", "snapshots", "manifests", "metadata_bytes", "writes", "sort")
    assert {key: getattr(found, key) for key in absent} == dict.fromkeys(absent)
    assert found.action is not None
    assert found.action.command == "neve compact days --period 2024-01"
    assert lake.table(str(described)).health() == found
    row = status(lake)["days"]
    assert (row.state, row.files, row.next_command) == ("healthy", 32, found.action.command)
    said = cli("table", "health", "days").out
    assert "period=2024-01" in said
    assert not any(word in said for word in ("snapshots", "orphans", "manifests", "deletes"))


def test_an_empty_folder_and_one_that_is_gone(lake: Lake) -> None:
    described = lake.root / "days.yaml"
    described.write_text("name: days\nstorage: {format: parquet, base_path: days}\n")
    lake.tables.create(str(described))
    found = lake.table("days").health()
    assert (found.score, found.files, found.action, found.partitions) == (100, 0, None, 0)
    for path in (lake.root / "days").iterdir():
        path.unlink() if path.is_file() else path.rmdir()
    (lake.root / "days").rmdir()
    assert status(lake)["days"].state == "unreadable"
