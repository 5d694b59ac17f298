"""Expressions: columns by their own names, subqueries as columns that a join will bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.sql.delta.binding.scope import Scope
from neve.sql.delta.binding.types import BOOLEAN, type_of
from neve.sql.delta.columns import Column, conjunction, names_in, substitute
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.joins import Join, JoinKind
from neve.sql.delta.rules.matches import Mark

if TYPE_CHECKING:
    from neve.sql.delta.binding.queries import Binder


@dataclass(frozen=True, slots=True)
class Pending:
    """A subquery that an expression speaks of: to be joined before the expression is computed.

    With `mark`, whether a partner exists becomes that column; without, the right columns come by a left join.
    """

    right: Operator
    condition: exp.Expr
    mark: Column | None

    @property
    def made(self) -> set[str]:
        return set(self.right.names) if self.mark is None else {self.mark.name}

    def attach(self, operator: Operator) -> Operator:
        if self.mark is None:
            return Join(JoinKind.LEFT, operator, self.right, self.condition)
        return Mark(operator, self.right, self.condition, self.mark)

    def through(self, values: dict[str, exp.Expr]) -> Pending:
        """The same after columns were replaced, as grouping does."""
        return Pending(self.right, substitute(self.condition, values), self.mark)


class Expressions:
    """Binds the expressions of one SELECT, and keeps the subqueries that they wait for."""

    def __init__(self, binder: Binder, scope: Scope) -> None:
        self.binder = binder
        self.scope = scope
        self.pending: list[Pending] = []
        self._filters = False

    def condition(self, node: exp.Expr) -> exp.Expr:
        """A condition that rows must meet, bound: there IN may be unknown; as a value Spark makes that FALSE."""
        self._filters = True
        try:
            return self.bind(node)
        finally:
            self._filters = False

    def bind(self, node: exp.Expr) -> exp.Expr:
        """The expression over columns by their own names.

        Raises:
            ColumnNotFound: it speaks of a column that is not there.
        """
        match node:
            case exp.Count(this=exp.Star()):
                return node.copy()
            case exp.Column(this=exp.Star()) | exp.Star():
                raise self.binder.context.invalid("* stands where one value must stand", node)
            case exp.Column():
                return self.scope.resolve(node, self.binder.context)
            case exp.Exists(this=exp.Query() as query):
                return self._mark(query, None).ref
            case exp.Exists(this=exp.Subquery() as query):
                return self._mark(query, None).ref
            case exp.Not(this=inner) if not self._filters and _in_query(inner) is not None:
                found, unsure = self._marks(_in_query(inner) or exp.In())
                return exp.not_(exp.or_(found, unsure))
            case exp.In() if node.args.get("query") is not None:
                return self._in(node)
            case exp.Subquery() if isinstance(node.this, exp.Query):
                return self._scalar(node)
            case exp.Query():
                return self._scalar(node)
            case exp.Any() | exp.All():
                raise self.binder.context.no_rule("quantified", "ANY and ALL over a subquery have no rule", node)
        return self._rebuilt(node)

    def attach(self, operator: Operator, names: set[str] | None = None) -> Operator:
        """The operator with the waiting subqueries joined; with names, only those that bring one of them."""
        kept: list[Pending] = []
        for waiting in self.pending:
            if names is None or not waiting.made.isdisjoint(names):
                operator = waiting.attach(operator)
            else:
                kept.append(waiting)
        self.pending = kept
        return operator

    def exact(self, expression: exp.Expr) -> bool:
        known = self.binder.context.columns
        return all(known[name].exact for name in names_in(expression) if name in known)

    def column(self, wish: str, expression: exp.Expr) -> Column:
        """A new column for an expression, with what is known of it."""
        context = self.binder.context
        kind = type_of(expression, context.columns)
        required = isinstance(expression, exp.Column) and not context.columns[expression.name].nullable
        return context.new(wish, kind=kind, nullable=not required, exact=self.exact(expression))

    def _rebuilt(self, node: exp.Expr) -> exp.Expr:
        args: dict[str, object] = {}
        for key, value in node.args.items():
            if isinstance(value, list):
                args[key] = [self.bind(v) if isinstance(v, exp.Expr) else v for v in value]
            else:
                args[key] = self.bind(value) if isinstance(value, exp.Expr) else value
        built = type(node)(**args)
        if "start" in node.meta:
            built.meta["start"] = node.meta["start"]
        return built

    # -------------------------------------------------------------------------------------------------- subqueries

    def _mark(self, query: exp.Expr, value: exp.Expr | None, *, unknown: bool = False) -> Column:
        """The column that says whether the subquery has a row, equal to the value if there is one.

        `unknown`: whether it has a row of which that cannot be told.
        """
        right, condition = self.binder.partner(query, self.scope, value, unknown=unknown)
        mark = self.binder.context.new("has", kind=BOOLEAN, nullable=False)
        self.pending.append(Pending(right, condition, mark))
        return mark

    def _in(self, node: exp.In) -> exp.Expr:
        """x IN (…) as TRUE, NULL or FALSE: equal to some, else not sure about some, else neither."""
        if not self._filters:
            return self._mark(node.args["query"], self.bind(node.this)).ref
        found, unsure = self._marks(node)
        return exp.case().when(found, exp.true()).when(unsure, exp.null()).else_(exp.false())

    def _marks(self, node: exp.In) -> tuple[exp.Expr, exp.Expr]:
        value, query = self.bind(node.this), node.args["query"]
        return self._mark(query, value).ref, self._mark(query, value, unknown=True).ref

    def _scalar(self, node: exp.Expr) -> exp.Expr:
        right, conditions, value = self.binder.scalar(node, self.scope)
        self.pending.append(Pending(right, conjunction(conditions), None))
        return value


def _in_query(node: exp.Expr) -> exp.In | None:
    """x IN (SELECT …), through brackets."""
    inner = node.unnest()
    return inner if isinstance(inner, exp.In) and inner.args.get("query") is not None else None
