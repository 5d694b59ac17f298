"""Queries: WITH, set operators, VALUES, and what is in FROM under its own name. SELECT itself is in `selects`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neve.errors import InvalidName, TableNotFound, nearest
from neve.model.names import TableName
from neve.sql.delta.binding.context import Context
from neve.sql.delta.binding.functions import check_functions
from neve.sql.delta.binding.scope import Scope
from neve.sql.delta.binding.types import type_of
from neve.sql.delta.columns import Column
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.distinct import Distinct
from neve.sql.delta.rules.limits import Limit
from neve.sql.delta.rules.sets import Compare, UnionAll
from neve.sql.delta.rules.sources import Constant, Scan

Fields = tuple[tuple[str, Column], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A query as operators: its columns under the names that it gives them.

    A subquery may also hold `correlated` conditions between its columns and those of the query around it. `single`: it
    has exactly one row (per correlated key, where there is one). `empty` is the value of its one column over no row.
    """

    operator: Operator
    fields: Fields
    correlated: tuple[exp.Expr, ...] = ()
    single: bool = False
    empty: exp.Expr | None = None


@dataclass(slots=True)
class Binder:
    """Binds queries in a place: with the WITH names that are known there."""

    context: Context
    named: dict[str, tuple[exp.Expr, Binder]] = field(default_factory=dict)

    def query(self, node: exp.Expr, outer: Scope | None = None) -> Bound:
        """Any query as operators.

        Raises:
            NoRule: it holds something that has no operator; the reason is in the context.
            InvalidQuery: it makes no sense as written.
            NotFound: it speaks of a table or column that is not there.
        """
        inside = self._with(node)
        match node:
            case exp.Subquery():
                bound = inside.query(node.this, outer)
                return inside._ordered(node, bound)
            case exp.Select():
                from neve.sql.delta.binding.selects import SelectBinder

                return SelectBinder(inside, node, outer).bind()
            case exp.SetOperation():
                return inside._ordered(node, inside._set(node, outer))
            case exp.Values():
                return inside.values(node)
            case exp.Table():
                return inside.table(node)
        raise self.context.no_rule("unsupported", f"{node.key.upper()} has no rule", node)

    def partner(
        self, node: exp.Expr, scope: Scope, value: exp.Expr | None, *, unknown: bool
    ) -> tuple[Operator, exp.Expr]:
        """The rows that EXISTS or IN looks for, and what makes one of them a partner."""
        from neve.sql.delta.binding.subqueries import partner

        return partner(self, node, scope, value, unknown=unknown)

    def scalar(self, node: exp.Expr, scope: Scope) -> tuple[Operator, list[exp.Expr], exp.Expr]:
        """What to join for a scalar subquery, on which conditions, and its value after that."""
        from neve.sql.delta.binding.subqueries import scalar

        return scalar(self, node, scope)

    # ------------------------------------------------------------------------------------------------------- leaves

    def table(self, node: exp.Table) -> Bound:
        """A name in FROM: of a WITH, a view or a table."""
        for key, what in (("version", "time travel"), ("sample", "TABLESAMPLE"), ("pivots", "PIVOT")):
            if node.args.get(key):
                raise self.context.no_rule(key, f"{what} has no rule", node)
        if not isinstance(node.this, exp.Identifier | exp.Dot):
            raise self.context.no_rule("table_function", f"table function {node.this.sql('spark')} has no rule", node)
        if not node.db and node.name.lower() in self.named:
            query, where = self.named[node.name.lower()]
            return where.query(query)
        name = self._table_name(node)
        if name in self.context.views:
            return self._view(name)
        if name not in self.context.schemas:
            known = [str(k) for k in (*self.context.schemas, *self.context.views)] + list(self.named)
            hint = nearest(str(name), known) or nearest(node.name, [*known, *(k.rsplit(".", 1)[-1] for k in known)])
            raise TableNotFound(f"no table {name}{self.context.where(node)}", hint=hint)
        wish = node.alias_or_name
        fields = tuple(
            (self.context.new(f.name, f"{wish}_{f.name}", kind=f.type, nullable=not f.required), f.name)
            for f in self.context.schemas[name]
        )
        return Bound(Scan(str(name), fields), tuple((own, c) for c, own in fields))

    def values(self, node: exp.Values) -> Bound:
        """VALUES: constant rows."""
        rows = [tuple(r.expressions) if isinstance(r, exp.Tuple) else (r.unnest(),) for r in node.expressions]
        if any(v.find(exp.Column, exp.Query) for row in rows for v in row):
            raise self.context.no_rule("values", "VALUES with a subquery or a column has no rule", node)
        names = [f"col{i}" for i, _ in enumerate(rows[0], 1)]
        kinds = [{type_of(row[i], {}) for row in rows if not isinstance(row[i], exp.Null)} for i in range(len(names))]
        columns = tuple(
            self.context.new(name, kind=kind.pop() if len(kind) == 1 else None)
            for name, kind in zip(names, kinds, strict=True)
        )
        return Bound(Constant(columns, tuple(rows)), tuple(zip(names, columns, strict=True)))

    def _table_name(self, node: exp.Table) -> TableName:
        parts = [part.name for part in node.parts]
        try:
            return TableName.parse(".".join(f"`{part}`" for part in parts))
        except InvalidName as exc:
            raise self.context.invalid(exc.message, node, hint=exc.hint) from exc

    def _view(self, name: TableName) -> Bound:
        if self.context.view is not None and str(name) in self.context.view.split(" → "):
            raise self.context.no_rule("recursion", f"view {name} reads itself", None)
        try:
            tree = sqlglot.parse_one(self.context.views[name], read="spark")
        except SqlglotError as exc:
            raise self.context.no_rule("view", f"the text of view {name} cannot be read", None) from exc
        before = self.context.view
        self.context.view = str(name) if before is None else f"{before} → {name}"
        try:
            check_functions(tree, self.context)
            return Binder(self.context).query(tree)
        finally:
            self.context.view = before

    # -------------------------------------------------------------------------------------------------- composition

    def _with(self, node: exp.Expr) -> Binder:
        clause = node.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            raise self.context.no_rule("recursion", "WITH RECURSIVE has no rule", clause)
        inside = self
        for cte in clause.expressions:
            query = _renamed(cte.this, cte.args.get("alias"))
            inside = replace(inside, named={**inside.named, cte.alias.lower(): (query, inside)})
        return inside

    def _set(self, node: exp.SetOperation, outer: Scope | None) -> Bound:
        if node.args.get("by_name"):
            raise self.context.no_rule("by_name", "UNION BY NAME has no rule", node)
        left, right = self.query(node.left, outer), self.query(node.right, outer)
        if left.correlated or right.correlated:
            raise self.context.no_rule("correlated_subquery", "a correlated subquery with set operators", node)
        sides = [left.operator.columns, right.operator.columns]
        if len(sides[0]) != len(sides[1]):
            said = f"{node.key.upper()} of {len(sides[0])} and {len(sides[1])} columns"
            raise self.context.invalid(said, node)
        fields = tuple(
            self.context.new(
                name,
                kind=one.type if one.type == two.type else None,
                nullable=one.nullable or two.nullable,
                exact=one.exact and two.exact,
            )
            for (name, _), one, two in zip(left.fields, *sides, strict=True)
        )
        named = tuple((name, c) for (name, _), c in zip(left.fields, fields, strict=True))
        every = not node.args.get("distinct")
        if isinstance(node, exp.Union):
            union = UnionAll((left.operator, right.operator), fields)
            return Bound(union if every else Distinct(union), named)
        kind: Literal["intersect", "except"] = "intersect" if isinstance(node, exp.Intersect) else "except"
        return Bound(Compare(kind, every, left.operator, right.operator, fields), named)

    def _ordered(self, node: exp.Expr, bound: Bound) -> Bound:
        """ORDER BY … LIMIT behind brackets or set operators, which sees only the columns of the result."""
        if node.args.get("limit") is None and node.args.get("offset") is None:
            return bound
        if bound.correlated:
            raise self.context.no_rule("correlated_subquery", "LIMIT in a correlated subquery", node)
        from neve.sql.delta.binding.expressions import Expressions
        from neve.sql.delta.binding.ordering import limit_of, ordered

        scope = Scope(aliases={name.lower(): c.ref for name, c in bound.fields})
        order = ordered(node, [c.ref for _, c in bound.fields], Expressions(self, scope))
        return replace(bound, operator=Limit(bound.operator, order, *limit_of(node, self.context)))


def _renamed(query: exp.Expr, alias: exp.Expr | None) -> exp.Expr:
    """A query whose columns the alias renames, as in WITH t(a, b)."""
    if not isinstance(alias, exp.TableAlias) or not alias.columns:
        return query
    return exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(
            this=exp.Subquery(
                this=query.copy(),
                alias=exp.TableAlias(this=exp.to_identifier("_t"), columns=[c.copy() for c in alias.columns]),
            )
        ),
    )
