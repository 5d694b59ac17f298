"""What is said of several files, as it would be said of one: compared with the figures of the rows themselves."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from neve.model.rewrites import FileMetrics
from neve.plan.merged_metrics import merged_metrics

TYPES = {1: "long", 2: "double", 3: "string"}
Row = tuple[int | None, float | None, str | None]
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(width=64),
        st.none() | st.text(max_size=4),
    ),
    max_size=5,
)


def of(rows: Sequence[Row]) -> FileMetrics:
    """As a writer counts them: NaN has a count of its own, and is in no range."""
    columns = {number: [row[number - 1] for row in rows] for number in TYPES}
    ranged = {
        number: [value for value in values if value is not None and not _is_nan(value)]
        for number, values in columns.items()
    }
    return FileMetrics(
        values={number: len(values) for number, values in columns.items()},
        nulls={number: sum(value is None for value in values) for number, values in columns.items()},
        nans={2: sum(_is_nan(value) for value in columns[2])},
        lower={number: _raw(min(values, key=_key)) for number, values in ranged.items() if values},
        upper={number: _raw(max(values, key=_key)) for number, values in ranged.items() if values},
    )


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(value: int | float | str) -> tuple[object, float]:
    if isinstance(value, str):
        return value.encode(), 0
    return value, math.copysign(1, value) if isinstance(value, float) else 0


def _raw(value: int | float | str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return struct.pack("<d", value) if isinstance(value, float) else value.to_bytes(8, "little", signed=True)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_merged_figures_are_those_of_all_rows(files: list[list[Row]]) -> None:
    whole = of([row for rows in files for row in rows])
    assert merged_metrics([of(rows) for rows in files], TYPES) == whole


def test_what_one_file_does_not_say_nobody_knows() -> None:
    told, silent = of([(1, 2.0, "x")]), FileMetrics()
    found = merged_metrics([told, silent], TYPES)
    assert (found.values, found.nulls, found.nans, found.lower, found.upper) == ({}, {}, {}, {}, {})
    empty = FileMetrics(values={1: 2}, nulls={1: 2})
    assert merged_metrics([told, empty], TYPES).lower == {1: _raw(1)}, "a file of NULLs only has no bounds to lack"
    uncounted = FileMetrics(values={1: 2})
    assert 1 not in merged_metrics([told, uncounted], TYPES).lower


def test_columns_that_are_gone_are_left_out() -> None:
    found = merged_metrics([of([(1, 1.0, "x")])], {1: "int"})
    assert set(found.values) | set(found.lower) == {1}
    assert merged_metrics([FileMetrics(lower={9: b"x"}, values={9: 1})], {9: "variant"}).lower == {}


def test_sizes_add_up() -> None:
    dice = random.Random(1)
    parts = [{1: dice.randrange(100), 2: dice.randrange(100)} for _ in range(5)]
    assert merged_metrics([FileMetrics(sizes=part) for part in parts], TYPES).sizes == {
        column: sum(part[column] for part in parts) for column in (1, 2)
    }
