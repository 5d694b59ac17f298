"""Statements that change rows, as the service takes them: INSERT INTO, UPDATE, DELETE and MERGE of one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neve.errors import InvalidQuery, Unsupported
from neve.model.names import quote
from neve.sql.statements import first_word

_TAKEN: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Insert: frozenset({"this", "expression", "by_name"}),
    exp.Update: frozenset({"this", "expressions", "where"}),
    exp.Delete: frozenset({"this", "where"}),
    exp.Merge: frozenset({"this", "using", "on", "whens"}),
}
"""The parts of each kind that are taken: none that overwrites, names partitions, or changes columns."""

CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE")
_HINT = "INSERT INTO, UPDATE, DELETE FROM and MERGE INTO are taken; WRITE has a mode overwrite"


def changes_rows(text: str) -> bool:
    """Whether a statement is one that changes rows, by its first word."""
    return first_word(text) in CHANGES


def read_change(text: str) -> exp.Expr:
    """The statement as a tree.

    Raises:
        InvalidQuery: it cannot be read.
        Unsupported: it is none of the four, or says more than these are taken with.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, read="spark") if tree is not None]
    except (SqlglotError, RecursionError) as exc:
        raise InvalidQuery("this statement cannot be read", hint=_HINT) from exc
    taken = _TAKEN.get(type(trees[0])) if len(trees) == 1 else None
    if taken is None:
        raise Unsupported("this is no statement that changes rows of one table", hint=_HINT)
    if more := [key for key, value in trees[0].args.items() if value and key not in taken]:
        raise Unsupported(f"{more[0].rstrip('_')} is not taken in a statement that changes rows", hint=_HINT)
    if isinstance(trees[0], exp.Insert) and not isinstance(trees[0].expression, exp.Query | exp.Values):
        raise Unsupported("what is inserted is a query, or VALUES", hint=_HINT)
    target_of(trees[0])
    return trees[0]


def target_of(tree: exp.Expr) -> exp.Table:
    """The table whose rows are changed, by a name that is written out."""
    found = tree.this
    if isinstance(found, exp.Schema):
        named = all(isinstance(column, exp.Identifier) for column in found.expressions)
        found = found.this if named else None
    if not isinstance(found, exp.Table) or not all(isinstance(part, exp.Identifier) for part in found.parts):
        raise Unsupported("the table is not named by its name", hint="write namespace.table")
    if found.args.get("partition") or found.args.get("version"):
        raise Unsupported("a table is changed as it is now, and as a whole", hint="leave PARTITION and AS OF out")
    return found


def inner_changes(tree: exp.Expr) -> list[exp.Expr]:
    """What a MERGE does with rows: the parts of it that look like statements."""
    return [then for when in tree.find_all(exp.When) if isinstance(then := when.args.get("then"), exp.DML)]


def with_columns(text: str, columns: Sequence[str]) -> str:
    """An INSERT that names no columns, with these; other statements as they are.

    >>> with_columns("insert into a.t select 1, 2", ["x", "y"])
    'insert into a.t (`x`, `y`) select 1, 2'
    """
    tree = read_change(text)
    if not isinstance(tree, exp.Insert) or isinstance(tree.this, exp.Schema) or tree.args.get("by_name"):
        return text
    end = int(target_of(tree).parts[-1].meta["end"]) + 1
    return f"{text[:end]} ({', '.join(map(quote, columns))}){text[end:]}"
