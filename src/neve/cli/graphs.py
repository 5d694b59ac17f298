"""The graph of dynamic tables as text: a tree for people, dot and mermaid for those who draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from neve.cli.text import printable
from neve.model.refresh import DynamicGraph


def drawn(graph: DynamicGraph, form: Literal["text", "dot", "mermaid"]) -> str:
    return "\n".join({"text": _tree, "dot": _dot, "mermaid": _mermaid}[form](graph))


def _tree(graph: DynamicGraph) -> Iterator[str]:
    """From the plain tables down, as data flows; a table that was drawn already is named with an arrow only."""
    drawn_already: set[str] = set()
    wave_of = {name: number for number, wave in enumerate(graph.waves, 1) for name in wave}
    below: dict[str, list[str]] = {}
    for edge in graph.edges:
        below.setdefault(edge.upstream, []).append(edge.downstream)

    def walk(name: str, depth: int) -> Iterator[str]:
        number = f" (wave {wave_of[name]})" if name in wave_of else ""
        again = name in drawn_already and bool(below.get(name))
        yield f"{'   ' * depth}{'└─ ' if depth else ''}{printable(name)}{number}{' ↑' if again else ''}"
        drawn_already.add(name)
        if not again:
            for child in sorted(below.get(name, [])):
                yield from walk(child, depth + 1)

    for root in graph.tables:
        yield from walk(root, 0)
    for number, wave in enumerate(graph.waves, 1):
        yield f"wave {number}: {', '.join(map(printable, wave))}"


def _dot(graph: DynamicGraph) -> Iterator[str]:
    yield "digraph dynamic_tables {"
    yield "  rankdir=LR;"
    for name in graph.tables:
        yield f"  {_quoted(name)} [shape=box];"
    for name in (name for wave in graph.waves for name in wave):
        yield f"  {_quoted(name)};"
    for edge in graph.edges:
        yield f"  {_quoted(edge.upstream)} -> {_quoted(edge.downstream)};"
    yield "}"


def _mermaid(graph: DynamicGraph) -> Iterator[str]:
    """Nodes go by number: mermaid's ids allow few characters, names of tables many."""
    names = [*graph.tables, *(name for wave in graph.waves for name in wave)]
    ids = {name: f"t{number}" for number, name in enumerate(names)}
    yield "graph LR"
    for name in names:
        opening, closing = ("[", "]") if name in graph.tables else ("(", ")")
        label = printable(name).replace('"', "#quot;")
        yield f'  {ids[name]}{opening}"{label}"{closing}'
    for edge in graph.edges:
        yield f"  {ids[edge.upstream]} --> {ids[edge.downstream]}"


def _quoted(name: str) -> str:
    escaped = printable(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
