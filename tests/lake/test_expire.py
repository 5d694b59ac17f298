"""Expiry on lakes without Spark: what decides, for whom snapshots stay, rivals, and processes that die half-way."""

from __future__ import annotations

import json
import os
import shutil
import socket
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from tests.lake.dynamic import commit_refresh, declare, fill
from tests.lake.lakes import (
    V2,
    Cli,
    append,
    append_files,
    contents,
    current,
    facts,
    log_ingestion,
    make,
    put_properties,
    run_process,
)
from tests.lake.processes import KILLED, Processes

from neve.errors import InvalidInput, Refused, SnapshotNotFound, Unsupported
from neve.lake import Lake
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.retention import ExpireReceipt
from neve.model.runs import Reader, Run, new_run_id
from neve.plan.expiry import reader_claims
from neve.services.dynamic.deciding import frontier_of
from neve.services.ledger import held_dates
from neve.services.look import RUN_ID
from neve.services.readers import announce, following, hold, readers_of

LATER = timedelta(days=8)


def rows(lake: Lake, name: str = "t", *, at: int | None = None) -> list[int]:
    """The ids of a table's rows, read by PyIceberg."""
    table = StaticTable.from_metadata(facts(lake, name).metadata_location)
    return sorted(table.scan(snapshot_id=at).to_arrow()["id"].to_pylist())


def overwrite(lake: Lake, number: int, name: str = "t") -> int:
    """Puts one row in the place of all others, so that an earlier data file is needed by an earlier snapshot only."""
    table = lake._context.catalog._backend.open_table(TableName.parse(name))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Merge on read|Parquet writer option")  # what PyIceberg's writer lacks
        table.overwrite(pa.Table.from_pylist([{"id": number, "v": "x"}], schema=table.schema().as_arrow()))
    return current(lake, name)


@pytest.fixture
def past(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A table `t` of five snapshots, eight days later."""
    make(lake)
    snapshots = [append(lake, "t", [{"id": 0, "v": "x"}])]
    for number in range(1, 3):
        overwrite(lake, number)
    snapshots = [row.snapshot for row in reversed(lake.table("t").history())]
    later(lake, monkeypatch)
    return snapshots


def later(lake: Lake, monkeypatch: pytest.MonkeyPatch, by: timedelta = LATER) -> None:
    monkeypatch.setattr(lake._context, "clock", lambda: datetime.now(UTC) + by)


def files(lake: Lake, name: str = "t") -> set[str]:
    return {str(path) for path in Path(facts(lake, name).location).rglob("*") if path.is_file()}


def reasons(receipt: ExpireReceipt) -> dict[int, list[str]]:
    return {item.snapshot: [reason.code for reason in item.reasons] for item in receipt.kept}


def test_old_snapshots_go_with_the_files_that_only_they_had(lake: Lake, past: list[int], cli: Cli) -> None:
    table, before, there = lake.table("t"), contents(lake), files(lake)
    planned = table.expire(dry_run=True)
    assert contents(lake) == before, "a dry run changes nothing"
    assert (planned.dry_run, planned.run_id, planned.expired) == (True, None, past[:-1])
    done = table.expire()
    assert done.model_dump(exclude={"run_id", "duration_ms", "dry_run"}) == planned.model_dump(
        exclude={"run_id", "duration_ms", "dry_run"}
    )
    assert [row.snapshot for row in table.history()] == past[-1:]
    gone = there - files(lake)
    assert len(gone) == done.files_removed == sum(item.files for item in done.removed)
    assert {item.kind for item in done.removed} == {"data", "manifest", "manifest_list"}
    assert rows(lake) == [2]
    run = lake.runs.show(done.run_id or "")
    assert (run.kind, run.state, run.undo) == ("expire", "succeeded", None)
    assert run.result == {
        "snapshots_before": len(past),
        "snapshots_after": 1,
        "files_removed": len(gone),
        "bytes_removed": done.bytes_removed,
    }
    again = table.expire()
    assert (again.run_id, again.expired, again.reason and again.reason.code) == (None, [], "nothing_to_do")
    assert "nothing to do" in cli("expire", "t").out


def test_bytes_are_those_of_the_files(lake: Lake, past: list[int]) -> None:
    sizes = {path: Path(path).stat().st_size for path in files(lake)}
    done = lake.table("t").expire()
    assert done.bytes_removed == sum(sizes[path] for path in set(sizes) - files(lake)) > 0


def test_a_table_without_snapshots(lake: Lake) -> None:
    found = make(lake).expire(older_than="0")
    assert (found.run_id, found.kept, found.reason and found.reason.detail) == (None, [], "default.t has no snapshots")


def test_what_decides(lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """An option is stronger than the table's properties, and those than the setting, as the environment may give it."""
    table = lake.table("t")

    def kept(**asked: object) -> int:
        return table.expire(dry_run=True, **asked).snapshots_after  # type: ignore[arg-type]

    assert kept() == 1
    assert kept(older_than="9d") == kept(retention_hours=9 * 24) == len(past)
    assert kept(keep_last=2) == 2
    monkeypatch.setenv("NEVE_RETENTION__SNAPSHOT_RETENTION_HOURS", "216")
    with Lake(lake.root) as other:
        monkeypatch.setattr(other._context, "clock", lake._context.clock)
        assert other.table("t").expire(dry_run=True).snapshots_after == len(past)
        assert other.table("t").expire(dry_run=True, older_than="7d").snapshots_after == 1
        table.set({"history.expire.max-snapshot-age-ms": "1000"})
        assert other.table("t").expire(dry_run=True).snapshots_after == 1
    table.set({"history.expire.max-snapshot-age-ms": str(9 * 86_400_000)})
    assert kept() == len(past)
    assert kept(older_than=timedelta(days=7)) == 1
    table.set({"history.expire.min-snapshots-to-keep": "3", "history.expire.max-snapshot-age-ms": "0"})
    assert kept() == 3
    assert kept(keep_last=1) == 1
    with pytest.raises(InvalidInput, match="give one of them"):
        table.expire(older_than="1d", retention_hours=24)


def test_tags_and_branches_keep_theirs(lake: Lake, past: list[int]) -> None:
    table = lake.table("t")
    table.tag("v1", at=str(past[0]))
    table.branch("side", at=str(past[2]))
    found = table.expire()
    assert reasons(found) == {past[0]: ["tag"], past[2]: ["branch"], past[-1]: ["current"]}
    assert [rows(lake, at=snapshot) for snapshot in (past[0], past[2], past[-1])] == [[0], [1], [2]]
    table.delete_tag("v1")
    assert table.expire().expired == [past[0]]


def test_undo_tags_keep_theirs_until_the_undo_period_is_over(lake: Lake, past: list[int]) -> None:
    """As a change of rows leaves them: with an age, after which expiry takes the tag too."""
    catalog = lake._context.catalog
    catalog.create_tag(TableName.parse("t"), "undo_01abc", snapshot_id=past[0])
    assert reasons(lake.table("t").expire(dry_run=True))[past[0]] == ["undo"]
    path = Path(facts(lake, "t").metadata_location)
    metadata = json.loads(path.read_text())
    metadata["refs"]["undo_01abc"]["max-ref-age-ms"] = 9 * 86_400_000
    path.write_text(json.dumps(metadata))
    assert reasons(lake.table("t").expire(dry_run=True))[past[0]] == ["undo"]
    metadata["refs"]["undo_01abc"]["max-ref-age-ms"] = 7 * 86_400_000
    path.write_text(json.dumps(metadata))
    found = lake.table("t").expire()
    assert (found.references_expired, past[0] in found.expired) == (["undo_01abc"], True)
    assert [row.name for row in lake.table("t").references()] == ["main"]


def test_dynamic_tables_keep_what_they_go_on_from(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    consumed = append(lake, "t", [{"id": 1, "v": "x"}])
    declare(lake, "d", "SELECT id, v FROM t", "t")
    fill(lake, "d")
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    later(lake, monkeypatch)
    found = lake.table("t").expire()
    assert consumed not in found.expired, "held by no tag, but by what the table says of itself"
    assert found.kept[0].reasons[0].detail == "the next refresh of default.d goes on from here"
    lake._context.catalog.set_tags(TableName.parse("t"), put={f"neve_dynamic_{facts(lake, 'd').uuid}": consumed})
    told = lake.table("t").expire(dry_run=True).kept[0].reasons
    assert [(reason.code, reason.detail) for reason in told] == [
        ("dynamic_table", "the next refresh of default.d goes on from here")
    ], "said once"


def test_a_dynamic_table_itself_keeps_how_far_it_has_come(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, rows=1)
    declare(lake, "d", "SELECT id, v FROM t", "t")
    for _ in range(3):
        commit_refresh(lake, "d")
    before = frontier_of(facts(lake, "d"))
    later(lake, monkeypatch)
    assert len(lake.table("d").expire().expired) == 2
    assert frontier_of(facts(lake, "d")) == before


def running(lake: Lake, **more: object) -> Run:
    now = datetime.now(UTC)
    return Run(
        run_id=new_run_id(now, os.urandom),
        kind=str(more.pop("kind", "export")),
        started_at=more.pop("started_at", now),  # type: ignore[arg-type]
        host=str(more.pop("host", "elsewhere")),
        pid=1,
        **more,  # type: ignore[arg-type]
    )


def test_work_that_has_not_ended_keeps_what_it_may_read(lake: Lake, past: list[int]) -> None:
    made = {row.snapshot: row.at for row in lake.table("t").history()}
    began = made[past[2]] + timedelta(milliseconds=1)
    run = running(lake, table_name="t", started_at=began)
    lake._context.store.runs.start(run)
    found = lake.table("t").expire()
    assert found.expired == past[:2]
    assert found.kept[0].reasons[0].detail == f"run {run.run_id} (export of t) has not ended"
    lake._context.store.runs.finish(run.run_id, state="succeeded", finished_at=datetime.now(UTC))
    lake._context.store.runs.start(running(lake, table_name="another", started_at=began))
    assert len(lake.table("t").expire().expired) == len(past) - 3


def test_refreshes_that_run_keep_what_they_read(lake: Lake, past: list[int]) -> None:
    declare(lake, "d", "SELECT id, v FROM t", "t")
    lake._context.store.runs.start(
        running(lake, kind="refresh", table_name="d", started_at=datetime(2020, 1, 1, tzinfo=UTC))
    )
    assert not lake.table("t").expire().expired


def test_a_snapshot_is_kept_for_a_while_after_it_was_current(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(lake)
    first = append(lake, "t", [{"id": 0, "v": "x"}])
    append(lake, "t", [{"id": 1, "v": "x"}])
    table.set({"history.expire.max-snapshot-age-ms": "0"})
    found = table.expire()
    assert reasons(found)[first] == ["readers"]
    assert "less than 1h ago" in found.kept[0].reasons[0].detail
    assert table.expire(older_than="0", dry_run=True).expired == [first], "who asks for nothing to be kept means it"
    later(lake, monkeypatch, timedelta(minutes=61))
    assert table.expire().expired == [first]


# ------------------------------------------------------------------------------------------------------------ readers


def test_a_reader_keeps_its_snapshots_until_it_is_done(lake: Lake, past: list[int]) -> None:
    reader = announce(lake._context, facts(lake, "t"), past[:2], purpose="changes")
    found = lake.table("t").expire()
    assert set(found.expired) == set(past[2:-1])
    assert found.kept[0].reasons[0].code == "reader"
    assert f"process {os.getpid()}" in found.kept[0].reasons[0].detail
    lake._context.store.readers.remove(reader)
    assert lake.table("t").expire().expired == past[:2]
    with pytest.raises(SnapshotNotFound, match="has expired meanwhile"):
        announce(lake._context, facts(lake, "t"), past[:1], purpose="changes")
    assert lake._context.store.readers.of(facts(lake, "t").uuid) == ()


def test_commits_are_of_the_worlds_time(lake: Lake, past: list[int]) -> None:
    """Iceberg takes no commit that is older than the one before, and Spark knows of no clock that runs ahead."""
    lake._context.catalog.set_tags(TableName.parse("t"), put={"a": past[-1]})
    assert facts(lake, "t").updated_at <= datetime.now(UTC)
    assert lake.table("t").expire().expired
    assert facts(lake, "t").updated_at <= datetime.now(UTC)


def test_who_reads_a_table_as_it_is_now_keeps_all_that_was_current_since(lake: Lake, past: list[int]) -> None:
    context, table = lake._context, lake.table("t")
    context.clock = lambda: datetime.now(UTC) + timedelta(minutes=10)  # what is there was current long before
    with following(context, [table.name, TableName.parse("none")], purpose="a question"):
        context.clock = lambda: datetime.now(UTC) + timedelta(minutes=20)
        later = datetime.now(UTC) + timedelta(minutes=15)
        base = facts(lake, "t")
        moved = replace(base, made_current=(*base.made_current, (later, past[0]), (later, past[-1])))
        (reader,) = readers_of(context, base)
        assert {claim.snapshot for claim in reader_claims(base, [reader])} == {past[-1]}
        assert {claim.snapshot for claim in reader_claims(moved, [reader])} == {past[-1], past[0]}
        assert table.expire(older_than="0").expired == past[:-1]
    assert context.store.readers.of(base.uuid) == ()


def test_a_query_is_believed_for_a_day(lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    context = lake._context
    name, began = facts(lake, "t").name, context.clock()
    for hours, known in ((0, 1), (1, 1), (13, 1), (13 + 25, 0)):
        monkeypatch.setattr(context, "clock", lambda hours=hours: began + timedelta(hours=hours))
        if hours < 24:
            hold(context, {name: {past[0]}})
        assert len(readers_of(context, facts(lake, "t"))) == known, hours
    assert len(context.queried) == 1, "said again when half of it is over, and never twice"
    hold(context, {name: {past[1]}})
    lake.close()
    with Lake(lake.root) as again:
        assert again._context.store.readers.of(facts(again, "t").uuid) == ()


def test_readers_that_died_keep_nothing(lake: Lake, past: list[int]) -> None:
    uuid, now = facts(lake, "t").uuid, datetime.now(UTC)

    def reader(number: int, host: str, pid: int, at: datetime) -> Reader:
        return Reader(
            reader_id=str(number),
            table_uuid=uuid,
            snapshots=(past[number],),
            purpose="x",
            started_at=at,
            host=host,
            pid=pid,
        )

    lake._context.store.readers.put(reader(0, socket.gethostname(), 2**22 + 1, now))
    lake._context.store.readers.put(reader(1, "elsewhere", 1, now - timedelta(days=2)))
    lake._context.store.readers.put(reader(2, "elsewhere", 1, now + LATER))
    found = lake.table("t").expire()
    assert set(reasons(found)) == {past[2], past[-1]}
    assert [row.reader_id for row in lake._context.store.readers.of(uuid)] == ["1", "2"]


def test_a_reader_that_comes_before_the_files_go_finds_them(
    lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said so before the commit and after the look: its files stay, for `neve orphans`."""
    catalog = lake._context.catalog
    make_commit, found = catalog.remove_snapshots, facts(lake, "t")

    def announced(*arguments: object, **more: object) -> bool:
        announce(lake._context, found, past[:1], purpose="changes")
        return make_commit(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "remove_snapshots", announced)
    before = files(lake)
    done = lake.table("t").expire()
    assert (len(done.expired), done.files_removed) == (len(past) - 1, 0)
    assert set(done.files_left) < before <= files(lake)


# ------------------------------------------------------------------------------------------------------------- rivals


def between(lake: Lake, monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> None:
    """Does a deed once, right before the commit of an expiry."""
    catalog, todo = lake._context.catalog, [deed]
    make_commit = catalog.remove_snapshots

    def first(*arguments: object, **more: object) -> bool:
        while todo:
            todo.pop()()
        return make_commit(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "remove_snapshots", first)


def test_a_tag_that_comes_meanwhile_is_respected(lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake(lake.root) as rival:
        between(lake, monkeypatch, lambda: rival.table("t").tag("late", at=str(past[0])))
        found = lake.table("t").expire()
    assert reasons(found)[past[0]] == ["tag"]
    assert rows(lake, at=past[0]) == [0]
    assert found.expired == past[1:-1]


def test_a_rival_that_expired_first_leaves_nothing_to_do(
    lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake(lake.root) as rival:
        between(lake, monkeypatch, lambda: rival.table("t").expire(older_than="0"))
        found = lake.table("t").expire()
    assert (found.expired, found.files_removed, found.reason and found.reason.code) == ([], 0, "nothing_to_do")
    assert lake.runs.show(found.run_id or "").state == "succeeded"
    assert rows(lake) == [2]


def test_a_table_that_was_deleted_meanwhile(lake: Lake, past: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake(lake.root) as rival:
        between(lake, monkeypatch, lambda: rival.table("t").drop())
        with pytest.raises(Exception, match="no table"):
            lake.table("t").expire()
        rival.tables.undelete("t")
    assert rows(lake, at=past[0]) == [0]


@pytest.mark.faults
def test_rivals_in_processes_of_their_own(tmp_path: Path, processes: Processes) -> None:
    """Expiry beside tags and appends: every tag made holds a snapshot that can be read, and no row is lost."""
    root = tmp_path / "lake"
    with Lake.create(root) as lake:
        make(lake)
        for number in range(4):
            append(lake, "t", [{"id": number, "v": "x"}])
        deeds = [
            [["expire", "t"]] * 6,
            [["tag", "t", f"a{number}"] for number in range(6)],
            [["append", "t"]] * 6,
        ]
        outcomes = processes.compete(root, deeds)
        assert outcomes[0] == ["done"] * 6
        assert outcomes[1] == ["done"] * 6
        appended = outcomes[2].count("done")
        assert sorted(rows(lake)) == [0, 1, 2, 3, *[99] * appended]
        for reference in lake.table("t").references():
            assert rows(lake, at=reference.snapshot)[:4] == [0, 1, 2, 3]


@pytest.mark.faults
def test_killed_at_every_effect(tmp_path: Path, processes: Processes) -> None:
    """Half-way there are orphans at most: the table reads as before, and expires again."""
    root, kept = tmp_path / "lake", tmp_path / "kept"
    with Lake.create(root) as lake:
        make(lake)
        append(lake, "t", [{"id": 0, "v": "x"}])
        overwrite(lake, 1)
        other = facts(lake, "t")
    shutil.copytree(root, kept)
    effects, states = 0, set()
    while True:
        effects += 1
        shutil.rmtree(root)
        shutil.copytree(kept, root)
        ended = processes.kill_at(effects, root, ("expire", "t"))
        if ended == 0:
            break
        assert ended == KILLED
        with Lake(root) as lake:
            assert rows(lake) == [1]
            assert all(Path(path).exists() for path in named(lake, facts(lake, "t")))
            lake.table("t").expire(older_than="0")
            assert rows(lake) == [1]
            found = facts(lake, "t")
            assert (found.uuid, len(found.snapshots)) == (other.uuid, 1)
            states |= {run.state for run in lake.runs.list(kind="expire")}
    assert effects > 5
    assert states == {"failed", "succeeded"}


def named(lake: Lake, found: TableFacts) -> list[str]:
    catalog = lake._context.catalog
    return catalog.named_files(found.metadata_location, catalog.reach())


# ------------------------------------------------------------------------------------------------------ what is refused


def test_files_that_may_not_be_its_own_stay(lake: Lake, past: list[int]) -> None:
    table = lake.table("t")
    table.set({"gc.enabled": "false"})
    with pytest.raises(Refused, match="its files may not be its own"):
        table.expire(dry_run=True)
    table.set({"gc.enabled": "true"})
    catalog = lake._context.catalog
    catalog.register(TableName.parse("twin"), facts(lake, "t").metadata_location)
    with pytest.raises(Refused, match=r"shares its folder with default\.twin"):
        table.expire()
    catalog.drop(TableName.parse("twin"))
    catalog.set_aside(TableName.parse("t"), TableName(("default",), "_neve_aside_x"))
    with pytest.raises(Refused, match="shares its folder"):
        table.expire()


def test_files_outside_the_tables_folder_are_left(lake: Lake, past: list[int], tmp_path: Path) -> None:
    """As of a table that was told to write elsewhere for a while, or took files in."""
    table = lake.table("t")
    table.set({"write.data.path": str(tmp_path / "elsewhere")})
    overwrite(lake, 3)
    outside = [str(path) for path in (tmp_path / "elsewhere").rglob("*.parquet")]
    overwrite(lake, 4)
    done = table.expire(older_than="0")
    assert done.files_left == outside
    assert all(Path(path).exists() for path in outside)
    assert rows(lake) == [4]


def test_a_folder_has_no_snapshots(lake: Lake) -> None:
    described = lake.root / "days.yaml"
    described.write_text("name: days\nstorage: {format: parquet, base_path: days}\n")
    lake.tables.create(str(described))
    with pytest.raises(Unsupported, match="this is for Iceberg tables"):
        lake.table("days").expire()


def test_metadata_that_cannot_be_read_changes_nothing(lake: Lake, past: list[int]) -> None:
    broken = facts(lake, "t").snapshots[0].manifest_list
    Path(broken).write_bytes(b"no avro")
    before = contents(lake)
    with pytest.raises(Exception, match="Avro"):
        lake.table("t").expire()
    assert contents(lake) == before


# --------------------------------------------------------------------------------------------------- what else depends


def test_what_was_rolled_back_is_not_held_when_its_snapshot_is_gone(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log would speak for an expired snapshot; the rows of a day that was rolled back are not there."""
    table = make(lake)
    first = append(lake, "t", [{"id": 0, "v": "x"}])
    run_id = new_run_id(datetime.now(UTC), os.urandom)
    append(lake, "t", [{"id": 1, "v": "x"}], summary={RUN_ID: run_id})
    log_ingestion(lake, "t")
    (row,) = lake._context.store.ingestions.for_table("t")
    lake._context.store.ingestions.put(row.model_copy(update={"run_id": run_id}))
    assert held_dates(lake._context, facts(lake, "t"))
    table.rollback(first)
    append(lake, "t", [{"id": 2, "v": "x"}])
    assert not held_dates(lake._context, facts(lake, "t"))
    later(lake, monkeypatch)
    table.expire()
    assert len(table.history()) == 1
    assert not held_dates(lake._context, facts(lake, "t"))


def test_what_a_tag_kept_beyond_a_gap_is_still_held(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(lake)
    run_id = new_run_id(datetime.now(UTC), os.urandom)
    first = append(lake, "t", [{"id": 0, "v": "x"}], summary={RUN_ID: run_id})
    log_ingestion(lake, "t")
    (row,) = lake._context.store.ingestions.for_table("t")
    lake._context.store.ingestions.put(row.model_copy(update={"run_id": run_id}))
    table.tag("kept", at=str(first))
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    later(lake, monkeypatch)
    assert len(table.expire().expired) == 2
    assert held_dates(lake._context, facts(lake, "t"))


def test_time_travel_does_not_find_a_wrong_snapshot(lake: Lake, past: list[int]) -> None:
    """What was current between two snapshots that stay is unknown, so the log begins anew."""
    table = lake.table("t")
    table.tag("v1", at=str(past[0]))
    moment = next(row.at for row in table.history() if row.snapshot == past[1])
    table.expire()
    assert [snapshot for _, snapshot in facts(lake, "t").made_current] == past[-1:]
    with pytest.raises(SnapshotNotFound):
        table.rollback(moment.isoformat(), dry_run=True)


def test_old_metadata_files_go_where_the_table_says_so(lake: Lake) -> None:
    lake.tables.create(
        "m",
        "id bigint, v string",
        properties=V2
        | {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"},
    )
    for number in range(4):
        append(lake, "m", [{"id": number, "v": "x"}])
    lake.table("m").expire(older_than="0")
    log = json.loads(Path(facts(lake, "m").metadata_location).read_text())["metadata-log"]
    there = {path for path in files(lake, "m") if path.endswith(".metadata.json")}
    assert len(log) == 2
    assert there == {facts(lake, "m").metadata_location, *(entry["metadata-file"] for entry in log)}


# ----------------------------------------------------------------------------------------------------- the command line


def test_the_command_line(lake: Lake, cli: Cli) -> None:
    make(lake)
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    said = cli("expire", "t", "--retention-hours", "0", "--keep-last", "2", "--dry-run")
    assert "Would expire snapshots of default.t. Nothing was changed." in said.out
    assert "snapshots: 3 → 2" in said.out
    assert "kept 1: one of the last 2 of main" in said.out
    refused = cli("expire", "t", "--older-than", "0")
    assert (refused.code, "2 snapshots" in refused.err, "--yes" in refused.err) == (6, True, True)
    assert len(lake.table("t").history()) == 3
    done = cli("table", "expire", "t", "--older-than", "0", "--yes", "-o", "json")
    answer = json.loads(done.out)
    assert (done.code, len(answer["expired"]), answer["snapshots_after"]) == (0, 2, 1)
    assert ExpireReceipt.model_validate(answer).files_removed == sum(item["files"] for item in answer["removed"])
    assert cli("expire", "t", "--older-than", "0", "--retention-hours", "1").code == 2
    assert cli("expire", "t", "--older-than", "soon").code == 2
    assert cli("expire", "tt").code == 3
    assert cli("expire", "t", "--keep-last", "0").code == 2


@pytest.mark.slow
def test_the_policy_needs_no_yes(lake: Lake) -> None:
    """What health names works as it stands, in a script too."""
    make(lake)
    for number in range(3):
        append(lake, "t", [{"id": number, "v": "x"}])
    lake.table("t").set({"history.expire.max-snapshot-age-ms": "0"})
    said = run_process(lake, "expire", "t", NEVE_RETENTION__READER_GRACE="0")
    assert (said.code, said.out.splitlines()[0]) == (0, "✓ Expired 2 of 3 snapshots of default.t")


@pytest.mark.slow
def test_health_promises_what_expiry_then_takes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many snapshots, those that nobody needs; what is needed is not promised."""
    table = make(lake)
    table.set({"history.expire.max-snapshot-age-ms": "0", "write.target-file-size-bytes": "1"})
    for _ in range(150):
        append_files(lake, "t", [{}])
    first, *others = [row.snapshot for row in reversed(table.history())]
    table.tag("v1", at=str(first))
    announce(lake._context, facts(lake, "t"), others[:9], purpose="changes")
    assert table.health().deductions[0].action is None, "all were current within the last hour"
    later(lake, monkeypatch, timedelta(hours=2))
    promised = table.health()
    assert promised.action is not None
    assert (promised.action.kind, promised.action.command) == ("expire", "neve expire t")
    assert promised.action.gain == "139 snapshots go, and the files that only they hold"
    assert len(table.expire().expired) == 139
    after = table.health()
    assert (after.snapshots, after.score - promised.score) == (11, promised.action.gain_points)
    put_properties(lake, "t", {"gc.enabled": "false", "history.expire.max-snapshot-age-ms": "x"})
    assert table.health().score, "nonsense is for expire to refuse"
