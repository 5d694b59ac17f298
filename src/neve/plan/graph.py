"""The graph of dynamic tables: who reads whom, and in which order they are refreshed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from neve.errors import InvalidInput, NotFound, nearest
from neve.model.names import TableName

Graph = Mapping[TableName, Collection[TableName]]
"""Each dynamic table with the tables it reads; those that are no key are plain tables."""


def waves(graph: Graph) -> list[list[TableName]]:
    """The dynamic tables in the order of their refresh: those of one wave do not need each other.

    Raises:
        InvalidInput: they go round in a circle; the message says how.
    """
    sorter: TopologicalSorter[TableName] = TopologicalSorter(
        {name: [source for source in sources if source in graph] for name, sources in graph.items()}
    )
    try:
        sorter.prepare()
    except CycleError as exc:
        # Read from source to reader, the circle is told as data flows.
        path = " → ".join(str(name) for name in exc.args[1])
        raise InvalidInput(
            f"these dynamic tables go round in a circle: {path}", hint="let one read something else"
        ) from exc
    found: list[list[TableName]] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=str)
        found.append(ready)
        sorter.done(*ready)
    return found


def upstream(graph: Graph, name: TableName) -> set[TableName]:
    """The dynamic tables that a table needs, itself not among them."""
    found: set[TableName] = set()
    left = [source for source in graph.get(name, ()) if source in graph]
    while left:
        source = left.pop()
        if source not in found:
            found.add(source)
            left += [other for other in graph[source] if other in graph]
    return found


def downstream(graph: Graph, name: TableName) -> set[TableName]:
    """The dynamic tables that need a table, directly or through others."""
    return {other for other in graph if name in _reach(graph, other)}


def around(graph: Graph, name: TableName) -> Graph:
    """The part of the graph that a table needs or is needed by, itself among it."""
    kept = {name} | upstream(graph, name) | downstream(graph, name)
    return {other: [s for s in graph[other] if s not in graph or s in kept] for other in graph if other in kept}


def _reach(graph: Graph, name: TableName) -> set[TableName]:
    return {source for table in (name, *upstream(graph, name)) for source in graph[table]}


def choose(graph: Graph, selectors: Sequence[str]) -> set[TableName]:
    """The dynamic tables that selectors name: `t`, `+t` with what it needs, `t+` with what needs it; all without any.

    Raises:
        NotFound: a selector names none; with the nearest names.
    """
    if not selectors:
        return set(graph)
    found: set[TableName] = set()
    for selector in selectors:
        name = TableName.parse(selector.strip("+"))
        if name not in graph:
            known = {other.short: other for other in graph}
            raise NotFound(
                f"no dynamic table {name}", hint=nearest(name.short, known) or "neve dynamic list shows them"
            )
        found.add(name)
        if selector.startswith("+"):
            found |= upstream(graph, name)
        if selector.endswith("+"):
            found |= downstream(graph, name)
    return found
