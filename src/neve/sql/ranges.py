"""The key range of a row, as an expression over its row keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from neve.model.ranges import KeyRange, RangeTree
from neve.model.regions import Region, Side
from neve.model.splits import Key, order
from neve.sql.cleaning.words import text


def locate(tree: RangeTree, keys: Sequence[str]) -> str:
    """The id of the leaf that a row belongs to: a search by halves, however lopsided the tree has grown.

    >>> from neve.model.ranges import tree_of_points
    >>> locate(tree_of_points([10], 1), ["k"])
    'IF(`k` < 10, 1, 2)'
    """
    return _search(tree.leaves, keys).sql(dialect="spark")


def inside(regions: Sequence[Region], keys: Sequence[str]) -> str:
    """The condition that a row lies in one of the regions; those that hold none are not looked for.

    >>> inside([(Side(low=1, high=5),), (Side(high=9, with_high=True),)], ["k"])
    '(`k` >= 1 AND `k` < 5) OR `k` <= 9'
    """
    full = [region for region in regions if not any(side.empty for side in region)]
    found = exp.or_(*(_within(region, keys) for region in full)) if full else exp.false()
    return found.sql(dialect="spark")


def select_where(table: str, condition: str) -> str:
    return f"SELECT * FROM {table} WHERE {condition}"  # noqa: S608 - both are SQL of ours


def within(found: KeyRange, keys: Sequence[str]) -> str:
    """The condition that a row belongs to a range."""
    region = tuple(Side(low=low, high=high) for low, high in zip(found.low, found.high, strict=True))
    return inside([region], keys)


def _within(region: Region, keys: Sequence[str]) -> exp.Condition:
    terms: list[exp.Expression] = []
    for name, side in zip(keys, region, strict=True):
        if side.low is not None:
            terms.append((exp.GTE if side.with_low else exp.GT)(this=_column(name), expression=literal(side.low)))
        if side.high is not None:
            terms.append((exp.LTE if side.with_high else exp.LT)(this=_column(name), expression=literal(side.high)))
    return exp.and_(*terms) if terms else exp.true()


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _search(leaves: Sequence[KeyRange], keys: Sequence[str]) -> exp.Expression:
    if len(leaves) == 1:
        return exp.Literal.number(leaves[0].id)
    key, at = _middle(leaves, len(keys))
    low = [leaf for leaf in leaves if _begins_below(leaf, key, at)]
    high = [leaf for leaf in leaves if _ends_above(leaf, key, at)]
    smaller = exp.LT(this=_column(keys[key]), expression=literal(at))
    return exp.If(this=smaller, true=_search(low, keys), false=_search(high, keys))


def _middle(leaves: Sequence[KeyRange], keys: int) -> tuple[int, Key]:
    """The bound in the middle of those that divide these leaves, of the first key that has any."""
    for key in range(keys):
        bounds = {order(low): low for leaf in leaves if (low := leaf.low[key]) is not None}
        inside = sorted(place for place, at in bounds.items() if not all(_ends_above(leaf, key, at) for leaf in leaves))
        if inside:
            return key, bounds[inside[len(inside) // 2]]
    raise ValueError("these leaves are one")


def _begins_below(leaf: KeyRange, key: int, at: Key) -> bool:
    low = leaf.low[key]
    return low is None or order(low) < order(at)


def _ends_above(leaf: KeyRange, key: int, at: Key) -> bool:
    high = leaf.high[key]
    return high is None or order(high) > order(at)


def literal(value: Key) -> exp.Expr:
    """A key as a literal of Spark SQL."""
    match value:
        case bytes():
            return exp.HexString(this=value.hex())
        case str():
            return text(value)
        case _:
            return exp.Literal.number(value)
