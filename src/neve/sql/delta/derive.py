"""The changes of a query's result as one SQL text, and the result in full in the same shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlglot import exp

from neve.errors import Unsupported
from neve.model.names import TableName
from neve.sql.delta.analysis import Analysis
from neve.sql.delta.clock import CLOCK, Moments
from neve.sql.delta.columns import WEIGHT, Column, column
from neve.sql.delta.merge import merged
from neve.sql.delta.operators import Keys, Version
from neve.sql.delta.script import Read, Script, as_select
from neve.sql.delta.selects import items, named, number, pick, select, total, union_all, weighed
from neve.sql.delta.shape import Apply, Shape

KNOWN_TEXTS = 256
"""Of so many tables it is remembered how they were understood and derived; trees are large."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaQuery:
    """Spark SQL over relations that the caller provides under the names in `reads`.

    The text of a derivation gives the columns of the stored table, hidden ones included, and `_w`: net, so no row comes
    twice and no weight is 0. That of a full computation gives the stored columns alone. `place` is a further column of
    a derivation: where the stored row that goes lies, NULL for rows that come. `as_few` are common table expressions,
    each with a relation that has about as many rows at least, which its text does not show.
    """

    tree: exp.Query
    reads: tuple[Read, ...]
    columns: tuple[str, ...]
    apply: Apply
    place: str | None = None
    as_few: Mapping[str, str] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        """The text for Spark."""
        return self.tree.sql("spark", pretty=True)


def derive(
    analysis: Analysis, changed: frozenset[str], *, moments: Moments | None = None, places: bool = False
) -> DeltaQuery | None:
    """The net changes of the result when these sources have changed; None when that cannot change it.

    `moments` are needed for a query that compares with the present moment (`analysis.timed`). With `places` the text
    also says where the rows that go lie, if it reads them from the stored table: of equal rows that go together it
    tells one place.

    Raises:
        Unsupported: the query cannot follow changes.
    """
    shape = _shape(analysis)
    names = frozenset(str(TableName.parse(name)) for name in changed)
    if analysis.timed:
        if moments is None:
            raise ValueError("a query that compares with the present moment needs the moments of both versions")
        names |= {CLOCK} if moments.old != moments.new else frozenset()
    at = None if moments is None else {Version.OLD: moments.old, Version.NEW: moments.new}
    script = Script(analysis.names, names, at)
    if not script.moves(shape.root):
        return None
    if places and shape.apply.kind != "bag":
        script.place = _unlike(script, [name for name, _ in shape.fields])
    query, net = _changes(script, shape)
    return None if query is None else _finished(script, shape, _settled(script, shape, query, net=net))


def full(analysis: Analysis, version: Version = Version.NEW, *, moment: datetime | None = None) -> DeltaQuery:
    """The whole result as it is to be stored.

    Ties that the query leaves open are broken as the derivation breaks them, so both always agree. For a query that
    cannot follow changes it is the query itself, over the relations by their given names.
    """
    if analysis.shape is None or not analysis.incremental:
        return _as_written(analysis, version)
    shape = analysis.shape
    script = Script(analysis.names, shape.root.sources, {version: moment})
    rows = script.rows(shape.root, version)
    picked = [(name, c.ref) for name, c in shape.fields]
    return _finished(script, shape, script.projected(rows, picked))


def _unlike(script: Script, stored: Sequence[str]) -> str:
    """A name for the place of a row that no column of the stored table has."""
    taken = {name.lower() for name in stored}
    return next(name for name in iter(lambda: script.names.fresh("place"), "") if name.lower() not in taken)


def _shape(analysis: Analysis) -> Shape:
    if analysis.shape is None or analysis.reasons:
        said = "; ".join(map(str, analysis.reasons))
        raise Unsupported(f"this query is computed in full: {said}")
    return analysis.shape


def _changes(script: Script, shape: Shape) -> tuple[exp.Query | None, bool]:
    """Changes under the operators' own column names, and whether they are net already."""
    match shape.road:
        case "rows":
            return script.delta(shape.root), False
        case "merge":
            return merged(script, shape)
        case "scope":
            if shape.scoped is None:
                raise AssertionError("a scope has its operator")
            return replaced(script, shape, shape.scoped.touched(script)), False
        case "exact":
            return _replaced_exact(script, shape), False


def _replaced_exact(script: Script, shape: Shape) -> exp.Query | None:
    changes = script.changes(shape.root)
    if changes is None:
        return None
    known = dict(shape.fields)
    return replaced(script, shape, script.keys(changes, [known[name].ref for name in shape.apply.keys]))


def replaced(script: Script, shape: Shape, keys: Keys | None) -> exp.Query:
    """Stored rows with touched keys go, and come as the query has them now."""
    gone = weighed(stored(script, shape, keys), -1)
    come = as_select(script, script.rows(shape.root, Version.NEW, keys), shape.root)
    picked = select([*pick(_columns(shape)), *script.nowhere], script.name(come, "come"))
    return union_all([gone, weighed(picked, 1)])


def stored(script: Script, shape: Shape, keys: Keys | None) -> exp.Select:
    """Rows of the stored table, under the operators' names; with keys, those that they touch."""
    relation = script.read(None, "stored", [name for name, _ in shape.fields])
    picked = items([(c.name, column(name, relation)) for name, c in shape.fields])
    if script.place is not None:
        picked.append(named(script.place, column(script.place, relation)))
    rows = select(picked, relation)
    if keys is None or not keys.pairs:
        return rows
    known = dict(shape.fields)
    own = {known[name].name: column(name, relation) for name in shape.apply.keys}
    origin = {e.name: key for e, key in keys.pairs}
    renamed = Keys(keys.relation, tuple(zip(own.values(), origin.values(), strict=True)))
    return rows.where(renamed.condition)


def _columns(shape: Shape) -> tuple[Column, ...]:
    return tuple(c for _, c in shape.fields)


def _settled(script: Script, shape: Shape, query: exp.Query, *, net: bool) -> exp.Query:
    """Net changes under the names of the stored columns."""
    relation = script.name(query, "changes")
    if net:
        told = [] if script.place is None else [column(script.place)]
        return select([*_named(shape), *told, named(WEIGHT, exp.cast(column(WEIGHT), "bigint"))], relation)
    weight = total(column(WEIGHT))
    place = [] if script.place is None else [named(script.place, exp.Max(this=column(script.place)))]
    built = select([*_named(shape), *place, named(WEIGHT, weight)], relation)
    built = built.group_by(*(c.ref for c in _columns(shape)), copy=False)
    return built.having(exp.NEQ(this=weight.copy(), expression=number(0)), copy=False)


def _named(shape: Shape) -> list[exp.Expr]:
    return [named(name, c.ref) for name, c in shape.fields]


def _finished(script: Script, shape: Shape, query: exp.Query) -> DeltaQuery:
    tree = script.finish(query)
    names = tuple(name for name, _ in shape.fields)
    reads = tuple(script.reads[name] for name in sorted(script.reads))
    return DeltaQuery(tree, reads, names, shape.apply, script.place, dict(script.as_few))


def _as_written(analysis: Analysis, version: Version) -> DeltaQuery:
    script = Script(analysis.names, frozenset())
    tree = analysis.tree.copy()
    sources = {TableName.parse(source.name): source for source in analysis.sources}
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier | exp.Dot) or (not table.db and table.name.lower() in ctes):
            continue
        source = sources.get(TableName.parse(".".join(f"`{part.name}`" for part in table.parts)))
        if source is not None:
            name = script.read(source.name, version.value, source.columns)
            renamed = exp.to_table(name, alias=table.alias_or_name)
            for key in ("joins", "laterals", "pivots", "sample"):
                renamed.set(key, table.args.get(key))
            table.replace(renamed)
    reads = tuple(script.reads[name] for name in sorted(script.reads))
    names = tuple(c.name for c in analysis.columns)
    return DeltaQuery(tree, reads, names, Apply("bag"))  # type: ignore[arg-type]
