"""Small pieces of Spark SQL as sqlglot trees. Calls keep their name: sqlglot never rewrites one into another."""

from __future__ import annotations

import re

from sqlglot import exp

from neve.errors import InvalidName
from neve.model.types import Type

Sql = exp.Expr
VARIABLE = "${"
"""Spark replaces `${…}` anywhere in a statement, quoted or not, by a setting or a variable of the environment."""

_PIECES = re.compile(r"(?<=\$)(?=\{)|([\x00-\x08\x0b\x0c\x0e-\x1f\x7f])")


def name(*parts: str) -> exp.Column | exp.Dot:
    """A column, or a field of a column, every part quoted."""
    if any(VARIABLE in part for part in parts):
        raise InvalidName(
            f"Spark cannot be given the name {'.'.join(parts)!r}: it would replace what follows {VARIABLE}"
        )
    column = exp.column(exp.to_identifier(parts[0], quoted=True))
    return (
        exp.Dot.build([column, *(exp.to_identifier(part, quoted=True) for part in parts[1:])]) if parts[1:] else column
    )


def text(value: str) -> Sql:
    """A text. Characters for which Spark and sqlglot know different escapes go by their number."""
    pieces = [_piece(piece) for piece in _PIECES.split(value) if piece]
    return call("CONCAT", *pieces) if len(pieces) > 1 else pieces[0] if pieces else exp.Literal.string("")


def _piece(piece: str) -> Sql:
    return call("CHR", number(ord(piece))) if _PIECES.fullmatch(piece) else exp.Literal.string(piece)


def number(value: int | str) -> Sql:
    return exp.Literal.number(value)


def call(function: str, *arguments: Sql) -> Sql:
    return exp.Anonymous(this=function, expressions=list(arguments))


def verbatim(sql: str) -> Sql:
    """Text that was checked before, in brackets."""
    return exp.Var(this=f"({sql})")


def matches(value: Sql, pattern: str) -> Sql:
    return exp.RegexpLike(this=value, expression=text(pattern))


def when(condition: Sql, then: Sql, otherwise: Sql | None = None) -> Sql:
    return call("IF", condition, then, otherwise or exp.null())


def cast(value: Sql, kind: Type | str) -> Sql:
    return exp.Cast(this=value, to=_data_type(kind))


def try_cast(value: Sql, kind: Type | str) -> Sql:
    return exp.TryCast(this=value, to=_data_type(kind), safe=True)


def render(tree: Sql) -> str:
    return tree.sql("spark", pretty=True, comments=False)


def _data_type(kind: Type | str) -> exp.DataType:
    return exp.DataType.build(str(kind), dialect="spark")
