"""When a dynamic table must be refreshed for its rows to stay within its target lag. Pure.

Refreshes begin at the ticks of canonical periods: 48 seconds, doubled as often as fits, counted from one moment for the
whole world. So tables of like lags come due together, and each longer period's ticks are ticks of every shorter one:
what is refreshed together is as of one moment. The period leaves room for the refresh itself and for those of the
tables above, which have to be brought along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from neve.model.dynamic import Lag
from neve.model.names import TableName
from neve.plan.freshness import target_lags
from neve.plan.graph import Graph, waves

SHORTEST = timedelta(seconds=48)
"""The shortest period: below the shortest lag, one minute, by what a refresh may take."""
REST = SHORTEST / 4
"""The least time between the moments of two refreshes, for a table whose lag cannot be kept."""
UNKNOWN = timedelta(seconds=5)
"""How long a refresh is taken to last before there was one."""
_PHASE = datetime(1970, 1, 1, tzinfo=UTC)


def period_for(lag: timedelta, cost: timedelta) -> timedelta:
    """The longest canonical period that leaves room for a refresh within the lag; the shortest where none does.

    >>> period_for(timedelta(minutes=5), timedelta(seconds=10)), period_for(timedelta(minutes=1), timedelta(hours=1))
    (datetime.timedelta(seconds=192), datetime.timedelta(seconds=48))
    """
    found = SHORTEST
    while 2 * found + cost <= lag:
        found *= 2
    return found


def due_at(*, lag: timedelta, cost: timedelta, at: datetime) -> datetime:
    """When the next refresh of rows that are as of `at` begins: the last tick that still leaves it its time.

    Where a refresh takes longer than the lag leaves, that is as soon as it has ended, but for a moment of rest.
    """
    return _tick(at, lag - cost, period_for(lag, cost))


def _tick(at: datetime, slack: timedelta, period: timedelta) -> datetime:
    latest = at + slack
    tick = latest - (latest - _PHASE) % period
    return tick if tick > at else max(latest, at + REST)


def costs(graph: Graph, durations: Mapping[TableName, timedelta]) -> dict[TableName, timedelta]:
    """How long each table takes with those above it, which are refreshed before it, branches side by side.

    Those above count twice: somebody may be at them for another table, and be waited for.
    """
    paths: dict[TableName, timedelta] = {}
    found: dict[TableName, timedelta] = {}
    for name in (name for wave in waves(graph) for name in wave):
        above = max((paths[source] for source in graph[name] if source in graph), default=timedelta(0))
        own = durations.get(name, UNKNOWN)
        paths[name], found[name] = above + own, 2 * above + own
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """What the graph says of every table: the lag that it must keep (None when nobody asks), and what that costs.

    `rhythms` has the time between the moment of a table's rows and its latest refresh, and its period; those that wait
    for their readers have none.
    """

    graph: Graph
    declared: Mapping[TableName, Lag]
    targets: Mapping[TableName, timedelta | None]
    costs: Mapping[TableName, timedelta]
    rhythms: Mapping[TableName, tuple[timedelta, timedelta]]

    @classmethod
    def of(cls, graph: Graph, declared: Mapping[TableName, Lag], durations: Mapping[TableName, timedelta]) -> Lags:
        found = costs(graph, durations)
        return cls(
            graph=graph,
            declared=declared,
            targets=target_lags(graph, declared),
            costs=found,
            rhythms={
                name: (lag - found[name], period_for(lag, found[name]))
                for name, lag in declared.items()
                if not isinstance(lag, str)
            },
        )

    def due_at(self, name: TableName, at: datetime) -> datetime | None:
        """When a table is due whose rows are as of `at`; None for one that waits for those that read it."""
        rhythm = self.rhythms.get(name)
        return None if rhythm is None else _tick(at, *rhythm)
