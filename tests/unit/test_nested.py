"""Nested columns of files beside those of a table, without Spark."""

from __future__ import annotations

import pytest

from neve.errors import InvalidSchema, Unsupported
from neve.model.types import spelled
from neve.plan.nested import as_text, check_parsed, extend
from neve.sql.columns import parse_type
from neve.sql.nested import reshape


@pytest.mark.parametrize(
    ("held", "found", "merged", "added"),
    [
        ("struct<a:int>", "struct<A:int>", "struct<a:int>", []),
        ("struct<a:bigint>", "struct<b:string,a:int>", "struct<a:bigint,b:string>", ["s b string"]),
        ("array<struct<a:int>>", "array<struct<b:int>>", "array<struct<a:int,b:int>>", ["s.element b int"]),
        (
            "struct<x:map<string,struct<a:int>>>",
            "struct<x:map<string,struct<a:int,b:struct<c:int>>>>",
            "struct<x:map<string,struct<a:int,b:struct<c:int>>>>",
            ["s.x.value b struct<c:int>"],
        ),
    ],
)
def test_new_fields_are_found_at_any_depth(held: str, found: str, merged: str, added: list[str]) -> None:
    kind, changes = extend(parse_type(held), parse_type(found), "s", parsed=False)
    assert str(kind) == merged
    assert [f"{change.path} {change.column.name} {change.column.type}" for change in changes] == added


@pytest.mark.parametrize(
    ("held", "found", "parsed"),
    [
        ("struct<a:int>", "struct<a:bigint>", False),
        ("struct<a:int>", "array<int>", False),
        ("struct<a:int>", "array<int>", True),
        ("map<string,int>", "map<int,int>", False),
        ("map<string,int>", "struct<a:int>", False),
        ("struct<a:string>", "struct<a:struct<b:int>>", True),
        ("struct<a:int>", "string", False),
    ],
)
def test_what_does_not_fit_is_refused(held: str, found: str, parsed: bool) -> None:
    with pytest.raises(InvalidSchema, match="in the files, but"):
        extend(parse_type(held), parse_type(found), "s", parsed=parsed)


@pytest.mark.parametrize(
    ("held", "found"),
    [("struct<a:int>", "struct<a:string>"), ("struct<a:int>", "string"), ("map<string,bigint>", "struct<a:string>")],
)
def test_parsed_values_that_do_not_fit_are_rejected_later(held: str, found: str) -> None:
    kind, changes = extend(parse_type(held), parse_type(found), "s", parsed=True)
    assert (str(kind), changes) == (held, [])


def test_json_brings_only_what_it_says_exactly() -> None:
    check_parsed("s", parse_type("struct<a:array<bigint>,m:map<string,double>,b:boolean>"))
    for leaf in ("decimal(10,2)", "date", "timestamp", "binary"):
        with pytest.raises(Unsupported, match=r"s\.m\.value\.element is"):
            check_parsed("s", parse_type(f"struct<m:map<string,array<{leaf}>>>"))


def test_types_and_values_as_sql() -> None:
    odd = parse_type("struct<`a b`:array<int> not null,m:map<string,date>>")
    assert spelled(odd) == "struct<`a b`:array<int>,`m`:map<string,date>>"
    assert spelled(parse_type(spelled(odd))) == spelled(odd)
    assert spelled(as_text(odd)) == "struct<`a b`:array<string>,`m`:map<string,string>>"
    assert reshape("`s`", odd, odd) == "`s`"
    wider = reshape("`m`", parse_type("map<string,array<int>>"), parse_type("map<string,array<bigint>>"))
    assert wider == "transform_values(`m`, (k0, e0) -> transform(e0, e1 -> CAST(e1 AS bigint)))"
