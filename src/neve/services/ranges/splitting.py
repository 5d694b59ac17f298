"""Dividing key ranges that have grown. The tree of ranges changes in one commit, and rows move after it.

A row's range id is where it was written, not where it must be: readers go by the keys that files hold. So a load that
began before a range was divided is as good as any, and so is a process that dies before the rows have moved.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from neve.errors import CommitConflict, InvalidInput, LeaseHeld, StalePlan
from neve.model.names import TableName
from neve.model.range_rows import SplitReceipt, SplitRow
from neve.model.ranges import Cut, KeyRange, to_property
from neve.model.results import Reason
from neve.model.specs import RANGES
from neve.model.splits import parse_key, to_json
from neve.model.units import counted, format_count
from neve.plan.backoff import COMMIT_ATTEMPTS, commit_wait
from neve.plan.ranges import Keys, RangeReport, SplitPoint, need_keys, place_files, split_point
from neve.plan.tables import refuse_dynamic
from neve.services.context import Context
from neve.services.leases import leased
from neve.services.rewrites.carrying import carry_out
from neve.services.rewrites.looking import look_at_strays
from neve.services.runs import Progress, recorded
from neve.sql.ranges import within

_EQUAL = Reason(code="unsplittable", detail="all its rows have the same keys")


def split_table(
    context: Context, name: TableName, *, range_id: int | None = None, at: str | None = None, dry_run: bool = False
) -> SplitReceipt:
    """Divides the ranges that are full, or one that is named: at the median, or at a value of its first row key.

    Raises:
        StalePlan: somebody else divided such a range meanwhile.
    """
    began = time.monotonic()
    files = context.catalog.table_files(name)
    refuse_dynamic(files.facts, verb="divide ranges of", instead="leave it to its query")
    keys = need_keys(files.facts)
    report = RangeReport(keys, place_files(files, keys))
    rows = [_decided(context, name, report, each, at=at) for each in _asked(report, range_id, at=at)]
    found = [row for row in rows if row.split_at is not None]
    snapshot = files.facts.current_snapshot_id
    if dry_run or not found:
        return SplitReceipt(
            run_id=None,
            action="split",
            table=str(name),
            reason=None if found else _nothing(keys, rows),
            snapshot_before=snapshot,
            snapshot_after=snapshot,
            dry_run=dry_run and bool(found),
            duration_ms=round((time.monotonic() - began) * 1000),
            ranges=rows,
        )
    plan: dict[str, JsonValue] = {"ranges": [row.range for row in found]}
    with recorded(context, "split", name, plan=plan, snapshot_before=snapshot) as run:
        done = [_divided(context, name, keys, row) for row in rows]
        moved = move_strays(context, name, run)
        run.details = {"ranges": [row.model_dump(mode="json") for row in done], "files_moved": moved}
        run.snapshot_after = context.catalog.facts(name).current_snapshot_id
    return SplitReceipt(
        run_id=run.run_id,
        action="split",
        table=str(name),
        snapshot_before=snapshot,
        snapshot_after=run.snapshot_after,
        duration_ms=round((time.monotonic() - began) * 1000),
        ranges=done,
        files_moved=moved,
    )


def commit_cut(
    context: Context,
    name: TableName,
    range_id: int,
    point: SplitPoint,
    *,
    chance: Callable[[], float] = random.random,
    sleep: Callable[[float], None] = time.sleep,
) -> Cut:
    """Divides a range, unless somebody else has: that is found out before each try, and ends it.

    Raises:
        StalePlan: the range is divided already, or gone.
        CommitConflict: rivals came first every time; nothing was changed.
    """
    for attempt in range(COMMIT_ATTEMPTS):
        facts = context.catalog.facts(name)
        keys = need_keys(facts)
        found = keys.tree.ranges.get(range_id)
        if found is None or not found.leaf:
            raise StalePlan(
                f"range {range_id} of {name} was divided meanwhile", hint="look at it: neve table partitions"
            )
        tree = keys.tree.split(range_id, point.key, point.at)
        if context.catalog.swap_property(name, RANGES, expected=facts.properties[RANGES], value=to_property(tree)):
            return tree.cuts[-1]
        if attempt < COMMIT_ATTEMPTS - 1:
            sleep(commit_wait(attempt, chance()))
    raise CommitConflict(
        f"{name} was changed by others {COMMIT_ATTEMPTS} times while range {range_id} was to be divided"
    )


def move_strays(context: Context, name: TableName, run: Progress) -> int:
    """Brings rows to the ranges that they belong to; how many files. Left to the next compaction where one is running,
    or where writers are quicker."""
    try:
        with leased(context, f"compaction of {name}"):
            look = look_at_strays(context, name)
            done = carry_out(context, look, run, again=lambda _: look_at_strays(context, name))
    except (LeaseHeld, CommitConflict) as exc:
        context.tell(f"rows stay where they are for now: {exc.message}")
        return 0
    return sum(len(group.files) for group in done.groups)


def _asked(report: RangeReport, range_id: int | None, *, at: str | None) -> list[KeyRange]:
    ranges = report.keys.tree.ranges
    if range_id is None:
        if at is not None:
            raise InvalidInput("which range should be divided there?", hint="give --range too")
        full = {row.range for row in report.rows() if row.will_be_split or row.unsplittable}
        return [found for found in ranges.values() if found.id in full]
    found = ranges.get(range_id)
    if found is None or not found.leaf:
        leaves = ", ".join(str(leaf.id) for leaf in report.keys.tree.leaves[:10])
        raise InvalidInput(
            f"range {range_id} is {'divided already' if found else 'not there'}", hint=f"there are: {leaves} …"
        )
    return [found]


def _decided(context: Context, name: TableName, report: RangeReport, found: KeyRange, *, at: str | None) -> SplitRow:
    keys, rows = report.keys, report.own_rows(found.id)
    point = SplitPoint(0, parse_key(at, keys.kinds[0])) if at is not None else _median(context, name, report, found)
    if point is None:
        return SplitRow(range=found.id, rows=rows, split_key=None, split_at=None, reason=_EQUAL)
    keys.tree.split(found.id, point.key, point.at)  # refuses a value outside the range
    full = rows >= keys.threshold
    detail = f"{format_count(rows)} rows, {format_count(keys.threshold)} or more" if full else "asked for"
    return SplitRow(
        range=found.id,
        rows=rows,
        split_key=keys.row_keys[point.key],
        split_at=to_json(point.at),
        reason=Reason(code="full" if full else "asked_for", detail=detail),
    )


def _median(context: Context, name: TableName, report: RangeReport, found: KeyRange) -> SplitPoint | None:
    if any(row.range == found.id and row.unsplittable for row in report.rows()):
        return None
    from neve.engine.ranges import sample_keys
    from neve.engine.session import fresh_session

    keys = report.keys
    condition = within(found, keys.row_keys)
    return split_point(sample_keys(fresh_session(context.session.spark), name, condition, keys.row_keys))


def _divided(context: Context, name: TableName, keys: Keys, row: SplitRow) -> SplitRow:
    if row.split_key is None or row.split_at is None:
        return row
    key = keys.row_keys.index(row.split_key)
    at = bytes.fromhex(str(row.split_at)) if keys.kinds[key] == "binary" else row.split_at
    cut = commit_cut(context, name, row.range, SplitPoint(key, at))
    return row.model_copy(update={"parts": (cut.low, cut.high)})


def _nothing(keys: Keys, rows: Sequence[SplitRow]) -> Reason:
    if rows:
        return Reason(code="unsplittable", detail=f"{counted(len(rows), 'range')}: {_EQUAL.detail}")
    return Reason(code="nothing_to_do", detail=f"no range has {format_count(keys.threshold)} rows")
