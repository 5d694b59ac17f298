"""Compaction of days into periods: what one period needs, and which periods are due. Pure; times are UTC.

A file is picked once. It counts as compacted when a done period lists it among its sources and it did not come again
later: a day that is re-delivered, or a month that takes in a late day, keeps its name and is a new file all the same.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cronsim import CronSim

from neve.errors import InvalidInput
from neve.model.compaction import Action, CompactedPeriod, DayFile, Due, NotDue, PeriodPlan
from neve.model.patterns import format_pattern
from neve.model.periods import KINDS, Period, PeriodKind, date_ranges, period_of
from neve.model.results import Reason
from neve.model.tablefile import PeriodSpec
from neve.model.units import counted

_DAY = dt.timedelta(days=1)
_LONGEST = 366 * _DAY
_SECOND = dt.timedelta(seconds=1)
_NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)
DISABLED = Reason(code="disabled", detail="compaction.enabled is false")


def plan_period_compaction(
    spec: PeriodSpec,
    days: Sequence[DayFile],
    done: Sequence[CompactedPeriod],
    period: Period,
    *,
    now: dt.datetime,
    ignore_delay: bool = False,
) -> PeriodPlan:
    """What a person who names a period gets: trigger and lookback do not matter, `enabled` and `delay_days` do.

    Raises:
        InvalidInput: the table is not compacted into periods of this kind.
    """
    check_kind(spec, period)
    return _plan(spec, _Facts.of(days, done).about(period), now=_utc(now), ignore_delay=ignore_delay)


def check_kind(spec: PeriodSpec, period: Period) -> None:
    """Raises InvalidInput when the table is not compacted into periods of this kind."""
    if period.kind in spec.outputs:
        return
    kinds = " and ".join(f"{kind}s" for kind in spec.outputs)
    example = period_of(period.first, next(iter(spec.outputs)))
    raise InvalidInput(
        f"{period} is a {period.kind}, and this table is compacted into {kinds}",
        hint=f"give a period such as {example}, or change compaction.strategy.type",
    )


def due_periods(
    spec: PeriodSpec,
    days: Sequence[DayFile],
    done: Sequence[CompactedPeriod],
    *,
    now: dt.datetime,
    by_hand: bool = False,
) -> list[Due | NotDue]:
    """Every period that has files, shorter kinds first, with its turn or the reason why it has none.

    On a schedule, a period is due when a cron time has passed since it became eligible (`delay_days` after its end),
    since it was last compacted and since its first new file came. `lookback_months` leaves out a period that ended more
    calendar months ago; counted anew from its first turn, so that neither delay nor a rare schedule can hide a period
    before that. `by_hand` asks what a person may compact now: schedule and manual trigger do not matter then.

    A longer period waits while a shorter one inside it is due: carry those out, read the facts again, ask again.
    """
    facts = _Facts.of(days, done)
    moment = _utc(now)
    found: list[Due | NotDue] = []
    for kind in sorted(spec.outputs, key=KINDS.index):
        for period in facts.periods(kind):
            judged = _judge(spec, facts.about(period), now=moment, by_hand=by_hand)
            found.append(_after_shorter(judged, found))
    return found


def compacted_by(
    plan: PeriodPlan, done: Sequence[CompactedPeriod], *, output_rows: int, output_bytes: int
) -> CompactedPeriod:
    """What to remember once a plan was carried out, in place of what was known of its period.

    The sources of earlier compactions are kept, so that no file is ever picked again. The time is that of the plan, so
    that a file which came since counts as new.
    """
    earlier = [path for item in done if item.period == plan.period for path in item.sources]
    return CompactedPeriod(
        period=plan.period,
        output=plan.output,
        sources=tuple(dict.fromkeys([*earlier, *plan.sources])),
        dates=plan.dates,
        rows=output_rows,
        bytes=output_bytes,
        compacted_at=plan.planned_at,
    )


def eligible_at(spec: PeriodSpec, period: Period) -> dt.datetime:
    """The first moment at which a period may be compacted: `delay_days` after its last day has ended."""
    try:
        return dt.datetime.combine(period.last, dt.time(), dt.UTC) + (1 + spec.delay_days) * _DAY
    except OverflowError:
        return _NEVER


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one period: its day files, and the compacted periods that share a day with it."""

    period: Period
    days: tuple[DayFile, ...]
    done: tuple[CompactedPeriod, ...]
    compacted: Mapping[str, dt.datetime]

    def new_days(self) -> tuple[DayFile, ...]:
        return tuple(day for day in self.days if self._is_new(day.path, day.ingested_at))

    def shorter_periods(self) -> tuple[CompactedPeriod, ...]:
        """Files of shorter periods that lie wholly inside and that no longer period has taken in."""
        shorter = [item for item in self.done if item.period != self.period and self.period.contains(item.period)]
        return tuple(item for item in shorter if self._is_new(item.output, item.compacted_at))

    def has_news(self) -> bool:
        return bool(self.new_days() or self.shorter_periods())

    def latest(self) -> CompactedPeriod | None:
        same = [item for item in self.done if item.period == self.period]
        return same[-1] if same else None

    def standing(self) -> CompactedPeriod | None:
        """The period's own file, unless a longer period has taken it in."""
        latest = self.latest()
        return latest if latest and self._is_new(latest.output, latest.compacted_at) else None

    def dates(self) -> set[dt.date]:
        """Every day of the period that was ever delivered."""
        held = {day for item in self.done for day in item.dates if self.period.contains(day)}
        return held | {day.date for day in self.days}

    def _is_new(self, path: str, came: dt.datetime | None) -> bool:
        compacted = self.compacted.get(path)
        return compacted is None or (came is not None and came > compacted)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Day files and compacted periods in order of their days, and when each path was last compacted."""

    days: tuple[DayFile, ...]
    done: tuple[CompactedPeriod, ...]
    compacted: Mapping[str, dt.datetime]

    @classmethod
    def of(cls, days: Sequence[DayFile], done: Sequence[CompactedPeriod]) -> _Facts:
        compacted: dict[str, dt.datetime] = {}
        for item in done:
            for path in item.sources:
                if path != item.output:  # a file that was merged into is its own successor
                    compacted[path] = max(item.compacted_at, compacted.get(path, item.compacted_at))
        in_order = sorted(done, key=lambda item: (item.period.first, item.period.last, item.compacted_at))
        return cls(tuple(sorted(days, key=lambda day: (day.date, day.path))), tuple(in_order), compacted)

    def periods(self, kind: PeriodKind) -> list[Period]:
        dates = {day.date for day in self.days}.union(*(item.dates for item in self.done))
        return sorted({period_of(day, kind) for day in dates}, key=lambda period: period.first)

    def about(self, period: Period) -> _Known:
        start = bisect_left(self.days, period.first, key=lambda day: day.date)
        end = bisect_right(self.days, period.last, key=lambda day: day.date)
        return _Known(period, self.days[start:end], self._sharing(period), self.compacted)

    def _sharing(self, period: Period) -> tuple[CompactedPeriod, ...]:
        earliest = max(period.first, dt.date.min + _LONGEST) - _LONGEST
        start = bisect_left(self.done, earliest, key=lambda item: item.period.first)
        end = bisect_right(self.done, period.last, key=lambda item: item.period.first)
        return tuple(item for item in self.done[start:end] if item.period.last >= period.first)


def _plan(spec: PeriodSpec, known: _Known, *, now: dt.datetime, ignore_delay: bool) -> PeriodPlan:
    period, dates = known.period, known.dates()
    plan = PeriodPlan(
        period=period,
        action="compact",
        reason=Reason(code="files", detail=""),
        planned_at=now,
        output=format_pattern(spec.outputs[period.kind], period, spec.date_format),
        days=known.new_days(),
        periods=known.shorter_periods(),
        merge_into=known.standing(),
        delete_source=spec.delete_source,
        missing=tuple(day for day in period.days() if day not in dates),
    )
    action, reason = _decide(spec, plan, now=now, ignore_delay=ignore_delay)
    if action == "compact":
        return replace(plan, reason=reason)
    return replace(plan, action=action, reason=reason, days=(), periods=())


def _decide(spec: PeriodSpec, plan: PeriodPlan, *, now: dt.datetime, ignore_delay: bool) -> tuple[Action, Reason]:
    period = plan.period
    if not spec.enabled:
        return "refuse", DISABLED
    if not plan.sources:
        return nothing_to_compact(period, plan.missing)
    if why := refusal(spec, period, plan.missing, now=now, ignore_delay=ignore_delay):
        return "refuse", why
    what = f"{counted(len(plan.sources), 'file')}, {counted(plan.rows, 'row')}"
    if plan.merge_into is not None:
        return "compact", Reason(code="new_files", detail=f"{what} came after {period} was compacted")
    return "compact", Reason(code="files", detail=f"{what} in {period}")


def nothing_to_compact(period: Period, missing: Sequence[dt.date]) -> tuple[Action, Reason]:
    """A period without work: nothing was ever delivered, or everything is compacted."""
    if len(missing) == len(period.days()):
        return "skip", Reason(code="no_files", detail=f"no files for period {period}")
    return "none", _settled(period)


def refusal(
    spec: PeriodSpec, period: Period, missing: Sequence[dt.date], *, now: dt.datetime, ignore_delay: bool
) -> Reason | None:
    """Why a period must not be compacted yet, though it has files."""
    start = eligible_at(spec, period)
    if now < start and not ignore_delay:
        detail = f"{period} may be compacted from {start:%Y-%m-%d} on"
        return Reason(code="too_early", detail=f"{detail} (delay_days: {spec.delay_days})")
    if missing and spec.expected == "complete":
        return _incomplete(period, missing)
    return None


def _settled(period: Period) -> Reason:
    return Reason(code="already_compacted", detail=f"every file of {period} is compacted already")


def _incomplete(period: Period, missing: Sequence[dt.date]) -> Reason:
    total = len(period.days())
    detail = f"{period} has {total - len(missing)} of {total} days; missing: {date_ranges(missing)}"
    return Reason(code="missing_days", detail=detail)


def _judge(spec: PeriodSpec, known: _Known, *, now: dt.datetime, by_hand: bool) -> Due | NotDue:
    period = known.period
    if spec.enabled and not known.has_news():
        return NotDue(period=period, reason=_settled(period))
    plan = _plan(spec, known, now=now, ignore_delay=False)
    latest = known.latest()
    waits = wait_for_turn(
        spec,
        period,
        (plan.action, plan.reason),
        arrivals=[None] if plan.periods else [day.ingested_at for day in plan.days],
        compacted_at=latest.compacted_at if latest else None,
        now=now,
        by_hand=by_hand,
    )
    return waits or Due(period=period, reason=plan.reason, plan=plan)


def wait_for_turn(
    spec: PeriodSpec,
    period: Period,
    decided: tuple[Action, Reason],
    *,
    arrivals: Sequence[dt.datetime | None],
    compacted_at: dt.datetime | None,
    now: dt.datetime,
    by_hand: bool,
) -> NotDue | None:
    """Why a period's turn has not come, when it has not.

    `arrivals` are the times at which its new files came, None where nobody knows.
    """
    action, reason = decided
    if action != "compact" and reason.code != "too_early":
        return NotDue(period=period, reason=reason)
    schedule = None if by_hand else spec.schedule
    if schedule is None and not by_hand:
        manual = Reason(code="manual", detail=f"compaction.trigger is manual; {reason.detail}")
        return NotDue(period=period, reason=manual)
    start = eligible_at(spec, period)
    first_turn = start if schedule is None else _tick(schedule, start - _SECOND)
    if action != "compact":
        return NotDue(period=period, reason=reason, due_at=first_turn)
    if spec.lookback_months is not None and _is_beyond(spec.lookback_months, period, first_turn, now):
        detail = f"{period} ended more than {counted(spec.lookback_months, 'month')} ago (lookback_months)"
        return NotDue(period=period, reason=Reason(code="beyond_lookback", detail=detail))
    later = None if schedule is None else _next_turn(schedule, arrivals, compacted_at)
    turn = max(first_turn, later or first_turn)
    if turn > now:
        detail = f"{reason.detail}; the schedule's next time is {turn:%Y-%m-%d %H:%M} UTC"
        return NotDue(period=period, reason=Reason(code="waiting_for_schedule", detail=detail), due_at=turn)
    return None


def _next_turn(
    schedule: str, arrivals: Sequence[dt.datetime | None], compacted_at: dt.datetime | None
) -> dt.datetime | None:
    """The first cron time after the period was last compacted and after its first new file came, where known."""
    told = [came for came in arrivals if came is not None]
    earliest = min(told, default=None) if len(told) == len(arrivals) else None
    since = [moment for moment in (compacted_at, earliest) if moment is not None]
    return _tick(schedule, _utc(max(since))) if since else None


def _after_shorter(judged: Due | NotDue, found: Sequence[Due | NotDue]) -> Due | NotDue:
    if isinstance(judged, NotDue):
        return judged
    due = (item.period for item in found if isinstance(item, Due))
    first = next((period for period in due if period != judged.period and judged.period.contains(period)), None)
    if first is None:
        return judged
    return NotDue(period=judged.period, reason=Reason(code="shorter_first", detail=f"{first} is due first"))


def _is_beyond(lookback: int, period: Period, first_turn: dt.datetime, now: dt.datetime) -> bool:
    this_month = _month_number(now)
    return this_month > _month_number(period.last) + lookback and this_month >= _month_number(first_turn) + lookback


def _month_number(day: dt.date) -> int:
    return 12 * day.year + day.month


def _tick(schedule: str, after: dt.datetime) -> dt.datetime:
    try:
        return next(CronSim(schedule, after), _NEVER)
    except OverflowError:
        return _NEVER


def _utc(moment: dt.datetime) -> dt.datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without its zone")
    return moment.astimezone(dt.UTC)
