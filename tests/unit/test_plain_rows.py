"""Lines that pyarrow cuts, beside a model that cuts them one by one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.files import plain_rows
from neve.files.plain_rows import PlainForm, cut_rows

BLANKS = "".join(map(chr, range(33)))
Rows = dict[int, "list[str | None] | str"]

values = st.sampled_from(["", "a", "NA", "é", " ", "x y", "\t", "0", "'", "\x0b", "long" * 20])
ends = st.sampled_from(["\n", "\n", "\r\n", "\n\n", "\r", "\n \n"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, PlainForm]:
    columns = draw(st.integers(2, 4))
    form = PlainForm(
        columns=columns,
        delimiter=draw(st.sampled_from(",;|")),
        header=draw(st.booleans()),
        null_value=draw(st.sampled_from([None, "NA", ""])),
    )
    widths = st.one_of(st.just(columns), st.just(columns), st.integers(1, 6))
    lines = [form.delimiter.join(f"c{place}" for place in range(columns))]
    for width in draw(st.lists(widths, max_size=12)):
        lines += [draw(ends), form.delimiter.join(draw(st.lists(values, min_size=width, max_size=width)))]
    return "".join([*lines, draw(st.sampled_from(["", "\n", "\r\n"]))]), form


def model(text: str, form: PlainForm) -> Rows:
    lines = [line for line in re.split("\r\n|\n|\r", text) if line.strip(BLANKS)][int(form.header) :]
    parts = [line.split(form.delimiter) for line in lines]
    return {
        place: [None if value in ("", form.null_value) else value for value in row]
        if len(row) == form.columns
        else line
        for place, (row, line) in enumerate(zip(parts, lines, strict=True))
    }


def cut(content: bytes, form: PlainForm) -> Rows:
    found: Rows = {}
    for arrays in cut_rows(content, form):
        *columns, broken, places = (array.to_pylist() for array in arrays)
        for index, place in enumerate(places):
            assert place not in found
            found[place] = broken[index] if broken[index] is not None else [column[index] for column in columns]
    return found


@settings(max_examples=400, deadline=None)
@given(texts(), st.sampled_from([60, 100, 1000]))
def test_rows_are_those_of_the_model(written: tuple[str, PlainForm], line_bytes: int) -> None:
    """Blocks of the reader end anywhere between lines."""
    text, form = written
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_rows, "LINE_BYTES", line_bytes * 8)
        assert cut(text.encode(), form) == model(text, form)


def test_a_mark_of_byte_order_is_no_letter() -> None:
    form = PlainForm(columns=2, delimiter=",", header=False)
    assert cut(b"\xef\xbb\xbfa,b\n", form) == {0: ["a", "b"]}


def test_a_line_as_long_as_is_promised_is_read() -> None:
    form = PlainForm(columns=2, delimiter=",", header=True)
    long = "x" * (plain_rows.LINE_BYTES - 2)
    assert cut(f"a,b\n1,2\n{long},\n3,4\n".encode(), form) == {0: ["1", "2"], 1: [long, None], 2: ["3", "4"]}
