"""Rows as a Parquet file of an Iceberg table: read back equal, told of as PyIceberg would; and when Spark is asked."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import PrimitiveType
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from neve.files.row_files import row_file
from neve.files.types import field_ids
from neve.model.appends import AppendTarget
from neve.model.facts import TableFacts
from neve.model.layout import SortField, Transform
from neve.model.names import TableName
from neve.model.types import field_from_iceberg
from neve.plan.appends import MOST_PARTITIONED, MOST_ROWS, kept_metrics, spark_needed, with_defaults
from neve.plan.partition_values import partition_fields
from neve.plan.value_bounds import value_bounds

NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [-(2**31), 0, 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [1.5, -2.0, float("inf"), NAN],
    "double": [-0.0, 0.0, NAN, 1e-300],
    "decimal(9, 2)": [Decimal("-1.28"), Decimal("1.27"), Decimal("0.00")],
    "decimal(18, 0)": [Decimal(10**18 - 1), Decimal(-(10**18) + 1)],
    "decimal(38, 10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")],
    "date": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime.fromisoformat("1969-12-31T23:59:59.999999"), datetime.fromisoformat("2026-03-29T02:30")],
    "timestamptz": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
    "string": ["", "short", "é" * 15 + "z" * 9, "🎿\0"],
    "binary": [b"", b"\xff" * 20, b"a"],
    "fixed[3]": [b"abc", b"\xff\x00\xff"],
}


def field(number: int, kind: Any, name: str | None = None, **words: Any) -> dict[str, Any]:
    return {"id": number, "name": name or f"c{number}", "type": kind, "required": False, **words}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(number: int, kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def mapping(key: int, number: int, kind: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": key, "key": "int", "value-id": number, "value": kind, "value-required": False}


def test_rows_come_back_with_ids_and_figures() -> None:
    fields = [
        *(field(number, kind) for number, kind in enumerate(VALUES, 1)),
        field(20, struct(field(21, "string", "x y"), field(22, struct(field(23, "int"))))),
        field(30, array(31, struct(field(32, "float", "f")))),
        field(40, mapping(41, 42, struct(field(43, "string")))),
    ]
    most = max(map(len, VALUES.values()))
    rows: list[dict[str, Any]] = [
        {f"c{number}": dict(enumerate(values)).get(turn) for number, values in enumerate(VALUES.values(), 1)}
        for turn in range(most)
    ]
    rows[0] |= {"c20": {"x y": "in", "c22": {"c23": 7}}, "c30": [], "c40": {}}
    rows[1] |= {"c20": {"x y": None, "c22": None}, "c30": [None, {"f": 1.5}], "c40": {1: {"c43": "v"}, -1: None}}
    made = row_file(fields, rows, {"write.parquet.compression-codec": "gzip"})

    with pq.ParquetFile(io.BytesIO(made.content)) as file:
        read, numbers = file.read(), field_ids(file.schema_arrow)
        assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert numbers["c20.x_x20y"] == 21
    assert set(numbers.values()) == {*range(1, len(VALUES) + 1), 20, 21, 22, 23, 30, 31, 32, 40, 41, 42, 43}
    for number, (kind, values) in enumerate(VALUES.items(), 1):
        back = read.column(f"c{number}").to_pylist()
        again = [each.astimezone(UTC) if kind == "timestamptz" and each else each for each in back]
        assert repr(again) == repr(values + [None] * (most - len(values))), kind
    assert read.column("c20").to_pylist()[:2] == [{"x_x20y": "in", "c22": {"c23": 7}}, {"x_x20y": None, "c22": None}]
    assert read.column("c30").to_pylist()[:3] == [[], [None, {"f": 1.5}], None]
    assert read.column("c40").to_pylist()[:3] == [[], [(1, {"c43": "v"}), (-1, None)], None]

    metrics = made.metrics
    assert metrics.nans == {4: 1, 5: 1}
    assert (metrics.values[1], metrics.nulls[1], metrics.values[21], metrics.nulls[21]) == (
        most,
        most - 2,
        most,
        most - 1,
    )
    assert (metrics.lower[21], metrics.upper[23]) == (b"in", (7).to_bytes(4, "little"))
    assert not {31, 32, 41, 42, 43} & {*metrics.values, *metrics.nulls, *metrics.lower, *metrics.upper}
    assert {32, 41, 43} < set(metrics.sizes)
    assert (made.rows, made.split_offsets) == (most, (4,))


@pytest.mark.parametrize("kind", VALUES)
def test_bounds_are_iceberg_s_bytes(kind: str) -> None:
    numbers = [value for value in VALUES[kind] if value == value]  # noqa: PLR0124 - not NaN
    lower, upper = value_bounds(kind, VALUES[kind], None)
    schema = Schema.model_validate({"type": "struct", "fields": [field(1, kind)]})
    iceberg = schema.fields[0].field_type
    assert isinstance(iceberg, PrimitiveType)
    least = -0.0 if kind == "double" else min(numbers)
    assert (lower, upper) == (to_bytes(iceberg, least), to_bytes(iceberg, max(numbers)))


def test_nothing_to_bound() -> None:
    assert value_bounds("int", [], 16) == (None, None)
    assert value_bounds("double", [NAN], 16) == (None, None)
    assert value_bounds("binary", [b"\xff" * 17], 16) == (b"\xff" * 16, None)
    assert value_bounds("string", ["\U0010ffff" * 17], 16)[1] is None


@given(st.lists(st.text(alphabet="ab\x00é\ud7ff\ue000🎿\U0010ffff", max_size=20), min_size=1), st.integers(1, 5))
def test_cut_bounds_hold_all_texts(texts: list[str], length: int) -> None:
    lower, upper = value_bounds("string", texts, length)
    assert lower is not None
    assert lower <= min(text.encode() for text in texts)
    greatest = max(texts, key=str.encode)
    assert upper is None or upper >= greatest.encode()
    if not {"\ud7ff", "\U0010ffff"} & {*greatest[:length]}:  # where PyIceberg differs from Iceberg
        expected = truncate_upper_bound_text_string(greatest, length)
        assert upper == (None if expected is None else expected.encode())


@given(st.lists(st.binary(max_size=8), min_size=1), st.integers(1, 5))
def test_cut_bounds_hold_all_bytes(values: list[bytes], length: int) -> None:
    lower, upper = value_bounds("binary", values, length)
    assert lower == min(values)[:length]
    assert upper is None or upper >= max(values)
    assert upper == truncate_upper_bound_binary_string(max(values), length)


def test_metrics_are_kept_as_the_table_says() -> None:
    asked = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.a.b": "full"}
    assert [kept_metrics(asked, path) for path in ("a", "a.b")] == [(False, 0), (True, None)]
    assert kept_metrics({"write.metadata.metrics.default": "truncate(3)"}, "a") == (True, 3)
    fields = [field(1, "string"), field(2, "string")]
    made = row_file(fields, [{"c1": "abcdef", "c2": "x"}], {
        "write.metadata.metrics.default": "truncate(3)", "write.metadata.metrics.column.c2": "none",
    })  # fmt: skip
    metrics = made.metrics
    assert (metrics.lower, metrics.upper, metrics.values) == ({1: b"abc"}, {1: b"abd"}, {1: 1})
    assert set(metrics.sizes) == {1, 2}


def target(
    *fields: dict[str, Any],
    properties: dict[str, str] | None = None,
    spec: Sequence[tuple[str, int]] = (),
    **given: Any,
) -> AppendTarget:
    columns = tuple(field_from_iceberg(each) for each in fields)
    facts = TableFacts(
        **{
            "name": TableName(("default",), "t"), "uuid": "u", "location": "/t", "metadata_location": "/m",
            "format_version": 3, "updated_at": datetime.now(UTC), "columns": columns, "partition_by": (), "sort_by": (),
            "properties": properties or {}, "snapshots": (), "current_snapshot_id": None, "made_current": (),
            "references": (), **given,
        }
    )  # fmt: skip
    return AppendTarget(facts=facts, schema_id=0, spec_id=0, spec=tuple(partitioned(spec)), fields=fields)


def partitioned(spec: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"transform": transform, "source-id": source, "name": f"p{source}"} for transform, source in spec]


PLAIN = field(1, "long")
STRUCT = struct(field(2, "int", "a b"), field(3, "int", "a_x20b"))
DAY = Transform("c1", "day")


@pytest.mark.parametrize(
    ("found", "rows", "code"),
    [
        (target(PLAIN), 1, None),
        (target(PLAIN), MOST_ROWS, None),
        (target(PLAIN), MOST_ROWS + 1, "many_rows"),
        (target(PLAIN, spec=[("bucket[4]", 1)]), MOST_PARTITIONED, None),
        (target(PLAIN, spec=[("bucket[4]", 1)]), MOST_PARTITIONED + 1, "many_rows"),
        (target(PLAIN, spec=[("void", 9)]), 1, None),
        (target(PLAIN, spec=[("identity", 9)]), 1, "partitioned"),
        (target(PLAIN, spec=[("day", 1)]), 1, "partitioned"),
        (target(field(1, "double"), spec=[("identity", 1)]), 1, "partitioned"),
        (target(PLAIN, sort_by=(SortField(DAY, False, False),)), 1, "sorted"),
        (target(PLAIN, properties={"write.format.default": "PARQUET", "write.wap.enabled": "false"}), 1, None),
        (target(PLAIN, properties={"write.format.default": "orc"}), 1, "property"),
        (target(PLAIN, properties={"write.data.path": "/elsewhere"}), 1, "property"),
        (target(PLAIN, properties={"write.parquet.bloom-filter-enabled.column.c1": "true"}), 1, "bloom_filters"),
        (target(PLAIN, properties={"write.parquet.compression-codec": "brotli"}), 1, "codec"),
        (target(*(field(number, "int") for number in range(1, 102))), 1, "many_columns"),
        (target(PLAIN, field(2, "uuid")), 1, "type"),
        (target(PLAIN, field(2, array(3, "time"))), 1, "type"),
        (target(field(1, STRUCT)), 1, "names"),
        (target(field(1, mapping(9, 8, STRUCT))), 1, "names"),
    ],
)
def test_what_iceberg_would_do_otherwise_is_left_to_spark(found: AppendTarget, rows: int, code: str | None) -> None:
    reason = spark_needed(found, rows)
    assert (None if reason is None else reason.code) == code


def test_columns_that_a_record_does_not_name_get_their_default() -> None:
    inner = struct(field(3, "int", "n", **{"write-default": 4}))
    fields = [field(1, "date", "d", **{"write-default": "2026-01-02"}), field(2, inner, "s"), field(5, "int", "i")]
    assert with_defaults(fields, {"i": 1}) == {"i": 1, "d": "2026-01-02"}
    assert with_defaults(fields, {"d": None, "s": {}}) == {"d": None, "s": {"n": 4}}
    assert with_defaults(fields, {"d": "x", "s": None}) == {"d": "x", "s": None}


ISO: dict[str, Any] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
}
TRANSFORMS = ("identity", "bucket[7]", "truncate[3]", "year", "month", "day", "hour")


@pytest.mark.parametrize("kind", VALUES)
def test_partitions_are_pyiceberg_s(kind: str) -> None:
    """Values that PyIceberg computes, told in Iceberg's JSON; days are dates there."""
    schema = Schema.model_validate({"type": "struct", "fields": [field(1, kind)]})
    iceberg = schema.fields[0].field_type
    held = 0
    for name in TRANSFORMS:
        transform = parse_transform(name)
        computed = partition_fields(partitioned([(name, 1)]), [field(1, kind)])
        if not transform.can_transform(iceberg) or (kind in ("float", "double")) or (name, kind) == ("hour", "date"):
            assert computed is None, name
            continue
        assert computed is not None, name
        (compute,) = computed
        assert compute({"c1": None}) is None
        apply = transform.transform(iceberg)
        for value in VALUES[kind]:
            raw = literal(value).to(iceberg).value if not isinstance(value, bytes) else value
            expected, found = apply(raw), compute({"c1": value})
            if name in ("identity", "truncate[3]"):
                back = (
                    ISO[kind](found)
                    if kind in ISO
                    else bytes.fromhex(str(found))
                    if isinstance(value, bytes)
                    else found
                )
                expected = value if name == "identity" else expected
                assert back == (f"{expected:f}" if isinstance(expected, Decimal) else expected), (name, value)
            elif name == "day":
                assert date.fromisoformat(str(found)).toordinal() - date(1970, 1, 1).toordinal() == expected
            else:
                assert found == expected, (name, value)
            held += 1
    assert held or kind in ("float", "double")
