"""Whether manifests, deletes and statistics are worth the work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_expiry_plan import snapshot
from tests.unit.test_expiry_plan import table as no_columns

from neve.errors import ColumnNotFound, InvalidInput, Refused
from neve.model.facts import FileFact, ManifestSize, TableFacts
from neve.model.retention import ColumnStatistics
from neve.plan.tidying import (
    DELETE_BYTES,
    DELETE_GRANULARITY,
    MANIFEST_BYTES,
    MANIFEST_TARGET,
    choose_statistics_columns,
    columns_to_recount,
    manifest_target,
    plan_deletes,
    plan_manifests,
    refuse_equality_alone,
    rows_touched_since,
)
from neve.sql.columns import parse_columns

manifests = st.lists(
    st.builds(ManifestSize, spec_id=st.integers(0, 2), deletes=st.booleans(), bytes=st.integers(0, 300)), max_size=12
)


def facts(columns: str = "id bigint, name string, s struct<a:int>", **more: Any) -> TableFacts:
    return replace(no_columns([]), columns=parse_columns(columns), **more)


@given(manifests, st.integers(1, 500))
def test_a_rewrite_is_worth_it_where_fewer_hold_the_same(sizes: list[ManifestSize], target: int) -> None:
    plan = plan_manifests(sizes, target)
    kinds = Counter((item.spec_id, item.deletes) for item in sizes)
    fewest = {
        kind: min(count, max(1, ceil(sum(i.bytes for i in sizes if (i.spec_id, i.deletes) == kind) / target)))
        for kind, count in kinds.items()
    }
    assert (plan.before, plan.after, plan.bytes) == (len(sizes), sum(fewest.values()), sum(i.bytes for i in sizes))
    assert set(plan.specs) == {spec for (spec, kind), count in kinds.items() if count > fewest[spec, kind]}
    packed = [
        ManifestSize(spec_id=spec, deletes=deletes, bytes=target)
        for (spec, deletes), count in fewest.items()
        for _ in range(count)
    ]
    assert plan_manifests(packed, target).nothing, "what was rewritten is not worth rewriting"


def test_the_target_size_of_manifests() -> None:
    assert manifest_target(facts()) == MANIFEST_BYTES
    assert manifest_target(facts(properties={MANIFEST_TARGET: "1000"})) == 1000
    assert manifest_target(facts(properties={MANIFEST_TARGET: "0"})) == MANIFEST_BYTES
    assert manifest_target(facts(properties={MANIFEST_TARGET: "many"})) == MANIFEST_BYTES


# ------------------------------------------------------------------------------------------------------------- deletes


def file(
    content: str, partition: str | None = "a", *, sequence: int = 5, of: str | None = None, **more: Any
) -> FileFact:
    kinds: Any = {"data": "data", "position": "position_deletes", "vector": "position_deletes"}
    return FileFact(
        content=kinds.get(content, "equality_deletes"),
        path=more.get("path", f"{content}-{sequence}"),
        format="puffin" if content == "vector" else "parquet",
        partition={} if partition is None else {"p": partition},
        rows=1,
        bytes=more.get("bytes", 100),
        sequence_number=sequence,
        spec_id=more.get("spec", 0),
        deletes_from=of if content == "vector" else None,
        only_of=of,
    )


DATA = file("data", path="d", sequence=3)


@pytest.mark.parametrize(
    ("deletes", "worth"),
    [
        ([], 0),
        ([file("position")], 0),
        ([file("position"), file("position", "b")], 0),
        ([file("position"), file("position", spec=1)], 0),
        ([file("position"), file("position", sequence=6)], 2),
        ([file("position"), file("position", bytes=DELETE_BYTES)], 0),
        ([file("position"), file("vector", of="d")], 0),
        ([file("position", of="d"), file("position", of="e")], 0),
        ([file("position", of="d"), file("position", of="e"), file("position", of="e")], 2),
    ],
)
def test_position_deletes_are_rewritten_where_a_partition_has_several(deletes: list[FileFact], worth: int) -> None:
    plan = plan_deletes(facts(format_version=2), [DATA, *deletes])
    assert (plan.rewrite, plan.to_vectors) == (worth, False)


@pytest.mark.parametrize(("granularity", "worth"), [("partition", 2), ("FILE", 0)])
def test_deletes_of_two_data_files_share_one_where_the_table_says_so(granularity: str, worth: int) -> None:
    """Spark keeps a file of deletes per data file unless told otherwise: to rewrite those would make nothing fewer."""
    deletes = [file("position", of="d"), file("position", of="e")]
    told = facts(format_version=2, properties={DELETE_GRANULARITY: granularity})
    assert plan_deletes(told, [DATA, *deletes]).rewrite == worth


def test_vectors_take_the_place_of_every_file_in_format_3() -> None:
    plan = plan_deletes(facts(format_version=3), [DATA, file("position"), file("vector", of="d")])
    assert (plan.rewrite, plan.to_vectors, plan.vectors, plan.nothing) == (1, True, 1, False)
    assert plan_deletes(facts(format_version=3), [DATA, file("vector", of="d")]).nothing


@pytest.mark.parametrize(
    ("delete", "dangling"),
    [
        (file("vector", of="d"), False),
        (file("vector", of="gone"), True),
        (file("position", sequence=2), True),
        (file("position", sequence=3), False),
        (file("equality", sequence=3), True),
        (file("equality", sequence=4), False),
        (file("equality", None, sequence=1), False),
        (file("position", "b", sequence=1), False),
    ],
)
def test_deletes_that_no_data_file_is_left_for(delete: FileFact, dangling: bool) -> None:
    assert plan_deletes(facts(), [DATA, delete]).dangling == dangling


def test_equality_deletes_alone_are_refused_with_what_to_do() -> None:
    plan = plan_deletes(facts(), [DATA, file("equality")])
    with pytest.raises(Refused, match="1 files of equality deletes") as caught:
        refuse_equality_alone(facts(), plan, instead="neve compact t")
    assert caught.value.hint == "neve compact t"
    refuse_equality_alone(facts(), plan_deletes(facts(), [DATA, file("equality", sequence=1)]), instead="")


# ---------------------------------------------------------------------------------------------------------- statistics


def test_columns_to_count() -> None:
    known = [ColumnStatistics(column="name", distinct_values=1, snapshot=1, at=None)]
    assert choose_statistics_columns(facts(), None, []) == ["id", "name"]
    assert choose_statistics_columns(facts(), ["ID"], []) == ["id"]
    assert choose_statistics_columns(facts(), ["id", "id"], known) == ["id", "name"], "a new count drops no old one"
    with pytest.raises(ColumnNotFound, match="no column nmae") as caught:
        choose_statistics_columns(facts(), ["nmae"], [])
    assert caught.value.hint == "did you mean name?"
    with pytest.raises(InvalidInput, match="nested column"):
        choose_statistics_columns(facts(), ["s"], [])
    with pytest.raises(InvalidInput, match="no column of a plain type"):
        choose_statistics_columns(facts("s struct<a:int>"), None, [])


def test_columns_that_were_counted_are_counted_again_while_they_are_there() -> None:
    known = [ColumnStatistics(column=name, distinct_values=1, snapshot=1, at=None) for name in ("name", "s", "gone")]
    assert columns_to_recount(facts(), known) == ["name"]


@pytest.mark.parametrize(
    ("operation", "summary", "touched"),
    [
        ("append", {"added-records": "5"}, 5),
        ("replace", {"added-records": "5", "deleted-records": "5"}, 0),
        ("overwrite", {"added-records": "5", "deleted-records": "7"}, 7),
        ("overwrite", {"added-records": "5", "added-position-deletes": "4"}, 5),
        ("delete", {"added-position-deletes": "9", "removed-position-deletes": "7"}, 2),
        ("delete", {"removed-position-deletes": "7"}, 0),
        ("delete", {"deleted-records": "3", "added-equality-deletes": "2"}, 5),
        ("append", {}, 0),
    ],
)
def test_rows_written_or_deleted_since_a_snapshot(operation: str, summary: dict[str, str], touched: int) -> None:
    past = [
        snapshot(1, None, 9, summary={"added-records": "100"}),
        snapshot(2, 1, 8, summary={"added-records": "1"}),
        snapshot(3, 2, 7, operation=operation, summary=summary),
    ]
    now = no_columns(past, current=3)
    assert [rows_touched_since(now, since) for since in ({3}, {2}, {1}, {3, 2})] == [0, touched, touched + 1, touched]
    assert rows_touched_since(now, {2, 7}) is None, "nobody knows what came since a snapshot that is gone"
    assert rows_touched_since(no_columns(past, current=2), {3}) is None, "nor since one that was rolled back"
