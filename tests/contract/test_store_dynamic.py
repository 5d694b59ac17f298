"""What the state database keeps of dynamic tables, and the history of their refreshes."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.records import MINUTE, NOW, make_run, read_by_hand, write_by_hand

from neve.model.history import Dependency, DynamicRecord, RefreshRecord, SourceRecord
from neve.store import Store
from neve.store.schema import MIGRATIONS


def declared(uuid: str = "u1", name: str = "ns.t") -> DynamicRecord:
    return DynamicRecord(
        table_uuid=uuid,
        name=name,
        schema_name="ns",
        query_sql="SELECT 'é' FROM a",
        target_lag="5m",
        refresh_mode="AUTO",
        scheduling_state="ACTIVE",
        options={"float_sums": "EXACT"},
        data_timestamp=NOW,
        updated_at=NOW,
    )


def source(table: str, snapshot: int | None, uuid: str = "u1", direct: int = 1) -> SourceRecord:
    return SourceRecord(
        table_uuid=uuid,
        dynamic_table="ns.t",
        source_table=table,
        source_uuid=f"uuid of {table}",
        last_snapshot=snapshot,
        direct=direct,
        last_processed_at=NOW,
    )


def refreshed(minute: int, uuid: str = "u1", **given: object) -> RefreshRecord:
    defaults = {
        "table_uuid": uuid,
        "name": "ns.t",
        "state": "SUCCEEDED",
        "refresh_action": "INCREMENTAL",
        "refresh_trigger": "MANUAL",
        "refresh_start_time": NOW + minute * MINUTE,
        "refresh_end_time": NOW + minute * MINUTE + timedelta(seconds=1),
    }
    return RefreshRecord.model_validate(defaults | given)


def minutes(records: tuple[RefreshRecord, ...]) -> list[int]:
    return [(record.refresh_start_time - NOW) // MINUTE for record in records]


def test_what_is_known_of_a_table_is_replaced_whole_and_reads_by_hand(uri: str) -> None:
    with Store.open(uri) as store:
        store.dynamic.put(declared(), [source("ns.a", 2**62), source("ns.base", None, direct=0)], ["ns.a"])
        store.refreshes.add([refreshed(0)])
        store.dynamic.put(declared(name="ns.new"), [source("ns.b", 7)], ["ns.b", "ns.c"])
        assert store.dynamic.list() == {"u1": declared(name="ns.new")}
        assert store.dynamic.sources() == {"u1": {"ns.b": source("ns.b", 7)}}
        assert store.refreshes.of("u1")[0].name == "ns.new", "history goes by the uuid and takes the name"
    assert read_by_hand(uri, "SELECT downstream, upstream FROM dependencies") == [
        {"downstream": "ns.new", "upstream": name} for name in ("ns.b", "ns.c")
    ]
    assert read_by_hand(uri, "SELECT last_snapshot FROM source_snapshots") == [{"last_snapshot": 7}]
    (row,) = read_by_hand(uri, "SELECT query_sql, data_timestamp FROM dynamic_tables WHERE name = 'ns.new'")
    assert row == {"query_sql": "SELECT 'é' FROM a", "data_timestamp": "2026-11-16T01:28:49.123456Z"}
    with Store.open(uri) as store:
        store.dynamic.touch({"u1": NOW + MINUTE})
        assert store.dynamic.list()["u1"].data_timestamp == NOW + MINUTE
        store.dynamic.forget("u1")
        assert (store.dynamic.list(), store.dynamic.sources()) == ({}, {})
        assert len(store.refreshes.of("u1")) == 1, "it may come back"
        assert store.refreshes.of_all() == ()
    assert read_by_hand(uri, "SELECT * FROM dependencies") == []


def test_history_is_newest_first_and_keeps_every_column(store: Store) -> None:
    full = refreshed(
        3,
        state="FAILED",
        state_code="job_failed",
        state_message="x" * 5000,
        data_timestamp=NOW,
        completion_target=NOW + MINUTE,
        reason_code="changes",
        reason_detail="a: 1 appends",
        strategy="merge",
        estimates={"incremental": 1.5, "full": 20},
        rows_inserted=2**40,
        rows_deleted=1,
        source_rows_changed=3,
        target_lag_seconds=300,
        changed_sources="default.orders, default.customers",
        source_snapshots={"ns.a": 2**62},
        upstream="ns.p",
        snapshot_id=2**62,
        round_id=make_run().run_id,
        run_id=make_run().run_id,
        last_completed_dependency=Dependency(qualified_name="ns.é", data_timestamp=NOW),
        queued_time_ms=0,
        compilation_time_ms=41,
        execution_time_ms=2**40,
        rows_copied=5,
        files_added=2,
        files_deleted=1,
    )
    assert not [name for name, value in full if value is None and name != "id"], "so that each column is looked at"
    store.dynamic.put(declared(), [], [])
    store.refreshes.add([refreshed(1), refreshed(2), full, refreshed(4, uuid="gone")])
    assert minutes(store.refreshes.of("u1")) == [3, 2, 1]
    assert store.refreshes.of("u1", limit=1)[0].model_copy(update={"id": None}) == full
    assert minutes(store.refreshes.of("u1", failed=True)) == [3]
    assert minutes(store.refreshes.of_all(limit=2)) == [3, 2], "of tables that are there"
    assert {uuid: minutes((record,)) for uuid, record in store.refreshes.latest().items()} == {"u1": [3], "gone": [4]}
    assert store.refreshes.forget("u1") == 3


def test_rows_of_a_run_are_written_once(store: Store) -> None:
    run = make_run().run_id
    store.refreshes.add([refreshed(1, run_id=run)])
    store.refreshes.add([refreshed(2, run_id=run), refreshed(3)])
    assert minutes(store.refreshes.of("u1")) == [3, 1]
    found = store.refreshes.of_run(run)
    assert found is not None
    assert minutes((found,)) == [1]


def test_idle_refreshes_leave_one_row(store: Store) -> None:
    idle = [refreshed(minute, refresh_action="NO_DATA") for minute in (1, 2, 3)]
    for record in (*idle, refreshed(4), refreshed(5, refresh_action="NO_DATA"), refreshed(6, uuid="u2")):
        store.refreshes.add([record])
    store.refreshes.add([refreshed(7, refresh_action="NO_DATA")])
    assert minutes(store.refreshes.of("u1")) == [7, 4, 3]
    for minute in (8, 9):
        store.refreshes.add([refreshed(minute, state="SKIPPED", refresh_action=None)])
    assert minutes(store.refreshes.of("u1")) == [9, 7, 4, 3]
    assert minutes((store.refreshes.latest()["u1"],)) == [7], "the last one that was tried"


def test_rounds(store: Store) -> None:
    first, second = sorted([make_run().run_id, make_run(started_at=NOW + MINUTE).run_id])
    assert store.refreshes.last_round() is None
    store.refreshes.add([refreshed(1, round_id=second), refreshed(2, round_id=second, uuid="u2")])
    store.refreshes.add([refreshed(3, round_id=first), refreshed(4)])
    assert store.refreshes.last_round() == second
    assert minutes(store.refreshes.of_round(second)) == [1, 2]


def test_a_store_of_before_dynamic_tables_opens(uri: str) -> None:
    run = make_run()
    with Store.open(uri, migrations=MIGRATIONS[:2]) as store:
        store.runs.start(run)
    write_by_hand(uri, "UPDATE runs SET state = 'succeeded'")
    with Store.open(uri) as store:
        assert store.refreshes.of_all() == ()
        assert store.runs.get(run.run_id).state == "succeeded"


def test_rows_of_before_times_were_kept_say_nothing_of_them(uri: str) -> None:
    added = {
        *("last_completed_dependency", "queued_time_ms", "compilation_time_ms", "execution_time_ms"),
        *("rows_copied", "files_added", "files_deleted"),
    }
    told = {
        "table_uuid": "u1",
        "name": "ns.t",
        "state": "SUCCEEDED",
        "refresh_action": "FULL",
        "refresh_trigger": "MANUAL",
        "refresh_start_time": "2026-11-16T01:28:49.123456Z",
        "refresh_end_time": "2026-11-16T01:28:50.623456Z",
        "rows_inserted": 3,
        "rows_deleted": 0,
    }
    Store.open(uri, migrations=MIGRATIONS[:8]).close()
    values = ", ".join(repr(value) for value in told.values())
    write_by_hand(uri, f"INSERT INTO refresh_history ({', '.join(told)}) VALUES ({values})")
    (before,) = read_by_hand(uri, "SELECT * FROM refresh_history")
    assert not added & set(before)
    with Store.open(uri) as store:
        (row,) = store.refreshes.of("u1")
        assert (row.state, row.rows_inserted, row.took) == ("SUCCEEDED", 3, timedelta(seconds=1.5))
        assert {getattr(row, name) for name in added} == {None}
        store.refreshes.add([refreshed(1, compilation_time_ms=100, execution_time_ms=300)])
        assert store.refreshes.of("u1")[0].took == timedelta(milliseconds=400), "without what it waited"
    (after,) = read_by_hand(uri, "SELECT * FROM refresh_history WHERE refresh_action = 'FULL'")
    assert after == {**before, **dict.fromkeys(added)}


def test_the_refresh_of_some_tables_that_had_succeeded_last(store: Store) -> None:
    ends = {"u1": [1, 4], "u2": [2, 6], "u3": [5]}
    store.refreshes.add([refreshed(minute, uuid) for uuid, minutes in ends.items() for minute in minutes])
    store.refreshes.add([refreshed(7, "u1", state="FAILED"), refreshed(8, "u1", state="SKIPPED", refresh_action=None)])
    store.refreshes.add([refreshed(9, "u2", refresh_action="NO_DATA")])
    ends["u2"].append(9)
    for until in range(11):
        for asked in ((), ("u1",), ("u2", "u1"), ("u1", "u2", "u3"), ("unknown", "u3")):
            wanted = [minute for uuid in asked for minute in ends.get(uuid, ()) if minute < until]
            found = store.refreshes.last_done(asked, until=NOW + until * MINUTE)
            assert (None if found is None else minutes((found,))[0]) == max(wanted, default=None)


def test_recent_refreshes_are_those_that_changed_a_table_newest_first(store: Store) -> None:
    records = [
        *(refreshed(minute, uuid) for minute in range(7) for uuid in ("u1", "u2")),
        refreshed(8, state="FAILED", state_code="job_failed"),
        refreshed(9, refresh_action="NO_DATA"),
        refreshed(0, "u3", refresh_action="NO_DATA"),
    ]
    store.refreshes.add(records)
    for count in (1, 3, 100):
        wanted = {
            uuid: [row.refresh_start_time for row in reversed(records) if _changed(row, uuid)][:count]
            for uuid in ("u1", "u2")
        }
        found = store.refreshes.recent(count)
        assert {uuid: [row.refresh_start_time for row in rows] for uuid, rows in found.items()} == wanted


def _changed(row: RefreshRecord, uuid: str) -> bool:
    return (row.table_uuid, row.state) == (uuid, "SUCCEEDED") and row.refresh_action != "NO_DATA"


def test_refreshes_and_failed_runs_are_counted(store: Store) -> None:
    store.refreshes.add([refreshed(0), refreshed(1), refreshed(2, state="FAILED", state_code="job_failed")])
    assert store.refreshes.tally() == {("ns.t", "SUCCEEDED", ""): 2, ("ns.t", "FAILED", "job_failed"): 1}
    store.runs.start(make_run(state="failed", error_code="storage"))
    store.runs.start(make_run(state="failed", error_code="storage"))
    store.runs.start(make_run(state="failed", kind="refresh", error_code="job_failed"))
    store.runs.start(make_run(state="succeeded"))
    assert store.runs.errors() == {"storage": 2}
