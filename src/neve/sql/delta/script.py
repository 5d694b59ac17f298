"""One query text in the making: common table expressions, each written once, and the relations that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlglot import exp

from neve.model.names import TableName
from neve.sql.delta.columns import WEIGHT, Column, Names, column, substitute
from neve.sql.delta.operators import Keys, Operator, Version
from neve.sql.delta.selects import Item, fused, items, meanings, named, number, pick, select, total, union_all, weighed

Kind = Literal["delta", "old", "new", "stored"]
_ODD = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class Read:
    """A relation that whoever runs the text must provide under this name.

    `delta` is the net changes of a source with the weight `_w`; `old` and `new` are the source at either end, and
    `stored` is the table that the query fills, hidden columns included. `place` is a further column that says where
    each row lies, to be provided as a structure of its file and its position there.
    """

    relation: str
    kind: Kind
    source: str | None
    columns: tuple[str, ...]
    place: str | None = None


class Script:
    """Collects what a text needs while operators write their parts of it."""

    def __init__(
        self, names: Names, changed: frozenset[str], moments: Mapping[Version, datetime | None] | None = None
    ) -> None:
        self.names = names.copy()
        self.changed = changed
        self._moments = moments or {}
        self.place: str | None = None
        self.reads: dict[str, Read] = {}
        self.as_few: dict[str, str] = {}
        self._relations: dict[tuple[str | None, Kind], str] = {}
        self._bounds: dict[int, tuple[str, exp.Query]] = {}
        self._named: dict[int, tuple[str, exp.Query]] = {}
        self._rows: dict[tuple[int, Version, str], exp.Query] = {}
        self._deltas: dict[int, exp.Query | None] = {}
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}
        self._netted: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------------- relations

    def read(self, source: str | None, kind: Kind, columns: Iterable[str]) -> str:
        """The name of a relation to be provided, with the columns that are read of it."""
        key = (source, kind)
        if key not in self._relations:
            short = "" if source is None else _ODD.sub("_", TableName.parse(source).name)
            self._relations[key] = self.names.fresh("stored" if source is None else f"{kind}_{short}")
        name = self._relations[key]
        known = self.reads[name].columns if name in self.reads else ()
        merged = tuple(dict.fromkeys([*known, *columns]))
        self.reads[name] = Read(name, kind, source, merged, self.place if kind == "stored" else None)
        return name

    @property
    def nowhere(self) -> list[exp.Expr]:
        """The place of a row that comes, where places are told."""
        return [] if self.place is None else [named(self.place, exp.null())]

    def bounded(self, query: exp.Query, by: str) -> exp.Query:
        """The query, which has about as many rows as a relation at most, for a reason that its text does not show."""
        self._bounds[id(query)] = (by, query)
        return query

    def name(self, query: exp.Query, wish: str) -> str:
        """The name of a query, which becomes a common table expression; asked again, the same name."""
        if id(query) not in self._named:
            self._named[id(query)] = (self.names.fresh(wish), query)
        name = self._named[id(query)][0]
        if id(query) in self._bounds:
            self.as_few[name] = self._bounds[id(query)][0]
        return name

    # ---------------------------------------------------------------------------------------- rows and changes

    def moment(self, version: Version) -> datetime | None:
        """The present moment as of a version, where one is given."""
        return self._moments.get(version)

    def moves(self, operator: Operator) -> bool:
        return not self.changed.isdisjoint(operator.sources)

    def rows(self, operator: Operator, version: Version, keys: Keys | None = None) -> exp.Query:
        """The operator's rows; where nothing below has changed, old and new are the same query."""
        at = version if self.moves(operator) else Version.NEW
        wanted = None if keys is None or not keys.pairs else keys
        key = (id(operator), at, "" if wanted is None else wanted.condition.sql("spark"))
        if key not in self._rows:
            self._rows[key] = operator.rows(self, at, wanted)
        return self._rows[key]

    def relation(self, operator: Operator, version: Version, keys: Keys | None = None) -> str:
        """The name of the operator's rows."""
        at = version if self.moves(operator) else Version.NEW
        return self.name(self.rows(operator, version, keys), f"{type(operator).__name__.lower()}_{at}")

    def delta(self, operator: Operator) -> exp.Query | None:
        """The operator's changes; None when no source below has changed."""
        if id(operator) not in self._deltas:
            self._deltas[id(operator)] = operator.delta(self) if self.moves(operator) else None
        return self._deltas[id(operator)]

    def changes(self, operator: Operator) -> str | None:
        """The name of the operator's changes, net where it pays."""
        query = self.delta(operator)
        if query is None:
            return None
        name = self.name(query, f"{type(operator).__name__.lower()}_delta")
        if not operator.expands:
            return name
        if name not in self._netted:
            self._netted[name] = self.name(net(operator.columns, name), f"{name}_net")
        return self._netted[name]

    def keys(self, relation: str, expressions: Iterable[exp.Expr]) -> Keys:
        """The distinct values of expressions over a relation."""
        wanted = [e.copy() for e in expressions]
        key = (relation, ", ".join(e.sql("spark") for e in wanted))
        if key not in self._keys:
            columns = [self.names.fresh(f"k_{e.name}" if isinstance(e, exp.Column) else "k") for e in wanted]
            query = select(items(list(zip(columns, wanted, strict=True))), relation).distinct()
            self._keys[key] = (self.name(query, "keys"), *columns)
        name, *columns = self._keys[key]
        return Keys(name, tuple(zip(wanted, columns, strict=True)))

    # ------------------------------------------------------------------------------------------------------ steps

    def filtered(
        self, query: exp.Query, columns: tuple[Column, ...], condition: exp.Expr | None, *, weight: bool = False
    ) -> exp.Query:
        """The rows of a query for which a condition holds."""
        if condition is None:
            return query
        known = meanings(query)
        if known is not None:
            return query.where(substitute(condition, known))
        return select(pick(columns, weight=weight), self.name(query, "step"), condition.copy())

    def projected(self, query: exp.Query, pairs: Sequence[Item], *, weight: bool = False) -> exp.Query:
        """Other columns over the rows of a query."""
        known = meanings(query)
        selected = items(pairs, weight=weight)
        if known is not None and isinstance(query, exp.Select):
            return fused(query, known, selected)
        return select(selected, self.name(query, "step"))

    def recompute(self, operator: Operator, keys: Keys | None) -> exp.Query:
        """Affected scope: what the keys name goes as it was and comes as it is. Right for every operator whose rows
        of one key depend on that key's input alone."""
        gone = weighed(as_select(self, self.rows(operator, Version.OLD, keys), operator), -1)
        come = weighed(as_select(self, self.rows(operator, Version.NEW, keys), operator), 1)
        return union_all([gone, come])

    def finish(self, query: exp.Query) -> exp.Query:
        """The query with every common table expression that it speaks of, each before its use; the script is done."""
        defined = dict(self._named.values())
        order: dict[str, exp.Query] = {}
        _collect(query, defined, order)
        final = query.copy()
        ctes = [exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(n))) for n, body in order.items()]
        if ctes:
            final.set("with_", exp.With(expressions=ctes))
        used = {table.name for table in final.find_all(exp.Table)}
        self.reads = {name: read for name, read in self.reads.items() if name in used}
        return final


def net(columns: Iterable[Column], relation: str) -> exp.Select:
    """One row per distinct row of a relation with its weights summed, where that is not nothing."""
    picked = pick(columns, weight=False)
    weight = total(column(WEIGHT))
    built = select([*(picked if list(columns) else []), named(WEIGHT, weight.copy())], relation)
    for item in columns:
        built = built.group_by(item.ref, copy=False)
    return built.having(exp.NEQ(this=weight, expression=number(0)), copy=False)


def as_select(script: Script, query: exp.Query, operator: Operator) -> exp.Select:
    """A SELECT to which a column may be added."""
    if isinstance(query, exp.Select):
        return query
    return select(pick(operator.columns), script.name(query, f"{type(operator).__name__.lower()}_rows"))


def _collect(query: exp.Query, defined: dict[str, exp.Query], order: dict[str, exp.Query]) -> None:
    for table in query.find_all(exp.Table):
        if table.name in defined and table.name not in order:
            _collect(defined[table.name], defined, order)
            order[table.name] = defined[table.name]
