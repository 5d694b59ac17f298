"""Which tables a worker is for."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from neve.errors import NotFound, nearest
from neve.model.names import TableName
from neve.plan.agenda import Facts


def chosen(facts: Facts, words: Sequence[str]) -> set[TableName] | None:
    """The tables that names and patterns (`shop.*`) stand for; None, which is all of them, without any.

    Raises:
        NotFound: there is no table of that name. A pattern may come to match later.
    """
    if not words:
        return None
    known = {*facts.dynamic, *facts.pins, *(errand.member.table for errand in facts.errands)}
    found: set[TableName] = set()
    for word in words:
        if any(mark in word for mark in "*?["):
            found |= {name for name in known if fnmatchcase(str(name), word) or fnmatchcase(name.short, word)}
            continue
        name = TableName.parse(word)
        if name not in known:
            hint = nearest(name.short, [other.short for other in known]) or "neve table list shows what there is"
            raise NotFound(f"no table {name}", hint=hint)
        found.add(name)
    return found
