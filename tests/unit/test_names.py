"""Names: how they are read, checked, quoted and shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput, InvalidName
from neve.model.commands import neve
from neve.model.names import TableName, check_part, check_text, parse_namespace, quote, shown, split_name

parts = st.text(min_size=1, max_size=20).filter(
    lambda text: (
        text.isprintable() and text == text.strip() and not set(text) & set("./\\`") and len(text.encode()) < 60
    )
)


@given(names=st.lists(parts, min_size=1, max_size=4))
def test_quoted_and_shown_parts_read_back(names: list[str]) -> None:
    assert split_name(".".join(map(quote, names))) == tuple(names)
    assert split_name(".".join(map(shown, names))) == tuple(names)


@given(namespace=st.lists(parts, min_size=1, max_size=3), name=parts)
def test_a_full_name_reads_back_in_every_form(namespace: list[str], name: str) -> None:
    if namespace[0] == "lake":
        namespace = ["x", *namespace]
    table = TableName(tuple(namespace), name)
    for text in (str(table), table.short, table.sql, f"lake.{table}"):
        assert TableName.parse(text) == table
    assert parse_namespace(".".join(map(quote, namespace))) == tuple(namespace)


@given(text=st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (split_name, parse_namespace, TableName.parse):
        try:
            read(text)
        except InvalidName:
            continue


@pytest.mark.parametrize(
    ("text", "namespace", "name", "short"),
    [
        ("sales", ("default",), "sales", "sales"),
        ("default.sales", ("default",), "sales", "sales"),
        ("lake.default.sales", ("default",), "sales", "sales"),
        ("lake", ("default",), "lake", "lake"),
        ("lake.lake", ("default",), "lake", "lake"),
        ("a.b.t", ("a", "b"), "t", "a.b.t"),
        ("`a b`.`c d`", ("a b",), "c d", "`a b`.`c d`"),
        ("1", ("default",), "1", "`1`"),
        ("order", ("default",), "order", "order"),
        ("été", ("default",), "été", "`été`"),
    ],
)
def test_spellings(text: str, namespace: tuple[str, ...], name: str, short: str) -> None:
    table = TableName.parse(text)
    assert (table.namespace, table.name, table.short) == (namespace, name, short)


def test_sql_is_always_quoted() -> None:
    assert TableName.parse("a.order").sql == "`lake`.`a`.`order`"


@pytest.mark.parametrize(
    "part", ["", " ", " a", "a ", "a.b", "a/b", "a\\b", "a`b", "a\nb", "\x00", "x" * 256, "\ud800"]
)
def test_what_is_no_part(part: str) -> None:
    with pytest.raises(InvalidName):
        check_part(part, what="table")


def test_the_catalogs_own_name_is_no_namespace() -> None:
    for text in ("lake", "lake.lake"):
        with pytest.raises(InvalidName, match="catalog's own name"):
            parse_namespace(text)


def test_text_is_text() -> None:
    assert check_text("é\n\x00😀", what="it") == "é\n\x00😀"
    with pytest.raises(InvalidInput, match="it is not text"):
        check_text("a\udc80", what="it")


@given(words=st.lists(st.text(max_size=12), max_size=5))
def test_a_shell_would_pass_every_word_on_unchanged(words: list[str]) -> None:
    import shlex

    assert shlex.split(neve(*words)) == ["neve", *words]
