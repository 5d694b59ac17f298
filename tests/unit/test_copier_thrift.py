"""Thrift's compact protocol: what is read is written back as it was, and nonsense is named as such."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.copier_files import make_table

from neve.files.copier import MemorySource, inspect
from neve.files.copier.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    FLAT,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Malformed,
    Struct,
    read_struct,
    write_struct,
)
from neve.files.copier.words import FILE_NEST, TAIL

SCALARS: dict[int, st.SearchStrategy[Any]] = {
    TRUE: st.just(value=True),
    FALSE: st.just(value=False),
    BYTE: st.integers(0, 255),
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=300),
}
scalars = st.one_of(*(st.tuples(st.just(kind), values) for kind, values in SCALARS.items()))


def _lists(structs: st.SearchStrategy[Struct]) -> st.SearchStrategy[tuple[int, Any]]:
    kinds = {kind: values for kind, values in SCALARS.items() if kind not in (TRUE, FALSE)} | {STRUCT: structs}
    items = [st.builds(Items, st.just(kind), st.lists(values, max_size=20)) for kind, values in kinds.items()]
    booleans = st.builds(Items, st.just(TRUE), st.lists(st.sampled_from([1, 2]), max_size=20))
    return st.tuples(st.just(LIST), st.one_of(*items, booleans))


def _structs(values: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[Struct]:
    return st.dictionaries(st.integers(-(2**15), 2**15 - 1), values, max_size=8).map(Struct)


flat = _structs(scalars)
structs = _structs(st.one_of(scalars, st.tuples(st.just(STRUCT), flat), _lists(flat)))


class _Every(dict[int, Any]):
    """Takes everything apart."""

    def get(self, key: int, default: Any = None) -> Any:
        return self


@given(structs)
def test_what_is_written_reads_back(struct: Struct) -> None:
    data = write_struct(struct)
    assert read_struct(data + b"more", nest=_Every()) == (struct, len(data))


@given(structs)
def test_what_is_not_taken_apart_stays_byte_for_byte(struct: Struct) -> None:
    data = write_struct(struct)
    read, end = read_struct(b"before" + data, 6, FLAT)
    assert end == 6 + len(data)
    assert write_struct(read) == data


@given(st.binary(max_size=200))
def test_nonsense_is_malformed_or_a_struct(data: bytes) -> None:
    for nest in (FLAT, _Every(), FILE_NEST):
        try:
            struct, end = read_struct(data, nest=nest)
        except Malformed:
            continue
        assert end <= len(data)
        assert read_struct(write_struct(struct), nest=nest)[0] == struct


@given(st.binary(max_size=400))
def test_any_footer_is_a_shape_or_a_problem(data: bytes) -> None:
    shape = inspect(MemorySource("x", b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1"))
    assert shape.problem is not None or shape.elements


def test_deep_nesting_ends() -> None:
    with pytest.raises(Malformed, match="deep"):
        read_struct(b"\x1c" * 10_000)


def test_a_field_that_comes_twice_and_a_number_without_end() -> None:
    with pytest.raises(Malformed, match="twice"):
        read_struct(b"\x15\x02\x05\x02\x02\x00")
    with pytest.raises(Malformed, match="too large"):
        read_struct(b"\x16" + b"\xff" * 30)


@pytest.mark.parametrize("how", [{}, {"version": "1.0"}, {"write_page_index": True}, {"write_statistics": False}])
def test_footers_of_pyarrow_are_written_back_as_they_were(how: dict[str, Any]) -> None:
    kinds = ("number", "text", "list", "map", "struct", "deep", "money", "day")
    sink = pa.BufferOutputStream()
    pq.write_table(make_table(1, 100, kinds, ids=True), sink, row_group_size=30, **how)
    data = sink.getvalue().to_pybytes()
    footer = data[-TAIL - int.from_bytes(data[-TAIL:-4], "little") : -TAIL]
    tree, end = read_struct(footer, nest=FILE_NEST)
    assert end == len(footer)
    assert write_struct(tree) == footer
    for length in range(0, len(footer), 97):
        with pytest.raises(Malformed):
            read_struct(footer[:length], nest=FILE_NEST)
