"""Statements as text: splitting a script, reading a table as of a moment. What sqlglot cannot model stays as it is."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from neve.errors import InvalidQuery
from neve.model.names import quote

_MACHINE = re.compile(r"`[^`]*[/\\:][^`]*`|\b(java_method|try_reflect|reflect)\s*\(", re.IGNORECASE)
_BY_HAND = "write VERSION AS OF or TIMESTAMP AS OF into the query itself"
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it does not know is no news to whoever typed it


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in a table's history: a snapshot, a tag or branch, or a time."""

    snapshot_id: int | None = None
    reference: str | None = None
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script, and where in it the statement begins."""

    text: str
    line: int = 1
    column: int = 1

    @property
    def placed(self) -> str:
        """The statement behind so much white space that a parser counts its lines and columns as the script's own."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


def read_script(text: str) -> list[Statement]:
    """The statements of a script; semicolons in strings and comments do not count.

    Where it breaks off (a quote that is never closed), the rest is one statement, for Spark's parser to say where.

    >>> read_script("select ';' -- a;b" + chr(10) + "; select 2;")
    [Statement(text="select ';' -- a;b", line=1, column=1), Statement(text='select 2', line=2, column=3)]
    """
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        whole = _whole_part(text)
        return [*read_script(text[:whole]), _statement(text, whole, len(text))]
    statements: list[Statement] = []
    first: int | None = None
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            first = token.start if first is None else first
        elif first is not None:
            statements.append(_statement(text, first, token.start))
            first = None
    return statements if first is None else [*statements, _statement(text, first, len(text))]


def _whole_part(text: str) -> int:
    """How far a broken script can be read: to the last semicolon before the break."""
    for end in reversed([index for index, character in enumerate(text, 1) if character == ";"]):
        try:
            sqlglot.tokenize(text[:end], read="spark")
        except SqlglotError:
            continue
        return end
    return 0


def _statement(script: str, start: int, end: int) -> Statement:
    text = script[start:end]
    before = script[: start + len(text) - len(text.lstrip())]
    return Statement(text.strip(), line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def first_word(text: str) -> str:
    """The word that a statement begins with, in capitals; brackets and comments before it do not count.

    >>> first_word("/* a */ (select 1)")
    'SELECT'
    """
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return ""
    return next((token.text.upper() for token in tokens if token.token_type != TokenType.L_PAREN), "")


def names_machine(text: str) -> bool:
    """Whether a statement may read files by their path, or call Java.

    >>> names_machine("SELECT * FROM csv.`/tmp/a.csv`"), names_machine("SELECT a / b AS `of`, `x` FROM t")
    (True, False)
    """
    return _MACHINE.search(text) is not None


def as_of(text: str, moment: Moment) -> str:
    """The query with every table read as it was at a moment; what says its own moment keeps it.

    The words go into the text as it stands, so the rest of it means to Spark what it meant before.

    >>> as_of("select * from t a join s using (id)", Moment(snapshot_id=7))
    'select * from t VERSION AS OF 7 a join s VERSION AS OF 7 using (id)'

    Raises:
        InvalidQuery: it is no query, or its tables cannot be found in the text.
    """
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError as exc:
        raise InvalidQuery("cannot place --as-of into this SQL", hint=_BY_HAND) from exc
    if isinstance(tree, exp.Set | exp.Use):
        return text
    if not isinstance(tree, exp.Query):
        raise InvalidQuery("--as-of is for queries that begin with SELECT, WITH or FROM", hint=_BY_HAND)
    ends = sorted((end for table in tree.find_all(exp.Table) if (end := _end_of_name(table)) is not None), reverse=True)
    for end in ends:
        text = f"{text[:end]} {_version(moment)}{text[end:]}"
    return text


def qualify(text: str, parts: tuple[str, ...], prefix: str) -> str:
    """The query with a prefix before every table that goes by just these parts.

    >>> qualify("select * from t.files f join t.files", ("t", "files"), "lake.ns.")
    'select * from lake.ns.t.files f join lake.ns.t.files'
    """
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return text
    named = (table for table in tree.find_all(exp.Table) if tuple(part.name for part in table.parts) == parts)
    for start in sorted((int(table.parts[0].meta["start"]) for table in named), reverse=True):
        text = f"{text[:start]}{prefix}{text[start:]}"
    return text


def substitute(text: str, parts: tuple[str, ...], name: str) -> str:
    """The query with another name for every table that goes by just these parts; an alias keeps the old one.

    >>> substitute("select sales.id from ns.sales join ns.sales s", ("ns", "sales"), "v")
    'select sales.id from v AS `sales` join v s'
    """
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return text
    spans = [
        (int(table.parts[0].meta["start"]), int(table.parts[-1].meta["end"]) + 1, bool(table.alias))
        for table in tree.find_all(exp.Table)
        if tuple(part.name for part in table.parts) == parts and not names_cte(table)
    ]
    for start, end, has_alias in sorted(spans, reverse=True):
        alias = "" if has_alias else f" AS {quote(parts[-1])}"
        text = f"{text[:start]}{name}{alias}{text[end:]}"
    return text


def _end_of_name(table: exp.Table) -> int | None:
    """Where the words go: behind the last part of the name. None for what is no table of the lake."""
    if table.args.get("version") is not None or names_cte(table):
        return None
    if isinstance(table.this, exp.Identifier | exp.Dot):
        return 1 + max(int(part.meta["end"]) for part in table.this.find_all(exp.Identifier))
    if table.this.name.upper() == "IDENTIFIER":
        raise InvalidQuery("cannot place --as-of behind IDENTIFIER(…)", hint=_BY_HAND)
    return None


def names_cte(table: exp.Table) -> bool:
    """Whether the name is that of a WITH around it, rather than of a table."""
    if table.db:
        return False
    inside: exp.Expr = table
    while (outer := inside.parent) is not None:
        if any(cte.alias.lower() == table.name.lower() for cte in _visible(inside, outer)):
            return True
        inside = outer
    return False


def _visible(inside: exp.Expr, outer: exp.Expr) -> list[exp.Expr]:
    """What a WITH right above names: for one of its own queries, only those before it."""
    if isinstance(outer, exp.With):
        return outer.expressions[: outer.expressions.index(inside) + bool(outer.recursive)]
    above = outer.args.get("with_")
    return above.expressions if above is not None and above is not inside else []


def _version(moment: Moment) -> str:
    if moment.time is not None:
        return f"TIMESTAMP AS OF {exp.Literal.string(moment.time.isoformat(' ')).sql('spark')}"
    if moment.snapshot_id is not None:
        return f"VERSION AS OF {moment.snapshot_id}"
    return f"VERSION AS OF {exp.Literal.string(moment.reference or '').sql('spark')}"
