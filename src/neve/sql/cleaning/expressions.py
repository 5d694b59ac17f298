"""Expressions that people write into the file: read, refused when they are more than one scalar, columns replaced.

The text reaches Spark as it was written, save for comments and the columns' names: what sqlglot would print again is
not always what was meant (`parse_json(x)` becomes `x`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import InvalidQuery
from neve.sql.cleaning.words import VARIABLE, Sql, verbatim

SOURCE = "source"
_FEW = "one value per row from the columns of that row: no query, no aggregate, no window"
_TREES = (
    (exp.Query, "a query inside an expression"),
    (exp.Window, "a window function"),
    (exp.AggFunc, "an aggregate"),
    (exp.Star, "a star"),
    (exp.Placeholder | exp.Parameter | exp.SessionParameter, "a parameter"),
)
_FUNCTIONS = {
    **dict.fromkeys(
        ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"),
        "makes several rows of one",
    ),
    **dict.fromkeys(
        ("rand", "randn", "random", "randstr", "uniform", "shuffle", "uuid", "monotonically_increasing_id"),
        "gives another value each time",
    ),
    **dict.fromkeys(("spark_partition_id",), "depends on how Spark splits the work"),
    **dict.fromkeys(("reflect", "try_reflect", "java_method"), "calls Java"),
    **dict.fromkeys(
        ("input_file_name", "input_file_block_start", "input_file_block_length"), "is the column _source_file here"
    ),
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A column as an expression names it; below `source` it is the raw one."""

    column: str
    raw: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A checked expression: its tokens in place, and the columns it reads."""

    text: str
    tokens: tuple[tuple[int, int], ...]
    references: tuple[Reference, ...]

    def render(self, replace: Callable[[Reference], str]) -> Sql:
        """The expression with each column replaced by other SQL text, in brackets."""
        replaced = {reference.start: reference for reference in self.references}
        pieces: list[str] = []
        end = None
        for start, stop in self.tokens:
            if end is not None and start <= end:
                continue  # part of a reference already written
            if end is not None and start > end + 1:
                pieces.append(" ")
            reference = replaced.get(start)
            pieces.append(self.text[start : stop + 1] if reference is None else replace(reference))
            end = stop if reference is None else reference.end
        return verbatim("".join(pieces))


def parse_scalar(text: str, *, where: str) -> Scalar:
    """Reads an expression.

    Raises:
        InvalidQuery: not a single scalar expression, or one whose result would differ from run to run.
    """
    if VARIABLE in text:
        raise _refused(text, where, f"Spark would replace what follows {VARIABLE}")
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        statements = sqlglot.parse(text, read="spark")
    except SqlglotError as exc:
        raise _refused(text, where, "it cannot be read as SQL") from exc
    if any(token.token_type == TokenType.SEMICOLON for token in tokens) or len(statements) != 1:
        raise _refused(text, where, "it is more than one statement")
    tree = statements[0]
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Query | exp.Alias):
        raise _refused(text, where, "it is not an expression")
    for kinds, what in _TREES:
        if tree.find(*((kinds,) if isinstance(kinds, type) else kinds.__args__)):
            raise _refused(text, where, f"it holds {what}")
    _check_functions(text, where, tokens)
    spans = sorted({(token.start, token.end) for token in tokens})
    return Scalar(text, tuple(spans), tuple(map(_reference, tree.find_all(exp.Column))))


def _check_functions(text: str, where: str, tokens: list[Token]) -> None:
    for token, following in pairwise(tokens):
        why = _FUNCTIONS.get(token.text.casefold())
        called = following.token_type == TokenType.L_PAREN and token.token_type != TokenType.STRING
        if called and why is not None:
            raise _refused(text, where, f"{token.text.lower()} {why}")


def _reference(column: exp.Column) -> Reference:
    parts = column.parts
    raw = len(parts) > 1 and parts[0].name.casefold() == SOURCE
    named = parts[1] if raw else parts[0]
    return Reference(named.name, raw, parts[0].meta["start"], named.meta["end"])


def _refused(text: str, where: str, why: str) -> InvalidQuery:
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    return InvalidQuery(f"{where}: cannot use {shown!r}: {why}", hint=f"write {_FEW}")
