"""Column types and definitions: SQL words, Iceberg's JSON, and what is shown."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import ColumnNotFound, InvalidName, InvalidSchema, NeveError
from neve.model.layout import Transform, parse_sort_field, parse_transform, split_list
from neve.model.names import TableName
from neve.model.specs import TableSpec, check_partition_names, check_spec, check_transform, find_column, walk
from neve.model.types import (
    Field,
    ListOf,
    MapOf,
    Primitive,
    Struct,
    Type,
    field_from_iceberg,
    fields_to_iceberg,
    from_iceberg,
    to_iceberg,
)
from neve.sql.columns import parse_column, parse_columns, parse_type

leaves = st.sampled_from(
    ["boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary"]
).map(Primitive) | st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda ps: ps[1] <= ps[0]).map(
    lambda ps: Primitive(f"decimal({ps[0]}, {ps[1]})")
)
words = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.lists(
        st.builds(Field, words, inner, st.just(False), st.none()), min_size=1, max_size=3, unique_by=lambda f: f.name
    )
    return (
        st.builds(ListOf, inner, st.just(False))
        | st.builds(MapOf, leaves, inner, st.just(False))
        | fields.map(lambda found: Struct(tuple(found)))
    )


types: st.SearchStrategy[Type] = st.recursive(leaves, nested, max_leaves=6)


@given(kind=types)
def test_what_is_shown_can_be_typed_again(kind: Type) -> None:
    assert parse_type(str(kind)) == kind


@given(kind=types, required=st.booleans(), comment=st.none() | st.text(min_size=1, max_size=9))
def test_icebergs_json_reads_back(kind: Type, required: bool, comment: str | None) -> None:
    numbers = itertools.count(1)
    assert from_iceberg(to_iceberg(kind, lambda: next(numbers))) == kind
    field = Field("c", kind, required, comment)
    (json,) = fields_to_iceberg((field,), lambda: next(numbers))
    assert isinstance(json, dict)
    assert field_from_iceberg(json) == field


@given(kind=types)
def test_ids_are_given_once_each(kind: Type) -> None:
    given_out: list[int] = []

    def new_id() -> int:
        given_out.append(len(given_out) + 1)
        return given_out[-1]

    text = str(to_iceberg(kind, new_id))
    assert all(f"{number}" in text for number in given_out)


@pytest.mark.parametrize("json", [None, 3, [], {"type": "union"}])
def test_what_is_no_iceberg_type(json: object) -> None:
    with pytest.raises(InvalidSchema):
        from_iceberg(json)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("INTEGER", "int"),
        ("int4", "int"),
        ("Long", "bigint"),
        ("REAL", "float"),
        ("double precision", "double"),
        ("text", "string"),
        ("VARCHAR(20)", "string"),
        ("NUMERIC(5,2)", "decimal(5,2)"),
        ("dec(7)", "decimal(7,0)"),
        ("datetime", "timestamp_ntz"),
        ("timestamp with time zone", "timestamp"),
        ("bytea", "binary"),
        ("struct<`a b`: int>", "struct<a b:int>"),
    ],
)
def test_words_of_other_dialects(text: str, shown: str) -> None:
    assert str(parse_type(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "int int", "array", "array<>", "map<int>", "struct<>", "struct<a>", "decimal(0)", "decimal(39)",
        "decimal(2,3)", "decimal(x)", "decimal(-1)", "decimal(1.5)", "decimal(9,2,1)", "int; drop table t", "int) --",
        "int /*", "select 1", "array<int",
        "struct<a:int,b:nonsense>", "int not null", "int comment 'x'", "interval year",
        "variant", "void", "?", "enum('a')",
    ],
)  # fmt: skip
def test_what_is_no_type(text: str) -> None:
    with pytest.raises((InvalidSchema, InvalidName)):
        parse_type(text)


pieces = st.lists(
    st.sampled_from(
        [
            "int",
            "decimal",
            "(",
            ")",
            "<",
            ">",
            ",",
            "3",
            "x",
            "1.5",
            "a:",
            "`",
            "'",
            "not null",
            "comment",
            ";",
            "--",
            " ",
        ]
    ),
    max_size=9,
).map(" ".join)


@settings(max_examples=200)
@given(text=st.text(max_size=25) | pieces)
def test_any_definition_is_read_or_refused(text: str) -> None:
    for read in (parse_type, parse_column, parse_columns, parse_transform, parse_sort_field):
        try:
            read(text)
        except NeveError:
            continue


def test_definitions() -> None:
    assert parse_columns("id bigint not null, `the, name` string comment 'it\\'s, here', m map<int,decimal(3,1)>") == (
        Field("id", Primitive("long"), required=True),
        Field("the, name", Primitive("string"), comment="it's, here"),
        Field("m", MapOf(Primitive("int"), Primitive("decimal(3, 1)"))),
    )
    (field,) = parse_columns("s struct<a:int not null comment 'x',b:string>")
    assert field.type == Struct(
        (Field("a", Primitive("int"), required=True, comment="x"), Field("b", Primitive("string")))
    )


@pytest.mark.parametrize(
    "text",
    ["a", "a int default 3", "a int primary key", "a int check (a > 0)", "a int, b", "a int not null unique",
     "a int generated always as identity", "a.b int", "`` int", "a int) location '/x'", "a int comment"],
)  # fmt: skip
def test_definitions_that_say_too_much_or_too_little(text: str) -> None:
    with pytest.raises((InvalidSchema, InvalidName)):
        parse_columns(text)


@pytest.mark.parametrize(
    ("text", "transform"),
    [
        ("id", Transform("id")),
        ("`a b`", Transform("a b")),
        ("s.x", Transform("s.x")),
        ("days(ts)", Transform("ts", "day")),
        ("DAY( ts )", Transform("ts", "day")),
        ("date(ts)", Transform("ts", "day")),
        ("hours(ts)", Transform("ts", "hour")),
        ("bucket(16, id)", Transform("id", "bucket[16]")),
        ("bucket(id, 016)", Transform("id", "bucket[16]")),
        ("truncate(4, `a b`)", Transform("a b", "truncate[4]")),
        ("identity(x)", Transform("x")),
        ("void(x)", Transform("x", "void")),
    ],
)
def test_transforms_are_read_and_read_back(text: str, transform: Transform) -> None:
    assert parse_transform(text) == transform
    assert parse_transform(str(transform)) == transform


@pytest.mark.parametrize(
    "text",
    ["", "a b", "day()", "day(a, b)", "bucket(id)", "bucket(0, id)", "bucket(-1, id)", "bucket(²,id)", "week(ts)",
     "bucket(2147483648, id)", "truncate(x, id)", "bucket(4, id", "f(g(x))", "day(`a)"],
)  # fmt: skip
def test_what_is_no_transform(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_transform(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id", "id asc nulls first"),
        ("id DESC", "id desc nulls last"),
        ("bucket(4, id) asc NULLS LAST", "bucket(4, id) asc nulls last"),
        ("`desc`", "desc asc nulls first"),
        ("day(ts) desc nulls first", "day(ts) desc nulls first"),
    ],
)
def test_sort_fields(text: str, shown: str) -> None:
    field = parse_sort_field(text)
    assert str(field) == shown


@given(
    items=st.lists(
        st.sampled_from(["a", "c 'it\\'s, so'", "bucket(4, id)", "map<int,int>", "`x,y`", "c 'it, is'", 'd "a,b"']),
        max_size=5,
    )
)
def test_lists_split_at_their_own_commas_only(items: list[str]) -> None:
    assert split_list(", ".join(items)) == items


COLUMNS = parse_columns("id int, s struct<a:int,b:struct<c:date>>, ts timestamp, l array<struct<x:int>>, n string")


def test_columns_are_found_by_path() -> None:
    assert [path for path, _ in walk(COLUMNS)] == ["id", "s", "s.a", "s.b", "s.b.c", "ts", "l", "n"]
    assert find_column(COLUMNS, "s.b.c").type == Primitive("date")
    with pytest.raises(ColumnNotFound) as caught:
        find_column(COLUMNS, "s.b.d")
    assert "s.b.c" in str(caught.value.hint)


def spec(schema: str, partition_by: str = "", sort_by: str = "") -> TableSpec:
    return TableSpec(
        name=TableName.parse("t"),
        columns=parse_columns(schema),
        partition_by=tuple(map(parse_transform, split_list(partition_by))),
        sort_by=tuple(map(parse_sort_field, split_list(sort_by))),
    )


@pytest.mark.parametrize(
    "bad",
    [
        spec(""),
        spec("a int, A int"),
        spec("s struct<a:int,A:int>"),
        spec("l array<struct<a:int,a:int>>"),
        spec("m map<struct<a:int,a:int>,int>"),
        spec("_row_id bigint"),
        spec("a int", "a, a"),
        spec("a string", "truncate(1, a), truncate(2, a)"),
        spec("d date, d_day int", "day(d)"),
        spec("d date, D_DAY int", "day(d)"),
        spec("d date", "hour(d)"),
        spec("a int", "day(a)"),
        spec("a boolean", "bucket(2, a)"),
        spec("a double", "truncate(2, a)"),
        spec("a array<int>", "a"),
        spec("a struct<b:int>", "", "a"),
    ],
)
def test_tables_that_could_not_be(bad: TableSpec) -> None:
    with pytest.raises(InvalidSchema):
        check_spec(bad)


def test_tables_that_can_be() -> None:
    check_spec(spec("d date, day int, s struct<a:int>", "day(d), day, bucket(2, s.a)", "s.a desc"))
    check_partition_names([Transform("d_day")], ["d_day"])


@given(
    kind=leaves,
    function=st.sampled_from(["identity", "year", "month", "day", "hour", "bucket[3]", "truncate[3]", "void"]),
)
def test_transforms_apply_where_iceberg_says(kind: Primitive, function: str) -> None:
    """PyIceberg is the oracle."""
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import parse_transform as theirs

    column = {"id": 1, "name": "c", "type": kind.name, "required": False}
    field = Schema.model_validate({"type": "struct", "fields": [column]}).fields[0]
    allowed = theirs(function).can_transform(field.field_type)
    if allowed:
        check_transform(Transform("c", function), kind, verb="partition")
    else:
        with pytest.raises(InvalidSchema):
            check_transform(Transform("c", function), kind, verb="partition")
