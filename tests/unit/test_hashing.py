"""Numbers of rows: the same for equal bags of rows however they are held, others for bags that differ in anything."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.files import hashing
from neve.files.hashing import bag_hash, row_hashes

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [0, 1, -1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.int64(), [0, 1, -1, -(2**63)]),
    (pa.float64(), [0.0, -0.0, float("nan"), 1.5, -1.5, float("inf")]),
    (pa.float32(), [0.0, -0.0, 1.5]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [date(1970, 1, 1), date(1600, 1, 1)]),
    (pa.timestamp("us", tz="UTC"), [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)]),
    (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("1e30")]),
    (pa.string(), ["", "\0", "a", "b", "ab", "ba", "ü", "x" * 3000]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"a"]),
    (pa.binary(2), [b"ab", b"ba"]),
    (pa.large_string(), ["", "a"]),
    (pa.list_(pa.string()), [[], [None], ["a"], ["a", None]]),
    (pa.struct([("x", pa.int64())]), [{"x": 1}, {"x": None}]),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda pair: str(pair[0]))
def test_every_value_has_a_number_of_its_own(kind: tuple[pa.DataType, list[Any]]) -> None:
    """NULL too; in slices, in dictionaries, and with a NULL beside them."""
    of, values = kind
    column = pa.array([*values, None], of)
    numbers = row_hashes(pa.record_batch({"c": column})).to_pylist()
    assert len(set(numbers)) == len(values) + 1
    assert row_hashes(pa.record_batch({"c": column.slice(1)})).to_pylist() == numbers[1:]
    assert row_hashes(pa.record_batch({"c": column.slice(0, len(values))})).to_pylist() == numbers[:-1]
    if not pa.types.is_nested(of):
        assert row_hashes(pa.record_batch({"c": column.dictionary_encode()})).to_pylist() == numbers
        alone = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), column.slice(0, 1))
        assert row_hashes(pa.record_batch({"c": alone})).to_pylist() == numbers[:1] * 2


def test_long_texts_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["", "a" * 100, None, "b" * 100, "ab", "a" * 99, "c" * 5]
    batch = pa.record_batch({"c": pa.array(texts)})
    assert len(set(row_hashes(batch).to_pylist())) == len(texts)
    monkeypatch.setattr(hashing, "_TEXT_BYTES", 64)
    hashing._powers.cache_clear()
    try:
        short = row_hashes(batch).to_pylist()
        assert len(set(short)) == len(texts)
        for size in (1, 2, 3):  # the same in whatever batches they come
            pieces = [row_hashes(batch.slice(start, size)).to_pylist() for start in range(0, len(texts), size)]
            assert list(chain.from_iterable(pieces)) == short
    finally:
        hashing._powers.cache_clear()


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2, -(2**63), 2**63 - 1]),
        st.sampled_from([None, "", "a", "b", "ab"]),
        st.sampled_from([None, 0.0, -0.0, 1.5]),
    ),
    max_size=6,
)


def batch_of(rows: list[Any]) -> pa.RecordBatch:
    kinds = (pa.int64(), pa.string(), pa.float64())
    return pa.record_batch(
        {name: pa.array([row[place] for row in rows], kinds[place]) for place, name in enumerate("ijk")}
    )


@settings(deadline=None, max_examples=60)
@given(ROWS, ROWS, st.randoms())
def test_bags_are_told_apart(one: list[Any], other: list[Any], random: Any) -> None:
    mixed = list(one)
    random.shuffle(mixed)
    number = bag_hash(row_hashes(batch_of(one)))
    assert bag_hash(row_hashes(batch_of(mixed))) == number
    same = Counter(map(repr, one)) == Counter(map(repr, other))
    assert (bag_hash(row_hashes(batch_of(other))) == number) is same
    both = bag_hash(row_hashes(batch_of([*one, *other])))
    assert both == (number + bag_hash(row_hashes(batch_of(other)))) % 2**64


def test_values_that_change_places_are_seen() -> None:
    """Between rows, between columns, and single bits of a number."""
    rows = [(1, "a", 1.5), (2, "b", 2.5)]
    crossed = [(1, "b", 1.5), (2, "a", 2.5)]
    assert bag_hash(row_hashes(batch_of(rows))) != bag_hash(row_hashes(batch_of(crossed)))
    numbers = pa.array([1, 2], pa.int64()), pa.array([2, 1], pa.int64())
    straight = pa.record_batch({"x": numbers[0], "y": numbers[1]})
    swapped = pa.record_batch({"x": numbers[1], "y": numbers[1]})
    assert bag_hash(row_hashes(straight)) != bag_hash(row_hashes(swapped))
    bits = [bag_hash(row_hashes(pa.record_batch({"x": pa.array([1 << bit], pa.uint64())}))) for bit in range(64)]
    assert all(one != other for one, other in pairwise(sorted(bits)))
