from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import InvalidInput
from neve.model.compaction import CompactedPeriod, DayFile, Due, NotDue, PeriodPlan
from neve.model.periods import KINDS, Period, PeriodKind, missing_dates, parse_period, period_of
from neve.model.tablefile import PeriodSpec
from neve.plan.periods import compacted_by, due_periods, eligible_at, plan_period_compaction

DAY = dt.timedelta(days=1)
NAMES: dict[PeriodKind, str] = {
    "week": "{year}-W{week}.parquet",
    "month": "{year}-{month}.parquet",
    "quarter": "{year}-Q{quarter}.parquet",
    "year": "{year}.parquet",
}
STRATEGIES: dict[str, tuple[PeriodKind, ...]] = {
    "weekly": ("week",),
    "monthly": ("month",),
    "quarterly": ("quarter",),
    "yearly": ("year",),
    "hierarchical": ("month", "year"),
}
EVERY_MORNING, FIRST_OF_MONTH, MONDAYS = "0 3 * * *", "0 3 1 * *", "0 3 * * 1"
LATER = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def outputs(*kinds: PeriodKind) -> Mapping[PeriodKind, str]:
    return {kind: NAMES[kind] for kind in kinds}


MONTHLY = PeriodSpec(outputs=outputs("month"))
COMPLETE = PeriodSpec(outputs=outputs("month"), expected="complete")
HIERARCHY = PeriodSpec(outputs=outputs("month", "year"), schedule=EVERY_MORNING)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


class World:
    """A table's folder and logs, where plans are carried out: every row is the day it belongs to and a delivery."""

    def __init__(self, spec: PeriodSpec) -> None:
        self.spec = spec
        self.files: dict[str, Counter[tuple[dt.date, int]]] = {}
        self.delivered: Counter[tuple[dt.date, int]] = Counter()
        self.days: list[DayFile] = []
        self.done: list[CompactedPeriod] = []
        self.history: list[PeriodPlan] = []

    def deliver(self, day: dt.date, *, now: dt.datetime | None = None, delivery: int = 0) -> None:
        path = f"{day}.parquet"
        rows = Counter({(day, delivery): 1 + day.day % 3})
        assert path not in self.files
        self.files[path] = rows
        self.delivered.update(rows)
        self.days = [file for file in self.days if file.path != path]
        self.days.append(DayFile(date=day, path=path, rows=rows.total(), bytes=100, ingested_at=now))

    def plan(self, period: str, *, now: dt.datetime = LATER) -> PeriodPlan:
        return plan_period_compaction(self.spec, self.days, self.done, parse_period(period), now=now)

    def judge(self, now: dt.datetime, *, by_hand: bool = False) -> dict[str, Due | NotDue]:
        found = due_periods(self.spec, self.days, self.done, now=now, by_hand=by_hand)
        return {item.period.label: item for item in found}

    def carry_out(self, plan: PeriodPlan) -> None:
        assert plan.action == "compact"
        rows: Counter[tuple[dt.date, int]] = Counter()
        for path in plan.sources:
            rows += self.files.pop(path)  # fails for a file that was picked before
        assert rows.total() == plan.rows
        if plan.merge_into is not None:
            rows += self.files.pop(plan.merge_into.output)
        assert plan.output not in self.files
        assert {day for day, _ in rows} == plan.dates
        assert all(plan.period.contains(day) for day in plan.dates)
        self.files[plan.output] = rows
        record = compacted_by(plan, self.done, output_rows=rows.total(), output_bytes=100)
        self.done = [item for item in self.done if item.period != plan.period] + [record]
        if plan.delete_source:
            self.days = [file for file in self.days if file.path not in plan.sources]
        self.history.append(plan)

    def work(self, now: dt.datetime) -> None:
        """As the worker does: whatever is due, then what became due by it."""
        while due := [item for item in self.judge(now).values() if isinstance(item, Due)]:
            for item in due:
                assert item.reason == item.plan.reason
                self.carry_out(item.plan)
            held: Counter[tuple[dt.date, int]] = Counter()
            for rows in self.files.values():
                held.update(rows)
            assert held == self.delivered

    def times(self) -> Counter[Period]:
        return Counter(plan.period for plan in self.history)


def filled(spec: PeriodSpec, days: Iterable[dt.date]) -> World:
    world = World(spec)
    for day in days:
        world.deliver(day)
    return world


def january(*, without: Iterable[int] = ()) -> list[dt.date]:
    return [day for day in parse_period("2024-01").days() if day.day not in without]


class TestOnePeriod:
    def test_a_month_of_days_becomes_one_file(self):
        world = filled(MONTHLY, january())
        plan = world.plan("2024-01")
        assert (plan.action, plan.output, plan.merge_into) == ("compact", "2024-01.parquet", None)
        assert plan.sources == tuple(f"2024-01-{day:02}.parquet" for day in range(1, 32))
        assert (plan.rows, plan.bytes) == (sum(file.rows for file in world.days), 3100)
        assert (plan.reason.code, plan.reason.detail) == ("files", f"31 files, {plan.rows} rows in 2024-01")
        assert plan.missing == ()

    def test_days_of_other_periods_are_left(self):
        around = [dt.date(2023, 12, 31), *january(), dt.date(2024, 2, 1)]
        assert {day.date for day in filled(MONTHLY, around).plan("2024-01").days} == set(january())

    def test_a_week_reaches_over_the_end_of_the_year(self):
        days = [dt.date(2024, 12, 28) + step * DAY for step in range(12)]
        plan = filled(PeriodSpec(outputs=outputs("week")), days).plan("2025-W01")
        assert plan.output == "2025-W01.parquet"
        assert [str(day.date) for day in plan.days] == [
            *("2024-12-30", "2024-12-31", "2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04", "2025-01-05")
        ]

    def test_several_files_of_one_day_are_all_taken(self):
        days = [DayFile(date=dt.date(2024, 1, 1), path=path, rows=1, bytes=1) for path in ("b", "a")]
        plan = plan_period_compaction(MONTHLY, days, [], parse_period("2024-01"), now=LATER)
        assert plan.sources == ("a", "b")

    def test_case_7_a_period_without_files_is_skipped_and_named(self):
        plan = filled(MONTHLY, january()).plan("2024-02")
        assert (plan.action, plan.reason.code, plan.reason.detail) == (
            "skip",
            "no_files",
            "no files for period 2024-02",
        )
        assert plan.sources == ()

    def test_case_8_november_with_29_files_is_refused_and_the_day_is_named(self):
        days = [day for day in parse_period("2025-11").days() if day.day != 17]
        plan = filled(COMPLETE, days).plan("2025-11")
        assert (plan.action, plan.reason.code) == ("refuse", "missing_days")
        assert plan.reason.detail == "2025-11 has 29 of 30 days; missing: 2025-11-17"
        assert plan.missing == (dt.date(2025, 11, 17),)
        assert plan.sources == ()

    def test_case_8_without_expectation_the_29_are_compacted_and_the_day_is_told(self):
        days = [day for day in parse_period("2025-11").days() if day.day != 17]
        plan = filled(MONTHLY, days).plan("2025-11")
        assert (plan.action, len(plan.sources), plan.missing) == ("compact", 29, (dt.date(2025, 11, 17),))

    def test_missing_days_are_told_in_ranges(self):
        plan = filled(COMPLETE, january(without=[1, 2, 3, 10, 30, 31])).plan("2024-01")
        assert plan.reason.detail.endswith(
            "has 25 of 31 days; missing: 2024-01-01 to 2024-01-03, 2024-01-10, 2024-01-30 to 2024-01-31"
        )

    @pytest.mark.parametrize("delete", [True, False])
    def test_case_9_a_year_with_11_months_is_refused(self, delete):
        spec = PeriodSpec(outputs=outputs("month", "year"), expected="complete", delete_source=delete)
        world = filled(spec, [day for day in parse_period("2025").days() if day.month != 11])
        for month in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12):
            world.carry_out(world.plan(f"2025-{month:02}"))
        plan = world.plan("2025")
        assert (plan.action, plan.reason.code, plan.sources) == ("refuse", "missing_days", ())
        assert plan.reason.detail == "2025 has 335 of 365 days; missing: 2025-11-01 to 2025-11-30"
        for day in parse_period("2025-11").days():
            world.deliver(day)
        world.carry_out(world.plan("2025-11"))
        world.carry_out(world.plan("2025"))
        assert world.files == {"2025.parquet": world.delivered}

    @pytest.mark.parametrize("delete", [True, False])
    def test_twice_is_nothing_to_do(self, delete):
        world = filled(PeriodSpec(outputs=outputs("month"), delete_source=delete), january())
        world.carry_out(world.plan("2024-01"))
        plan = world.plan("2024-01")
        assert (plan.action, plan.reason.code, plan.sources) == ("none", "already_compacted", ())

    @pytest.mark.parametrize("delete", [True, False])
    @pytest.mark.parametrize("expected", ["any", "complete"])
    def test_new_days_alone_are_merged_in(self, delete, expected):
        spec = PeriodSpec(outputs=outputs("month"), delete_source=delete)
        world = filled(spec, january(without=[5, 6]))
        world.carry_out(world.plan("2024-01"))
        world.spec = PeriodSpec(outputs=outputs("month"), delete_source=delete, expected=expected)
        world.deliver(dt.date(2024, 1, 6))
        world.deliver(dt.date(2024, 1, 5))
        plan = world.plan("2024-01")
        assert (plan.action, plan.reason.code) == ("compact", "new_files")
        assert plan.sources == ("2024-01-05.parquet", "2024-01-06.parquet")
        assert plan.merge_into is not None
        assert plan.merge_into.output == plan.output
        world.carry_out(plan)
        assert world.files == {"2024-01.parquet": world.delivered}
        assert world.plan("2024-01").action == "none"

    def test_a_day_that_comes_again_is_a_new_file_of_the_same_name(self):
        world = World(MONTHLY)
        world.deliver(dt.date(2024, 1, 1), now=at("2024-01-02"))
        world.carry_out(world.plan("2024-01", now=at("2024-02-01")))
        assert world.plan("2024-01").action == "none"
        world.deliver(dt.date(2024, 1, 1), now=at("2024-02-02"), delivery=1)
        plan = world.plan("2024-01", now=at("2024-02-03"))
        assert (plan.action, plan.sources) == ("compact", ("2024-01-01.parquet",))
        world.carry_out(plan)
        assert world.plan("2024-01").action == "none"

    def test_a_file_that_came_after_the_plan_is_new(self):
        world = World(MONTHLY)
        world.deliver(dt.date(2024, 1, 1), now=at("2024-01-02"))
        plan = world.plan("2024-01", now=at("2024-02-01"))
        world.carry_out(plan)
        assert world.done[0].compacted_at == at("2024-02-01")
        world.deliver(dt.date(2024, 1, 1), now=at("2024-02-01 00:00:01"), delivery=1)
        assert world.plan("2024-01").action == "compact"

    def test_files_of_shorter_periods_go_into_a_longer_one(self):
        """Also where the strategy was another one before."""
        world = filled(MONTHLY, january())
        world.carry_out(world.plan("2024-01"))
        world.spec = PeriodSpec(outputs=outputs("quarter"))
        world.deliver(dt.date(2024, 2, 1))
        plan = world.plan("2024-Q1")
        assert plan.sources == ("2024-02-01.parquet", "2024-01.parquet")
        world.carry_out(plan)
        assert world.files == {"2024-Q1.parquet": world.delivered}
        assert world.plan("2024-Q1").action == "none"

    def test_a_month_inside_a_compacted_year_is_compacted_too(self):
        world = filled(PeriodSpec(outputs=outputs("month", "year"), delete_source=True), parse_period("2024").days())
        world.carry_out(world.plan("2024"))
        assert world.days == []
        assert {world.plan(f"2024-{month:02}").reason.code for month in range(1, 13)} == {"already_compacted"}
        assert world.plan("2025-01").reason.code == "no_files"

    def test_a_log_may_count_the_file_merged_into_among_the_sources(self):
        world = filled(MONTHLY, january(without=[5]))
        world.carry_out(world.plan("2024-01"))
        world.done = [replace(item, sources=(*item.sources, item.output)) for item in world.done]
        world.deliver(dt.date(2024, 1, 5))
        assert world.plan("2024-01").merge_into == world.done[0]

    def test_a_week_that_reaches_out_of_a_month_is_left_whole(self):
        world = filled(PeriodSpec(outputs=outputs("week")), [dt.date(2024, 1, 22) + step * DAY for step in range(14)])
        world.carry_out(world.plan("2024-W04"))
        world.carry_out(world.plan("2024-W05"))
        world.spec = MONTHLY
        assert world.plan("2024-01").sources == ("2024-W04.parquet",)
        assert world.plan("2024-02").action == "none"

    @pytest.mark.parametrize(("now", "action"), [("2024-02-07 23:59", "refuse"), ("2024-02-08 00:00", "compact")])
    def test_delay_days_after_the_end_of_the_period(self, now, action):
        world = filled(PeriodSpec(outputs=outputs("month"), delay_days=7), january())
        plan = world.plan("2024-01", now=at(now))
        assert plan.action == action
        if action == "refuse":
            assert plan.reason.code == "too_early"
            assert plan.reason.detail == "2024-01 may be compacted from 2024-02-08 on (delay_days: 7)"
            assert plan.sources == ()

    def test_the_delay_can_be_overruled(self):
        plan = plan_period_compaction(
            MONTHLY,
            filled(MONTHLY, january()).days,
            [],
            parse_period("2024-01"),
            now=at("2024-01-10"),
            ignore_delay=True,
        )
        assert plan.action == "compact"

    def test_the_clock_of_the_caller_may_be_in_any_zone_but_must_have_one(self):
        world = filled(MONTHLY, january())
        east = dt.timezone(dt.timedelta(hours=5))
        assert world.plan("2024-01", now=dt.datetime(2024, 2, 1, 4, 59, tzinfo=east)).action == "refuse"
        assert world.plan("2024-01", now=dt.datetime(2024, 2, 1, 5, 0, tzinfo=east)).action == "compact"
        with pytest.raises(ValueError, match="zone"):
            world.plan("2024-01", now=dt.datetime(2024, 2, 1))  # noqa: DTZ001

    def test_disabled_is_refused(self):
        plan = filled(PeriodSpec(outputs=outputs("month"), enabled=False), january()).plan("2024-01")
        assert (plan.action, plan.reason.code) == ("refuse", "disabled")

    def test_lookback_and_trigger_do_not_bind_a_person_who_names_a_period(self):
        spec = PeriodSpec(outputs=outputs("month"), lookback_months=1, schedule=FIRST_OF_MONTH)
        assert filled(spec, january()).plan("2024-01").action == "compact"

    @pytest.mark.parametrize("period", ["2024-W05", "2024", "2024-Q1", "2024-01-01"])
    def test_a_period_of_another_kind_is_refused_with_the_right_one(self, period):
        with pytest.raises(InvalidInput, match="this table is compacted into months") as caught:
            filled(MONTHLY, january()).plan(period)
        assert "2024-01" in str(caught.value.hint)

    def test_the_end_of_the_calendar(self):
        assert filled(MONTHLY, [dt.date.max]).plan("9999-12").action == "refuse"
        world = filled(PeriodSpec(outputs=outputs("month"), schedule=EVERY_MORNING), [dt.date.max, dt.date.min])
        assert {item.reason.code for item in world.judge(LATER).values()} == {"too_early", "files"}


class TestDue:
    def test_a_manual_trigger_makes_nothing_due(self):
        found = filled(MONTHLY, january()).judge(LATER)
        assert [item.reason.code for item in found.values()] == ["manual"]

    def test_disabled_makes_nothing_due(self):
        spec = PeriodSpec(outputs=outputs("month"), schedule=EVERY_MORNING, enabled=False)
        assert [item.reason.code for item in filled(spec, january()).judge(LATER).values()] == ["disabled"]

    @pytest.mark.parametrize(
        ("now", "code", "due_at"),
        [
            ("2024-01-15 12:00", "too_early", "2024-03-01 03:00"),
            ("2024-02-07 23:59", "too_early", "2024-03-01 03:00"),
            ("2024-02-08 00:00", "waiting_for_schedule", "2024-03-01 03:00"),
            ("2024-03-01 02:59", "waiting_for_schedule", "2024-03-01 03:00"),
            ("2024-03-01 03:00", "files", None),
            ("2024-03-31 23:59", "files", None),
            ("2024-04-01 00:00", "beyond_lookback", None),
        ],
    )
    def test_the_documents_schedule(self, now, code, due_at):
        """0 3 1 * *, 7 days after the month: January waits for the first of March; and lookback_months is 1."""
        spec = PeriodSpec(outputs=outputs("month"), schedule=FIRST_OF_MONTH, delay_days=7, lookback_months=1)
        item = filled(spec, january()).judge(at(now))["2024-01"]
        assert item.reason.code == code
        assert isinstance(item, Due) == (code == "files")
        if isinstance(item, NotDue):
            assert item.due_at == (None if due_at is None else at(due_at))

    def test_a_cron_time_at_the_very_moment_counts(self):
        spec = PeriodSpec(outputs=outputs("month"), schedule="0 0 1 * *")
        assert isinstance(filled(spec, january()).judge(at("2024-02-01 00:00"))["2024-01"], Due)

    def test_by_hand_the_schedule_does_not_matter_but_delay_and_lookback_do(self):
        days = [day for month in ("2024-01", "2024-02", "2024-03", "2024-04") for day in parse_period(month).days()]
        spec = PeriodSpec(outputs=outputs("month"), delay_days=7, lookback_months=2)
        codes = {
            key: item.reason.code for key, item in filled(spec, days).judge(at("2024-04-02"), by_hand=True).items()
        }
        assert codes == {
            "2024-01": "beyond_lookback",
            "2024-02": "files",
            "2024-03": "too_early",
            "2024-04": "too_early",
        }

    def test_an_incomplete_period_is_not_due_where_all_days_are_expected(self):
        spec = PeriodSpec(outputs=outputs("month"), schedule=EVERY_MORNING, expected="complete")
        world = filled(spec, january(without=[9]))
        item = world.judge(at("2024-02-02"))["2024-01"]
        assert (item.reason.code, isinstance(item, Due)) == ("missing_days", False)
        world.deliver(dt.date(2024, 1, 9))
        assert isinstance(world.judge(at("2024-02-02"))["2024-01"], Due)

    def test_a_late_day_waits_for_the_next_cron_time_after_it_came(self):
        spec = PeriodSpec(outputs=outputs("month"), schedule=EVERY_MORNING)
        world = filled(spec, january(without=[9]))
        world.work(at("2024-02-01 03:00"))
        world.deliver(dt.date(2024, 1, 9), now=at("2024-02-10 12:00"))
        item = world.judge(at("2024-02-10 12:01"))["2024-01"]
        assert isinstance(item, NotDue)
        assert (item.reason.code, item.due_at) == ("waiting_for_schedule", at("2024-02-11 03:00"))
        assert isinstance(world.judge(at("2024-02-11 03:00"))["2024-01"], Due)

    def test_a_late_day_of_unknown_time_waits_for_the_next_cron_time_after_the_compaction(self):
        spec = PeriodSpec(outputs=outputs("month"), schedule=MONDAYS)
        world = filled(spec, january(without=[9]))
        world.work(at("2024-02-05 03:00"))
        world.deliver(dt.date(2024, 1, 9))
        item = world.judge(at("2024-02-06 12:00"))["2024-01"]
        assert isinstance(item, NotDue)
        assert item.due_at == at("2024-02-12 03:00")

    def test_a_year_waits_for_its_months_and_is_made_of_them(self):
        world = filled(HIERARCHY, parse_period("2024").days())
        found = world.judge(at("2025-01-01 03:00"))
        assert [isinstance(item, Due) for item in found.values()] == [True] * 12 + [False]
        assert (found["2024"].reason.code, found["2024"].reason.detail) == ("shorter_first", "2024-01 is due first")
        world.work(at("2025-01-01 03:00"))
        assert [plan.period.label for plan in world.history][-1] == "2024"
        assert world.history[-1].sources == tuple(f"2024-{month:02}.parquet" for month in range(1, 13))
        assert world.files == {"2024.parquet": world.delivered}
        assert {item.reason.code for item in world.judge(LATER).values()} == {"already_compacted"}

    def test_a_day_later_than_its_year_goes_through_its_month_into_the_year(self):
        world = filled(HIERARCHY, [day for day in parse_period("2024").days() if day != dt.date(2024, 12, 24)])
        world.work(at("2025-01-01 03:00"))
        world.deliver(dt.date(2024, 12, 24), now=at("2025-01-05 10:00"))
        world.work(at("2025-01-06 03:00"))
        assert [(plan.period.label, plan.sources) for plan in world.history[-2:]] == [
            ("2024-12", ("2024-12-24.parquet",)),
            ("2024", ("2024-12.parquet",)),
        ]
        assert world.files == {"2024.parquet": world.delivered}

    def test_a_worker_that_slept_catches_up_within_lookback(self):
        spec = PeriodSpec(outputs=outputs("week"), schedule=EVERY_MORNING, lookback_months=1)
        world = filled(spec, [dt.date(2024, 1, 1) + step * DAY for step in range(91)])
        world.work(at("2024-03-15 12:00"))
        assert [plan.period.label for plan in world.history] == [f"2024-W{week:02}" for week in range(5, 11)]


def first_turn(schedule: str, start: dt.datetime) -> dt.datetime:
    """The first time of one of our three schedules, by walking through the days."""
    day = start if start.time() <= dt.time(3) else start + DAY
    day = day.replace(hour=3, minute=0)
    while (schedule == FIRST_OF_MONTH and day.day != 1) or (schedule == MONDAYS and day.weekday() != 0):
        day += DAY
    return day


def months_between(earlier: dt.date, later: dt.date) -> int:
    return 12 * (later.year - earlier.year) + later.month - earlier.month


def in_lookback(spec: PeriodSpec, period: Period, now: dt.datetime) -> bool:
    assert spec.schedule is not None
    turn = first_turn(spec.schedule, midnight_after(period, spec.delay_days))
    lookback = spec.lookback_months or 10_000
    return months_between(period.last, now) <= lookback or months_between(turn, now) < lookback


def midnight_after(period: Period, delay_days: int) -> dt.datetime:
    return dt.datetime.combine(period.last, dt.time(), dt.UTC) + (delay_days + 1) * DAY


@pytest.mark.slow
class TestTheCalendar:
    """`now` walks from day to day; files come, the worker does what is due; the folder holds each row once."""

    FIRST, LAST = dt.date(2024, 1, 1), dt.date(2025, 12, 31)

    def walk(
        self, spec: PeriodSpec, lags: Mapping[dt.date, int], *, until: dt.date, asleep: Iterable[dt.date] = ()
    ) -> World:
        """Each day's file comes `lag` days after the day, at noon; the worker looks at half past three."""
        world, away = World(spec), set(asleep)
        arrivals: dict[dt.date, list[dt.date]] = {}
        for day, lag in lags.items():
            arrivals.setdefault(day + (1 + lag) * DAY, []).append(day)
        today = min(lags)
        while today <= until:
            done = len(world.history)
            now = dt.datetime.combine(today, dt.time(3, 30), dt.UTC)
            if today not in away:
                world.work(now)
            for plan in world.history[done:]:
                assert now >= midnight_after(plan.period, spec.delay_days)
                assert in_lookback(spec, plan.period, now)
            for day in arrivals.get(today, []):
                world.deliver(day, now=dt.datetime.combine(today, dt.time(12), dt.UTC))
            today += DAY
        return world

    @pytest.mark.parametrize(
        ("strategy", "schedule"),
        [
            ("weekly", EVERY_MORNING),
            ("monthly", FIRST_OF_MONTH),
            ("quarterly", MONDAYS),
            ("yearly", FIRST_OF_MONTH),
            ("hierarchical", EVERY_MORNING),
        ],
    )
    def test_in_two_years_every_period_is_compacted_exactly_once_and_on_its_day(self, strategy, schedule):
        kinds = STRATEGIES[strategy]
        spec = PeriodSpec(
            outputs=outputs(*kinds), schedule=schedule, delay_days=7, lookback_months=1, delete_source=True
        )
        days = [self.FIRST + step * DAY for step in range((self.LAST - self.FIRST).days + 1)]
        until = dt.date(2026, 2, 15)
        world = self.walk(spec, dict.fromkeys(days, 0), until=until)
        ended = [
            period
            for kind in kinds
            for period in sorted({period_of(day, kind) for day in days}, key=lambda period: period.first)
            if first_turn(schedule, midnight_after(period, 7)).date() <= until
        ]
        assert len(ended) >= 2
        assert world.times() == Counter(ended)
        for plan in world.history:
            turn = first_turn(schedule, midnight_after(plan.period, 7))
            assert plan.planned_at == turn + dt.timedelta(minutes=30)

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_in_two_years_late_days_are_merged_in_later_each_once(self, strategy):
        chance = random.Random(strategy)
        days = [self.FIRST + step * DAY for step in range((self.LAST - self.FIRST).days + 1)]
        lags = {day: chance.choice([0, 0, 0, 0, 0, 0, 0, 0, 9, 20]) for day in days}
        delete = strategy in {"weekly", "yearly"}
        spec = PeriodSpec(
            outputs=outputs(*STRATEGIES[strategy]), schedule=EVERY_MORNING, delay_days=3, delete_source=delete
        )
        world = self.walk(spec, lags, until=dt.date(2026, 2, 15))
        coarsest = max(spec.outputs, key=KINDS.index)
        assert set(world.files) == {f"{period_of(day, coarsest).label}.parquet" for day in days}
        assert any(plan.merge_into is not None for plan in world.history)
        picked = Counter(file.path for plan in world.history for file in plan.days)
        assert picked == Counter(f"{day}.parquet" for day in days)

    @settings(max_examples=15, deadline=None)
    @given(
        strategy=st.sampled_from(sorted(STRATEGIES)),
        schedule=st.sampled_from([EVERY_MORNING, FIRST_OF_MONTH, MONDAYS]),
        delay=st.integers(0, 45),
        lookback=st.sampled_from([None, 1, 2, 5]),
        delete=st.booleans(),
        expected=st.sampled_from(["any", "complete"]),
        seed=st.integers(0, 1000),
    )
    def test_whatever_comes_late_or_never_and_whoever_sleeps(
        self, *, strategy, schedule, delay, lookback, delete, expected, seed
    ):
        chance = random.Random(seed)
        start = dt.date(2020, 11, 15)  # a W53 and the end of a leap year lie ahead
        days = [start + step * DAY for step in range(90)]
        lags = {day: chance.choice([0, 0, 0, 0, 1, 5, 40]) for day in days if chance.random() > 0.02}
        asleep = [day for day in (start + step * DAY for step in range(240)) if chance.random() < 0.3]
        spec = PeriodSpec(
            outputs=outputs(*STRATEGIES[strategy]),
            schedule=schedule,
            delay_days=delay,
            lookback_months=lookback,
            delete_source=delete,
            expected=expected,
        )
        end = dt.date(2021, 7, 1)
        world = self.walk(spec, lags, until=end, asleep=asleep)
        if expected == "complete":
            assert all(plan.missing == () for plan in world.history)
            return
        now = dt.datetime.combine(end, dt.time(3, 30), dt.UTC)
        world.work(now)
        loose = {day for day in lags if f"{day}.parquet" in world.files}
        judged = world.judge(now)
        for day in loose:  # what is left has a reason
            periods = [period_of(day, kind) for kind in spec.outputs]
            codes = {judged[period.label].reason.code for period in periods}
            assert codes <= {"beyond_lookback", "too_early", "waiting_for_schedule", "already_compacted"}
            assert not all(code == "already_compacted" for code in codes)
            if "beyond_lookback" in codes:
                assert any(not in_lookback(spec, period, now) for period in periods)


class TestMissingDates:
    @given(st.sets(st.dates(dt.date(2020, 1, 1), dt.date(2020, 12, 31)), min_size=1))
    def test_days_and_missing_days_make_up_the_range(self, days):
        missing = missing_dates(days)
        assert missing == sorted(missing)
        assert not days & set(missing)
        assert days | set(missing) == {min(days) + step * DAY for step in range((max(days) - min(days)).days + 1)}

    def test_nothing_lacks_nothing(self):
        assert missing_dates([]) == []
        assert missing_dates([dt.date(2024, 1, 1)] * 2) == []


def test_eligibility_is_delay_days_after_the_end():
    spec = PeriodSpec(outputs=outputs("month"), delay_days=7)
    assert eligible_at(spec, parse_period("2024-02")) == at("2024-03-08")
    assert eligible_at(MONTHLY, parse_period("2024-02")) == at("2024-03-01")
