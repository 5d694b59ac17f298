"""`submitted_files`: pending, loaded, pending again; and always with its table."""

from __future__ import annotations

import os
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.records import MINUTE, NOW, make_table, read_by_hand

from neve.errors import AlreadyExists
from neve.model.batching import SubmittedFile
from neve.model.runs import new_run_id
from neve.store import Store
from neve.store.schema import MIGRATIONS

RUN, OTHER = new_run_id(NOW, os.urandom), new_run_id(NOW + MINUTE, os.urandom)
DAY = date(2026, 11, 15)


def make_file(path: str = "/landing/a.csv", **given: object) -> SubmittedFile:
    defaults = {
        "table_name": "sales",
        "path": path,
        "date": DAY,
        "bytes": 5_000_000_000,
        "modified_at": NOW - MINUTE,
        "submitted_at": NOW,
    }
    return SubmittedFile.model_validate(defaults | given)


def test_what_was_submitted_comes_back_by_path(store: Store) -> None:
    files = [make_file(path) for path in ("/landing/b.csv", "/landing/a'; --.csv", "s3://bucket/größe 100%.csv")]
    for file in files:
        store.submissions.put(file)
    store.submissions.put(make_file(table_name="other"))
    found = store.submissions.for_table("sales")
    assert sorted(found, key=lambda row: row.path) == sorted(files, key=lambda row: row.path)
    assert store.submissions.for_table("Sales") == ()


def test_a_path_that_is_submitted_again_is_pending_with_its_new_date_and_size(store: Store) -> None:
    store.submissions.put(make_file())
    again = make_file(date=DAY + timedelta(days=1), bytes=7, submitted_at=NOW + MINUTE)
    store.submissions.put(again)
    assert store.submissions.for_table("sales") == (again,)
    assert store.submissions.mark(again, RUN) is True
    assert [row.run_id for row in store.submissions.for_table("sales")] == [RUN]
    store.submissions.put(again)
    assert store.submissions.for_table("sales") == (again,)


def test_a_file_that_was_submitted_again_while_it_was_loaded_stays_pending(store: Store) -> None:
    first = make_file()
    store.submissions.put(first)
    store.submissions.put(make_file(submitted_at=NOW + timedelta(microseconds=1)))
    assert store.submissions.mark(first, RUN) is False
    assert [row.run_id for row in store.submissions.for_table("sales")] == [None]


def test_reopening_dates_leaves_other_dates_and_tables_alone(store: Store) -> None:
    for file in (make_file("a"), make_file("b"), make_file("c", date=date(2026, 1, 1)), make_file(table_name="other")):
        store.submissions.put(file)
        store.submissions.mark(file, RUN)
    store.submissions.put(make_file("d"))
    assert store.submissions.reopen("sales", [DAY, date(2020, 1, 1)]) == 2
    runs = {row.path: row.run_id for row in store.submissions.for_table("sales")}
    assert runs == {"a": None, "b": None, "c": RUN, "d": None}
    assert [row.run_id for row in store.submissions.for_table("other")] == [RUN]


def test_submissions_are_renamed_with_their_table_and_never_mixed(store: Store) -> None:
    for name in ("sales", "orders"):
        store.registry.put(make_table(name))
        store.submissions.put(make_file(table_name=name))
    store.registry.forget("orders")
    with pytest.raises(AlreadyExists, match="submitted_files"):
        store.registry.rename("sales", "orders", NOW)
    assert [row.path for row in store.submissions.for_table("sales")] == ["/landing/a.csv"]
    store.registry.rename("sales", "shop.sales", NOW)
    assert store.submissions.for_table("shop.sales") == (make_file(table_name="shop.sales"),)
    assert store.submissions.forget("shop.sales") == 1
    assert len(store.submissions.for_table("orders")) == 1


def test_a_store_of_the_first_schema_gets_the_table_and_keeps_its_rows(uri: str) -> None:
    with Store.open(uri, migrations=MIGRATIONS[:1]) as old:
        old.registry.put(make_table("sales"))
    with Store.open(uri) as store:
        store.submissions.put(make_file())
        assert [table.table_name for table in store.registry.list()] == ["sales"]
    rows = read_by_hand(uri, "SELECT date, bytes, submitted_at, run_id FROM submitted_files")
    assert rows == [
        {
            "date": "2026-11-15",
            "bytes": 5_000_000_000,
            "submitted_at": "2026-11-16T01:28:49.123456Z",
            "run_id": None,
        }
    ]


PATHS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PATHS, st.integers(1, 2)),
        st.tuples(st.just("mark"), PATHS, st.sampled_from([RUN, OTHER])),
        st.tuples(st.just("mark_old"), PATHS, st.just(RUN)),
        st.tuples(st.just("withdraw"), PATHS, st.none()),
        st.tuples(st.just("reopen"), st.none(), st.integers(1, 2)),
    ),
    max_size=12,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@pytest.mark.slow
def test_any_order_of_steps_ends_as_in_a_dict(store: Store, steps: list[tuple[str, str, object]]) -> None:
    store.submissions.forget("sales")
    model: dict[str, SubmittedFile] = {}
    for number, (verb, path, value) in enumerate(steps):
        held = model.get(path)
        if verb == "put":
            day = DAY + timedelta(days=int(str(value)))
            model[path] = make_file(path, date=day, submitted_at=NOW + number * MINUTE)
            store.submissions.put(model[path])
        elif verb == "mark" and held is not None:
            assert store.submissions.mark(held, str(value)) is True
            model[path] = held.model_copy(update={"run_id": value})
        elif verb == "mark_old":
            assert store.submissions.mark(make_file(path, submitted_at=NOW - MINUTE), str(value)) is False
        elif verb == "withdraw":
            assert store.submissions.withdraw(make_file(path)) is (model.pop(path, None) is not None)
        elif verb == "reopen":
            day = DAY + timedelta(days=int(str(value)))
            closed = {key: row for key, row in model.items() if row.date == day and row.run_id}
            assert store.submissions.reopen("sales", [day]) == len(closed)
            model |= {key: row.model_copy(update={"run_id": None}) for key, row in closed.items()}
    assert {row.path: row for row in store.submissions.for_table("sales")} == model


def test_tables_with_files_to_load_are_named_once(store: Store) -> None:
    store.submissions.put(make_file("/a"))
    store.submissions.put(make_file("/b"))
    store.submissions.put(make_file("/c", table_name="orders"))
    assert store.submissions.pending() == ("orders", "sales")
    store.submissions.mark(make_file("/c", table_name="orders"), RUN)
    assert store.submissions.pending() == ("sales",)
