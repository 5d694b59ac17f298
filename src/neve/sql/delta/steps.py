"""A derived text in steps: which parts of it are computed once and kept, and which are few.

Spark writes out a common table expression wherever it is spoken of, computes it as often, and sees neither a hint nor a
kept relation through it; so there are none left here. Parts that only touched rows can reach are kept where they are
read more than once. Parts that cannot hold more rows than the sources have changes are small when these are, so a join
may send them to every task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from neve.sql.delta.columns import conjuncts
from neve.sql.delta.derive import KNOWN_TEXTS, DeltaQuery

_PLAIN = {"expressions", "from_", "where"}


@dataclass(frozen=True, slots=True)
class Intermediate:
    """A relation to be made before the next: `sql` may speak of earlier ones, and is None for the changes of a source,
    which are given.

    `kept`: it is read more than once. `few`: it has at most as many rows as the sources have changes.
    """

    name: str
    sql: str | None
    kept: bool
    few: bool


@dataclass(frozen=True, slots=True)
class Stepwise:
    """The steps in their order, and the text that remains; `read_off`: it only reads kept steps, so that computing it
    again costs nothing."""

    steps: tuple[Intermediate, ...]
    sql: str
    read_off: bool


@lru_cache(maxsize=KNOWN_TEXTS)
def stepwise(query: DeltaQuery) -> Stepwise:
    """The text of a derivation, in steps."""
    given = [read.relation for read in query.reads if read.kind == "delta"]
    bodies, final = _parts(query.tree)
    driven, few = set(given), set(given)
    for name, body in bodies.items():
        if _is_driven(body, driven):
            driven.add(name)
        if query.as_few.get(name) in few or _is_few(body, few):
            few.add(name)
    times = _times(final, bodies, [*given, *bodies], driven)
    apart = {name for name, body in bodies.items() if _stands_apart(body, times[name], few=name in few)}
    apart |= query.as_few.keys() & few
    kept = {name for name in driven if times[name] > 1 and (name in apart or name in given)}
    inlined = {name: body for name, body in bodies.items() if name not in apart}
    steps = [Intermediate(name, None, name in kept, few=True) for name in given]
    steps += [
        Intermediate(name, _written(body, inlined).sql("spark"), name in kept, name in few)
        for name, body in bodies.items()
        if name in apart
    ]
    text = _written(final, inlined)
    return Stepwise(tuple(steps), text.sql("spark"), _reads_off(text, kept))


def _parts(tree: exp.Query) -> tuple[dict[str, exp.Query], exp.Query]:
    """The common table expressions by name, each before its use, and the query over them."""
    final = tree.copy()
    clause = final.args.get("with_")
    final.set("with_", None)
    return {cte.alias: cte.this for cte in clause.expressions} if clause else {}, final


def _times(final: exp.Query, bodies: Mapping[str, exp.Query], names: list[str], driven: set[str]) -> Mapping[str, int]:
    """How often each would be computed: as often as it is spoken of by what is computed. What is kept is so once."""
    times = _spoken(final)
    for name in reversed(names):
        if name in bodies:
            once = name in driven and not _is_plain(bodies[name])
            for other, often in _spoken(bodies[name]).items():
                times[other] += often if once else often * times[name]
    return times


def _spoken(query: exp.Query) -> Counter[str]:
    return Counter(table.name for table in query.find_all(exp.Table))


def _stands_apart(body: exp.Query, times: int, *, few: bool) -> bool:
    """Whether it is a relation of its own; else it is written where it is read. A hint reaches a join through anything
    but a union."""
    return (times > 1 and not _is_plain(body)) or (few and isinstance(body, exp.Union))


def _written(query: exp.Query, inlined: Mapping[str, exp.Query]) -> exp.Query:
    """The query with these relations written out in it."""
    made = query.copy()
    for table in list(made.find_all(exp.Table)):
        if table.name in inlined:
            inner = _written(inlined[table.name], inlined)
            table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name))))
    return made


def _is_driven(query: exp.Query, driven: set[str]) -> bool:
    """Whether every row of it comes from a changed row, or is looked up by one."""
    if isinstance(query, exp.Union):
        return _is_driven(query.left, driven) and _is_driven(query.right, driven)
    if not isinstance(query, exp.Select):
        return False
    if any(_relation(found.this) in driven for found in _exists(query)):
        return True
    source = query.args.get("from_")
    reached = source is not None and _relation(source) in driven
    for join in query.args.get("joins") or ():
        reached = _reached(join, left=reached, right=_relation(join) in driven)
    return reached


def _reached(join: exp.Join, *, left: bool, right: bool) -> bool:
    match join.side:
        case "LEFT":
            return left
        case "RIGHT":
            return right
        case "FULL":
            return left and right
    return left or right


def _exists(query: exp.Select) -> list[exp.Exists]:
    where = query.args.get("where")
    return [] if where is None else [part for part in conjuncts(where.this) if isinstance(part, exp.Exists)]


def _relation(clause: exp.Expr) -> str | None:
    """The one table of a FROM, a JOIN, or a SELECT without joins."""
    if isinstance(clause, exp.Select):
        source = clause.args.get("from_")
        return None if source is None or clause.args.get("joins") else _relation(source)
    return clause.this.name if isinstance(clause.this, exp.Table) else None


def _is_few(query: exp.Query, few: set[str]) -> bool:
    """Whether it has at most as many rows as the changes of the sources, or those a few times over."""
    if isinstance(query, exp.Union):
        return _is_few(query.left, few) and _is_few(query.right, few)
    if not isinstance(query, exp.Select) or query.args.get("laterals"):
        return False
    return _relation(query) in few and not any(item.find(exp.Explode, exp.Inline) for item in query.expressions)


def _is_plain(query: exp.Query) -> bool:
    """Whether it only picks columns and rows of one relation, which costs nothing to do again."""
    if not isinstance(query, exp.Select) or any(value for key, value in query.args.items() if key not in _PLAIN):
        return False
    return query.find(exp.Exists, exp.AggFunc, exp.Window, exp.Subquery) is None


def _reads_off(query: exp.Query, kept: set[str]) -> bool:
    """Whether it only picks columns and rows of kept relations."""
    if isinstance(query, exp.Union):
        return _reads_off(query.left, kept) and _reads_off(query.right, kept)
    if not isinstance(query, exp.Select) or any(value for key, value in query.args.items() if key not in _PLAIN):
        return False
    if any(item.find(exp.AggFunc, exp.Window) for item in query.expressions) or _exists(query):
        return False
    source = query.args["from_"].this
    return _reads_off(source.this, kept) if isinstance(source, exp.Subquery) else source.name in kept
