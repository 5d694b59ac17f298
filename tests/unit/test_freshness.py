"""How fresh a dynamic table is, when it is due, and how often it failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.test_graph import graph, named

from neve.model.history import RefreshRecord
from neve.plan.freshness import age, scheduled_failures, target_lags

NOW = datetime(2026, 11, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("behind", "moved", "suspended", "freshness", "lag"),
    [
        (timedelta(days=9), False, False, "fresh", timedelta(0)),
        (timedelta(minutes=59), True, False, "due", timedelta(minutes=59)),
        (HOUR, True, False, "due", HOUR),
        (HOUR + timedelta(seconds=1), True, False, "late", HOUR + timedelta(seconds=1)),
        (HOUR, None, False, "unknown", None),
        (2 * HOUR, True, True, "suspended", 2 * HOUR),
        (-HOUR, True, False, "due", timedelta(0)),
    ],
)
def test_by_target_lag_and_what_moved(
    behind: timedelta, moved: bool | None, suspended: bool, freshness: str, lag: timedelta | None
) -> None:
    found = age(target=HOUR, data_timestamp=NOW - behind, now=NOW, moved=moved, suspended=suspended)
    assert (found.freshness, found.lag) == (freshness, lag)
    assert found.due_at == (None if suspended else NOW - behind + HOUR)


def test_without_a_target_nothing_is_late_and_without_rows_nothing_is_known() -> None:
    assert age(target=None, data_timestamp=NOW - 9 * HOUR, now=NOW, moved=True, suspended=False).freshness == "due"
    found = age(target=HOUR, data_timestamp=None, now=NOW, moved=None, suspended=False)
    assert (found.freshness, found.lag, found.due_at) == ("unknown", None, NOW)
    assert age(target=HOUR, data_timestamp=None, now=NOW, moved=None, suspended=True).freshness == "suspended"


def test_downstream_is_the_shortest_lag_of_those_who_read() -> None:
    (a, b, c, d, e) = named("a", "b", "c", "d", "e")
    tables = graph(a="base", b="a", c="a", d="b c", e="base")
    found = target_lags(tables, {a: "DOWNSTREAM", b: "DOWNSTREAM", c: 2 * HOUR, d: HOUR, e: "DOWNSTREAM"})
    assert found == {a: HOUR, b: HOUR, c: 2 * HOUR, d: HOUR, e: None}


def outcome(word: str) -> RefreshRecord:
    trigger, state = word.split(":")
    return RefreshRecord.model_validate(
        {
            "table_uuid": "u",
            "name": "t",
            "state": state,
            "refresh_trigger": trigger,
            "refresh_start_time": NOW,
            "refresh_end_time": NOW,
        }
    )


@pytest.mark.parametrize(
    ("newest_first", "count"),
    [
        ("", 0),
        ("SCHEDULED:FAILED SCHEDULED:FAILED SCHEDULED:SUCCEEDED SCHEDULED:FAILED", 2),
        ("SCHEDULED:FAILED MANUAL:FAILED SCHEDULED:UPSTREAM_FAILED SCHEDULED:FAILED", 2),
        ("MANUAL:SUCCEEDED SCHEDULED:FAILED", 0),
    ],
)
def test_consecutive_failures_of_the_schedule(newest_first: str, count: int) -> None:
    assert scheduled_failures(map(outcome, newest_first.split())) == count
