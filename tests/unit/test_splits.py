"""Split points: files in, files out, and everything that is refused (sleeper.md §9, cases 6 and 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidInput, InvalidSchema
from neve.model.splits import Key, format_points, from_json, key_type, parse_points, to_json
from neve.model.types import Field, Primitive
from neve.services.specs import spec_from_words

INTS = st.sets(st.integers(-(2**31), 2**31 - 1)).map(sorted)
LONGS = st.sets(st.integers(-(2**63), 2**63 - 1)).map(sorted)
STRINGS = st.sets(st.text(st.characters(exclude_categories=["Cs"]))).map(lambda s: sorted(s, key=str.encode))
BYTES = st.sets(st.binary()).map(sorted)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("b\na\n", "string", "should be less than"),
        ("a\na\n", "string", "duplicate found"),
        ("x\n", "int", "not a whole number"),
        ("2147483648\n", "int", "does not fit"),
        ("-9223372036854775809\n", "long", "does not fit"),
        ("a b\n", "binary", "not base64"),
        ("1\n\n2\n", "int", "line 2"),
    ],
)
def test_a_bad_split_file_is_refused(text: str, kind: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse_points(text, kind)


def test_an_empty_file_is_one_range() -> None:
    assert parse_points("", "int") == ()


def test_strings_are_ordered_by_their_utf8_bytes_as_spark_does() -> None:
    assert parse_points("\uffff\n\U00010000\n", "string") == ("\uffff", "\U00010000")


@given(INTS.map(lambda points: ("int", points)) | LONGS.map(lambda points: ("long", points)))
def test_numbers_come_back_from_an_export(case: tuple[str, list[int]]) -> None:
    kind, points = case
    assert parse_points(format_points(points), kind) == tuple(points)
    assert [from_json(to_json(point), kind) for point in points] == points


@given(STRINGS)
def test_strings_come_back_from_an_export_in_base64(points: list[str]) -> None:
    assert parse_points(format_points(points, encoded=True), "string", encoded=True) == tuple(points)
    assert [from_json(to_json(point), "string") for point in points] == points


@given(BYTES)
def test_bytes_come_back_from_an_export(points: list[bytes]) -> None:
    assert parse_points(format_points(points), "binary") == tuple(points)
    assert [from_json(to_json(point), "binary") for point in points] == points


def test_a_line_break_in_a_string_needs_base64() -> None:
    points: list[Key] = ["a\nb"]
    with pytest.raises(InvalidInput, match="line break"):
        format_points(points)


@pytest.mark.parametrize("kind", ["double", "boolean", "date", "timestamptz", "decimal(10, 2)"])
def test_a_row_key_is_a_number_a_string_or_bytes(kind: str) -> None:
    with pytest.raises(InvalidInput, match="row key"):
        key_type(Field("k", Primitive(kind), required=True))


def test_a_row_key_may_not_be_null() -> None:
    with pytest.raises(InvalidInput, match="may be NULL"):
        spec_from_words("t", "k string", row_keys=["k"])


def test_split_points_need_a_row_key() -> None:
    with pytest.raises(InvalidSchema, match="first row key"):
        spec_from_words("t", "k string not null", split_points="a\n")
