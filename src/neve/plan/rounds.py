"""One round of refreshes: which tables take part, and at which moment of the plain tables each of them stands. Pure.

All that a table reads must be of one moment, or a join of two of its sources would see rows that never were together.
Within a round that is so by itself: plain tables are looked at once, and a table reads its parents as the round left
them. A parent that takes no part stands at a moment of its own. Then its child reads the plain tables as that parent
did; and where parents stand at different moments, they are brought to the round's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from neve.model.commands import neve
from neve.model.names import TableName
from neve.model.refresh import Pin
from neve.model.results import Reason
from neve.plan.graph import Graph, upstream, waves

Base = Mapping[TableName, Pin]
"""Plain tables, each at one snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a dynamic table stands before a round. `base` is None when nobody knows what its rows are the result of."""

    base: Base | None = None
    at: datetime | None = None
    suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A table's part in a round: it becomes its query over `base`, as of `at`."""

    base: Base
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """`visits` in the order of their refresh; `skipped` are left alone, `impossible` cannot be brought to one moment.

    `called_in` are the tables that nobody asked for, each with the one that needs it.
    """

    visits: Mapping[TableName, Visit]
    skipped: Mapping[TableName, Reason] = field(default_factory=dict)
    impossible: Mapping[TableName, Reason] = field(default_factory=dict)
    called_in: Mapping[TableName, TableName] = field(default_factory=dict)


def plan_round(
    graph: Graph,
    *,
    chosen: Collection[TableName],
    named: Collection[TableName],
    pins: Base,
    at: datetime,
    standing: Mapping[TableName, Standing],
) -> RoundPlan:
    """The round of the `chosen` tables over the plain tables as they were looked at.

    A suspended table takes part only when it is `named` itself; its children read it as it stands.
    """
    skipped = {
        name: Reason(code="suspended", detail=f"{name} is suspended")
        for name in chosen
        if standing[name].suspended and name not in named
    }
    members, called_in = set(chosen) - set(skipped), dict[TableName, TableName]()
    while True:
        walk = _Walk(graph, members, pins, at, standing)
        walk.all()
        if not walk.wanted:
            break
        called_in |= walk.wanted
        members |= set(walk.wanted)
    return RoundPlan(visits=walk.visits, skipped=skipped, impossible=walk.impossible, called_in=called_in)


class _Walk:
    """Goes through the members of a round once, in their order."""

    def __init__(
        self,
        graph: Graph,
        members: Collection[TableName],
        pins: Base,
        at: datetime,
        standing: Mapping[TableName, Standing],
    ) -> None:
        self._graph, self._members, self._pins, self._at, self._standing = graph, members, pins, at, standing
        self.visits: dict[TableName, Visit] = {}
        self.impossible: dict[TableName, Reason] = {}
        self.wanted: dict[TableName, TableName] = {}

    def all(self) -> None:
        for name in (name for wave in waves(self._graph) for name in wave if name in self._members):
            self._visit(name)

    def _visit(self, name: TableName) -> None:
        parents = [source for source in self._graph[name] if source in self._graph]
        unknown = [parent for parent in parents if self._base(parent) is None]
        if unknown:
            self._call_in(name, unknown)
            return
        base: dict[TableName, Pin] = {}
        for parent in parents:
            for table, pin in (self._base(parent) or {}).items():
                if base.setdefault(table, pin) != pin:
                    self._call_in(name, self._elsewhere(name))
                    return
        for source in self._graph[name]:
            if source in self._graph or source in base:
                continue
            if source not in self._pins:
                self.impossible[name] = Reason(code="table_not_found", detail=f"{name} reads {source}, which is gone")
                return
            base[source] = self._pins[source]
        self.visits[name] = Visit(base=base, at=self._moment(name, parents))

    def _base(self, parent: TableName) -> Base | None:
        if parent in self._members:
            visit = self.visits.get(parent)
            return {} if visit is None else visit.base  # one that is impossible keeps its children from their turn
        return self._standing[parent].base

    def _elsewhere(self, name: TableName) -> list[TableName]:
        """Those above a table that take no part and do not stand where the round does."""
        return [
            other
            for other in sorted(upstream(self._graph, name), key=str)
            if other not in self._members and not self._is_here(self._standing[other].base)
        ]

    def _is_here(self, base: Base | None) -> bool:
        return base is not None and all(self._pins.get(table) == pin for table, pin in base.items())

    def _call_in(self, name: TableName, parents: Collection[TableName]) -> None:
        for parent in parents:
            if self._standing[parent].suspended:
                self.impossible[name] = Reason(
                    code="upstream_suspended",
                    detail=f"{name} needs {parent} at the moment of its other sources, and {parent} is suspended: "
                    f"refresh it by its name ({neve('dynamic', 'refresh', parent.short, name.short)}), or resume it",
                )
                return
        self.wanted |= {parent: name for parent in parents if parent not in self.wanted}

    def _moment(self, name: TableName, parents: Collection[TableName]) -> datetime:
        """As of when the rows will be: the round's moment, unless a parent stays behind. It never goes back."""
        moments = [self._at]
        for parent in parents:
            if parent in self.visits:
                moments.append(self.visits[parent].at)
            elif not self._is_here((standing := self._standing[parent]).base) and standing.at is not None:
                moments.append(standing.at)
        own = self._standing[name].at
        return min(moments) if own is None else max(own, min(moments))
