"""Whether two queries are one: the same operators over the same tables, however they were written."""

from __future__ import annotations

from datetime import UTC, datetime

from neve.sql.delta.analysis import Analysis
from neve.sql.delta.derive import full

_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)


def equivalent(one: Analysis, other: Analysis) -> bool:
    """True only when both compute the same: layout, comments, qualifiers and parentheses do not tell queries apart.

    False does not say that they differ; it says that nobody has shown that they do not.
    """
    return _meaning(one) == _meaning(other)


def _meaning(analysis: Analysis) -> object:
    query = full(analysis, moment=_ANY_MOMENT)
    return query.tree.sql("spark", comments=False), query.reads, query.columns, query.apply
