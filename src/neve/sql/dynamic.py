"""Statements about dynamic tables: CREATE, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN DYNAMIC TABLE. Spark has none of them.

The words around the query are read here; the query itself is left as it was written, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NoReturn

from neve.errors import InvalidInput, InvalidQuery, NeveError, nearest
from neve.model.dynamic import (
    MIN_LAG,
    AlterDynamic,
    CreateDynamic,
    DropDynamic,
    DynamicOptions,
    DynamicStatement,
    LookDynamic,
)
from neve.model.layout import parse_sort_field, parse_transform
from neve.model.names import TableName, quote
from neve.model.units import parse_duration

_LEXICON = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<word>\w+(?:\.\d+)?)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_MODES = {"AUTO": "AUTO", "INCREMENTAL": "INCREMENTAL", "AFFECTED_KEYS": "INCREMENTAL", "FULL": "FULL"}
_UNUSED = {
    "PARALLEL_THRESHOLD": "Spark divides the work by itself",
    "MAX_PARALLELISM": "set spark.master and --parallel instead",
    "WAREHOUSE": "Spark is the warehouse here",
}


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a name in backticks, text in quotes, or a sign; without its quotes."""

    kind: Literal["word", "quoted", "string", "sign"]
    text: str
    start: int


def _tokens(text: str) -> Iterator[_Token]:
    for match in _LEXICON.finditer(text):
        found = match[0]
        match match.lastgroup:
            case "string":
                inner = found[1:-1].replace(found[0] * 2, found[0])
                yield _Token("string", re.sub(r"\\(.)", r"\1", inner), match.start())
            case "quoted":
                yield _Token("quoted", found[1:-1].replace("``", "`"), match.start())
            case "word":
                yield _Token("word", found, match.start())
            case "sign":
                yield _Token("sign", found, match.start())


def is_dynamic(text: str) -> bool:
    """Whether a statement speaks of dynamic tables.

    >>> is_dynamic("create or replace dynamic table t ..."), is_dynamic("SELECT 'CREATE DYNAMIC TABLE t'")
    (True, False)
    """
    words = [token.text.upper() for token, _ in zip(_tokens(text), range(5), strict=False)]
    if not words or words[0] not in {"CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"}:
        return False
    rest = words[3:] if words[1:3] == ["OR", "REPLACE"] else words[1:]
    return rest[:1] == ["DYNAMIC"]


def parse_dynamic(text: str) -> DynamicStatement:
    """What a statement asks for.

    Raises:
        InvalidQuery: it cannot be read; with the line and column of the word that is wrong.
    """
    reader = _Reader(text, list(_tokens(text)))
    match reader.one_of("CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"):
        case "CREATE":
            return _create(reader)
        case "ALTER":
            return _alter(reader)
        case "DROP":
            return _drop(reader)
        case "SHOW":
            return _show(reader)
        case word:
            reader.expect("DYNAMIC", "TABLE")
            name = reader.name()
            reader.end()
            return LookDynamic(action="explain" if word == "EXPLAIN" else "describe", name=name)


class _Reader:
    """Walks over the words of a statement; what is not as it should be is said with its place."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    def peek(self) -> str:
        """The next word in capitals; nothing at the end, or where text in quotes stands."""
        token = self._next()
        return token.text.upper() if token is not None and token.kind in ("word", "sign") else ""

    def take(self, *words: str) -> bool:
        """Goes past these words if they come next."""
        start = self._at
        for word in words:
            if self.peek() != word:
                self._at = start
                return False
            self._at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail(f"{word} is expected here")

    def one_of(self, *words: str) -> str:
        word = self.peek()
        if word not in words:
            near = nearest(word, words) if word else None
            self.fail(f"one of {', '.join(words)} is expected here", hint=near)
        self._at += 1
        return word

    def word(self) -> str:
        token = self._next()
        if token is None or token.kind == "string":
            self.fail("a word is expected here")
        self._at += 1
        return token.text

    def name(self) -> TableName:
        parts = [self.word()]
        while self.take("."):
            parts.append(self.word())
        return TableName.parse(".".join(map(quote, parts)))

    def value(self) -> str:
        """What stands behind `=`: text in quotes, a number or a word."""
        token = self._next()
        if token is None:
            self.fail("a value is expected here")
        self._at += 1
        return token.text

    def in_parentheses(self) -> str:
        """The text between two parentheses, as it was written."""
        self.expect("(")
        start = self._place()
        depth = 1
        while depth:
            token = self._next()
            if token is None:
                self.fail("a ) is missing")
            depth += {"(": 1, ")": -1}.get("" if token.kind == "string" else token.text, 0)
            self._at += 1
        return self._text[start : self._tokens[self._at - 1].start].strip()

    def rest(self) -> tuple[str, int, int]:
        """The text from here on, and the line and column where it begins."""
        start = self._place()
        before = self._text[:start]
        self._at = len(self._tokens)
        return self._text[start:].strip().rstrip(";").rstrip(), before.count("\n") + 1, start - before.rfind("\n")

    def end(self) -> None:
        self.take(";")
        if self._next() is not None:
            self.fail("the statement should end here")

    def checked(self, read: Callable[[str], object], text: str) -> object:
        """A value as its kind reads it; what is wrong with it is said at its place."""
        try:
            return read(text)
        except NeveError as exc:
            self._at -= 1
            self.fail(exc.message, hint=exc.hint)
        except ValueError as exc:
            self._at -= 1
            self.fail(str(exc))

    def fail(self, sentence: str, *, hint: str | None = None) -> NoReturn:
        place = self._place()
        before = self._text[:place]
        line, column = before.count("\n") + 1, place - before.rfind("\n")
        token = self._next()
        found = f", not {token.text!r}" if token is not None and "expected" in sentence else ""
        raise InvalidQuery(f"line {line}, column {column}: {sentence}{found}", hint=hint)

    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _place(self) -> int:
        token = self._next()
        return len(self._text) if token is None else token.start


def _create(reader: _Reader) -> CreateDynamic:
    replace = reader.take("OR", "REPLACE")
    reader.expect("DYNAMIC", "TABLE")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = _columns(reader) if reader.peek() == "(" else ()
    given: dict[str, object] = {}
    while reader.peek() != "AS":
        key, value = _option(reader)
        if key in given:
            reader.fail(f"{key.upper()} is given twice")
        given[key] = value
    if "target_lag" not in given:
        reader.fail("TARGET_LAG is needed", hint="write TARGET_LAG = '5 minutes', or DOWNSTREAM")
    reader.expect("AS")
    query, line, column = reader.rest()
    if not query:
        reader.fail("a query is expected here")
    options = DynamicOptions(**given)  # type: ignore[arg-type]
    return CreateDynamic(
        name=name,
        query=query,
        options=options,
        line=line,
        column=column,
        columns=columns,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def _columns(reader: _Reader) -> tuple[tuple[str, str | None], ...]:
    reader.expect("(")
    found: list[tuple[str, str | None]] = []
    while True:
        name = reader.word()
        found.append((name, reader.value() if reader.take("COMMENT") else None))
        if reader.one_of(",", ")") == ")":
            return tuple(found)


def _option(reader: _Reader) -> tuple[str, object]:
    """One option and its value, under the name of its field."""
    if reader.take("PARTITIONED", "BY"):
        return "partition_by", _terms(reader, parse_transform)
    if reader.take("CLUSTER", "BY"):
        return "cluster_by", _terms(reader, parse_sort_field)
    if reader.take("IMMUTABLE", "WHERE"):
        return "immutable_where", reader.in_parentheses()
    if reader.take("COMMENT"):
        reader.take("=")
        return "comment", reader.value()
    key = reader.peek()
    if key in _UNUSED:
        reader.fail(f"{key} has no meaning here", hint=_UNUSED[key])
    if key not in _READERS:
        known = [*_READERS, "PARTITIONED BY", "CLUSTER BY", "IMMUTABLE WHERE", "COMMENT", "AS"]
        reader.fail(f"one of {', '.join(known)} is expected here", hint=nearest(key, known) if key else None)
    reader.word()
    reader.expect("=")
    field, read = _READERS[key]
    return field, reader.checked(read, reader.value())


def _terms(reader: _Reader, read: Callable[[str], object]) -> tuple[object, ...]:
    from neve.model.layout import split_list

    text = reader.in_parentheses()
    return tuple(reader.checked(read, item) for item in split_list(text))


def _lag(text: str) -> timedelta | str:
    if text.upper() == "DOWNSTREAM":
        return "DOWNSTREAM"
    lag = parse_duration(text)
    if lag < MIN_LAG:
        raise InvalidInput(f"a target lag of {text} is less than a minute", hint="give '1 minute' or more")
    return lag


def _word_of(words: Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.upper() not in words:
            raise InvalidInput(f"{text!r} is not one of {', '.join(words)}", hint=nearest(text.upper(), words))
        return words[text.upper()]

    return read


def _same(*words: str) -> Callable[[str], str]:
    return _word_of({word: word for word in words})


def _flag(text: str) -> bool:
    return _same("TRUE", "FALSE")(text) == "TRUE"


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is not a number") from exc
    if not 0 <= share <= 1:
        raise InvalidInput(f"{text} is not between 0 and 1")
    return share


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "TARGET_LAG": ("target_lag", _lag),
    "REFRESH_MODE": ("refresh_mode", _word_of(_MODES)),
    "REFRESH_STRATEGY": ("refresh_mode", _word_of(_MODES)),
    "INITIALIZE": ("initialize", _same("ON_CREATE", "ON_SCHEDULE")),
    "DEDUPLICATION": ("deduplication", _flag),
    "CARDINALITY_THRESHOLD": ("cardinality_threshold", _share),
    "FLOAT_SUMS": ("float_sums", _same("EXACT", "FAST")),
}


def _alter(reader: _Reader) -> AlterDynamic:
    reader.expect("DYNAMIC", "TABLE")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()

    def altered(action: str, **what: object) -> AlterDynamic:
        reader.end()
        return AlterDynamic(name=name, action=action, if_exists=if_exists, **what)  # type: ignore[arg-type]

    match reader.one_of("SET", "UNSET", "SUSPEND", "RESUME", "RENAME", "REFRESH", "SWAP"):
        case "SET":
            return altered("set", set=_settings(reader))
        case "UNSET":
            return altered("unset", unset=_unset(reader))
        case "RENAME":
            reader.expect("TO")
            return altered("rename", other=reader.name())
        case "SWAP":
            reader.expect("WITH")
            return altered("swap", other=reader.name())
        case word:
            return altered(word.lower())


def _settings(reader: _Reader) -> dict[str, object]:
    found: dict[str, object] = {}
    while reader.peek() not in ("", ";"):
        key, value = _option(reader)
        found[key] = value
        reader.take(",")
    if not found:
        reader.fail("an option is expected here", hint="such as TARGET_LAG = '10 minutes'")
    return found


def _unset(reader: _Reader) -> tuple[str, ...]:
    fields = {key: field for key, (field, _) in _READERS.items() if field != "target_lag"}
    fields |= {"COMMENT": "comment", "IMMUTABLE": "immutable_where"}
    found = []
    while True:
        word = reader.one_of(*fields)
        if word == "IMMUTABLE":
            reader.take("WHERE")
        found.append(fields[word])
        if not reader.take(","):
            return tuple(found)


def _drop(reader: _Reader) -> DropDynamic:
    reader.expect("DYNAMIC", "TABLE")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()
    cascade = reader.take("CASCADE")
    reader.end()
    return DropDynamic(name=name, if_exists=if_exists, cascade=cascade)


def _show(reader: _Reader) -> LookDynamic:
    reader.expect("DYNAMIC")
    reader.expect("TABLES")
    pattern = reader.value() if reader.take("LIKE") else None
    reader.end()
    return LookDynamic(action="show", pattern=pattern)
