"""Full or incremental: chosen by estimates, and by what past refreshes took; no JVM."""

from __future__ import annotations

import pytest

from neve.model.dynamic import RefreshMode
from neve.model.results import Reason
from neve.plan.refresh import Choice, PastRefresh, RefreshSizes, SourceSize, choose_refresh, estimate_refresh

CHANGES = Reason(code="changes", detail="facts: 1 appends")
MB = 1_000_000


def source(rows: int, changed: int, *, width: int = 40, read: int = 0) -> SourceSize:
    return SourceSize(rows=rows, bytes=rows * width, changed_rows=changed, changed_bytes=changed * width, read=read)


def choose(
    *sources: SourceSize,
    stored: int = 0,
    mode: RefreshMode = "AUTO",
    threshold: float | None = None,
    spread: float = 1,
    past: tuple[PastRefresh, ...] = (),
) -> Choice:
    sizes = RefreshSizes(sources=sources, stored_bytes=stored, spread=spread, past=past)
    return choose_refresh(sizes, mode=mode, threshold=threshold, reason=CHANGES)


def took(seconds: float, estimated: float, *, incremental: bool, changed: int = 0, touched: int = 0) -> PastRefresh:
    return PastRefresh(
        incremental=incremental, seconds=seconds, estimated=estimated, changed_rows=changed, touched_rows=touched
    )


def test_a_small_share_is_followed_for_the_reason_that_was_given() -> None:
    choice = choose(source(10_000_000, 100_000), stored=10 * MB)
    assert (choice.full, choice.reason) == (False, CHANGES)
    assert choice.estimate.changed_share == 0.01
    assert choice.estimate.incremental < choice.estimate.full


def test_beyond_the_threshold_it_is_computed_anew() -> None:
    choice = choose(source(1_000_000, 310_000))
    assert (choice.full, choice.reason.code) == (True, "many_changes")
    assert choice.reason.detail == "31% of the source rows changed, more than 30%"
    assert not choose(source(100_000, 30_000, width=400)).full, "at the threshold it is followed"


def test_a_changed_row_costs_more_than_a_row_that_is_read() -> None:
    choice = choose(source(10_000_000, 1_000_000, width=8), stored=5 * MB)
    assert (choice.full, choice.reason.code) == (True, "costs_less"), "measured: 8.9 s to follow, 3.9 s anew"
    assert not choose(source(100_000_000, 1_000_000, width=8), stored=50 * MB).full


@pytest.mark.parametrize(("threshold", "full"), [(0.05, True), (0.1, False), (0.3, False), (0.5, False)])
def test_the_threshold_of_a_table_is_honoured_at_any_size(threshold: float, full: bool) -> None:
    assert choose(source(100, 10), threshold=threshold).full is full
    assert choose(source(10, 4), threshold=0.3).full, "what a table says counts, also where it is the default"


def test_few_rows_are_followed_whatever_their_share() -> None:
    assert not choose(source(5, 5)).full
    assert not choose(source(10_000, 10_000)).full
    assert choose(source(10_001, 10_001)).full


def test_incremental_never_gives_up_and_keeps_both_estimates() -> None:
    choice = choose(source(1_000_000, 1_000_000), mode="INCREMENTAL")
    assert (choice.full, choice.reason) == (False, CHANGES)
    assert choice.estimate.changed_share == 1.0
    assert choice.estimate.full > 0


def test_changes_count_once_however_often_a_row_changed() -> None:
    assert choose(source(1_000_000, 5_000_000)).estimate.changed_share == 1.0
    assert choose(source(0, 0)).estimate.changed_share == 0.0


def test_what_changes_are_looked_up_in_costs_reading_it() -> None:
    alone = choose(source(10_000_000, 50_000)).estimate
    joined = choose(source(10_000_000, 50_000), source(10_000_000, 0, read=1)).estimate
    both = choose(source(10_000_000, 50_000, read=1), source(10_000_000, 0, read=1)).estimate
    assert alone.incremental < joined.incremental < both.incremental


def test_sources_that_are_read_at_both_ends_are_computed_anew() -> None:
    """Dearer than reading each once."""
    big = [source(10_000_000, 1_000_000, read=2) for _ in range(4)]
    choice = choose(*big)
    assert (choice.full, choice.reason.code) == (True, "costs_less")
    assert "estimated at" in choice.reason.detail
    assert not choose(*big, mode="INCREMENTAL").full


def test_rows_of_the_result_that_a_change_touches_count_as_the_query_tells_and_then_as_it_was() -> None:
    wide = source(3_000_000, 100_000, width=10, read=1)
    assert not choose(wide, stored=40 * MB).full
    assert choose(wide, stored=40 * MB, spread=20).full
    few = took(1, 1, incremental=True, changed=100, touched=200)
    assert not choose(wide, stored=40 * MB, spread=20, past=(few,)).full
    many = took(1, 1, incremental=True, changed=100, touched=6_000)
    assert choose(wide, stored=40 * MB, past=(took(1, 1, incremental=False), many, few)).full


def test_few_rows_are_compared_only_where_the_past_says_that_following_takes_long() -> None:
    few, slow = source(3_000_000, 3_000, width=20, read=2), took(6, 1, incremental=True)
    assert not choose(few).full
    assert not choose(few, past=(slow, slow)).full
    choice = choose(few, past=(slow, slow, slow))
    assert (choice.full, choice.reason.code) == (True, "costs_less")
    anew = took(9, 1, incremental=False)
    assert not choose(few, past=(anew, slow, slow, slow)).full, "once anew was slower still"
    small = source(100_000, 3_000, width=20, read=2)
    assert not choose(small, past=(slow, slow, slow)).full, "what is small either way is followed"


def test_the_past_corrects_each_way_and_the_latest_counts_most() -> None:
    sizes = source(10_000_000, 1_000_000)
    plain = choose(sizes).estimate
    assert (plain.incremental, plain.full) == (plain.plain_incremental, plain.plain_full)
    slow = took(8, 1, incremental=True)
    choice = choose(sizes, stored=100 * MB, past=(slow, took(10, 10, incremental=False)))
    assert choice.estimate.incremental == pytest.approx(8 * choice.estimate.plain_incremental, abs=0.01)
    assert choice.estimate.full == choice.estimate.plain_full
    assert (choice.full, choice.reason.code) == (True, "costs_less")
    recovered = choose(sizes, past=(took(1, 1, incremental=True), slow)).estimate
    assert recovered.incremental == pytest.approx(4.5 * recovered.plain_incremental, abs=0.01)


def test_of_what_is_known_of_one_way_only_half_speaks_for_the_machine() -> None:
    sizes = RefreshSizes(sources=[source(1_000_000, 20_000)], stored_bytes=0, past=[took(8, 2, incremental=True)])
    estimate = estimate_refresh(sizes)
    assert estimate.incremental == pytest.approx(4 * estimate.plain_incremental, abs=0.01)
    assert estimate.full == pytest.approx(2 * estimate.plain_full, abs=0.01)


def test_one_odd_refresh_does_not_turn_everything() -> None:
    estimate = choose(source(1_000_000, 20_000), past=(took(10_000, 1, incremental=True),)).estimate
    assert estimate.incremental == pytest.approx(10 * estimate.plain_incremental, abs=0.01)
