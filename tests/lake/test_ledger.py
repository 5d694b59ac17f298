"""What a table holds of each date after loads were undone, emptied or expired, on lakes without Spark."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from tests.lake.lakes import V2, append, current, facts

from neve.lake import Lake
from neve.model.ingest import SUMMARY, IngestPlan
from neve.model.names import TableName
from neve.model.retention import StoredFile
from neve.model.runs import new_run_id
from neve.plan.ingest import make_delivery, plan_ingest
from neve.services.ledger import doubtful_dates, held_dates, held_records, log_ingest
from neve.services.look import RUN_ID
from neve.services.verification import compare

FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)


class Loads:
    """Loads as an ingest makes them: the content is a word, and each brings one row."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake, self.context, self.name = lake, lake._context, TableName.parse("t")
        self.now = datetime.now(UTC)
        monkeypatch.setattr(self.context, "clock", lambda: self.now)
        lake.tables.create("t", "id bigint", properties=V2)
        self.table = lake.table("t")

    def plan(self, content: str, day: date = FIRST) -> IngestPlan:
        found = facts(self.lake, "t")
        held = doubtful_dates(self.context, found) | held_dates(self.context, found)
        delivery = make_delivery(day, [], cleaning=content)
        return plan_ingest([delivery], held, base_snapshot=None, replace=False)

    def would(self, content: str, day: date = FIRST) -> str:
        return self.plan(content, day).dates[0].action

    def load(self, content: str, day: date = FIRST) -> int:
        """The snapshot that it made."""
        plan, run_id = self.plan(content, day), new_run_id(self.now, os.urandom)
        assert plan.work, f"{content} is there already"
        snapshot = append(self.lake, "t", [{"id": 1}], summary=self.summary(plan, run_id))
        log_ingest(self.context, self.name, plan, run_id=run_id, rows_by_date={day: 1}, rejected_by_date={})
        return snapshot

    def summary(self, plan: IngestPlan, run_id: str) -> Mapping[str, str]:
        hashes = {str(item.delivery.date): item.delivery.content_hash for item in plan.work}
        return {RUN_ID: run_id, SUMMARY: json.dumps(hashes)}

    def empty(self) -> None:
        table = self.context.catalog._backend.open_table(self.name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Merge on read|Parquet writer option")
            table.delete("true")

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)

    def expire(self) -> None:
        """Everything that need not stay."""
        self.pass_days(8)
        assert self.table.expire().expired


@pytest.fixture
def loads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Loads:
    return Loads(lake, monkeypatch)


def test_a_rollback_and_an_expiry_leave_known_what_came_before(loads: Loads) -> None:
    """The log has one row per date: it spoke of the load that was undone, and then of none."""
    first = loads.load("A")
    loads.load("B")
    loads.table.rollback(first)
    loads.load("other", SECOND)
    assert (loads.would("A"), loads.would("B"), loads.would("C")) == ("skip", "replace", "replace")
    loads.expire()
    assert len(loads.table.history()) == 1
    assert (loads.would("A"), loads.would("B"), loads.would("C")) == ("skip", "replace", "replace")


def test_a_date_whose_earlier_load_had_expired_is_replaced_after_a_rollback(loads: Loads) -> None:
    """Its rows are there, and neither a snapshot nor the log knows of them."""
    loads.load("A")
    before = loads.load("other", SECOND)
    loads.expire()
    loads.load("B")
    loads.table.rollback(before)
    for day in (3, 4):
        assert [loads.would(content) for content in "ABC"] == ["replace"] * 3
        assert loads.plan("C").dates[0].reason.code == "unknown_content"
        loads.load("more", date(2024, 1, day))
        loads.expire()


def test_what_was_undone_and_is_known_to_be_gone_is_a_new_date(loads: Loads) -> None:
    before = loads.load("other", SECOND)
    loads.load("B")
    loads.table.rollback(before)
    assert loads.would("B") == "load"


def test_an_expiry_beside_an_ingest_does_not_undo_it(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows lie on a branch while the expiry looks, and are published before that commits."""
    loads.load("old", SECOND)
    loads.load("new", SECOND)
    loads.pass_days(8)
    catalog = loads.context.catalog
    plan, run_id = loads.plan("A"), new_run_id(loads.now, os.urandom)
    base = current(loads.lake, "t")
    staged = append(loads.lake, "t", [{"id": 1}], summary=loads.summary(plan, run_id))
    catalog.set_current_snapshot(loads.name, base, expected=staged)
    catalog.create_branch(loads.name, f"neve_{run_id.lower()}", snapshot_id=staged)
    look, publishing = catalog.only_through, [base]

    def publish_first(*given: Any) -> list[StoredFile]:
        found = look(*given)
        while publishing:
            catalog.set_current_snapshot(loads.name, staged, expected=publishing.pop())
            log_ingest(loads.context, loads.name, plan, run_id=run_id, rows_by_date={FIRST: 1}, rejected_by_date={})
        return found

    monkeypatch.setattr(catalog, "only_through", publish_first)
    assert loads.table.expire().expired
    assert [row.status for row in loads.context.store.ingestions.for_table("t")] == ["success"] * 2
    catalog.remove_branch(loads.name, f"neve_{run_id.lower()}")
    loads.load("later", SECOND)
    loads.expire()
    assert staged not in {row.snapshot for row in loads.table.history()}
    assert loads.would("A") == "skip"


@pytest.mark.parametrize("expires", [False, True])
def test_an_emptied_table_holds_nothing(loads: Loads, *, expires: bool) -> None:
    loads.load("gone", SECOND)
    loads.load("A")
    if expires:
        loads.expire()
    loads.empty()
    assert (loads.would("A"), loads.would("gone", SECOND)) == ("load", "load")
    assert held_dates(loads.context, facts(loads.lake, "t")) == {}
    assert loads.table.status().ingestion.total_ingestions == 0
    loads.load("A")
    assert loads.would("A") == "skip"
    loads.expire()
    assert loads.would("A") == "skip"
    assert loads.would("gone", SECOND) == "replace", "nobody knows any more that it was emptied"


def test_status_and_verify_speak_of_what_is_held(loads: Loads) -> None:
    first = loads.load("A")
    loads.load("B", SECOND)
    assert loads.table.status().ingestion.total_rows == 2
    loads.table.rollback(first)
    block = loads.table.status().ingestion
    assert (block.total_ingestions, block.total_rows, block.last_date) == (1, 1, str(FIRST))
    found = facts(loads.lake, "t")
    rows = compare(loads.context, loads.name, {FIRST: 1}, held_records(loads.context, found))
    assert [(row.date, row.state) for row in rows] == [(FIRST, "ok")]
