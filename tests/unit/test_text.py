"""Answers as plain text."""

from __future__ import annotations

import io
import sys
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.cli import options
from neve.cli.text import block, cell, fitted, printable, table
from neve.errors import InvalidInput, nearest
from neve.model.results import IngestionBlock

INGESTION = IngestionBlock(
    total_ingestions=2, first_date=None, last_date=None, total_rows=9, missing_dates=[], rows_rejected=0
)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("rows", None, "-"),
        ("comment", "", "-"),
        ("online", True, "yes"),
        ("rows", 1234567, "1,234,567"),
        ("snapshot", 1234567, "1234567"),
        ("bytes", 0, "0 B"),
        ("bytes", 1536, "1.5 KB"),
        ("at", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02 03:04:05"),
        ("columns", ["a", "b"], "a, b"),
        ("columns", [], "-"),
        ("details", {"a": 1}, "a=1"),
        ("details", {}, "-"),
        ("ingestion", INGESTION, None),
    ],
)
def test_cells(key: str, value: object, shown: str | None) -> None:
    found = cell(key, value)
    assert found == shown if shown is not None else "total ingestions 2" in found.replace("_", " ")


@given(text=st.text())
def test_no_text_drives_a_terminal(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    if text.isprintable():
        assert shown == text


def width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@given(rows=st.lists(st.tuples(st.text(max_size=8), st.integers()), min_size=1, max_size=5))
def test_columns_line_up(rows: list[tuple[str, int]]) -> None:
    heading, *lines = table(("name", "snapshot"), [list(row) for row in rows]).split("\n")
    assert len(lines) == len(rows)
    assert {width(line) for line in (heading, *lines)} == {width(heading)}


def test_a_table_that_is_wider_than_the_screen() -> None:
    """Columns that say nothing go first; rows of more than two lines become blocks."""
    rows = [["a", None, 2], ["b", None, 3]]
    assert fitted(("name", "last_error", "files"), rows, screen=80) == table(("name", "last_error", "files"), rows)
    short = "NAME  FILES\na         2\nb         3"
    assert fitted(("name", "last_error", "files"), rows, screen=11) == short
    assert fitted(("name", "last_error", "files"), rows, screen=6) == short
    assert fitted(("name", "last_error", "files"), rows, screen=5) == "name   a\nfiles  2\n\nname   b\nfiles  3"


def test_a_block() -> None:
    assert block([("rows", 1000), ("updated_at", None)]) == "rows        1,000\nupdated at  -"


@given(name=st.text(max_size=10), known=st.lists(st.text(max_size=10), max_size=5))
def test_the_nearest_is_one_of_the_known(name: str, known: list[str]) -> None:
    hint = nearest(name, known)
    assert hint is None or any(candidate in hint for candidate in known)
    if name in known and name:
        assert hint is not None


@pytest.mark.parametrize(
    ("output", "is_terminal", "shown"), [("table", True, 1), ("table", False, 0), ("json", True, 0)]
)
def test_progress_is_for_a_person_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, output: str, is_terminal: bool, shown: int
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(options.options, "output", output)
    options.tell("ingesting 3 files…")
    assert screen.getvalue().count("ingesting 3 files") == shown


def test_a_column_of_an_assignment_may_stand_in_backticks() -> None:
    """As in the condition beside it, where it has to."""
    assert options.assignments(["`a=``b`= c = 1", "d=e"]) == {"a=`b": " c = 1", "d": "e"}
    for words in (["`a`=1", "a=2"], ["`a`=1", "`a`=2"], ["`a`"], ["=1"]):
        with pytest.raises(InvalidInput):
            options.assignments(words)
