"""Where the time of a refresh went: all of it belongs to one phase or another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.services.dynamic.turns import Phase, Stopwatch

PHASES: tuple[Phase, ...] = ("queued", "compilation", "execution")


class Ticks:
    """A clock that only counts, and stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 7.0

    def __call__(self) -> float:
        return self.now


def test_a_refresh_waits_is_planned_waits_for_spark_and_is_carried_out() -> None:
    ticks = Ticks()
    watch = Stopwatch(since=5.0, tick=ticks)
    for phase, seconds in (("compilation", 0.25), ("queued", 3.0), ("execution", 1.5)):
        watch.enter(phase)  # type: ignore[arg-type]
        ticks.now += seconds
    watch.stop()
    ticks.now += 100
    watch.enter("queued")
    watch.stop()
    assert {phase: watch.spent_ms(phase) for phase in PHASES} == {
        "queued": 2000 + 3000,
        "compilation": 250,
        "execution": 1500,
    }
    assert watch.since == 5.0 + 2.0 + 0.25 + 3.0 + 1.5, "when it was stopped"


@given(st.lists(st.tuples(st.sampled_from(PHASES), st.integers(0, 10**6)), max_size=20))
def test_no_time_is_lost_or_counted_twice(steps: list[tuple[Phase, int]]) -> None:
    ticks = Ticks()
    watch = Stopwatch(since=ticks.now, tick=ticks)
    for phase, milliseconds in steps:
        watch.enter(phase)
        ticks.now += milliseconds / 1000
    watch.stop()
    for phase in PHASES:
        assert watch.spent_ms(phase) == sum(spent for entered, spent in steps if entered == phase)
