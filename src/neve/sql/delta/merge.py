"""Adding changes to stored parts: the new row of a group out of its old one and what its rows add or take away."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from neve.sql.delta.binding.types import DOUBLE, LONG, decimal_of
from neve.sql.delta.columns import WEIGHT, Column, column, substitute
from neve.sql.delta.columns import relation as relation_of
from neve.sql.delta.operators import Keys, Version
from neve.sql.delta.rules.rows import Project
from neve.sql.delta.rules.state import Part, State
from neve.sql.delta.script import Script
from neve.sql.delta.selects import Item, exists, items, named, number, select, union_all
from neve.sql.delta.shape import Shape


class Merge:
    """One derivation by stored parts; columns of its steps have names of their own."""

    def __init__(self, script: Script, shape: Shape, state: State) -> None:
        self.script = script
        self.shape = shape
        self.state = state
        self.keys = state.aggregate.keys
        fresh = script.names.fresh
        self.added = {part.column.name: fresh(f"add_{part.column.name}") for part in state.parts}
        self.taken = {p.column.name: fresh(f"del_{p.column.name}") for p in state.parts if p.kind in ("min", "max")}
        self.old = {c.name: fresh(f"old_{c.name}") for c in self._stored_columns()}
        self.there = fresh("old_there")
        self.lies = None if script.place is None else fresh("old_place")

    @property
    def net(self) -> bool:
        """Whether a row never both goes and comes: where no group is computed anew, those that stay are left out."""
        return self._again() is None

    def changes(self, relation: str) -> exp.Query:
        """Changes of the stored rows, out of the changes of the aggregate's input."""
        joined = self.script.name(self._joined(relation), "touched")
        old: list[Item] = [(c.name, column(self.old[c.name])) for c in self._stored_columns()]
        if self.script.place is not None and self.lies is not None:
            old.append((self.script.place, column(self.lies)))
        gone = [*items(old), named(WEIGHT, number(-1))]
        goes = column(self.there)
        stays = exp.and_(*self._alive(), *self._unchanged())
        terms: list[exp.Query] = [select(gone, joined, exp.and_(goes, exp.not_(stays)) if self.net else goes)]
        terms += [self._come(rows) for rows in self._groups(joined)]
        return union_all(terms)

    def _stored_columns(self) -> list[Column]:
        return [c for _, c in self.shape.fields]

    def _increments(self, relation: str) -> exp.Select:
        """What the changes add to every part, per key."""
        pairs: list[Item] = [(c.name, c.ref) for c in self.keys]
        for part in self.state.parts:
            plain = part.kind in ("count", "sum")
            pairs.append((self.added[part.column.name], part.increment() if plain else part.extremum(added=True)))
            if not plain:
                pairs.append((self.taken[part.column.name], part.extremum(added=False)))
        return select(items(pairs), relation).group_by(*(c.ref for c in self.keys), copy=False)

    def _joined(self, relation: str) -> exp.Select:
        """Each touched key with its increments and its stored row, if there is one."""
        added = self.script.name(self._increments(relation), "added")
        stored = self.script.name(self._stored(added), "stored_rows")
        known = dict(self.shape.fields)
        same = [
            exp.NullSafeEQ(this=c.ref, expression=column(self.old[known[name].name]))
            for c, name in zip(self.keys, self.shape.apply.keys, strict=True)
        ]
        names = [*(c.name for c in self.keys), *self.added.values(), *self.taken.values(), *self.old.values()]
        names += [] if self.lies is None else [self.lies]
        there = exp.func("coalesce", column(self.there), exp.false())
        picked = [*items([(name, column(name)) for name in names]), named(self.there, there)]
        return select(picked, added).join(
            relation_of(stored), on=exp.and_(*same) if same else exp.true(), join_type="left", copy=False
        )

    def _stored(self, added: str) -> exp.Select:
        """Stored rows of touched keys: found first, so that the join with what is added is one of few rows."""
        relation = self.script.read(None, "stored", [name for name, _ in self.shape.fields])
        pairs: list[Item] = [(self.old[c.name], column(name, relation)) for name, c in self.shape.fields]
        if self.script.place is not None and self.lies is not None:
            pairs.append((self.lies, column(self.script.place, relation)))
        touched = zip((column(name, relation) for name in self.shape.apply.keys), self.keys, strict=True)
        keys = Keys(added, tuple((own, key.name) for own, key in touched))
        return select(items([*pairs, (self.there, exp.true())]), relation, keys.condition if self.keys else None)

    # --------------------------------------------------------------------------------------------------- new groups

    def _groups(self, joined: str) -> list[exp.Query]:
        """The aggregate's new rows: merged, and computed anew where an extremum may have gone."""
        again = self._again()
        pairs: list[Item] = [(c.name, c.ref) for c in self.keys]
        pairs += [(part.column.name, self._new(part)) for part in self.state.parts]
        alive = self._alive()
        if again is None:
            stays = exp.and_(column(self.there), *self._unchanged())
            return [select(items(pairs), joined, exp.and_(*alive, exp.not_(stays)))]
        merged = select(items(pairs), joined, exp.and_(*alive, exp.not_(again.copy())))
        aggregate = self.state.aggregate
        if not self.keys:
            rows = self.script.rows(aggregate, Version.NEW)
            named_rows = self.script.name(rows, "anew")
            everything = items([(c.name, c.ref) for c in aggregate.columns])
            return [merged, select(everything, named_rows, exists(joined, again))]
        lost = select(items([(c.name, c.ref) for c in self.keys]), joined, again)
        keys = self.script.keys(self.script.name(lost, "lost"), [c.ref for c in self.keys])
        return [merged, self.script.rows(aggregate, Version.NEW, keys)]

    def _alive(self) -> list[exp.Expr]:
        """Whether a group has rows; the only one of a query without keys is there in any case."""
        return [exp.GT(this=self._sum_of(self._rows_part()), expression=number(0))] if self.keys else []

    def _unchanged(self) -> list[exp.Expr]:
        """Whether every part is as it was, and so the stored row, which follows from them."""
        return [exp.NullSafeEQ(this=self._old(p.column), expression=self._new(p)) for p in self.state.parts]

    def _again(self) -> exp.Expr | None:
        """Whether a group must be computed anew: a value as far out as the stored extremum was taken away."""
        tests: list[exp.Expr] = []
        for part in self._extrema():
            compare = exp.LTE if part.kind == "min" else exp.GTE
            taken, old = column(self.taken[part.column.name]), self._old(part.column)
            reaches = compare(this=taken, expression=old)
            tests.append(exp.func("coalesce", reaches, exp.false()))
        return exp.or_(*tests) if tests else None

    def _extrema(self) -> Iterable[Part]:
        return [part for part in self.state.parts if part.kind in ("min", "max")]

    def _rows_part(self) -> Part:
        return next(part for part in self.state.parts if part.column.name == self.state.rows.name)

    def _new(self, part: Part) -> exp.Expr:
        added, old = column(self.added[part.column.name]), self._old(part.column)
        match part.kind:
            case "count":
                return self._sum_of(part)
            case "min":
                return exp.func("least", old, added, dialect="spark")
            case "max":
                return exp.func("greatest", old, added, dialect="spark")
        counted = next(p for p in self.state.parts if part.counted is not None and p.column.name == part.counted.name)
        some = exp.GT(this=self._sum_of(counted), expression=number(0))
        return exp.case().when(some, self._sum_of(part))

    def _sum_of(self, part: Part) -> exp.Expr:
        """A stored count or sum with what is added; nothing where there is nothing."""
        zero = exp.cast(number(0), str(part.column.type), dialect="spark")
        one = exp.func("coalesce", self._old(part.column), zero)
        other = exp.func("coalesce", column(self.added[part.column.name]), zero.copy())
        both = exp.Add(this=one, expression=other)
        kept = part.column.type in (LONG, DOUBLE) or decimal_of(part.column.type) is None
        return (
            exp.paren(both) if kept and part.kind != "sum" else exp.cast(both, str(part.column.type), dialect="spark")
        )

    def _old(self, part: Column) -> exp.Expr:
        """The stored value of a part, wherever the stored table keeps it."""
        name = next(c.name for c in self._stored_columns() if self._stands_for(c, part))
        return column(self.old[name])

    def _stands_for(self, shown: Column, part: Column) -> bool:
        value: exp.Expr = shown.ref
        for step in self.shape.chain:
            if isinstance(step, Project):
                value = substitute(value, step.values)
        return isinstance(value, exp.Column) and value.name == part.name

    def _come(self, groups: exp.Query) -> exp.Query:
        """New rows of the stored table out of new rows of the aggregate."""
        query = groups
        for step in reversed(self.shape.chain):
            if isinstance(step, Project):
                query = self.script.projected(query, [(c.name, e) for c, e in step.outputs])
        relation = self.script.name(query, "come")
        picked = items([(c.name, c.ref) for c in self._stored_columns()])
        return select([*picked, *self.script.nowhere, named(WEIGHT, number(1))], relation)


def merged(script: Script, shape: Shape) -> tuple[exp.Query | None, bool]:
    """Changes of a table whose stored parts add up, and whether they are net."""
    if shape.state is None:
        raise AssertionError("a merge has its state")
    relation = script.changes(shape.state.aggregate.child)
    if relation is None:
        return None, True
    merge = Merge(script, shape, shape.state)
    return merge.changes(relation), merge.net
