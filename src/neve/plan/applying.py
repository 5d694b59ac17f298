"""How net changes are put into a stored table: decided from its facts before, and from the changes once counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from neve.model.facts import TableFacts
from neve.model.results import Reason

Way = Literal["row_delta", "merge"]

MOST_ROWS = 1_000_000  # that go: their positions come to the driver
MOST_MATCHED = 200_000  # changes of a bag, which every task gets whole to find stored rows by
MOST_BYTES = 64 * 1024 * 1024  # the same in bytes
MOST_FILES = 1_000  # that lose rows: each costs calls into Java
_VECTORS = 3  # the format that has them


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """`row_delta`: rows that go are marked where they lie, in the commit that adds the new ones. `merge`: one MERGE on
    a branch, which is then published; right for any table and any number of changes."""

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


def settle_apply(plan: ApplyPlan, *, keyed: bool, inserted: int, deleted: int, size: int) -> ApplyPlan:
    """The plan once the changes are counted: `size` is what they take in memory, in bytes."""
    if plan.way == "merge":
        return plan
    if deleted > MOST_ROWS:
        return _merge("many_rows", f"{deleted:,} rows go, more than {MOST_ROWS:,}")
    if not keyed and inserted + deleted > MOST_MATCHED:
        return _merge("many_rows", f"{inserted + deleted:,} rows change, more than {MOST_MATCHED:,}")
    if not keyed and size > MOST_BYTES:
        return _merge("many_bytes", f"the changes take {size:,} bytes, more than {MOST_BYTES:,}")
    return replace(plan, reason=Reason(code="few_rows", detail=f"{inserted:,} rows come, {deleted:,} go"))


def _merge(code: str, detail: str) -> ApplyPlan:
    return ApplyPlan("merge", Reason(code=code, detail=detail))
