"""FROM: tables, subqueries, joins and lateral views, in the order in which they stand."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.expressions import Expressions
from neve.sql.delta.binding.functions import is_generator, name_of
from neve.sql.delta.binding.queries import Binder, Fields
from neve.sql.delta.binding.scope import Relation, Scope
from neve.sql.delta.binding.types import INT, type_of
from neve.sql.delta.columns import Column
from neve.sql.delta.operators import Operator
from neve.sql.delta.rules.generators import Generate
from neve.sql.delta.rules.joins import Join, JoinKind
from neve.sql.delta.rules.matches import Semi
from neve.sql.delta.rules.sources import Constant

_SIDES = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}


class FromBinder:
    """Builds the input of a SELECT, and the names that it gives."""

    def __init__(self, binder: Binder, outer: Scope | None) -> None:
        self.binder = binder
        self.scope = Scope(outer=outer)
        self.operator: Operator = Constant((), ((),))

    def bind(self, node: exp.Select) -> tuple[Operator, Scope]:
        clause = node.args.get("from_")
        if clause is not None:
            self._first(clause.this)
        steps = [*node.args.get("joins", []), *node.args.get("laterals", [])]
        for step in sorted(steps, key=_start):
            self._step(step)
        return self.operator, self.scope

    def _first(self, item: exp.Expr) -> None:
        self.operator, relation = self._item(item)
        self.scope.relations.append(relation)
        for join in item.args.get("joins") or []:
            self._join(join)

    def _step(self, step: exp.Expr) -> None:
        if isinstance(step, exp.Lateral):
            self.generate(step)
        elif isinstance(step, exp.Join):
            self._join(step)

    # ------------------------------------------------------------------------------------------------------- items

    def _item(self, item: exp.Expr) -> tuple[Operator, Relation]:
        if item.args.get("pivots"):
            raise self.binder.context.no_rule("pivot", "PIVOT has no rule", item)
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            inner = FromBinder(self.binder, None)
            inner._first(item.this)
            for join in item.args.get("joins") or []:
                inner._join(join)
            fields: Fields = tuple(pair for r in inner.scope.relations for pair in r.fields)
            return inner.operator, Relation(_parts(item), self._renamed(item, fields))
        if not isinstance(item, exp.Table | exp.Subquery | exp.Values):
            raise self.binder.context.no_rule("unsupported", f"{item.key.upper()} in FROM has no rule", item)
        bound = self.binder.query(item)
        return bound.operator, Relation(_parts(item), self._renamed(item, bound.fields))

    def _renamed(self, item: exp.Expr, fields: Fields) -> Fields:
        alias = item.args.get("alias")
        names = alias.columns if isinstance(alias, exp.TableAlias) else []
        if not names:
            return fields
        if len(names) != len(fields):
            said = f"{len(names)} names for {len(fields)} columns"
            raise self.binder.context.invalid(said, alias)
        return tuple((name.name, column) for name, (_, column) in zip(names, fields, strict=True))

    # ------------------------------------------------------------------------------------------------------- joins

    def _join(self, node: exp.Join) -> None:
        if isinstance(node.this, exp.Lateral):
            self.generate(node.this)
            return
        right, relation = self._item(node.this)
        if node.method not in ("", "NATURAL"):
            raise self.binder.context.no_rule("join", f"{node.method} JOIN has no rule", node)
        kind = _SIDES.get(node.side, JoinKind.INNER)
        condition = self._condition(node, relation, kind)
        if node.kind in ("SEMI", "ANTI"):
            self.operator = Semi(self.operator, right, condition, anti=node.kind == "ANTI")
            return
        self.operator = Join(kind, self.operator, right, condition)
        self.scope.relations.append(relation)
        for column in self.operator.columns:
            self.binder.context.columns[column.name] = column

    def _condition(self, node: exp.Join, relation: Relation, kind: JoinKind) -> exp.Expr:
        using = [name.name for name in node.args.get("using") or []]
        if node.method == "NATURAL":
            left = {name.lower() for r in self.scope.relations for name, _ in r.fields}
            using = [name for name, _ in relation.fields if name.lower() in left]
        if using:
            return self._using(node, using, relation, kind)
        on = node.args.get("on")
        if on is None:
            return exp.true()
        both = Scope([*self.scope.relations, relation], dict(self.scope.merged), outer=self.scope.outer)
        expressions = Expressions(self.binder, both)
        bound = expressions.bind(on)
        if expressions.pending or both.reached:
            raise self.binder.context.no_rule("subquery_in_on", "a subquery or outer column in ON has no rule", on)
        return bound

    def _using(self, node: exp.Join, names: list[str], relation: Relation, kind: JoinKind) -> exp.Expr:
        """Equality of the named columns, which become one: of the side that is always there, or of either."""
        equal: list[exp.Expr] = []
        for name in names:
            context, column = self.binder.context, exp.column(name)
            mine = self.scope.resolve(column, context)
            theirs = Scope([relation]).resolve(column, context)
            equal.append(exp.EQ(this=mine, expression=theirs))
            if node.kind in ("SEMI", "ANTI"):
                continue
            merged = {JoinKind.RIGHT: theirs, JoinKind.FULL: exp.func("coalesce", mine, theirs)}.get(kind, mine)
            self.scope.hidden |= {c.name for side in (mine, theirs) for c in side.find_all(exp.Column)}
            self.scope.merged[name.lower()] = merged.copy()
        return exp.and_(*equal)

    # -------------------------------------------------------------------------------------------------- generators

    def generate(self, node: exp.Lateral) -> None:
        """LATERAL VIEW [OUTER] generator(…) alias AS columns."""
        if not is_generator(node.this):
            raise self.binder.context.no_rule("lateral", "a LATERAL subquery has no rule", node)
        expressions = Expressions(self.binder, self.scope)
        call = expressions.bind(node.this)
        alias = node.args.get("alias")
        names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        made = self.made(call, names, node)
        self.operator = Generate(self.operator, call, bool(node.args.get("outer")), tuple(c for _, c in made))
        self.scope.relations.append(Relation((alias.name,) if alias is not None and alias.name else (), made))

    def made(self, call: exp.Expr, names: list[str], node: exp.Expr) -> Fields:
        """The columns that a generator makes, under the given names or its own."""
        context = self.binder.context
        own = {"explode": ["col"], "explode_outer": ["col"], "posexplode": ["pos", "col"]}.get(name_of(call), [])
        own = own or (["pos", "col"] if name_of(call) == "posexplode_outer" else [])
        known = names or own
        if not known:
            raise context.no_rule("generator", f"name the columns of {name_of(call)}: LATERAL VIEW … AS a, b", node)
        kinds: list[object] = [None] * len(known)
        if len(known) == 1:
            kinds = [type_of(call, context.columns)]
        elif "pos" in own and len(known) == len(own):
            kinds = [INT, None]
        columns: list[Column] = [
            context.new(name, kind=kind)  # type: ignore[arg-type]
            for name, kind in zip(known, kinds, strict=True)
        ]
        return tuple(zip(known, columns, strict=True))


def _parts(item: exp.Expr) -> tuple[str, ...]:
    if item.alias:
        return (item.alias,)
    return tuple(part.name for part in item.parts) if isinstance(item, exp.Table) else ()


def _start(node: exp.Expr) -> int:
    return min((int(n.meta["start"]) for n in node.walk() if n.meta.get("start") is not None), default=0)
