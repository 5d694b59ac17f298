"""Decisions about a table's life, and the moments of its history."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.catalog.merge import Json, merge
from neve.errors import DependentsExist, InvalidInput, InvalidSchema, SnapshotNotFound
from neve.model.facts import Reference, Snapshot, TableFacts
from neve.model.layout import parse_sort_field, parse_transform
from neve.model.names import TableName
from neve.model.specs import DropColumn, RenameColumn, SetType, TableSpec
from neve.plan.moments import check_reference_name, find_snapshot, parse_time
from neve.plan.tables import (
    check_alterations,
    check_properties,
    dependants,
    first_properties,
    follow_columns,
    overlap,
    owns_location,
    refuse_with_dependants,
    table_location,
)
from neve.sql.columns import parse_columns, parse_type

START = datetime(2024, 1, 1, tzinfo=UTC)


def make_facts(
    name: str = "t",
    *,
    schema: str = "id int, v string",
    snapshots: int = 0,
    references: Mapping[str, int] | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableFacts:
    """Snapshots are numbered from 1 and lie an hour apart."""
    found = tuple(
        Snapshot(
            id=number,
            parent_id=number - 1 or None,
            sequence_number=number,
            at=START + timedelta(hours=number),
            operation="append",
            summary={"total-records": str(number)},
            manifest_list="",
        )
        for number in range(1, snapshots + 1)
    )
    return TableFacts(
        name=TableName.parse(name),
        uuid="u",
        location="/w/t",
        metadata_location="/w/t/metadata/v1.metadata.json",
        format_version=3,
        updated_at=START,
        columns=parse_columns(schema),
        partition_by=(),
        sort_by=(),
        properties=properties or {},
        snapshots=found,
        current_snapshot_id=snapshots or None,
        made_current=tuple((snapshot.at, snapshot.id) for snapshot in found),
        references=tuple(
            Reference(name=label, kind="tag", snapshot_id=number) for label, number in (references or {}).items()
        ),
    )


@given(minutes=st.integers(60, 1000))
def test_a_time_finds_what_was_current_then(minutes: int) -> None:
    facts = make_facts(snapshots=5)
    moment = START + timedelta(minutes=minutes)
    assert find_snapshot(facts, moment.isoformat()).id == min(minutes // 60, 5)


def test_ids_labels_and_times() -> None:
    facts = make_facts(snapshots=3, references={"v1": 1, "2": 3, "gone": 99})
    assert find_snapshot(facts, "3").id == 3
    assert find_snapshot(facts, "v1").id == 1
    assert find_snapshot(facts, "2").id == 3, "a tag that is there wins over an id"
    assert find_snapshot(facts, "2024-01-01T02:00:00Z").id == 2
    assert find_snapshot(facts, "2024-01-01T04:00:00+02:00").id == 2
    for text in ("gone", "4", "-1", "2024-01-01", "x", "", "²", "9" * 30, "--1"):
        with pytest.raises(SnapshotNotFound):
            find_snapshot(facts, text)


@given(text=st.text(max_size=20))
def test_any_moment_is_found_or_refused(text: str) -> None:
    facts = make_facts(snapshots=2, references={"v1": 1})
    with suppress(SnapshotNotFound):
        assert find_snapshot(facts, text).id in (1, 2)
    try:
        check_reference_name(text)
    except InvalidInput:
        return
    assert parse_time(text) is None
    assert not text.startswith("-")


@given(name=st.text(min_size=1, max_size=60).filter(lambda text: "." not in text), unique=st.uuids())
def test_a_folder_is_plain_and_ours(name: str, unique: object) -> None:
    hexadecimal = str(unique).replace("-", "")
    location = table_location("/w", TableName(("default",), name), hexadecimal)
    folder = location.removeprefix("/w/")
    assert "/" not in folder
    assert folder.isascii()
    assert len(folder) < 100
    assert owns_location(location, "/w")
    assert owns_location(location, "/w/")


@pytest.mark.parametrize(
    "location",
    ["/w", "/w/", "/x/t-" + "0" * 32, "/w/t", "/w/t-" + "0" * 31, "/w/t-" + "0" * 33, "/w/t-" + "g" * 32,
     "/w/../t-" + "0" * 32, "/w/a/../../t-" + "0" * 32, "/w//t-" + "0" * 32, "/w/./t-" + "0" * 32,
     "/w/t-" + "0" * 32 + "/", "/w/t-" + "0" * 32 + "/data", "/wide/t-" + "0" * 32, "s3://b/t-" + "0" * 32, ""],
)  # fmt: skip
def test_what_is_not_ours_to_remove(location: str) -> None:
    assert not owns_location(location, "/w")


def test_a_folder_of_another_engine_is_ours_when_it_has_a_uuid() -> None:
    assert owns_location("/w/ns/t-0123abcd-0123-0123-0123-0123456789ab", "/w")
    assert owns_location("s3://b/w/t_0123abcd-0123-0123-0123-0123456789ab", "s3://b/w")


@pytest.mark.parametrize(
    ("one", "other", "touches"),
    [
        ("/w/a", "/w/a", True),
        ("/w/a", "/w/a/metadata/v1.json", True),
        ("/w/a", "/w/a/data/b", True),
        ("/w/a/data/b", "/w/a", True),
        ("/w/a/data/b", "/w/a/metadata/v1.json", True),
        ("/w/a", "/w/ab", False),
        ("/w/a", "/w/ab/metadata/v1.json", False),
        ("/w/a", "/w/b", False),
    ],
)
def test_folders_that_touch(one: str, other: str, touches: bool) -> None:
    assert overlap(one, other) is touches


def test_first_properties() -> None:
    spec = TableSpec(
        name=TableName.parse("t"),
        columns=parse_columns("id int, at timestamp"),
        partition_by=(parse_transform("day(at)"),),
        sort_by=(parse_sort_field("id"),),
        properties={"a": "mine", "write.metadata.metrics.column.id": "none", "format-version": "2"},
        comment="what for",
    )
    found = first_properties(spec, {"a": "default", "b": "default"})
    assert found == {
        "format-version": "2",
        "a": "mine",
        "b": "default",
        "comment": "what for",
        "write.metadata.metrics.column.at": "full",
        "write.metadata.metrics.column.id": "none",
    }


@pytest.mark.parametrize("key", ["", " a", "-a", "a=b", "a\n", "uuid", "location", "neve.online", "neve.anything"])
def test_properties_that_are_not_for_setting(key: str) -> None:
    with pytest.raises(InvalidInput):
        check_properties({key: "x"})


def test_dependants_hold_a_table() -> None:
    base, derived = make_facts("base"), make_facts("d", properties={"neve.sources": '["default.base"]'})
    assert dependants(base.name, [base, derived]) == [derived.name]
    refuse_with_dependants(base.name, [], verb="rename")
    with pytest.raises(DependentsExist, match="d depends on it"):
        refuse_with_dependants(base.name, [derived.name], verb="rename")


WIDER = {("int", "bigint"), ("float", "double"), ("decimal(5,2)", "decimal(7,2)")}
KINDS = ["int", "bigint", "float", "double", "decimal(5,2)", "decimal(7,2)", "decimal(7,3)", "string", "binary", "date",
         "timestamp", "array<int>"]  # fmt: skip


@pytest.mark.parametrize("old", KINDS)
@pytest.mark.parametrize("new", KINDS)
def test_a_type_only_widens(old: str, new: str) -> None:
    facts = make_facts(schema=f"c {old}")
    change = [SetType("c", parse_type(new))]
    if old == new or (old, new) in WIDER:
        check_alterations(facts, change, frozenset())
    else:
        with pytest.raises(InvalidSchema):
            check_alterations(facts, change, frozenset())


def test_properties_follow_their_columns() -> None:
    before = {
        "write.metadata.metrics.column.a": "full",
        "write.metadata.metrics.column.a.b": "full",
        "write.metadata.metrics.column.ab": "counts",
        "write.parquet.bloom-filter-enabled.column.x": "true",
        "write.metadata.metrics.default": "counts",
        "neve.row-keys": '["a", "x"]',
    }
    assert follow_columns(before, []) == before
    assert follow_columns(before, [RenameColumn("a", "z"), RenameColumn("x", "y")]) == {
        "write.metadata.metrics.column.z": "full",
        "write.metadata.metrics.column.z.b": "full",
        "write.metadata.metrics.column.ab": "counts",
        "write.parquet.bloom-filter-enabled.column.y": "true",
        "write.metadata.metrics.default": "counts",
        "neve.row-keys": '["z", "y"]',
    }
    assert set(follow_columns(before, [DropColumn("a"), DropColumn("x")])) == {
        "write.metadata.metrics.column.ab",
        "write.metadata.metrics.default",
        "neve.row-keys",
    }
    assert "write.metadata.metrics.column.a.c" in follow_columns(before, [RenameColumn("a.b", "c")])


def test_a_row_key_stays() -> None:
    facts = make_facts(properties={"neve.row-keys": '["id"]'})
    with pytest.raises(InvalidSchema, match="row key"):
        check_alterations(facts, [DropColumn("id")], frozenset())


json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=json_values, after=json_values)
def test_a_library_that_knows_everything_has_its_way(value: Json, after: Json) -> None:
    assert merge(value, value, after) == after


@given(original=json_values, seen=json_values)
def test_no_change_changes_nothing(original: Json, seen: Json) -> None:
    assert merge(original, seen, seen) == original


@given(
    known=st.dictionaries(st.text("abc", min_size=1, max_size=2), json_values, max_size=4),
    unknown=st.dictionaries(st.text("xyz", min_size=1, max_size=2), json_values, max_size=4),
    after=st.dictionaries(st.text("abc", min_size=1, max_size=2), json_values, max_size=4),
)
def test_what_a_library_does_not_know_survives(
    known: dict[str, Json], unknown: dict[str, Json], after: dict[str, Json]
) -> None:
    assert merge({**known, **unknown}, known, after) == {**after, **unknown}


def test_items_of_a_list_keep_what_is_unknown_in_them() -> None:
    original: Json = {"refs": [{"id": 1, "new-key": "kept"}, {"id": 2, "new-key": "also"}]}
    before: Json = {"refs": [{"id": 1}, {"id": 2}]}
    after: Json = {"refs": [{"id": 2}, {"id": 3}]}
    assert merge(original, before, after) == {"refs": [{"id": 2, "new-key": "also"}, {"id": 3}]}
