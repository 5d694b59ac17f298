"""How net changes are put into a stored table: decided from its facts before, and from the changes once counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from neve.model.facts import TableFacts
from neve.model.results import Reason

Way = Literal["row_delta", "merge", "replace"]

MOST_ROWS = 1_000_000  # that go: their positions come to the driver
MOST_MATCHED = 200_000  # rows of a bag that go: every task gets them whole, to find the stored ones by
MOST_BYTES = 64 * 1024 * 1024  # the same in bytes
MOST_FILES = 1_000  # that lose rows: each costs calls into Java
MOST_SHARE = 0.2  # of the source rows: beyond, those below would find little unchanged
_VECTORS = 3  # the format that has them
_OPENING = 4 * 1024 * 1024  # bytes that Iceberg counts a file as, at least
_LEAST_SPLIT, _MOST_SPLIT = 16 * 1024 * 1024, 512 * 1024 * 1024
_TURNS = 2  # tasks of each core


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """`row_delta`: rows that go are marked where they lie, in the commit that adds the new ones. `merge`: one MERGE on
    a branch, which is then published; right for any table and any number of changes. `replace`: all rows are written
    anew in one commit, nothing is compared."""

    way: Way
    reason: Reason


def plan_apply(facts: TableFacts, *, changed_rows: int) -> ApplyPlan:
    """By what is known before the changes are computed; `changed_rows` are those of the sources, at most."""
    if facts.current is None:
        return _merge("no_snapshot", "the table has no snapshot yet")
    if facts.format_version < _VECTORS:
        return _merge("no_vectors", f"format {facts.format_version} has no deletion vectors")
    if changed_rows > MOST_ROWS:
        return _merge("many_rows", f"up to {changed_rows:,} rows changed in the sources, more than {MOST_ROWS:,}")
    return ApplyPlan(
        "row_delta", Reason(code="few_rows", detail=f"at most {changed_rows:,} rows changed in the sources")
    )


def goes_to_every_task(rows: int, size: int) -> bool:
    """Whether so many changes of the sources, of so many bytes in files, may be sent to every task."""
    return rows <= MOST_MATCHED and size <= MOST_BYTES


def split_size(facts: TableFacts, *, cores: int) -> int | None:
    """What a task reads of a stored table that is looked through, as Iceberg counts bytes. Every refresh leaves small
    files, and Iceberg would make a task of every two of them; so many tasks as keep all cores busy are enough."""
    if facts.current is None:
        return None
    files = facts.current.total("data-files") + facts.current.total("delete-files")
    weight = max(facts.current.total("files-size"), files * _OPENING)
    return min(max(weight // (cores * _TURNS), _LEAST_SPLIT), _MOST_SPLIT)


def plan_full(*, changed_share: float, followed: bool, frozen: bool) -> ApplyPlan:
    """How a result that AUTO chose to compute anew is put in place: as it is, unless tables below follow it and would
    find much of it unchanged."""
    if frozen:
        return _merge("frozen", "some rows are not to change")
    if followed and changed_share <= MOST_SHARE:
        return _merge("followed", "tables below follow what changed")
    return ApplyPlan("replace", Reason(code="anew", detail=f"{changed_share:.0%} of the source rows changed"))


def settle_apply(plan: ApplyPlan, *, placed: bool, inserted: int, deleted: int, size: int) -> ApplyPlan:
    """The plan once the changes are counted: `size` is what they take in memory, in bytes. `placed`: they tell where
    the rows that go lie, so that these need not be looked for."""
    if plan.way == "merge":
        return plan
    if deleted > MOST_ROWS:
        return _merge("many_rows", f"{deleted:,} rows go, more than {MOST_ROWS:,}")
    if not placed and deleted > MOST_MATCHED:
        return _merge("many_rows", f"{deleted:,} rows go, more than {MOST_MATCHED:,}")
    going = size * deleted // max(1, inserted + deleted)
    if not placed and going > MOST_BYTES:
        return _merge("many_bytes", f"the rows that go take {going:,} bytes, more than {MOST_BYTES:,}")
    return replace(plan, reason=Reason(code="few_rows", detail=f"{inserted:,} rows come, {deleted:,} go"))


def _merge(code: str, detail: str) -> ApplyPlan:
    return ApplyPlan("merge", Reason(code=code, detail=detail))
