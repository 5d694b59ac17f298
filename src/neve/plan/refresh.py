"""Whether a refresh that could follow changes had better compute the query anew: estimates, and the choice by them.

Estimates are seconds. They begin as bytes to be read and written at a rough speed, and what changed and touched rows
cost; what past refreshes of the same table really took, against what was estimated for them, corrects either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from neve.model.dynamic import THRESHOLD, RefreshMode
from neve.model.results import Answer, Reason

FEW_ROWS = 10_000  # changed rows; so few are followed whatever their share, unless a share is set for the table
SPREAD = 20.0  # rows of a result that a changed row touches where touched keys are computed anew, before any is known
_SPEED = 40_000_000  # bytes a second, read, computed and written
_LOOKED_THROUGH = 0.5  # of that time is taken by rows that are only looked through for what changes meet
_START = 0.5  # seconds that any refresh takes
_ROW = 8e-6  # seconds for each changed row to be met and added up
_PUT = 4e-6  # seconds for each row of the result that comes or goes
_LONG = 1.0  # seconds: what is computed anew in less is never worth a doubt
_KNOWN = 3  # past refreshes that say more than a guess
_MARGIN = 1.2  # by so much following must look dearer before it is given up
_WEIGHT = 0.5  # of the latest refresh among those before it
_NARROWEST = 0.1, 10.0  # a past refresh moves an estimate by so much at most


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSize:
    """A source with what changed in it; rows and bytes are those of its larger side. `read`: how often changes are
    looked up in all of it, as it was or as it is."""

    rows: int
    bytes: int
    changed_rows: int
    changed_bytes: int
    read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRefresh:
    """A refresh that succeeded: seconds it took, and what was estimated for its way before any correction; rows that
    had changed in the sources, and rows of the result that came or went."""

    incremental: bool
    seconds: float
    estimated: float
    changed_rows: int = 0
    touched_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSizes:
    """What a choice is made from. `spread`: rows of the result that a changed row touches, as far as the query tells.
    `past` is newest first."""

    sources: Sequence[SourceSize]
    stored_bytes: int
    spread: float = 1.0
    past: Sequence[PastRefresh] = field(default=())


class RefreshEstimate(Answer):
    """What either way would take, in seconds; `plain` are the figures before the past corrected them."""

    incremental: float
    full: float
    plain_incremental: float
    plain_full: float
    changed_share: float
    changed_rows: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """`full` and why, or follow the changes."""

    full: bool
    reason: Reason
    estimate: RefreshEstimate


def choose_refresh(sizes: RefreshSizes, *, mode: RefreshMode, threshold: float | None, reason: Reason) -> Choice:
    """AUTO follows changes unless too large a share of the source rows changed, or computing anew looks cheaper.

    `threshold` is the table's own share, where it has one, `reason` why changes could be followed. INCREMENTAL follows
    them whatever the estimates say.
    """
    estimate = estimate_refresh(sizes)
    if mode == "INCREMENTAL":
        return Choice(False, reason, estimate)
    few = estimate.changed_rows <= FEW_ROWS and threshold is None
    if few and not _doubtful(sizes.past, estimate):
        return Choice(False, reason, estimate)
    most = THRESHOLD if threshold is None else threshold
    if not few and estimate.changed_share > most:
        detail = f"{estimate.changed_share:.0%} of the source rows changed, more than {most:.0%}"
        return Choice(True, Reason(code="many_changes", detail=detail), estimate)
    if estimate.incremental > _MARGIN * estimate.full:
        detail = (
            f"computing it anew is estimated at {estimate.full:.1f} s, "
            f"following {estimate.changed_rows:,} changed rows at {estimate.incremental:.1f} s"
        )
        return Choice(True, Reason(code="costs_less", detail=detail), estimate)
    return Choice(False, reason, estimate)


def _doubtful(past: Sequence[PastRefresh], estimate: RefreshEstimate) -> bool:
    """Whether following even few rows is to be compared: computing anew takes a while, and enough is known."""
    return estimate.plain_full >= _LONG and sum(refresh.incremental for refresh in past) >= _KNOWN


def estimate_refresh(sizes: RefreshSizes) -> RefreshEstimate:
    """Both ways in seconds. Where only one was ever taken, half of how wrong it was is put down to the machine."""
    changed = sum(source.changed_rows for source in sizes.sources)
    rows = changed * (_ROW + _PUT * _spread(sizes))
    incremental, full = _START + _followed(sizes) / _SPEED + rows, _START + _anew(sizes) / _SPEED
    follows, computes = (
        _correction([past for past in sizes.past if past.incremental is kind and past.estimated > 0])
        for kind in (True, False)
    )
    return RefreshEstimate(
        incremental=round(incremental * (follows or sqrt(computes or 1)), 3),
        full=round(full * (computes or sqrt(follows or 1)), 3),
        plain_incremental=round(incremental, 3),
        plain_full=round(full, 3),
        changed_share=round(_share(sizes.sources), 6),
        changed_rows=changed,
    )


def _spread(sizes: RefreshSizes) -> float:
    """Rows of the result that a changed row touches: as it was of late, else as the query tells."""
    for past in sizes.past:
        if past.incremental and past.changed_rows:
            return past.touched_rows / past.changed_rows
    return sizes.spread


def _share(sources: Sequence[SourceSize]) -> float:
    """Of all source rows, those that changed; every row at most."""
    rows = sum(source.rows for source in sources)
    changed = sum(min(source.changed_rows, source.rows) for source in sources)
    return changed / rows if rows else 0.0


def _anew(sizes: RefreshSizes) -> float:
    """Bytes: every source, the stored rows to be compared with, and the result as large as they are."""
    return sum(source.bytes for source in sizes.sources) + 2 * sizes.stored_bytes


def _followed(sizes: RefreshSizes) -> float:
    """Bytes: the changes, what they are looked up in, and the stored rows to be found."""
    looked_through = sizes.stored_bytes + sum(source.bytes * source.read for source in sizes.sources)
    return sum(source.changed_bytes for source in sizes.sources) + _LOOKED_THROUGH * looked_through


def _correction(past: Sequence[PastRefresh]) -> float | None:
    """How much longer than estimated it took, the latest counting most; None when nothing is known."""
    least, most = _NARROWEST
    found: float | None = None
    for refresh in reversed(past):
        ratio = min(most, max(least, refresh.seconds / refresh.estimated))
        found = ratio if found is None else _WEIGHT * ratio + (1 - _WEIGHT) * found
    return found
