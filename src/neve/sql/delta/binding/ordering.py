"""ORDER BY and LIMIT: by position, by name in the result, or by an expression below."""

from __future__ import annotations

from sqlglot import exp

from neve.sql.delta.binding.context import Context
from neve.sql.delta.binding.expressions import Expressions


def ordered(node: exp.Expr, outputs: list[exp.Expr], expressions: Expressions) -> tuple[exp.Expr, ...]:
    """The keys of an order, bound; positions are those of the result's columns."""
    clause = node.args.get("order")
    context = expressions.binder.context
    if clause is None:
        context.refuse("limit_without_order", "LIMIT without ORDER BY takes any rows", node.args.get("limit"))
        return ()
    return tuple(_key(item, outputs, expressions) for item in clause.expressions)


def _key(item: exp.Expr, outputs: list[exp.Expr], expressions: Expressions) -> exp.Expr:
    value = item.this
    if isinstance(value, exp.Literal) and value.is_int:
        bound = positioned(value, outputs, expressions.binder.context)
    else:
        bound = expressions.bind(value)
    return exp.Ordered(this=bound, desc=item.args.get("desc"), nulls_first=item.args.get("nulls_first"))


def positioned(value: exp.Literal, outputs: list[exp.Expr], context: Context) -> exp.Expr:
    """The column at a position of the select list."""
    position = int(value.this)
    if not 1 <= position <= len(outputs):
        raise context.invalid(f"position {position} is not in the select list", value)
    return outputs[position - 1].copy()


def limit_of(node: exp.Expr, context: Context) -> tuple[exp.Expr | None, exp.Expr | None]:
    """How many rows, after how many."""
    found: list[exp.Expr | None] = []
    for key in ("limit", "offset"):
        clause = node.args.get(key)
        if clause is not None and not isinstance(clause.expression, exp.Literal):
            raise context.no_rule("limit", f"{key.upper()} must be a number", clause)
        found.append(None if clause is None else clause.expression)
    return found[0], found[1]
