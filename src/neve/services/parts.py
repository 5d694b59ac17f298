"""Whether what a lake stands on answers: its catalog and its state database. Never Spark."""

from __future__ import annotations

from collections.abc import Callable

from neve.errors import NeveError
from neve.model.service import PartRow
from neve.services.context import Context


def look_at_parts(context: Context) -> list[PartRow]:
    return [_part("catalog", _ask_catalog, context), _part("state", _ask_store, context)]


def _ask_catalog(context: Context) -> None:
    context.catalog.namespaces()


def _ask_store(context: Context) -> None:
    context.store.runs.unfinished()


def _part(name: str, ask: Callable[[Context], None], context: Context) -> PartRow:
    """Opening a part may fail as well as asking it."""
    try:
        ask(context)
    except NeveError as exc:
        return PartRow(part=name, state="failed", detail=exc.message)
    return PartRow(part=name, state="ok")
