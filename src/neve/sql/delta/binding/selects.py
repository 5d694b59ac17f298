"""SELECT, clause by clause in the order in which they are computed."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.expressions import Expressions
from neve.sql.delta.binding.froms import FromBinder
from neve.sql.delta.binding.functions import is_generator
from neve.sql.delta.binding.grouping import Grouping, Replacements, extended, grouping_sets, has_aggregates, rewrite
from neve.sql.delta.binding.ordering import limit_of, ordered, positioned
from neve.sql.delta.binding.queries import Binder, Bound
from neve.sql.delta.binding.scope import Scope
from neve.sql.delta.binding.subqueries import not_in, partner
from neve.sql.delta.binding.windows import Windows, named_windows, windows_in
from neve.sql.delta.columns import Column, conjuncts, names_in, substitute
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.aggregates import Aggregate
from neve.sql.delta.rules.distinct import Distinct
from neve.sql.delta.rules.generators import Generate
from neve.sql.delta.rules.limits import Limit
from neve.sql.delta.rules.matches import Semi
from neve.sql.delta.rules.rows import Filter, Project

_REFUSED = {"cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "sort": "SORT BY", "match": "MATCH_RECOGNIZE"}


class SelectBinder:
    """Binds one SELECT; `outer` is the query around it when it is a subquery that may speak of that."""

    def __init__(self, binder: Binder, node: exp.Select, outer: Scope | None) -> None:
        self.binder = binder
        self.context = binder.context
        self.node = node.copy()
        named_windows(self.node)
        self.operator, self.scope = FromBinder(binder, outer).bind(self.node)
        self.expressions = Expressions(binder, self.scope)
        self.correlated: list[exp.Expr] = []
        self.outputs: list[tuple[str, exp.Expr]] = []
        self.grouped = False
        self.replaced: Replacements = {}

    def bind(self) -> Bound:
        for key, what in _REFUSED.items():
            if self.node.args.get(key):
                raise self.context.no_rule(key, f"{what} has no rule", self.node)
        self._where()
        self._select_list()
        order = self._order()
        self._group(order)
        self._windows(order)
        return self._project(order)

    # ------------------------------------------------------------------------------------------------------- WHERE

    def _where(self) -> None:
        clause = self.node.args.get("where")
        for condition in conjuncts(None if clause is None else clause.this):
            if has_aggregates(condition):
                raise self.context.invalid("an aggregate in WHERE", condition, hint="put it into HAVING")
            self._condition(condition)

    def _condition(self, condition: exp.Expr) -> None:
        """One condition that every row must meet: EXISTS and IN as semi-joins, their negations as anti-joins."""
        negated = isinstance(condition, exp.Not)
        inner = condition.this.unnest() if negated else condition
        if isinstance(inner, exp.Not):
            self._condition(inner.this.unnest())
            return
        before = set(self.scope.reached)
        self.scope.reached.clear()
        match inner:
            case exp.Exists(this=exp.Query() | exp.Subquery() as query):
                self._semi(*partner(self.binder, query, self.scope, None, unknown=False), anti=negated)
            case exp.In() if inner.args.get("query") is not None:
                self._in(inner, negated=negated)
            case _:
                self._filter(self.expressions.condition(condition))
        self.scope.reached |= before

    def _semi(self, right: Operator, condition: exp.Expr, *, anti: bool) -> None:
        self.operator = Semi(self.operator, right, condition, anti=anti)

    def _in(self, node: exp.In, *, negated: bool) -> None:
        value = self.expressions.bind(node.this)
        self.operator = self.expressions.attach(self.operator)
        if self.scope.reached:
            raise self.context.no_rule("correlated_subquery", "IN over a column of the query around", node)
        if not negated:
            self._semi(*partner(self.binder, node.args["query"], self.scope, value, unknown=False), anti=False)
            return
        for right, condition in not_in(self.binder, node.args["query"], value, self.scope):
            self._semi(right, condition, anti=True)

    def _filter(self, condition: exp.Expr) -> None:
        if not self.scope.reached:
            self.operator = Filter(self.expressions.attach(self.operator), condition)
            return
        if self.expressions.pending:
            raise self.context.no_rule("correlated_subquery", "a subquery in a correlated condition", condition)
        self.correlated.append(self._own_side_as_column(condition))

    def _own_side_as_column(self, condition: exp.Expr) -> exp.Expr:
        """An equality between an own expression and one of the query around, with the own one as a column."""
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
            return condition
        own = set(self.operator.names)
        for key in ("this", "expression"):
            side = condition.args[key]
            if names_in(side) and names_in(side) <= own and not isinstance(side, exp.Column):
                column = self.expressions.column("key", side)
                self.operator = extended(self.operator, [(column, side)])
                condition = condition.copy()
                condition.set(key, column.ref)
        return condition

    # ------------------------------------------------------------------------------------------------- select list

    def _select_list(self) -> None:
        for item in self.node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                self._star(item)
            elif is_generator(item.unalias() if isinstance(item, exp.Alias) else _call_of(item)):
                self._generate(item)
            else:
                value = self.expressions.bind(item.unalias())
                self.outputs.append((_output_name(item), value))
                self.scope.aliases.setdefault(_output_name(item).lower(), value)

    def _star(self, item: exp.Expr) -> None:
        star = item.this if isinstance(item, exp.Column) else item
        qualifier = item.table if isinstance(item, exp.Column) and item.table else None
        found = self.scope.star(qualifier)
        if found is None:
            raise self.context.invalid(f"no table {qualifier} for {item.sql('spark')}", item)
        if star.args.get("replace") or star.args.get("rename"):
            raise self.context.no_rule("star", "* REPLACE or RENAME has no rule", item)
        left_out = {e.name.lower() for e in star.args.get("except_") or []}
        self.outputs += [(name, value) for name, value in found if name.lower() not in left_out]

    def _generate(self, item: exp.Expr) -> None:
        call = self.expressions.bind(_call_of(item))
        names = [e.name for e in item.expressions] if isinstance(item, exp.Aliases) else []
        names = [item.alias] if isinstance(item, exp.Alias) else names
        maker = FromBinder(self.binder, None)
        made = maker.made(call, names, item)
        self.operator = Generate(self.expressions.attach(self.operator), call, False, tuple(c for _, c in made))
        self.outputs += [(name, c.ref) for name, c in made]

    # ---------------------------------------------------------------------------------------------------- GROUP BY

    def _group(self, order: list[exp.Expr]) -> None:
        clause, having = self.node.args.get("group"), self.node.args.get("having")
        qualify = self.node.args.get("qualify")
        self.having = None if having is None else self.expressions.condition(having.this)
        self.qualify = None if qualify is None else self.expressions.condition(qualify.this)
        uses = [*(v for _, v in self.outputs), *order, *(e for e in (self.having, self.qualify) if e is not None)]
        if clause is None and not any(has_aggregates(use) for use in uses):
            if self.having is not None:
                raise self.context.invalid("HAVING without GROUP BY or an aggregate", having)
            return
        self.grouped = True
        grouping = Grouping(self.operator, self.expressions)
        keys, sets = self._keys(clause)
        inner = self._correlated_keys()
        self.operator = grouping.group([*keys, *inner], _with_all(sets, inner), uses)
        self._replace(grouping.replacements, order)
        self._only_grouped(order)
        if self.having is not None:
            self.operator = Filter(self.expressions.attach(self.operator, names_in(self.having)), self.having)

    def _keys(self, clause: exp.Group | None) -> tuple[list[exp.Expr], list[list[exp.Expr]] | None]:
        if clause is None:
            return [], None
        if clause.args.get("all"):
            return [value for _, value in self.outputs if not has_aggregates(value)], None
        outputs = [value for _, value in self.outputs]
        sets = grouping_sets(clause, self.expressions)
        if sets is not None:
            ordered_keys = [self.expressions.bind(c) for c in clause.find_all(exp.Column)]
            return list(dict.fromkeys([*ordered_keys, *(k for chosen in sets for k in chosen)])), sets
        return [
            positioned(e, outputs, self.context)
            if isinstance(e, exp.Literal) and e.is_int
            else self.expressions.bind(e)
            for e in clause.expressions
        ], None

    def _correlated_keys(self) -> list[exp.Expr]:
        """The own columns of correlated equalities: an aggregate per such key stands for one per outer row."""
        own = set(self.operator.names)
        found: list[exp.Expr] = []
        for condition in self.correlated:
            sides = [condition.left, condition.right] if isinstance(condition, exp.EQ | exp.NullSafeEQ) else []
            mine = [s for s in sides if isinstance(s, exp.Column) and s.name in own]
            if len(mine) != 1:
                detail = "an aggregate correlated by other than equality has no rule"
                raise self.context.no_rule("correlated_subquery", detail, condition)
            found.append(exp.column(mine[0].name, quoted=True))
        if found and self.having is not None and self.node.args.get("group") is None:
            raise self.context.no_rule(
                "correlated_subquery", "HAVING in a correlated aggregate without GROUP BY", self.node
            )
        return found

    def _replace(self, replacements: Replacements, order: list[exp.Expr]) -> None:
        self.replaced.update(replacements)
        self.outputs = [(name, rewrite(value, replacements)) for name, value in self.outputs]
        order[:] = [rewrite(item, replacements) for item in order]
        self.having = None if self.having is None else rewrite(self.having, replacements)
        self.qualify = None if self.qualify is None else rewrite(self.qualify, replacements)
        swaps = {k.name: v for k, v in replacements.items() if isinstance(k, exp.Column)}
        self.expressions.pending = [waiting.through(swaps) for waiting in self.expressions.pending]
        self.correlated = [substitute(c, swaps) for c in self.correlated]

    def _only_grouped(self, order: list[exp.Expr]) -> None:
        known = set(self.operator.names) | {n for w in self.expressions.pending for n in w.made} | self.scope.reached
        for value in [
            *(v for _, v in self.outputs),
            *order,
            *(e for e in (self.having, self.qualify) if e is not None),
        ]:
            for column in value.find_all(exp.Column):
                if column.name not in known:
                    hint = "group by it, or wrap it in an aggregate such as any_value"
                    raise self.context.invalid(f"{column.name} is neither grouped nor aggregated", column, hint=hint)

    # ----------------------------------------------------------------------------------------------------- windows

    def _windows(self, order: list[exp.Expr]) -> None:
        self.operator = self.expressions.attach(self.operator)
        uses = [*(v for _, v in self.outputs), *order, *([] if self.qualify is None else [self.qualify])]
        calls = [call for use in uses for call in windows_in(use)]
        if calls:
            windows = Windows(self.operator, self.expressions)
            self.operator = windows.compute(calls)
            self._replace(windows.replacements, order)
        if self.qualify is not None:
            self.operator = Filter(self.operator, self.qualify)

    # --------------------------------------------------------------------------------------------------- the result

    def _order(self) -> list[exp.Expr]:
        """The keys of ORDER BY where LIMIT makes them matter; the result's own names come first."""
        if self.node.args.get("limit") is None and self.node.args.get("offset") is None:
            return []
        first = Scope(self.scope.relations, self.scope.merged, aliases=self.scope.aliases, outer=self.scope.outer)
        first.merged = {**self.scope.merged, **{n.lower(): v for n, v in self.outputs}}
        expressions = Expressions(self.binder, first)
        found = list(ordered(self.node, [v for _, v in self.outputs], expressions))
        self.expressions.pending += expressions.pending
        return found

    def _project(self, order: list[exp.Expr]) -> Bound:
        if self.scope.reached & {n for _, v in self.outputs for n in names_in(v)}:
            detail = "a column of the query around stands in a subquery's select list"
            raise self.context.no_rule("correlated_subquery", detail, self.node)
        columns = [(self.expressions.column(name, value), value) for name, value in self.outputs]
        fields = tuple((name, column) for (name, _), (column, _) in zip(self.outputs, columns, strict=True))
        carried = self._carried()
        distinct = self.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self.context.no_rule("distinct_on", "DISTINCT ON has no rule", self.node)
        single, empty = self._single(columns)
        keys = [(self.expressions.column("sort", item.this), item) for item in order]
        extra = [(c, item.this) for c, item in keys]
        if distinct is not None:
            self.operator = Distinct(Project(self.operator, (*columns, *carried)))
            swaps: Replacements = {value: column.ref for column, value in columns}
            extra = [(c, rewrite(value, swaps)) for c, value in extra]
            if any(not names_in(value) <= set(self.operator.names) for _, value in extra):
                raise self.context.invalid("ORDER BY must use columns of SELECT DISTINCT", self.node)
            self.operator = extended(self.operator, extra)
        else:
            self.operator = Project(self.operator, (*columns, *carried, *extra))
        if self.node.args.get("limit") is not None or self.node.args.get("offset") is not None:
            if self.correlated:
                raise self.context.no_rule("correlated_subquery", "LIMIT in a correlated subquery", self.node)
            sorts = tuple(
                exp.Ordered(this=c.ref, desc=item.args.get("desc"), nulls_first=item.args.get("nulls_first"))
                for c, item in keys
            )
            limited = Limit(self.operator, sorts, *limit_of(self.node, self.context))
            self.operator = Project(limited, tuple((c, c.ref) for c, _ in columns)) if extra else limited
            single = False
        return Bound(self.operator, fields, tuple(self.correlated), single, empty)

    def _carried(self) -> list[tuple[Column, exp.Expr]]:
        """Own columns that correlated conditions speak of, to be kept beside the result."""
        spoken = {name for condition in self.correlated for name in names_in(condition)}
        return [(c, c.ref) for c in self.operator.columns if c.name in spoken]

    def _single(self, columns: list[tuple[Column, exp.Expr]]) -> tuple[bool, exp.Expr | None]:
        """Whether there is exactly one row, and what its one value is over no rows, if that is not NULL."""
        if not self.grouped or self.node.args.get("group") is not None or self.having is not None:
            return False, None
        if not isinstance(self.operator, Aggregate) or len(columns) != 1:
            return isinstance(self.operator, Aggregate) or self.grouped, None
        empty = {c.name: _over_nothing(call) for c, call in self.operator.calls}
        value = columns[0][1]
        counts = any(isinstance(e, exp.Literal) for name, e in empty.items() if name in names_in(value))
        conditional = value.find(exp.Coalesce, exp.Case, exp.If, exp.Is, exp.NullSafeEQ) is not None
        return True, substitute(value, empty) if counts or conditional or not names_in(value) else None


def _over_nothing(call: exp.Expr) -> exp.Expr:
    inner = call.this if isinstance(call, exp.Filter) else call
    counts = isinstance(inner, exp.Count | exp.CountIf | exp.ApproxDistinct)
    return exp.Literal.number(0) if counts else exp.null()


def _with_all(sets: list[list[exp.Expr]] | None, keys: list[exp.Expr]) -> list[list[exp.Expr]] | None:
    return None if sets is None else [[*chosen, *keys] for chosen in sets]


def _call_of(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Aliases | exp.Alias) else item


def _output_name(item: exp.Expr) -> str:
    """The name of a column of the result: its alias, its own name, or its text as Spark would have it."""
    return item.alias_or_name or item.sql("spark", normalize_functions="lower")
