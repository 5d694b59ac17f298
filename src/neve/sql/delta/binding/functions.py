"""What kind of function a call is: an aggregate, a generator, one that gives the same answer each time or not."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from neve.sql.delta.binding.context import Context
from neve.sql.delta.binding.spark_functions import AGGREGATES, BUILT_IN, GENERATORS, TIME, VOLATILE
from neve.sql.delta.binding.types import is_float, type_of
from neve.sql.delta.columns import Column, names_in

_TIME = (exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp)
_VOLATILE = (exp.CurrentTime, exp.CurrentDatetime, exp.Rand, exp.Randn, exp.Uuid, exp.CurrentUser, exp.Shuffle)
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_SORTS = (exp.ArraySort,)
_COLLECTS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_ADDS = (exp.Sum, exp.Avg)
_COUNTS = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_PICKS = (exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
_PICK_NAMES = {"bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "bit_xor", "percentile", "median"}
_RANKED = (exp.PercentileCont, exp.PercentileDisc, exp.Median, exp.Quantile)


def name_of(node: exp.Expr) -> str:
    """A function's name in lower case, as Spark knows it where sqlglot does not."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call makes one value out of many rows, when no OVER follows."""
    inner = node.this if isinstance(node, _WRAPPERS) else node
    if isinstance(inner, exp.AggFunc):
        return not isinstance(inner, exp.Grouping | exp.GroupingId)
    return isinstance(inner, exp.Anonymous | exp.Func) and name_of(inner) in AGGREGATES


def sorts_collection(node: exp.Expr) -> bool:
    """Whether this is an aggregate whose order is made certain: `sort_array(collect_list(x))`."""
    plain = isinstance(node, _SORTS) and not isinstance(node.args.get("expression"), exp.Lambda)
    return plain and isinstance(node.this.this if isinstance(node.this, exp.Filter) else node.this, _COLLECTS)


def is_generator(node: exp.Expr) -> bool:
    """Whether a call makes rows out of one."""
    if isinstance(node, exp.Explode | exp.Posexplode | exp.Inline):
        return True
    return isinstance(node, exp.Func) and name_of(node) in GENERATORS


def exact(call: exp.Expr, columns: Mapping[str, Column]) -> bool:
    """Whether an aggregate gives the same value whenever it is computed over the same rows."""
    if any(not columns[name].exact for name in names_in(call) if name in columns):
        return isinstance(call, _COUNTS)
    inner = call
    while isinstance(inner, _WRAPPERS):
        inner = inner.this
    if sorts_collection(inner) or isinstance(inner, _COUNTS + _PICKS + _RANKED) or name_of(inner) in _PICK_NAMES:
        return True
    if isinstance(inner, _ADDS):
        argument = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
        return not is_float(type_of(argument, columns))
    return False


def check_functions(tree: exp.Expr, context: Context) -> None:
    """Notes every call whose answer may differ between two evaluations, and every function that nobody vouches for."""
    for node in tree.find_all(exp.Func, exp.Anonymous):
        name = name_of(node)
        if is_time(node):
            if not in_where(node):
                detail = f"{name}() outside WHERE gives another value at each refresh"
                context.refuse("time_function", detail, node)
        elif isinstance(node, _VOLATILE) or name in VOLATILE:
            context.refuse("not_deterministic", f"{name}() gives another value each time", node)
        elif isinstance(node, exp.Anonymous) and name not in BUILT_IN and name not in context.deterministic:
            detail = f"{name}() is no function of Spark, and not declared deterministic"
            context.refuse("undeclared_function", detail, node)


def is_time(node: exp.Expr) -> bool:
    """Whether a call answers with the present moment."""
    if isinstance(node, exp.StrToUnix):
        return node.args.get("this") is None or isinstance(node.this, exp.CurrentTimestamp)
    return isinstance(node, _TIME) or (isinstance(node, exp.Anonymous) and name_of(node) in TIME)


def in_where(node: exp.Expr) -> bool:
    """Whether the nearest clause around is WHERE."""
    clause = node.find_ancestor(exp.Where, exp.Query)
    return isinstance(clause, exp.Where)
