"""Which rows a change of the other side touches: the part that joins, semi-joins and padding share."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.types import is_whole, type_of
from neve.sql.delta.columns import WEIGHT, column, conjuncts, names_in, relation
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import exists, items, named, number, pick, select, total, union_all, weighed_items

Equalities = list[tuple[exp.Expr, exp.Expr]]


def equalities(condition: exp.Expr, near: Operator, far: Operator) -> Equalities:
    """The pairs that a condition demands to be equal: an expression over one side, and one over the other."""
    found: Equalities = []
    for part in conjuncts(condition):
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        for this, other in ((part.left, part.right), (part.right, part.left)):
            spoken, spoken_far = names_in(this), names_in(other)
            if spoken and spoken_far and spoken <= set(near.names) and spoken_far <= set(far.names):
                found.append((this, other))
    return found


def transferred(keys: Keys, equal: Equalities) -> Keys | None:
    """Keys of one side as keys of the other: rows that are equal to none of them find no partner anyway."""
    texts = {this.sql("spark"): other for this, other in equal}
    pairs = tuple((texts[e.sql("spark")], key) for e, key in keys.pairs if e.sql("spark") in texts)
    return Keys(keys.relation, pairs) if pairs else None


def matched(script: Script, operator: Operator, version: Version, equal: Equalities, changes: str) -> str:
    """Rows that can meet a change of the other side; plain tables whole, for the join itself prunes them."""
    if operator.light or not equal:
        return script.relation(operator, version)
    keys = script.keys(changes, [near for near, _ in equal])
    return script.relation(operator, version, _of_far(keys, equal))


def _of_far(keys: Keys, equal: Equalities) -> Keys:
    return Keys(keys.relation, tuple((far, key) for (_, far), (_, key) in zip(equal, keys.pairs, strict=True)))


def flips(script: Script, kept: Operator, other: Operator, condition: exp.Expr, *, anti: bool) -> list[exp.Query]:
    """Changes of the rows that have (or, `anti`, have no) partner, each query with its weight.

    New or gone rows are judged by the new other side; rows that stay count only when their having a partner flipped.
    """
    found: list[exp.Query] = []
    changed, met = script.changes(kept), script.changes(other)
    if changed is not None:
        has = exists(matched(script, other, Version.NEW, equalities(condition, kept, other), changed), condition)
        found.append(select(pick(kept.columns, weight=True), changed, exp.not_(has) if anti else has))
    if met is not None:
        rows, had = flipped(script, kept, other, condition, met)
        weight = exp.case().when(had, number(1 if anti else -1)).else_(number(-1 if anti else 1))
        found.append(select(weighed_items([(c.name, c.ref) for c in kept.columns], weight), rows))
    return found


def flipped(script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str) -> tuple[str, exp.Column]:
    """Old rows of one side whose having a partner a change of the other has turned, and whether they had one before."""
    had = script.names.fresh("had")
    equal = equalities(condition, kept, other)
    if equal and len(equal) == len(conjuncts(condition)) and _keep_values_apart(equal, kept, other):
        query = _counted(script, kept, other, condition, met, had=had)
    else:
        query = _looked_up(script, kept, other, condition, met, had=had)
    return script.name(query, "flipped"), column(had)


def _keep_values_apart(equal: Equalities, near: Operator, far: Operator) -> bool:
    """Whether two different values of the far side never equal one value of the near side, as '1' and '01' do where
    texts are compared with numbers."""
    known = {c.name: c for c in (*near.columns, *far.columns)}
    kinds = [(type_of(this, known), type_of(other, known)) for this, other in equal]
    return all(one is not None and (one == two or (is_whole(one) and is_whole(two))) for one, two in kinds)


def _counted(script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str, *, had: str) -> exp.Query:
    """By the partners that a touched key has: those of now are counted, and how many there were follows from the
    changes, so that the old other side is not read."""
    equal = equalities(condition, kept, other)
    keys = script.keys(met, [far for _, far in equal])
    own, now, came = [key for _, key in keys.pairs], script.names.fresh("now"), script.names.fresh("came")
    sides = [
        select(items([*((key, far) for far, key in keys.pairs), (now, there), (came, change)]), source)
        for source, there, change in (
            (script.relation(other, Version.NEW, keys), number(1), number(0)),
            (met, number(0), column(WEIGHT)),
        )
    ]
    after, added = total(column(now)), total(column(came))
    has, before = _some(after), _some(exp.Sub(this=after.copy(), expression=added))
    turned = select([*map(column, own), named(had, before)], script.name(union_all(sides), "partners"))
    turned = turned.group_by(*map(column, own), copy=False)
    turned = turned.having(exp.NEQ(this=exp.paren(before), expression=exp.paren(has)), copy=False)
    same = [
        type(part)(this=near, expression=column(key))
        for part, (near, _), key in zip(conjuncts(condition), equal, own, strict=True)
    ]
    old = matched(script, kept, Version.OLD, equalities(condition, other, kept), met)
    rows = select([*(c.ref for c in kept.columns), column(had)], old)
    return rows.join(relation(script.name(script.bounded(turned, met), "turned")), on=exp.and_(*same), copy=False)


def _looked_up(
    script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str, *, had: str
) -> exp.Query:
    """By looking for a partner of every touched row in the old, and in the new other side."""
    near = matched(script, kept, Version.OLD, equalities(condition, other, kept), met)
    touched = script.name(select(pick(kept.columns), near, exists(met, condition)), "touched")
    equal = equalities(condition, kept, other)
    keys = None if other.light or not equal else script.keys(met, [far for _, far in equal])
    before, after = (exists(script.relation(other, version, keys), condition) for version in (Version.OLD, Version.NEW))
    sides = []
    for said, turned in ((True, exp.and_(before, exp.not_(after))), (False, exp.and_(exp.not_(before), after))):
        picked = items([*((c.name, c.ref) for c in kept.columns), (had, exp.Boolean(this=said))])
        sides.append(select(picked, touched, turned))
    return union_all(sides)


def _some(count: exp.Expr) -> exp.Expr:
    return exp.GT(this=count.copy(), expression=number(0))
