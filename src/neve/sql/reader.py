"""Words of a statement that Spark has no grammar for, read one by one; what is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn

from neve.errors import InvalidQuery, NeveError, nearest
from neve.model.names import TableName, quote

_LEXICON = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<word>\w+(?:\.\d+)?)"
    r"|(?P<sign>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a name in backticks, text in quotes, or a sign; without its quotes."""

    kind: Literal["word", "quoted", "string", "sign"]
    text: str
    start: int


def tokens(text: str) -> Iterator[Token]:
    for match in _LEXICON.finditer(text):
        found = match[0]
        match match.lastgroup:
            case "string":
                inner = found[1:-1].replace(found[0] * 2, found[0])
                yield Token("string", re.sub(r"\\(.)", r"\1", inner), match.start())
            case "quoted":
                yield Token("quoted", found[1:-1].replace("``", "`"), match.start())
            case "word":
                yield Token("word", found, match.start())
            case "sign":
                yield Token("sign", found, match.start())


class Reader:
    """Walks over the words of a statement; what is not as it should be is said with its place."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
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
        """The text from here on, and the line and column where it begins.

        A semicolon ends it; what follows one is told, and not left out.
        """
        start = self._place()
        before = self._text[:start]
        while (token := self._next()) is not None:
            if token.kind == "sign" and token.text == ";":
                self._refuse_more()
            self._at += 1
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

    def _refuse_more(self) -> None:
        more = next((token for token in self._tokens[self._at :] if token.text != ";" or token.kind != "sign"), None)
        if more is not None:
            self.fail(f"the query ends at this ; but {more.text} … follows", hint="take the ; out, or what follows it")

    def _next(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _place(self) -> int:
        token = self._next()
        return len(self._text) if token is None else token.start
