"""Which tables a worker is for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from neve.errors import NotFound, nearest
from neve.model.names import TableName
from neve.plan.agenda import Facts
from neve.services.context import Context


def chosen(facts: Facts, words: Sequence[str]) -> set[TableName] | None:
    """The tables that names and patterns (`shop.*`) stand for; None, which is all of them, without any."""
    if not words:
        return None
    known = {*facts.dynamic, *facts.pins, *(errand.member.table for errand in facts.errands)}
    found: set[TableName] = set()
    for word in words:
        if _is_pattern(word):
            found |= {name for name in known if fnmatchcase(str(name), word) or fnmatchcase(name.short, word)}
        else:
            found.add(TableName.parse(word))
    return found


def missing(context: Context, words: Sequence[str]) -> set[TableName]:
    """The names among the words that no table or folder has. A pattern may come to match later."""
    names = {TableName.parse(word) for word in words if not _is_pattern(word)}
    return names - _known(context) if names else names


def not_found(context: Context, name: TableName) -> NotFound:
    """There is no table of this name."""
    hint = nearest(name.short, [other.short for other in _known(context)])
    return NotFound(f"no table {name}", hint=hint or "neve table list shows what there is")


def _known(context: Context) -> set[TableName]:
    folders = (row.table_name for row in context.store.registry.list() if row.format != "iceberg")
    return {*context.catalog.tables(), *map(TableName.parse, folders)}


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[")
