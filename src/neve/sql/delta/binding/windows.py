"""OVER: which partitions, and whether ties of the order must be broken for two evaluations to agree."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.expressions import Expressions
from neve.sql.delta.binding.functions import exact
from neve.sql.delta.binding.grouping import Replacements, extended
from neve.sql.delta.binding.types import type_of
from neve.sql.delta.columns import Column
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.windows import Window

_PEERS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_PLACES = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
_FIRSTS = (exp.First, exp.FirstValue)
_ORDERED = (exp.Last, exp.LastValue, exp.NthValue, *_FIRSTS)


def windows_in(node: exp.Expr) -> list[exp.Window]:
    """The calls with OVER in an expression, subqueries left out."""
    return [w for w in node.find_all(exp.Window) if not isinstance(w.this, exp.Identifier)]


def named_windows(node: exp.Select) -> None:
    """Writes out what `OVER w` stands for, in place."""
    known = {w.name.lower(): w for w in node.args.get("windows") or []}
    for call in node.find_all(exp.Window):
        given = known.get(call.alias.lower()) if call.args.get("alias") and call not in known.values() else None
        if given is not None:
            for key in ("partition_by", "order", "spec"):
                if given.args.get(key) and not call.args.get(key):
                    value = given.args[key]
                    call.set(key, [v.copy() for v in value] if isinstance(value, list) else value.copy())
            call.set("alias", None)


class Windows:
    """Builds the window operators under a SELECT, one for each set of partition columns."""

    def __init__(self, operator: Operator, expressions: Expressions) -> None:
        self.operator = operator
        self.expressions = expressions
        self.context = expressions.binder.context
        self.replacements: Replacements = {}

    def compute(self, calls: list[exp.Window]) -> Operator:
        """The operator with every call as a column; `replacements` tells which."""
        groups: dict[frozenset[str], tuple[tuple[Column, ...], list[exp.Window]]] = {}
        for call in dict.fromkeys(calls):
            partition = self._partition(call)
            groups.setdefault(frozenset(c.name for c in partition), (partition, []))[1].append(call)
        for partition, members in groups.values():
            if not partition:
                detail = "a window without PARTITION BY depends on every row"
                self.context.refuse("window_without_partition", detail, members[0])
            made = tuple((self._column(call), call) for call in members)
            tied = frozenset(c.name for c, call in made if self._tied(call))
            self.operator = Window(self.operator, partition, made, tied)
        return self.operator

    def _partition(self, call: exp.Window) -> tuple[Column, ...]:
        by_name = {c.name: c for c in self.operator.columns}
        found: dict[str, Column] = {}
        for part in call.args.get("partition_by") or []:
            if isinstance(part, exp.Column) and part.name in by_name:
                column = by_name[part.name]
            else:
                column = self.expressions.column("part", part)
                self.operator = extended(self.operator, [(column, part)])
                by_name[column.name] = column
            found[column.name] = column
        return tuple(found.values())

    def _column(self, call: exp.Window) -> Column:
        known = self.context.columns
        function = _function(call)
        sure = isinstance(function, _PEERS + _PLACES) or (isinstance(function, _ORDERED) and self._tied(call))
        same = self.expressions.exact(call) and (sure or exact(call.this, known))
        made = self.context.new(function.key, kind=type_of(call, known), exact=same)
        self.replacements[call] = made.ref
        return made

    def _tied(self, call: exp.Window) -> bool:
        """Whether peers of the order are told apart by it: then all columns must break ties.

        A frame by RANGE takes peers together, so it must keep them; only its first value may be chosen.
        """
        function = _function(call)
        if isinstance(function, _PEERS):
            return False
        if isinstance(function, _PLACES):
            return True
        spec = call.args.get("spec")
        if spec is not None and spec.args.get("kind") == "ROWS":
            return True
        from_start = spec is None or spec.args.get("start") == "UNBOUNDED"
        return isinstance(function, _FIRSTS) and from_start


def _function(call: exp.Window) -> exp.Expr:
    inner: exp.Expr = call.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner
