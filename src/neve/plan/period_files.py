"""Compaction of a period of an Iceberg table: which of its files become fewer. Pure.

The files themselves say what there is to do, so a rollback or a rewrite by another engine needs no log to be noticed.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from neve.model.compaction import Action, NotDue
from neve.model.facts import FileFact
from neve.model.periods import KINDS, Period, period_of
from neve.model.results import Reason
from neve.model.rewrites import SMALL
from neve.model.tablefile import PeriodSpec
from neve.model.units import format_bytes, format_count
from neve.plan.measures import Reach
from neve.plan.periods import DISABLED, nothing_to_compact, refusal, wait_for_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodFiles:
    """What to do about one period: its files that are rewritten, and why."""

    period: Period
    action: Action
    reason: Reason
    files: tuple[FileFact, ...] = ()
    missing: tuple[dt.date, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def plan_period_files(
    spec: PeriodSpec,
    period: Period,
    dates: Collection[dt.date],
    files: Sequence[FileFact],
    *,
    target_bytes: int,
    now: dt.datetime,
    ignore_delay: bool = False,
) -> PeriodFiles:
    """`dates` are those that the table holds, `files` all of its live ones."""
    missing = tuple(day for day in period.days() if day not in dates)
    chosen = rewritable(files, period, target_bytes)

    def decided(action: Action, reason: Reason) -> PeriodFiles:
        kept = chosen if action == "compact" else ()
        return PeriodFiles(period=period, action=action, reason=reason, files=kept, missing=missing)

    if not spec.enabled:
        return decided("refuse", DISABLED)
    if not chosen:
        return decided(*nothing_to_compact(period, missing))
    if why := refusal(spec, period, missing, now=now, ignore_delay=ignore_delay):
        return decided("refuse", why)
    size = format_bytes(sum(file.bytes for file in chosen))
    return decided("compact", Reason(code="files", detail=f"{format_count(len(chosen))} files, {size}, in {period}"))


def due_period_files(
    spec: PeriodSpec,
    dates: Mapping[dt.date, dt.datetime | None],
    files: Sequence[FileFact],
    compacted: Mapping[str, dt.datetime],
    *,
    target_bytes: int,
    now: dt.datetime,
    by_hand: bool = False,
) -> list[PeriodFiles | NotDue]:
    """Every period that has dates, shorter kinds first: the plan when its turn has come, or why it has not.

    `dates` says when each came, `compacted` when each period was last compacted, by its label.
    """
    found: list[PeriodFiles | NotDue] = []
    for kind in sorted(spec.outputs, key=KINDS.index):
        for period in sorted({period_of(day, kind) for day in dates}, key=lambda item: item.first):
            plan = plan_period_files(spec, period, dates, files, target_bytes=target_bytes, now=now)
            waits = wait_for_turn(
                spec,
                period,
                (plan.action, plan.reason),
                arrivals=[came for day, came in dates.items() if period.contains(day)],
                compacted_at=compacted.get(str(period)),
                now=now,
                by_hand=by_hand,
            )
            found.append(waits or plan)
    return found


def rewritable(files: Sequence[FileFact], period: Period, target_bytes: int) -> tuple[FileFact, ...]:
    """The data files of a period that become fewer: several small ones of one partition, or any with deleted rows."""
    return tuple(
        file
        for members in _by_partition(files).values()
        for file in _worth_rewriting(members, period, target_bytes * SMALL)
    )


def _by_partition(files: Sequence[FileFact]) -> Mapping[object, list[FileFact]]:
    found: dict[object, list[FileFact]] = defaultdict(list)
    for file in files:
        found[file.spec_id, tuple(file.partition.items())].append(file)
    return found


def _worth_rewriting(members: Sequence[FileFact], period: Period, small_bytes: float) -> list[FileFact]:
    data = [file for file in members if file.content == "data" and _touches(file, period)]
    named = {file.deletes_from for file in members if file.content != "data"}
    reach = Reach.of(members)
    holed = [file for file in data if file.path in named or reach.covers(file)]
    small = [file for file in data if file.bytes < small_bytes and file not in holed]
    return holed + (small if len(small) + len(holed) > 1 else [])


def _touches(file: FileFact, period: Period) -> bool:
    """A file that does not say which dates it holds may hold any."""
    if file.ingest_dates is None:
        return True
    first, last = file.ingest_dates
    return first <= period.last and last >= period.first
