"""The present moment in a query: one instant per refresh, so that old and new are two plain filters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from neve.sql.delta.binding.functions import is_time

CLOCK = "now()"
"""Stands among the sources of what depends on the present moment."""


@dataclass(frozen=True, slots=True)
class Moments:
    """What `current_timestamp()` in WHERE meant for the stored rows, and means now."""

    old: datetime
    new: datetime


def is_timed(expression: exp.Expr) -> bool:
    return any(is_time(node) for node in expression.find_all(exp.Func, exp.Anonymous))


def at_moment(expression: exp.Expr, moment: datetime | None) -> exp.Expr:
    """The expression with the present moment written out; without one it stays as it is."""
    if moment is None or not is_timed(expression):
        return expression
    copied = expression.copy()
    for node in [n for n in copied.find_all(exp.Func, exp.Anonymous) if is_time(n)]:
        node.replace(_written(node, moment))
    return copied


def _written(node: exp.Expr, moment: datetime) -> exp.Expr:
    instant = exp.cast(exp.Literal.string(moment.isoformat(" ")), "timestamp", dialect="spark")
    if isinstance(node, exp.CurrentDate):
        return exp.cast(instant, "date", dialect="spark")
    if isinstance(node, exp.Localtimestamp):
        return exp.cast(instant, "timestamp_ntz", dialect="spark")
    if isinstance(node, exp.StrToUnix):
        return exp.func("unix_timestamp", instant, dialect="spark")
    return instant
