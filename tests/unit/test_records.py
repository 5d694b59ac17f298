"""JSON values as values of a type, and questions as SQL: exactly, or refused by their place."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from neve.errors import ColumnNotFound, InvalidInput, InvalidSchema
from neve.http.operations import read
from neve.model.json_values import as_json
from neve.model.operations import OPERATION, CreateTable, Query
from neve.model.types import Type
from neve.plan.operations import own_properties, spec_of
from neve.plan.records import check_upsert, typed, typed_records
from neve.sql.columns import parse_columns, parse_type
from neve.sql.joins import Side, joined, joined_columns
from neve.sql.records import RowSql

COLUMNS = parse_columns(
    "id bigint not null, name string, price decimal(10,2), at timestamp, local timestamp_ntz, day date, ok boolean,"
    "raw binary, f float, d double, home struct<state:string,zip:int>, tags array<string>, m map<int,string>,"
    "`odd name` int, _neve_deleted_at timestamp"
)


def kind(words: str) -> Type:
    return parse_type(words)


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        ("int", 5, 5),
        ("bigint", -(2**63), -(2**63)),
        ("decimal(10,2)", Decimal("1.5"), Decimal("1.50")),
        ("decimal(10,2)", "-0.01", Decimal("-0.01")),
        ("decimal(10,2)", 7, Decimal("7.00")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("double", Decimal("0.1"), 0.1),
        ("double", "-Infinity", float("-inf")),
        ("float", 3, 3.0),
        ("date", "2026-11-16", date(2026, 11, 16)),
        ("timestamp", "2026-11-16T12:00:00.000001+02:00", datetime(2026, 11, 16, 10, 0, 0, 1, UTC)),
        ("timestamp", "2026-11-16 12:00", datetime(2026, 11, 16, 12, tzinfo=UTC)),
        ("timestamp_ntz", "2026-11-16T12:00:00", datetime(2026, 11, 16, 12)),  # noqa: DTZ001
        ("binary", "00fF", b"\x00\xff"),
        ("boolean", False, False),
        ("string", "", ""),
        ("array<int>", [1, None], [1, None]),
        ("map<int,string>", {"-1": "a"}, {-1: "a"}),
        ("map<boolean,int>", {"true": 1}, {True: 1}),
        ("struct<a:int,b:array<date>>", {"b": ["2026-01-01"]}, {"a": None, "b": [date(2026, 1, 1)]}),
        ("int", None, None),
    ],
)
def test_values_are_taken_exactly(words: str, value: object, expected: object) -> None:
    found = typed(kind(words), value, "v")
    assert (found, type(found)) == (expected, type(expected))
    if isinstance(found, Decimal) and isinstance(expected, Decimal):
        assert found.as_tuple() == expected.as_tuple()


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("int", 2**31),
        ("int", True),
        ("int", "5"),
        ("int", Decimal("5.0")),
        ("bigint", 2**63),
        ("decimal(10,2)", Decimal("1.005")),
        ("decimal(10,2)", "1e9"),
        ("decimal(10,2)", "1e999999999"),
        ("decimal(10,2)", "NaN"),
        ("decimal(10,2)", "ten"),
        ("decimal(10,2)", True),
        ("double", "1.5"),
        ("double", Decimal("1e400")),
        ("float", Decimal("1e39")),
        ("date", "2026-02-30"),
        ("date", "20260216"),
        ("timestamp", "2026-11-16T12:00:00.0000001Z"),
        ("timestamp", 1763294400),
        ("timestamp_ntz", "2026-11-16T12:00:00Z"),
        ("binary", "0"),
        ("binary", "0 0"),
        ("boolean", 1),
        ("string", 5),
        ("string", "\ud800"),
        ("array<int>", {"0": 1}),
        ("array<int>", [1, "2"]),
        ("map<int,string>", {"a": "b"}),
        ("struct<a:int>", {"b": 1}),
        ("struct<a:int>", [1]),
    ],
)
def test_what_would_not_be_the_same_is_refused(words: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^v"):
        typed(kind(words), value, "v")


_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "decimal(20,5)": st.decimals(-(10**14), 10**14, places=5),
    "string": st.text(),
    "boolean": st.booleans(),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)).map(lambda time: time.replace(fold=0)),
    "timestamp_ntz": st.datetimes().map(lambda time: time.replace(fold=0)),
}


@given(st.sampled_from(sorted(_LEAVES)).flatmap(lambda word: st.tuples(st.just(word), st.lists(_LEAVES[word]))))
def test_what_is_answered_can_be_written_again(case: tuple[str, list[Any]]) -> None:
    """Through JSON as text, as it goes over the wire."""
    word, values = case
    sent = read_value(json.dumps(as_json(values), ensure_ascii=False))
    found = typed(kind(f"array<{word}>"), sent, "v")
    assert list(map(repr, found)) == list(map(repr, values))


def read_value(text: str) -> Any:
    body = f'{{"operation": "WRITE", "table": "t", "records": [{{"v": {text}}}]}}'
    return read(body).records[0]["v"]  # type: ignore[union-attr]


def test_a_bad_record_is_named_by_its_place() -> None:
    good = {"id": 1}
    with pytest.raises(InvalidInput, match=r"^records\[1\]\.home\.zip: 'x' is no int$"):
        typed_records(COLUMNS, [good, {"id": 2, "home": {"zip": "x"}}])
    with pytest.raises(InvalidInput, match=r"^records\[1\]\.id: a value is required$"):
        typed_records(COLUMNS, [good, {"name": "a"}])
    with pytest.raises(InvalidInput, match=r"^records\[0\]: there is no field nmae$") as told:
        typed_records(COLUMNS, [{"id": 1, "nmae": "a"}])
    assert told.value.hint == "did you mean name?"


def test_upserts_name_the_same_fields_and_each_key_once() -> None:
    assert check_upsert([{"id": 1, "a": 1}, {"a": 2, "id": 2}], ["id"]) == ["id", "a"]
    for records in ([{"id": 1, "a": 1}, {"id": 2}], [{"a": 1}], [{"id": 1, "a": 1}, {"id": 1, "a": 2}]):
        with pytest.raises(InvalidInput):
            check_upsert(records, ["id"])


def select(**words: object) -> str:
    query = OPERATION.validate_python({"operation": "QUERY", "table": "t", **words})
    assert isinstance(query, Query)
    return RowSql(COLUMNS, typed).select("`lake`.`t`", query)


def rule(field: str, operator: str, value: object) -> dict[str, object]:
    return {"field": field, "operator": operator, "value": value}


_THERE = "`_neve_deleted_at` IS NULL"


def test_joined_tables_are_structs_of_one_relation() -> None:
    orders = Side("`lake`.`o`", parse_columns("id bigint, buyer bigint, _ingest_date date, _neve_deleted_at timestamp"))
    base = Side("`lake`.`t`", parse_columns("id bigint"))
    words = [
        {"table": "o", "type": "left", "on": [{"left_field": "id", "right_field": "buyer"}]},
        {"table": "o", "alias": "p", "on": [{"left_field": "o.id", "right_field": "id", "operator": "lt"}]},
    ]
    asked = {"operation": "QUERY", "table": "t", "join": words, "projection": ["id", "p.buyer"]}
    query = OPERATION.validate_python(asked)
    assert isinstance(query, Query)
    joins = [(join, orders) for join in query.join]
    text = RowSql(joined_columns(base, joins), typed).select(joined(base, joins, include_deleted=False), query)
    there = "(SELECT * FROM `lake`.`o` WHERE `_neve_deleted_at` IS NULL)"
    structs = [
        f"NAMED_STRUCT('id', `_neve_side_{place}`.`id`, 'buyer', `_neve_side_{place}`.`buyer`) AS `{alias}`"
        for place, alias in enumerate("op")
    ]
    assert text == (
        f"SELECT `id` AS `id`, `p`.`buyer` AS `p.buyer` FROM (SELECT `_neve_base`.`id` AS `id`, {', '.join(structs)} "
        f"FROM (SELECT * FROM `lake`.`t`) AS _neve_base "
        f"LEFT JOIN {there} AS _neve_side_0 ON `_neve_base`.`id` = `_neve_side_0`.`buyer` "
        f"INNER JOIN {there} AS _neve_side_1 ON `_neve_side_0`.`id` < `_neve_side_1`.`id`) AS _neve_joined "
        "WHERE TRUE LIMIT 100001"
    )


@pytest.mark.parametrize(
    ("filters", "condition"),
    [
        ([rule("id", "gt", 5)], "`id` > 5"),
        ([rule("id", "lt", Decimal("-1.5"))], "`id` < -1.5"),
        ([rule("price", "eq", "1.5")], "`price` = CAST('1.50' AS DECIMAL(10, 2))"),
        ([rule("price", "gte", Decimal("1.005"))], "`price` >= 1.005"),
        ([rule("name", "eq", "' OR 1=1 --")], r"`name` = CAST('\' OR 1=1 --' AS STRING)"),
        ([rule("name", "like", "a%\\")], r"`name` LIKE 'a%\\'"),
        ([rule("home.state", "ne", None)], "NOT `home`.`state` IS NULL"),
        ([rule("name", "eq", None)], "`name` IS NULL"),
        ([rule("raw", "in", ["00"])], "`raw` IN (CAST(UNHEX('00') AS BINARY))"),
        ([rule("odd name", "lte", 1), rule("ok", "eq", True)], "`odd name` <= 1 AND `ok` = CAST(TRUE AS BOOLEAN)"),
        ([rule("at", "lt", "2026-01-01")], "`at` < CAST('2026-01-01T00:00:00+00:00' AS TIMESTAMP)"),
    ],
)
def test_filters_become_typed_conditions(filters: list[dict[str, object]], condition: str) -> None:
    assert f" WHERE {condition} AND {_THERE} LIMIT 100001" in select(filters=filters)
    assert f" WHERE {condition} LIMIT 7" in select(filters=filters, include_deleted=True, limit=7)


def test_every_word_of_a_query_is_honoured() -> None:
    projection = [
        "home.state",
        {"field": "name", "alias": "n", "trim": True, "upper": True, "substring": {"start": 2, "length": 3}},
        {"field": "at", "alias": "y", "extract": "year", "cast": "string"},
        {"field": "at", "alias": "m", "date_trunc": "month", "date_format": "yyyy-MM"},
    ]
    order = [{"field": "price", "order": "desc", "nulls_first": True}, {"field": "n"}]
    assert select(projection=projection, sort=order, limit=5, offset=2) == (
        "SELECT `home`.`state` AS `home.state`, SUBSTRING(UPPER(TRIM(`name`)), 2, 3) AS `n`, "
        "CAST(DATE_PART('year', `at`) AS STRING) AS `y`, DATE_FORMAT(DATE_TRUNC('month', `at`), 'yyyy-MM') AS `m` "
        f"FROM `lake`.`t` WHERE {_THERE} ORDER BY `price` DESC NULLS FIRST, `n` ASC LIMIT 5 OFFSET 2"
    )
    assert select(projection=["name"], distinct=True).startswith("SELECT DISTINCT `name` AS `name` FROM")
    functions = [{"function": "count"}, {"function": "count", "field": "name", "distinct": True, "alias": "names"}]
    functions += [{"function": "percentile", "field": "price", "percentile_value": Decimal("0.9")}]
    grouped = select(
        aggregations=functions, group_by=["day"], having=[rule("count", "gt", 1), rule("day", "ne", "2026-01-01")]
    )
    assert grouped == (
        "SELECT * FROM (SELECT `day` AS `day`, COUNT(*) AS `count`, COUNT(DISTINCT `name`) AS `names`, "
        f"PERCENTILE(`price`, 0.9) AS `percentile_price` FROM `lake`.`t` WHERE {_THERE} GROUP BY `day`) AS _neve_rows "
        "WHERE `count` > 1 AND `day` <> CAST('2026-01-01' AS DATE) LIMIT 100001"
    )


@pytest.mark.parametrize(
    "words",
    [
        {"filters": [rule("nope", "eq", 1)]},
        {"filters": [rule("name.first", "eq", 1)]},
        {"filters": [rule("_neve_deleted_at", "eq", None)]},
        {"projection": ["home.street"]},
        {"sort": [{"field": "nope"}]},
        {"projection": ["name"], "distinct": True, "sort": [{"field": "id"}]},
        {"group_by": ["day"], "having": [rule("count", "gt", 1)]},
    ],
)
def test_fields_that_are_not_there_are_named(words: dict[str, object]) -> None:
    with pytest.raises(ColumnNotFound):
        select(**words)


def test_two_fields_of_one_name_would_lose_one() -> None:
    with pytest.raises(InvalidInput, match="two fields of the answer are called name"):
        select(projection=["name", {"field": "id", "alias": "name"}])


BASE = {"QUERY": {}, "COMPACT": {}, "WRITE": {"records": [{"a": 1}]}, "UPSERT": {"records": [{"a": 1}]}}


@pytest.mark.parametrize(
    ("operation", "words", "field"),
    [
        ("QUERY", {"limit": 0}, "limit"),
        ("QUERY", {"limit": 100_001}, "limit"),
        ("QUERY", {"offset": -1}, "offset"),
        ("QUERY", {"filters": [rule("a", "foo", 1)]}, "filters.0.operator"),
        ("QUERY", {"filters": [rule("a", "in", [])]}, "filters.0"),
        ("QUERY", {"filters": [rule("a", "gt", None)]}, "filters.0"),
        ("QUERY", {"having": [rule("a", "gt", 1)]}, ""),
        ("QUERY", {"projection": ["a"], "group_by": ["a"]}, ""),
        ("QUERY", {"join": {"table": "b"}}, "join"),
        ("QUERY", {"between_times": ["2026-01-01"]}, "between_times.1"),
        ("QUERY", {"between_times": ["2026-01-01", "2026-01-02"], "as_of": 1}, ""),
        ("QUERY", {"skip_versioning": True}, "skip_versioning"),
        ("QUERY", {"filter": []}, "filter"),
        ("QUERY", {"consistency": "weak"}, "consistency"),
        ("QUERY", {"aggregations": [{"function": "sum"}]}, "aggregations.0"),
        ("QUERY", {"aggregations": [{"function": "percentile", "field": "a"}]}, "aggregations.0"),
        ("QUERY", {"join": [{"table": "u"}]}, "join.0"),
        ("QUERY", {"join": [{"table": "u", "type": "cross"}], "as_of": 1}, ""),
        ("WRITE", {"records": []}, "records"),
        ("WRITE", {"schema": {"fields": {}}}, "schema.fields"),
        ("WRITE", {"partition": {"partitions": [1]}}, "partition.partitions.0"),
        ("WRITE", {"partition": {"partitions": []}}, ""),
        ("WRITE", {"properties": {"compression": "zstd"}}, ""),
        ("WRITE", {"mode": "replace"}, "mode"),
        ("UPSERT", {"filters": [rule("a", "eq", 1)]}, ""),
        ("UPSERT", {"updates": {"a": 1}}, ""),
        ("COMPACT", {"max_files": 0}, "max_files"),
        ("COMPACT", {"partition_filter": {"a": 1}, "partition_filters": {"a": 1}}, ""),
    ],
)
def test_no_word_is_passed_over(operation: str, words: dict[str, object], field: str) -> None:
    plain = {"operation": operation, "table": "t", **BASE[operation]}
    OPERATION.validate_python(plain)
    with pytest.raises(ValidationError) as told:
        OPERATION.validate_python({**plain, **words})
    assert [".".join(map(str, each["loc"][1:])) for each in told.value.errors()] == [field]


def create(**words: object) -> CreateTable:
    found = OPERATION.validate_python({"operation": "CREATE_TABLE", "table": "t", **words})
    assert isinstance(found, CreateTable)
    return found


def test_a_table_is_made_as_it_is_described() -> None:
    fields = {
        "id": {"type": "long", "required": True},
        "n": {"type": "integer", "nullable": False},
        "price": {"type": "decimal(10,2)"},
        "any": {"type": "decimal"},
        "at": {"type": "timestamp"},
        "tags": {"type": "array", "items": {"type": "string", "required": True}},
        "m": {"type": "map", "key_type": "string", "value_type": "integer"},
        "home": {"type": "struct", "fields": {"state": {"type": "string", "required": True}}},
    }
    asked = create(
        tenant_id="test-tenant",
        schema={"fields": fields, "primary_key": ["id", "n"]},
        partition={
            "partitions": [
                {"field": "at", "transform": "day", "name": "at_day"},
                {"field": "id", "transform": "bucket", "num_buckets": 4},
            ]
        },
        properties={"compression": "gzip", "file_format": "parquet", "description": "people"},
    )
    spec = spec_of(asked)
    assert spec.name.identifier == ("test-tenant", "default", "t")
    assert [f"{column.name} {column.type}{' not null' if column.required else ''}" for column in spec.columns] == [
        "id bigint not null", "n int not null", "price decimal(10,2)", "any decimal(38,18)", "at timestamp",
        "tags array<string>", "m map<string,int>", "home struct<state:string not null>", "_neve_deleted_at timestamp",
    ]  # fmt: skip
    assert list(map(str, spec.partition_by)) == ["day(at)", "bucket(4, id)"]
    assert (spec.properties, spec.comment) == ({"write.parquet.compression-codec": "gzip"}, "people")
    assert own_properties(asked) == {"neve.primary-key": '["id", "n"]'}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"_neve_x": {"type": "int"}}, {}),
        ({"a": {"type": "money"}}, {}),
        ({"a": {"type": "int"}}, {"partition": {"partitions": [{"field": "a", "name": "b"}]}}),
        ({"a": {"type": "struct", "fields": {"b": {"type": "int"}}}}, {"schema": {"primary_key": ["a"]}}),
        ({"a": {"type": "int"}}, {"schema": {"primary_key": ["a", "a"]}}),
    ],
)
def test_tables_that_cannot_be_are_refused(fields: dict[str, object], more: dict[str, Any]) -> None:
    asked = create(**{**more, "schema": {"fields": fields, **more.get("schema", {})}})
    with pytest.raises((InvalidSchema, InvalidInput)):
        _ = own_properties(asked), spec_of(asked)


def test_json_is_read_as_it_is_written() -> None:
    assert repr(read_value("0.10")) == "Decimal('0.10')"
    for text in ("NaN", '{"a": 1, "a": 2}', "{"):
        with pytest.raises(InvalidInput):
            read_value(text)
