"""Which rows a change of the other side touches: the part that joins, semi-joins and padding share."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.columns import conjuncts, names_in
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.script import Script
from neve.sql.delta.selects import exists, pick, select

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


def flips(
    script: Script, kept: Operator, other: Operator, condition: exp.Expr, *, anti: bool
) -> list[tuple[exp.Query, exp.Expr | None]]:
    """Changes of the rows that have (or, `anti`, have no) partner, each with its weight; None: the query's own.

    New or gone rows are judged by the new other side; rows that stay are touched only where a change of the other side
    meets the condition, and count only when their having a partner flipped.
    """
    found: list[tuple[exp.Query, exp.Expr | None]] = []
    changed, met = script.changes(kept), script.changes(other)
    if changed is not None:
        equal = equalities(condition, kept, other)
        has = exists(matched(script, other, Version.NEW, equal, changed), condition)
        found.append((select(pick(kept.columns, weight=True), changed, exp.not_(has) if anti else has), None))
    if met is not None:
        found += _flipped(script, kept, other, condition, met, anti=anti)
    return found


def _flipped(
    script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str, *, anti: bool
) -> list[tuple[exp.Query, exp.Expr | None]]:
    touched = touched_by(script, kept, other, condition, met)
    before, after = partners(script, kept, other, condition, met)
    lost = select(pick(kept.columns), touched, exp.and_(before, exp.not_(after)))
    found = select(pick(kept.columns), touched, exp.and_(exp.not_(before), after))
    plus, minus = exp.Literal.number(1), exp.Neg(this=exp.Literal.number(1))
    return [(lost, plus if anti else minus), (found, minus if anti else plus)]


def touched_by(script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str) -> str:
    """Old rows of one side that meet a change of the other."""
    old = matched(script, kept, Version.OLD, equalities(condition, other, kept), met)
    return script.name(select(pick(kept.columns), old, exists(met, condition)), "touched")


def partners(
    script: Script, kept: Operator, other: Operator, condition: exp.Expr, met: str
) -> tuple[exp.Exists, exp.Exists]:
    """Whether a touched row has a partner in the old, and in the new other side."""
    equal = equalities(condition, kept, other)
    keys = None if other.light or not equal else script.keys(met, [far for _, far in equal])
    old, new = (script.relation(other, version, keys) for version in (Version.OLD, Version.NEW))
    return exists(old, condition), exists(new, condition)
