"""A dynamic table as text: how it was declared, its columns, how far it has come, and its query as it was written."""

from __future__ import annotations

from neve.cli.text import block, printable, table
from neve.model.refresh import DynamicDetails

_APART = ("query", "columns", "frontier")


def dynamic_text(details: DynamicDetails) -> str:
    frontier = details.frontier
    pairs = [(key, value) for key, value in details if key not in _APART]
    parts = [
        block([*pairs, ("data_timestamp", None if frontier is None else frontier.at)]),
        table(("column", "type", "required", "comment"), [[*dict(column).values()] for column in details.columns]),
    ]
    if frontier is not None:
        sources = {**frontier.base, **frontier.sources}
        parts.append(table(("read_from", "snapshot"), [[name, pin.snapshot] for name, pin in sorted(sources.items())]))
    parts.append("\n".join(map(printable, details.query.splitlines())))
    return "\n\n".join(parts)
