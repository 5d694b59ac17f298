"""How a source writes dates and times: a format in Python's words (`%d/%m/%Y`) or in Spark's (`dd/MM/yyyy`).

Python's `%y` is not among them: the two disagree on the century. Days and months have two digits; Spark's `d/M/yyyy`
also reads one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

_DATE_CODES = {
    "Y": "yyyy",
    "m": "MM",
    "d": "dd",
    "j": "DDD",
    "b": "MMM",
    "B": "MMMM",
    "a": "E",
    "A": "EEEE",
}
_TIME_CODES = {"H": "HH", "I": "hh", "M": "mm", "S": "ss", "f": "SSSSSS", "p": "a", "z": "XX"}
_CODES = {**_DATE_CODES, **_TIME_CODES}
_DATE_LETTERS = frozenset("yMLdDE")
_TIME_LETTERS = frozenset("HhKkmsSaXxZzVO")
_PIECE = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>[A-Za-z]+)|(?P<rest>[^A-Za-z']+)")


def spark_format(text: str, *, time: bool) -> str:
    """The format as Spark reads it. With `time` false, one that holds an hour or a zone is refused.

    >>> spark_format("%d/%m/%Y", time=False), spark_format("%Y-%m-%dT%H:%M", time=True)
    ('dd/MM/yyyy', "yyyy-MM-dd'T'HH:mm")

    Raises:
        ValueError: a letter or code that means nothing, or something else than was likely meant.
    """
    if not text.strip():
        raise ValueError("a format must not be empty")
    pattern = "".join(_from_python(text)) if "%" in text else text
    letters = _letters(pattern, text)
    if unknown := sorted(letters - _DATE_LETTERS - _TIME_LETTERS):
        said = "; the year is yyyy and the day dd" if {"Y", "D"} & letters else ""
        raise ValueError(f"{' '.join(unknown)} means nothing in the format {text!r}{said}")
    if not time and letters & _TIME_LETTERS:
        said = "; the month is MM" if "m" in letters and "M" not in letters else ""
        raise ValueError(f"{text!r} holds a time, which a date has not{said}")
    if not letters & _DATE_LETTERS:
        raise ValueError(f"{text!r} holds no date")
    return pattern


def _from_python(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        if text[position] == "%":
            yield _code(text, position)
            position += 2
        else:
            end = text.find("%", position)
            end = len(text) if end < 0 else end
            yield _as_literal(text[position:end])
            position = end


def _code(text: str, position: int) -> str:
    code = text[position + 1 : position + 2]
    if code == "%":
        return "%"
    if code not in _CODES:
        raise ValueError(f"%{code} means nothing in the format {text!r}; known are {' '.join(f'%{c}' for c in _CODES)}")
    return _CODES[code]


def _as_literal(text: str) -> str:
    """Letters, quotes and Spark's own signs in quotes; the rest as it is."""
    return "".join(
        "'" + "".join(run).replace("'", "''") + "'" if special else "".join(run)
        for special, run in ((s, list(r)) for s, r in groupby(text, key=_needs_quotes))
    )


def _needs_quotes(character: str) -> bool:
    return character.isalpha() or character in "'[]{}#"


def _letters(pattern: str, text: str) -> set[str]:
    found: set[str] = set()
    position = 0
    while position < len(pattern):
        piece = _PIECE.match(pattern, position)
        if piece is None:
            raise ValueError(f"a quote is left open in the format {text!r}")
        found |= set(piece["letters"] or "")
        position = piece.end()
    return found
