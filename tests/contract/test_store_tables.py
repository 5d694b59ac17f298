"""The registry, the logs and the trash."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError
from tests.contract.records import (
    MINUTE,
    NOW,
    log_compaction,
    log_ingestion,
    make_run,
    make_table,
    make_trashed,
    read_by_hand,
)
from tests.contract.rivals import started

from neve.errors import AlreadyExists, TableNotFound
from neve.store import Store

AWKWARD = ["sales", "a.b.sales", "größe", "'; DROP TABLE runs; --", "100% sure?", "名" * 85]


def names_of(store: Store) -> list[str]:
    return [table.table_name for table in store.registry.list()]


def test_what_was_put_comes_back(store: Store) -> None:
    table = make_table(
        config_path="tables/sales.yaml", format="parquet", config={"columns": [{"n": 1.5}], "on": True, "é": None}
    )
    store.registry.put(table)
    assert store.registry.get("sales") == table
    assert store.registry.get("Sales") is None


@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_kept_as_written(store: Store, name: str) -> None:
    store.registry.put(make_table(name))
    store.trash.put(make_trashed("u", table_name=name))
    store.runs.start(make_run(table_name=name))
    assert names_of(store) == [name]
    assert store.trash.get(name) == make_trashed("u", table_name=name)
    assert [run.table_name for run in store.runs.list(table=name)] == [name]
    store.registry.rename(name, f"{name}2", NOW)
    assert names_of(store) == [f"{name}2"]


def test_put_replaces_and_list_is_sorted(store: Store) -> None:
    for name in ("b", "a", "B", "_", "a.z"):
        store.registry.put(make_table(name))
    store.registry.put(make_table("a", base_path="/elsewhere", updated_at=NOW + MINUTE))
    assert names_of(store) == ["B", "_", "a", "a.z", "b"]
    found = store.registry.get("a")
    assert found is not None
    assert (found.base_path, found.updated_at) == ("/elsewhere", NOW + MINUTE)


@pytest.mark.slow
def test_times_are_stored_as_utc_text(store: Store, uri: str) -> None:
    store.registry.put(make_table("a", created_at=datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))))
    rows = read_by_hand(uri, "SELECT created_at, updated_at FROM table_registry")
    assert rows == [{"created_at": "2025-12-31T23:00:00.000000Z", "updated_at": "2026-11-16T01:28:49.123456Z"}]
    with pytest.raises(ValidationError):
        make_table("b", created_at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="time zone"):
        store.registry.rename("a", "b", datetime(2026, 1, 1))  # noqa: DTZ001
    assert names_of(store) == ["a"]


def test_rename_takes_the_logs_along(store: Store, uri: str) -> None:
    store.registry.put(make_table("sales"))
    for table in ("sales", "other"):
        log_ingestion(uri, table, "2026-11-15")
        log_ingestion(uri, table, "2026-11-14")
        log_compaction(uri, table, "2026-10")
    store.registry.rename("sales", "shop.sales", NOW + MINUTE)
    assert store.registry.get("sales") is None
    assert store.registry.get("shop.sales") == make_table("sales").model_copy(
        update={"table_name": "shop.sales", "updated_at": NOW + MINUTE}
    )
    assert [row.date for row in store.ingestions.for_table("shop.sales")] == [date(2026, 11, 14), date(2026, 11, 15)]
    (compaction,) = store.compactions.for_table("shop.sales")
    assert compaction.source_files == ("a.parquet", "b.parquet")
    assert (compaction.period_start, compaction.compacted_at) == (date(2026, 10, 1), NOW)
    assert not store.ingestions.for_table("sales")
    assert not store.compactions.for_table("sales")
    assert len(store.ingestions.for_table("other")) == 2


def test_rename_onto_a_table_or_onto_an_old_log_changes_nothing(store: Store, uri: str) -> None:
    for name in ("sales", "orders"):
        store.registry.put(make_table(name))
    log_ingestion(uri, "sales", "2026-11-15")
    log_compaction(uri, "sales", "2026-10")
    log_compaction(uri, "left over", "2026-09")
    for taken in ("orders", "left over", "sales"):
        with pytest.raises(AlreadyExists, match=taken):
            store.registry.rename("sales", taken, NOW)
    assert names_of(store) == ["orders", "sales"]
    assert len(store.ingestions.for_table("sales")) == 1
    assert [row.period for row in store.compactions.for_table("left over")] == ["2026-09"]


def test_rename_of_an_unknown_table_names_the_nearest(store: Store) -> None:
    store.registry.put(make_table("sales"))
    with pytest.raises(TableNotFound) as caught:
        store.registry.rename("slaes", "x", NOW)
    assert caught.value.hint == "did you mean sales?"


def test_forget_and_what_the_logs_keep(store: Store, uri: str) -> None:
    store.registry.put(make_table("sales"))
    log_ingestion(uri, "sales", "2026-11-15")
    log_compaction(uri, "sales", "2026-10")
    assert store.registry.forget("sales") is True
    assert store.registry.forget("sales") is False
    assert store.ingestions.rename("sales", "uuid of sales") == 1
    assert store.ingestions.forget("uuid of sales") == 1
    assert store.compactions.forget("sales") == 1
    assert not store.ingestions.for_table("uuid of sales")
    assert not store.compactions.for_table("sales")


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.transaction():  # noqa: PT012
        store.registry.put(make_table("a"))
        store.trash.put(make_trashed("u"))
        assert names_of(store) == ["a"]
        raise KeyboardInterrupt
    assert names_of(store) == []
    assert store.trash.list() == ()
    with store.transaction():
        store.registry.put(make_table("a"))
        store.trash.put(make_trashed("u"))
    assert names_of(store) == ["a"]
    assert len(store.trash.list()) == 1


def test_a_failure_that_is_caught_leaves_the_rest_of_the_transaction(store: Store) -> None:
    run = make_run()
    with store.transaction():
        store.runs.start(run)
        with pytest.raises(AlreadyExists):
            store.runs.start(run)
        with pytest.raises(ZeroDivisionError), store.transaction():  # noqa: PT012
            store.registry.put(make_table("inner"))
            raise ZeroDivisionError
        store.registry.put(make_table("outer"))
    assert names_of(store) == ["outer"]
    assert store.runs.get(run.run_id) == run


def test_trash_finds_the_latest_of_a_name(store: Store) -> None:
    old = make_trashed("u1", metadata_location="/lake/u1/v3.metadata.json", run_id=make_run().run_id)
    new = make_trashed("u2", deleted_at=NOW + MINUTE)
    other = make_trashed("u3", table_name="orders", deleted_at=NOW - MINUTE)
    for table in (new, old, other):
        store.trash.put(table)
    assert store.trash.get("sales") == new
    assert store.trash.get("nothing") is None
    assert store.trash.list() == (new, old, other)
    assert store.trash.remove("u2") is True
    assert store.trash.remove("u2") is False
    assert store.trash.get("sales") == old


def test_trash_put_twice_keeps_the_second(store: Store) -> None:
    store.trash.put(make_trashed("u"))
    again = make_trashed("u", deleted_at=NOW + MINUTE, table_name="renamed")
    store.trash.put(again)
    assert store.trash.list() == (again,)


def test_trash_expires_at_its_time(store: Store) -> None:
    due, later = make_trashed("u1", purge_after=NOW), make_trashed("u2", purge_after=NOW + MINUTE)
    overdue = make_trashed("u3", purge_after=datetime(1999, 1, 1, tzinfo=UTC))
    for table in (due, later, overdue):
        store.trash.put(table)
    assert store.trash.expired(NOW) == (overdue, due)
    assert store.trash.expired(NOW - timedelta(microseconds=1)) == (overdue,)


@pytest.mark.faults
def test_of_two_processes_one_renames_one_gets_the_name_and_one_empties_the_trash(store: Store, uri: str) -> None:
    for number in range(10):
        store.trash.put(make_trashed(f"u{number}"))
        store.registry.put(make_table(f"shared_{number}"))
        for rival in range(2):
            store.registry.put(make_table(f"own_{rival}_{number}"))
    commands = [
        (
            "rename_and_remove",
            uri,
            *(f"shared_{number}=by_{rival}_{number}" for number in range(10)),
            *(f"own_{rival}_{number}=wanted_{number}" for number in range(10)),
            *(f"u{number}" for number in range(10)),
        )
        for rival in range(2)
    ]
    with started(*commands) as rivals:
        attempts = list(zip(*[rival.hear_all() for rival in rivals], strict=True))
    for number in range(10):
        won, lost = sorted(attempts[number], key=lambda said: not said.startswith("done"))
        assert (won, lost.split()[0]) == ("done None", "TableNotFound")
        won, lost = sorted(attempts[10 + number], key=lambda said: not said.startswith("done"))
        assert won == "done None"
        assert lost.startswith(f"AlreadyExists a table wanted_{number} is already registered")
        assert sorted(attempts[20 + number]) == ["done False", "done True"]
    assert sorted(name.split("_")[0] for name in names_of(store)) == ["by"] * 10 + ["own"] * 10 + ["wanted"] * 10


def test_a_table_leaves_the_trash_alive_or_condemned_but_not_both(store: Store) -> None:
    for uuid in ("back", "gone"):
        store.trash.put(make_trashed(uuid, metadata_location=f"/lake/{uuid}/v1.metadata.json", purge_after=NOW))
    assert store.trash.take("back") is True
    assert store.trash.take("back") is False
    assert store.trash.condemn("back", NOW) is False
    assert store.trash.condemn("gone", NOW - MINUTE) is False
    assert store.trash.condemn("gone", NOW) is True
    assert store.trash.take("gone") is False
    assert store.trash.condemn("gone", NOW) is True, "a purge that failed can be repeated"
    assert [row.metadata_location for row in store.trash.list()] == [None]
