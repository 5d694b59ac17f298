"""Whether a refresh that could follow changes had better compute the query anew: estimates, and the choice by them.

Estimates are seconds. They begin as bytes to be read and written at a rough speed, and what a changed row costs; what
past refreshes of the same table really took, against what was estimated for them, corrects the speed of either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from neve.model.dynamic import THRESHOLD, RefreshMode
from neve.model.results import Answer, Reason

FEW_ROWS = 10_000  # changed rows; so few are followed whatever their share, unless a share is set for the table
_SPEED = 40_000_000  # bytes a second, read, computed and written
_START = 0.5  # seconds that any refresh takes
_ROW = 8e-6  # seconds for each changed row to be met, added up and put in place
_MARGIN = 1.2  # by so much following must look dearer before it is given up
_WEIGHT = 0.5  # of the latest refresh among those before it
_NARROWEST = 0.1, 10.0  # a past refresh moves an estimate by so much at most


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSize:
    """A source with what changed in it; rows and bytes are those of its larger side."""

    rows: int
    bytes: int
    changed_rows: int
    changed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRefresh:
    """A refresh that succeeded: seconds it took, and what was estimated for its way before any correction."""

    incremental: bool
    seconds: float
    estimated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSizes:
    """What a choice is made from. `past` is newest first."""

    sources: Sequence[SourceSize]
    stored_bytes: int
    past: Sequence[PastRefresh] = field(default=())


class RefreshEstimate(Answer):
    """What either way would take, in seconds; `plain` are the figures before the past corrected them."""

    incremental: float
    full: float
    plain_incremental: float
    plain_full: float
    changed_share: float


@dataclass(frozen=True, slots=True)
class Choice:
    """`full` and why, or follow the changes."""

    full: bool
    reason: Reason
    estimate: RefreshEstimate


def choose_refresh(sizes: RefreshSizes, *, mode: RefreshMode, threshold: float, reason: Reason) -> Choice:
    """AUTO follows changes unless too large a share of the source rows changed, or computing anew looks cheaper.

    `reason` is why changes could be followed; INCREMENTAL follows them whatever the estimates say.
    """
    estimate = estimate_refresh(sizes)
    if mode == "INCREMENTAL":
        return Choice(False, reason, estimate)
    changed = sum(source.changed_rows for source in sizes.sources)
    if changed <= FEW_ROWS and threshold == THRESHOLD:
        return Choice(False, reason, estimate)
    if estimate.changed_share > threshold:
        detail = f"{estimate.changed_share:.0%} of the source rows changed, more than {threshold:.0%}"
        return Choice(True, Reason(code="many_changes", detail=detail), estimate)
    if estimate.incremental > _MARGIN * estimate.full:
        detail = (
            f"computing it anew is estimated at {estimate.full:.1f} s, following {changed:,} changed rows at "
            f"{estimate.incremental:.1f} s"
        )
        return Choice(True, Reason(code="costs_less", detail=detail), estimate)
    return Choice(False, reason, estimate)


def estimate_refresh(sizes: RefreshSizes) -> RefreshEstimate:
    """Both ways in seconds."""
    changed = sum(source.changed_rows for source in sizes.sources)
    incremental, full = _START + _followed(sizes) / _SPEED + changed * _ROW, _START + _anew(sizes) / _SPEED
    follows, computes = (
        [past for past in sizes.past if past.incremental is kind and past.estimated > 0] for kind in (True, False)
    )
    return RefreshEstimate(
        incremental=round(incremental * _correction(follows or computes), 3),
        full=round(full * _correction(computes or follows), 3),
        plain_incremental=round(incremental, 3),
        plain_full=round(full, 3),
        changed_share=round(_share(sizes.sources), 6),
    )


def _share(sources: Sequence[SourceSize]) -> float:
    """Of all source rows, those that changed; every row at most."""
    rows = sum(source.rows for source in sources)
    changed = sum(min(source.changed_rows, source.rows) for source in sources)
    return changed / rows if rows else 0.0


def _anew(sizes: RefreshSizes) -> float:
    """Bytes: every source, the stored rows to be compared with, and the result as large as they are."""
    return sum(source.bytes for source in sizes.sources) + 2 * sizes.stored_bytes


def _followed(sizes: RefreshSizes) -> float:
    """Bytes: the changes, every other source that they meet, the stored rows to be found, and those to be written."""
    read = 0.0
    for source in sizes.sources:
        if source.changed_rows:
            others = sum(other.bytes for other in sizes.sources if other is not source)
            read += source.changed_bytes + others
    return read + sizes.stored_bytes * (1 + _share(sizes.sources))


def _correction(past: Sequence[PastRefresh]) -> float:
    """How much longer than estimated it took, the latest counting most; 1 when nothing is known."""
    least, most = _NARROWEST
    found = 1.0
    for index, refresh in enumerate(reversed(past)):
        ratio = min(most, max(least, refresh.seconds / refresh.estimated))
        found = ratio if index == 0 else _WEIGHT * ratio + (1 - _WEIGHT) * found
    return found
