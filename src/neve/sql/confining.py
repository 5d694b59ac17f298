"""A tenant's SQL: one query over the tenant's own tables, or one change of rows of one of them, or none at all.

The query is read by sqlglot and run by Spark, so nothing may mean one thing to the one and another to the other:
comments are blanked, and where texts in quotes begin and end is checked by Spark's own rules. Names of tables are then
spelled in full, below the tenant. Whatever is not known to be harmless is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import Forbidden, InvalidQuery
from neve.model.names import CATALOG, Namespace, TableName, check_part
from neve.sql.row_statements import inner_changes, read_change, target_of
from neve.sql.statements import names_cte
from neve.sql.tenant_functions import FUNCTIONS

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
"""Text and names in quotes, as Spark's lexer takes them."""

_PLAIN = re.compile(r"[\x20-\x7e\t\r\n]+")
"""What may stand outside of quotes: of the rest, parsers do not agree what is a letter and what a space."""

_COMMENT = re.compile(r"--|/\*")
_QUOTES = {TokenType.STRING: 0, TokenType.IDENTIFIER: 0, TokenType.HEX_STRING: 1}
"""Tokens that may hold a quote, and how many letters stand before it."""

_ODD = (TokenType.HINT, TokenType.PIPE_GT, TokenType.TABLE)
_TEXTS = (TokenType.STRING, TokenType.HEX_STRING, TokenType.NUMBER)
_TELLING = frozenset({"_file", "_metadata", "current_user", "session_user", "current_catalog"})
"""These need no bracket to tell where files lie, or who runs Spark."""

_KEYWORDS = frozenset(
    """
    all and any array as between by case cross cube distinct else except exists extract filter from group grouping
    having in inner interval intersect into is join lateral left like limit map minus not offset on or order outer over
    partition pivot rlike rollup row rows select semi sets some struct tablesample then union unpivot using values
    varchar when where with within char decimal dec numeric ilike ignore respect nulls anti right full of insert
    """.split()  # noqa: SIM905 - a paragraph of words
)
"""Words that may stand before a bracket without being a function."""

_CALLED = FUNCTIONS | _KEYWORDS
_LONGEST = 100_000
_TABLE_WORDS = frozenset({"this", "db", "catalog", "alias", "version", "joins", "laterals", "pivots", "sample"})
_REFUSED = (exp.Command, exp.DDL, exp.DML, exp.Into, exp.Hint, exp.QueryTransform)
_KINDS = "a tenant's SQL is one query: SELECT, WITH, FROM or VALUES"


def confine(text: str, home: Namespace) -> str:
    """The query as it may be run for a tenant: `home` is the tenant and the namespace of names without one.

    >>> confine("select * from users u join eu.users -- both", ("acme", "default"))
    'select * from `lake`.`acme`.`default`.`users` u join `lake`.`acme`.`eu`.`users`        '

    Raises:
        InvalidQuery: it cannot be read.
        Forbidden: it is no query, or asks for something beyond the tenant's tables.
    """
    plain, tokens = _read(text)
    try:
        trees = [tree for tree in sqlglot.parse(plain, read="spark") if tree is not None]
    except (SqlglotError, RecursionError) as exc:
        raise InvalidQuery(f"this SQL cannot be read: {_first_line(exc)}", hint=_KINDS) from exc
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise Forbidden(_KINDS, hint="LIST_TABLES and DESCRIBE_TABLE tell what there is")
    _check_quotes(plain, tokens)
    _check_words(tokens, _with_columns(trees[0]))
    _check_tree(trees[0])
    return _spelled(plain, trees[0], home)


def confine_change(text: str, home: Namespace) -> str:
    """The same for a statement that changes rows: its target, and all that it reads, are the tenant's.

    >>> confine_change("insert into eu.users (id) select id from users", ("acme", "default"))
    'insert into `lake`.`acme`.`eu`.`users` (id) select id from `lake`.`acme`.`default`.`users`'

    Raises:
        InvalidQuery: it cannot be read.
        Refused: it is no INSERT INTO, UPDATE, DELETE or MERGE of one table.
        Forbidden: it asks for something beyond the tenant's tables.
    """
    plain, tokens = _read(text)
    tree = read_change(plain)
    target = target_of(tree)
    _check_quotes(plain, tokens)
    named = {int(target.parts[-1].meta["start"])} if isinstance(tree.this, exp.Schema) else set[int]()
    _check_words(tokens, _with_columns(tree) | named)
    _check_tree(tree, changes=[tree, *inner_changes(tree)])
    return _spelled(plain, tree, home, target=target)


def _read(text: str) -> tuple[str, list[Token]]:
    """The text without comments, and its words."""
    if len(text) > _LONGEST:
        raise InvalidQuery(f"a tenant's SQL has at most {_LONGEST:,} characters", hint="give values as params")
    try:
        plain = _without_comments(text, sqlglot.tokenize(text, read="spark"))
        return plain, sqlglot.tokenize(plain, read="spark")
    except SqlglotError as exc:
        raise InvalidQuery(f"this SQL cannot be read: {_first_line(exc)}", hint=_KINDS) from exc


def _first_line(error: Exception) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", next(iter(str(error).splitlines()), ""))


def _without_comments(text: str, tokens: list[Token]) -> str:
    """The text with blanks for all that is no token, so that places stay what they were."""
    pieces, end = [], 0
    for token in tokens:
        if token.start >= end:
            pieces.append(_blank(text[end : token.start]) + text[token.start : token.end + 1])
            end = token.end + 1
    return "".join((*pieces, _blank(text[end:])))


def _blank(gap: str) -> str:
    return re.sub(r"[^\n]", " ", gap)


def _check_quotes(text: str, tokens: list[Token]) -> None:
    """Both parsers take the same parts of the text for text and names in quotes, and nothing for a comment."""
    seen: set[int] = set()
    for token in tokens:
        before = _QUOTES.get(token.token_type)
        if before is not None:
            seen.update(range(token.start + before, token.end + 1))
        elif token.token_type in _ODD or set(text[token.start : token.end + 1]) & set("'\"`$\\;"):
            raise Forbidden(
                f"{token.text} is not for tenants", hint="write it without hints, raw texts, pipes, TABLE and $"
            )
    taken = {place for match in _QUOTED.finditer(text) for place in range(match.start(), match.end())}
    outside = "".join(" " if place in taken else letter for place, letter in enumerate(text))
    if seen != taken or _COMMENT.search(outside) or set(outside) & set("'\"`"):
        raise Forbidden("this SQL can be read in more than one way", hint="leave comments and odd quotes out")
    if odd := _PLAIN.sub("", outside):
        raise Forbidden(f"{odd[0]!r} stands outside of quotes", hint="put names with such letters into backticks")


def _check_words(tokens: list[Token], uncalled: set[int]) -> None:
    """What is called is harmless, and no name tells of the machine. `uncalled` is where names before brackets stand
    that are no calls."""
    for before, token, after in zip([None, *tokens[:-1]], tokens, [*tokens[1:], None], strict=True):
        word = token.text.lower()
        if token.token_type == TokenType.STRING and after is not None and after.token_type == TokenType.L_PAREN:
            raise Forbidden("a text cannot be called", hint="write the function's name without quotes")
        is_part = before is not None and before.token_type == TokenType.DOT
        if token.token_type in _TEXTS or not (word[:1].isalpha() or word[:1] == "_"):
            continue
        if word in _TELLING:
            raise Forbidden(f"{token.text} tells of the machine", hint="leave it out")
        if word == "user" and not is_part and (before is None or before.token_type != TokenType.ALIAS):
            raise Forbidden("user by itself is who runs Spark", hint="say whose column it is, as in t.user")
        if after is None or after.token_type != TokenType.L_PAREN or token.start in uncalled:
            continue
        if is_part or word.split()[-1] not in _CALLED:
            raise Forbidden(f"{token.text}() is not for tenants", hint="use Spark's plain functions")


def _with_columns(tree: exp.Expr) -> set[int]:
    """Where names stand before a bracket that are no calls: `WITH a(b)`, `VALUES (1) AS a(b)`."""
    named = (alias.this for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns"))
    return {int(name.meta["start"]) for name in named if isinstance(name, exp.Identifier) and "start" in name.meta}


def _check_tree(tree: exp.Expr, changes: Sequence[exp.Expr] = ()) -> None:
    """`changes` are the nodes that may change rows."""
    for node in tree.walk():
        if isinstance(node, _REFUSED) and not any(node is each for each in changes):
            raise Forbidden(_KINDS)
        if isinstance(node, exp.Table):
            more = {key for key, value in node.args.items() if value} - _TABLE_WORDS
            if more or not isinstance(node.this, exp.Identifier | exp.Dot | exp.Func):
                raise Forbidden("a table is named in a way that is not for tenants", hint="write namespace.table")


def _spelled(text: str, tree: exp.Expr, home: Namespace, target: exp.Table | None = None) -> str:
    """Every table by its full name; what a WITH names stays, but for the target of a change."""
    spans: list[tuple[int, int, str]] = []
    for table in tree.find_all(exp.Table):
        if table is not target and (isinstance(table.this, exp.Func) or names_cte(table)):
            continue
        parts = table.parts
        if any(not isinstance(part, exp.Identifier) or "start" not in part.meta for part in parts):
            raise Forbidden("a table is named in a way that is not for tenants", hint="write namespace.table")
        name = _own(tuple(part.name for part in parts), home)
        spans.append((int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1, name.sql))
    for start, end, full in sorted(spans, reverse=True):
        text = f"{text[:start]}{full}{text[end:]}"
    return text


def _own(parts: tuple[str, ...], home: Namespace) -> TableName:
    """`t`, `namespace.t`, and the same behind the tenant's own name."""
    tenant, namespace = home
    match parts:
        case (table,):
            found = (namespace, table)
        case (place, table):
            found = (place, table)
        case (whose, place, table) if whose == tenant:
            found = (place, table)
        case (catalog, whose, place, table) if (catalog, whose) == (CATALOG, tenant):
            found = (place, table)
        case _:
            raise Forbidden(
                f"{'.'.join(parts)} is no table of the tenant {tenant}", hint="write table, or namespace.table"
            )
    if any("${" in part for part in found):
        raise Forbidden("a name holds ${", hint="use letters, digits, _ or -")
    for part in found:
        check_part(part, what="table")
    return TableName((tenant, found[0]), found[1])
