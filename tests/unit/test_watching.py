"""What a watcher remembers between two looks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from neve.errors import CheckFailed, JobFailed, NeveError, StorageError
from neve.model.batching import BatchOutcome, LandedFile, SubmittedFile
from neve.model.results import Reason
from neve.plan.watching import Watcher, shapes_of

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
DAY = date(2024, 1, 1)
FILE = LandedFile(path="/landing/a.csv", bytes=3, modified_at=NOW)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def submitted(file: LandedFile, *, at: datetime = NOW) -> SubmittedFile:
    return SubmittedFile(
        table_name="t", path=file.path, date=DAY, bytes=file.bytes, modified_at=file.modified_at, submitted_at=at
    )


def failure(error: NeveError) -> BatchOutcome:
    return BatchOutcome(table="t", state="failed", dates=[DAY], reason=Reason(code=error.code, detail=error.message))


def test_a_file_has_arrived_when_it_was_seen_unchanged_for_the_time_to_settle() -> None:
    watcher = Watcher(settle=timedelta(seconds=5))
    for second, growing in ((0, True), (4.999, True), (5, False)):
        look = watcher.sort([FILE], {}, after(second))
        assert (look.growing, look.arrived) == (((FILE,), ()) if growing else ((), (FILE,)))


@pytest.mark.parametrize("change", [{"bytes": 4}, {"modified_at": after(1)}])
def test_whatever_changes_a_file_makes_it_young_again(change: dict[str, object]) -> None:
    watcher = Watcher(settle=timedelta(seconds=5))
    changed = LandedFile(**{"path": FILE.path, "bytes": FILE.bytes, "modified_at": NOW} | change)  # type: ignore[arg-type]
    watcher.sort([FILE], {}, NOW)
    assert watcher.sort([changed], {}, after(5)).growing == (changed,)
    assert watcher.sort([FILE], {}, after(9)).growing == (FILE,), "and back again"
    assert watcher.sort([FILE], {}, after(14)).arrived == (FILE,)


def test_a_file_that_went_away_and_came_back_is_new() -> None:
    watcher = Watcher(settle=timedelta(seconds=5))
    watcher.sort([FILE], {}, NOW)
    watcher.sort([], {}, after(4))
    assert watcher.sort([FILE], {}, after(6)).growing == (FILE,)


def test_what_was_submitted_or_refused_is_no_news_until_it_changes() -> None:
    watcher = Watcher(settle=timedelta(0))
    changed = LandedFile(path=FILE.path, bytes=9, modified_at=NOW)
    known = {FILE.path: submitted(FILE)}
    assert watcher.sort([FILE], known, NOW).arrived == ()
    assert watcher.sort([changed], known, NOW).arrived == (changed,)
    watcher.refuse(changed)
    assert watcher.sort([changed], known, NOW).arrived == ()
    assert watcher.sort([FILE], {}, NOW).arrived == (FILE,)
    assert watcher.sort([changed], known, NOW).arrived == (changed,), "it was away in between"


def test_what_is_wrong_with_a_file_stands_until_its_date_changes() -> None:
    watcher = Watcher(settle=timedelta(0))
    other = LandedFile(path="/landing/b.csv", bytes=1, modified_at=NOW)
    shapes = shapes_of([submitted(FILE)], [FILE])
    assert watcher.note(failure(CheckFailed("bad")), shapes, NOW) is True
    assert watcher.standing(shapes, after(1_000_000)) == {DAY}
    for rows, landed in (
        ([submitted(FILE, at=after(1))], [FILE]),
        ([submitted(FILE), submitted(other)], [FILE, other]),
        ([submitted(FILE)], []),
        ([], [FILE]),
    ):
        assert watcher.standing(shapes_of(rows, landed), NOW) == frozenset()
    loaded = BatchOutcome(table="t", state="loaded", dates=[DAY])
    assert watcher.note(loaded, shapes, NOW) is True
    assert watcher.standing(shapes, NOW) == frozenset()


@pytest.mark.parametrize("error", [StorageError("away"), JobFailed("away")])
def test_what_may_pass_is_tried_after_a_minute_then_two_up_to_an_hour_and_told_once(error: NeveError) -> None:
    watcher = Watcher(settle=timedelta(0))
    shapes = shapes_of([submitted(FILE)], [FILE])
    now, pauses, told = NOW, [], []
    for _ in range(100):
        told.append(watcher.note(failure(error), shapes, now))
        pause = 0
        while watcher.standing(shapes, now + timedelta(minutes=pause)):
            pause += 1
        pauses.append(pause)
        now += timedelta(minutes=pause)
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(pauses[8:]) == {60}
    assert told == [True] + [False] * 99
    assert watcher.note(failure(StorageError("something else")), shapes, now) is True
