"""How fresh a dynamic table is, when it is due, and what endangers it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from neve.model.dynamic import Lag
from neve.model.facts import TableFacts
from neve.model.history import RefreshRecord
from neve.model.names import TableName
from neve.model.refresh import Freshness, Frontier
from neve.model.results import Reason
from neve.plan.changes import KEEP_LONGER
from neve.plan.graph import Graph, waves

MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
_KEPT_BY_DEFAULT = timedelta(days=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """`lag` is how far the rows lie behind, nothing while no source has moved; `due_at` the end of the target lag."""

    freshness: Freshness
    lag: timedelta | None
    due_at: datetime | None


def age(
    *, target: timedelta | None, data_timestamp: datetime | None, now: datetime, moved: bool | None, suspended: bool
) -> Age:
    """`moved` says whether a source has changed since; None when a source cannot be read.

    fresh: nothing has changed; due: something has, within the target lag; late: beyond it; unknown: never refreshed.
    Without a target (DOWNSTREAM, and nobody reads it) a table is never late.
    """
    if data_timestamp is None:
        return Age(freshness="suspended" if suspended else "unknown", lag=None, due_at=None if suspended else now)
    lag = None if moved is None else max(now - data_timestamp, timedelta(0)) if moved else timedelta(0)
    due_at = None if target is None or suspended else data_timestamp + target
    freshness: Freshness
    if suspended:
        freshness = "suspended"
    elif moved is None:
        freshness = "unknown"
    elif not moved:
        freshness = "fresh"
    else:
        freshness = "due" if due_at is None or now <= due_at else "late"
    return Age(freshness=freshness, lag=lag, due_at=due_at)


def target_lags(graph: Graph, declared: Mapping[TableName, Lag]) -> dict[TableName, timedelta | None]:
    """The lag that each table must keep: DOWNSTREAM is the shortest of those that read it, None when nobody does."""
    found: dict[TableName, timedelta | None] = {}
    for name in (name for wave in reversed(waves(graph)) for name in wave):
        lag = declared[name]
        wanted = [found[other] for other in graph if name in graph[other]] if isinstance(lag, str) else [lag]
        found[name] = min((lag for lag in wanted if lag is not None), default=None)
    return found


def has_moved(frontier: Frontier, tables: Mapping[TableName, TableFacts]) -> bool | None:
    """Whether a plain table below has changed since, or a source of its own; None when one is not there."""
    for name, pin in {**frontier.base, **frontier.sources}.items():
        facts = tables.get(TableName.parse(name))
        if facts is None:
            return None
        if (facts.uuid, facts.current_snapshot_id) != (pin.uuid, pin.snapshot):
            return True
    return False


def endangered(frontier: Frontier, tables: Mapping[TableName, TableFacts], now: datetime) -> Reason | None:
    """Why the next refresh may have to be a full one: a snapshot that it begins with is gone, or may go any time."""
    for name, pin in frontier.sources.items():
        facts = tables.get(TableName.parse(name))
        if facts is None or facts.uuid != pin.uuid or pin.snapshot is None:
            continue
        snapshot = facts.snapshot(pin.snapshot)
        if snapshot is None:
            detail = f"snapshot {pin.snapshot} of {name} has expired: the next refresh is full; {KEEP_LONGER}"
            return Reason(code="snapshot_expired", detail=detail)
        held = any(reference.snapshot_id == pin.snapshot for reference in facts.references)
        if not held and now - snapshot.at > kept_for(facts):
            detail = f"snapshot {pin.snapshot} of {name} is older than it keeps them, and may expire: refresh soon"
            return Reason(code="snapshot_may_expire", detail=detail)
    return None


def scheduled_failures(history: Iterable[RefreshRecord]) -> int:
    """How many scheduled refreshes failed since the last success; newest first. Others neither count nor end it."""
    count = 0
    for record in history:
        if record.state == "SUCCEEDED":
            break
        count += record.state == "FAILED" and record.refresh_trigger == "SCHEDULED"
    return count


def kept_for(facts: TableFacts) -> timedelta:
    """How long the table keeps snapshots that nobody refers to."""
    given = facts.properties.get(MAX_SNAPSHOT_AGE, "")
    return timedelta(milliseconds=int(given)) if given.isdecimal() else _KEPT_BY_DEFAULT
