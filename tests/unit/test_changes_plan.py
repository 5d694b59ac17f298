"""Which road changes are read by, and which files differ: decided from facts alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from neve.errors import ColumnNotFound, InvalidInput, StorageError
from neve.files.vectors import all_but, decode_vector, encode_vector
from neve.model.changes import (
    Column,
    FileRead,
    FileReads,
    Leg,
    Lineage,
    LiveFile,
    Manifest,
    Picked,
    SnapshotStep,
)
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.plan.changes import compared, plan_changes, settled
from neve.plan.file_changes import Deletes, compare_files, estimate_reads, net_reads
from neve.sql.changes import nothing_sql, sides_sql

NOW = datetime(2024, 1, 1, tzinfo=UTC)
OLD = (Column(id=1, name="id", type="int"), Column(id=2, name="v", type="string"))
NEW = (
    Column(id=1, name="id", type="long"),
    Column(id=3, name="v", type="string"),
    Column(id=4, name="_ingest_date", type="date"),
)


def lineage(*operations: str, current: int | None = None, gone: Iterable[int] = ()) -> Lineage:
    """Snapshots 1, 2, 3… in a row, each by its operation; the first half with the old schema."""
    steps = {
        number: SnapshotStep(
            id=number,
            parent_id=number - 1 or None,
            operation=operation,
            schema_id=0 if number == 1 else 1,
            manifest_list=f"list{number}",
        )
        for number, operation in enumerate(operations, 1)
        if number not in set(gone)
    }
    facts = TableFacts(
        name=TableName.parse("t"),
        uuid="u",
        location="/t",
        metadata_location="/t/m.json",
        format_version=3,
        updated_at=NOW,
        columns=(),
        partition_by=(),
        sort_by=(),
        properties={},
        snapshots=(),
        current_snapshot_id=len(operations) if current is None else current,
        made_current=(),
        references=(),
    )
    return Lineage(facts=facts, steps=steps, schemas={0: OLD, 1: NEW}, schema_id=1, partition_sources={0: ()})


@pytest.mark.parametrize(
    ("operations", "since", "until", "expected"),
    [
        ((), None, None, ("nothing", "same_snapshot", ())),
        (("append",), 1, 1, ("nothing", "same_snapshot", ())),
        (("append", "replace", "replace"), 1, 3, ("nothing", "only_rewrites", ())),
        (("append", "append", "append"), 1, 3, ("appends", "only_appends", (Leg(1, 3),))),
        (("append", "append", "replace", "append"), 1, 4, ("appends", "only_appends", (Leg(1, 2), Leg(3, 4)))),
        (("append", "replace", "append", "replace"), 1, 4, ("appends", "only_appends", (Leg(2, 3),))),
        (("append", "overwrite", "append"), 1, 3, ("diff", "rows_changed", (Leg(1, 3),))),
        (("append", "delete", "replace", "overwrite"), 1, 4, ("diff", "rows_changed", (Leg(1, 2), Leg(3, 4)))),
        (("append", "unknown"), 1, 2, ("diff", "rows_changed", (Leg(1, 2),))),
        (("append", "append", "append"), 3, 2, ("diff", "not_an_ancestor", (Leg(3, 2),))),
        (("append", "append"), None, 2, ("appends", "from_nothing", (Leg(None, 2),))),
    ],
)
def test_the_tier_follows_the_operations(
    operations: tuple[str, ...], since: int | None, until: int | None, expected: tuple[str, str, tuple[Leg, ...]]
) -> None:
    plan = plan_changes(lineage(*operations, current=until), since=since, until=until)
    assert (plan.tier, plan.reason.code, plan.legs) == expected


def test_a_gap_in_the_lineage_leaves_the_files_to_compare() -> None:
    plan = plan_changes(lineage("append", "append", "replace", gone=[2]), since=1, until=3)
    assert (plan.tier, plan.reason.code, plan.legs) == ("diff", "not_an_ancestor", (Leg(1, 3),))


@pytest.mark.parametrize(("since", "until"), [(1, 2), (2, 1), (None, 1)])
def test_an_expired_snapshot_is_named_with_what_keeps_it(since: int | None, until: int) -> None:
    plan = plan_changes(lineage("append", "append", gone=[1]), since=since, until=until)
    assert (plan.tier, plan.reason.code, plan.possible) == ("impossible", "snapshot_expired", False)
    assert "no snapshot 1" in plan.reason.detail
    assert "history.expire.max-snapshot-age-ms" in plan.reason.detail


def test_another_table_under_the_name_means_starting_anew() -> None:
    facts = lineage("append", "append")
    assert plan_changes(facts, since=1, until=2, uuid="u").tier == "appends"
    plan = plan_changes(facts, since=77, until=2, uuid="other")
    assert (plan.tier, plan.reason.code, plan.possible) == ("reinitialise", "other_table", False)


def test_columns_are_those_of_the_later_schema() -> None:
    facts = lineage("append", "append", "append")
    assert [column.id for column in plan_changes(facts, since=1, until=3).columns] == [1, 3]
    assert [column.id for column in plan_changes(facts, since=3, until=1).columns] == [1, 2]
    assert plan_changes(facts, since=1, until=3, columns=["_ingest_date", "ID", "id"]).columns == (NEW[2], NEW[0])
    assert plan_changes(facts, since=1, until=3, columns=[]).columns == ()
    with pytest.raises(ColumnNotFound, match="no column idd") as caught:
        plan_changes(facts, since=1, until=3, columns=["idd"])
    assert caught.value.hint == "did you mean id?"


def test_back_over_a_change_of_the_schema() -> None:
    facts = lineage("append", "append", "append")
    plan = plan_changes(facts, since=3, until=1)
    assert (plan.tier, plan.reason.code) == ("compare", "schema_went_back")
    assert [(column.name, column.type) for column in plan.columns] == [("id", "long"), ("v", "string")]
    assert plan_changes(facts, since=3, until=1, columns=[]).tier == "diff"


def test_the_current_snapshot_is_read_in_the_schema_of_the_table() -> None:
    facts = lineage("append")
    assert plan_changes(facts, since=None, until=1).schema_id == 1
    assert plan_changes(lineage("append", "append"), since=None, until=1).schema_id == 0


def with_column(column: Column) -> Lineage:
    facts = lineage("append", "append", "delete")
    return Lineage(
        facts=facts.facts, steps=facts.steps, schemas={0: OLD, 1: (column,)}, schema_id=1, partition_sources={}
    )


def test_the_name_of_the_weight_is_taken() -> None:
    with pytest.raises(InvalidInput, match="_w"):
        plan_changes(with_column(Column(id=9, name="_W", type="int")), since=1, until=2)


def test_what_cannot_be_compared_can_still_be_appended() -> None:
    nested: Any = {"type": "list", "element-id": 10, "element": "variant", "element-required": False}
    for kind in ("variant", "geometry(srid:0)", nested):
        facts = with_column(Column(id=9, name="payload", type=kind))
        assert plan_changes(facts, since=1, until=2).tier == "appends"
        plan = plan_changes(facts, since=2, until=3)
        assert (plan.tier, plan.reason.code) == ("impossible", "uncomparable_column")
        assert "payload" in plan.reason.detail
        assert plan_changes(facts, since=2, until=3, columns=[]).tier == "diff"


def test_the_general_road_is_taken_when_asked() -> None:
    facts = lineage("append", "append", "replace")
    assert plan_changes(facts, since=1, until=2, road="general").tier == "compare"
    assert plan_changes(facts, since=2, until=3, road="general").tier == "nothing"


def data(path: str, *, sequence: int = 1, spec: int = 0, partition: tuple[Any, ...] = (), rows: int = 10) -> LiveFile:
    return LiveFile(
        content="data",
        path=path,
        format="parquet",
        spec_id=spec,
        partition=partition,
        rows=rows,
        bytes=100,
        sequence=sequence,
    )


def delete(
    path: str,
    kind: Any,
    *,
    sequence: int = 2,
    of: str | None = None,
    offset: int | None = None,
    spec: int = 0,
    partition: tuple[Any, ...] = (),
) -> LiveFile:
    return LiveFile(
        content=kind,
        path=path,
        format="parquet" if offset is None else "puffin",
        spec_id=spec,
        partition=partition,
        rows=1,
        bytes=10,
        sequence=sequence,
        referenced=of,
        offset=offset,
    )


def test_deletes_apply_by_path_place_and_age() -> None:
    here = delete("here", "position_deletes", spec=1, partition=("a",))
    elsewhere = delete("elsewhere", "position_deletes", spec=1, partition=("b",))
    named = delete("named", "position_deletes", of="f", spec=1, partition=("a",))
    equal = delete("equal", "equality_deletes", spec=1, partition=("a",))
    everywhere = delete("everywhere", "equality_deletes", spec=0)
    vector = delete("v", "position_deletes", of="g", offset=4, spec=1, partition=("a",))
    index = Deletes([here, elsewhere, named, equal, everywhere, vector], unpartitioned={0})

    def names(file: LiveFile) -> set[str]:
        return {found.path for found in index.of(file)}

    assert names(data("f", spec=1, partition=("a",))) == {"here", "named", "equal", "everywhere"}
    assert names(data("f", sequence=2, spec=1, partition=("a",))) == {"here", "named"}
    assert names(data("f", sequence=3, spec=1, partition=("a",))) == set()
    assert names(data("g", spec=1, partition=("a",))) == {"equal", "everywhere", "v"}
    assert names(data("h", spec=1, partition=("b",))) == {"elsewhere", "everywhere"}
    assert names(data("h", spec=2, partition=("a",))) == {"everywhere"}


class Store:
    """Manifests in memory, and which of them were asked for."""

    def __init__(self, **files: list[LiveFile]) -> None:
        self.files = files
        self.loaded: list[str] = []

    def load(self, manifest: Manifest) -> list[LiveFile]:
        self.loaded.append(manifest.path)
        return self.files[manifest.path]

    def manifests(self, *names: str) -> list[Manifest]:
        return [Manifest(name, name.startswith("deletes"), 0, index) for index, name in enumerate(names)]


def test_shared_manifests_are_not_read_for_an_append() -> None:
    store = Store(one=[data("a")], two=[data("b")])
    changes = compare_files(store.manifests("one"), store.manifests("one", "two"), load=store.load, unpartitioned={0})
    assert changes.added == (FileRead(data("b")),)
    assert store.loaded == ["two"]


def test_merged_manifests_list_the_same_files() -> None:
    store = Store(one=[data("a")], two=[data("b")], both=[data("a"), data("b"), data("c")])
    changes = compare_files(store.manifests("one", "two"), store.manifests("both"), load=store.load, unpartitioned={0})
    assert (changes.added, changes.removed, changes.touched) == ((FileRead(data("c")),), (), ())


def test_a_vector_touches_one_file_and_the_search_for_it_stops() -> None:
    vector = delete("v", "position_deletes", of="b", offset=4)
    store = Store(first=[data("a")], second=[data("b")], third=[data("c")], deletes=[vector])
    old = store.manifests("first", "second", "third")
    changes = compare_files(old, [*old, *store.manifests("deletes")], load=store.load, unpartitioned={0})
    assert [(item.file.path, item.before, item.after) for item in changes.touched] == [("b", (), (vector,))]
    assert "first" not in store.loaded


def test_a_file_that_is_there_twice_counts_twice() -> None:
    store = Store(one=[data("a")], two=[data("a"), data("a")])
    changes = compare_files(store.manifests("one"), store.manifests("two"), load=store.load, unpartitioned={0})
    assert changes.added == (FileRead(data("a")),)


def test_an_equality_delete_touches_older_files_of_its_place_only() -> None:
    equal = delete("e", "equality_deletes", sequence=2, spec=1, partition=(1,))
    files = [
        data("old", spec=1, partition=(1,)),
        data("young", sequence=2, spec=1, partition=(1,)),
        data("far", spec=1, partition=(2,)),
    ]
    store = Store(one=files, deletes=[equal])
    old = store.manifests("one")
    changes = compare_files(old, [*old, *store.manifests("deletes")], load=store.load, unpartitioned={0})
    assert [item.file.path for item in changes.touched] == ["old"]


def test_what_one_leg_adds_and_another_removes_is_not_read() -> None:
    vector = delete("v", "position_deletes", of="b", offset=4)
    a, b, b_now = FileRead(data("a")), FileRead(data("b")), FileRead(data("b"), (vector,))
    net = net_reads([FileReads(plus=(a, b)), FileReads(minus=(a, b_now), picked_minus=(Picked(data("c"), b"", 3),))])
    assert (net.plus, net.minus) == ((b,), (b_now,))
    estimate = estimate_reads(net)
    assert (estimate.files, estimate.rows, estimate.bytes, estimate.row_bytes) == (3, 23, 300, 230)


def test_files_have_the_last_word() -> None:
    plan = plan_changes(lineage("append", "delete"), since=1, until=2)
    assert settled(plan, FileReads()).tier == "nothing"
    assert settled(plan, FileReads(plus=(FileRead(data("a")),))).tier == "appends"
    claims = plan_changes(lineage("append", "append"), since=1, until=2)
    assert settled(claims, FileReads(minus=(FileRead(data("a")),))).tier == "diff"
    assert compared(plan, plan.reason).legs == ()


@given(st.sets(st.integers(0, 200_000)), st.integers(200_001, 300_000))
def test_vectors_survive_writing_and_reading(positions: set[int], rows: int) -> None:
    marked = BitMap64(positions)
    assert decode_vector(encode_vector(marked), where="here") == marked
    rest = decode_vector(encode_vector(all_but(rows, marked)), where="here")
    assert len(rest) == rows - len(positions)
    assert not rest & marked


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b"\0" * 4 + b[4:], lambda b: b[:12] + b"\7" + b[13:]])
def test_a_damaged_vector_is_not_believed(change: Any) -> None:
    with pytest.raises(StorageError, match="here"):
        decode_vector(change(encode_vector(BitMap64([1, 70_000]))), where="here")


def test_the_general_road_finds_columns_by_field_id() -> None:
    later = (Column(id=1, name="id", type="long"), Column(id=5, name="n`w", type="string", default="it's"))
    text = sides_sql(TableName.parse("t"), later, old=(7, OLD), new=(8, later))
    assert "SELECT CAST(`id` AS bigint) AS `id`, CAST('it\\'s' AS string) AS `n``w`, CAST(-1 AS BIGINT)" in text
    assert text.endswith("VERSION AS OF 7")
    assert text.count(" UNION ALL ") == 1


def test_the_general_road_reshapes_nested_values_by_field_id() -> None:
    def struct(*fields: tuple[int, str, Any]) -> Any:
        return {"type": "struct", "fields": [{"id": i, "name": n, "type": t, "required": False} for i, n, t in fields]}

    before = (Column(id=1, name="s", type=struct((2, "a", "int"), (3, "b", "string"))),)
    after = (Column(id=1, name="s", type=struct((3, "c", "string"), (2, "a", "long"), (4, "b", "date"))),)
    text = sides_sql(TableName.parse("t"), after, old=(7, before), new=(8, after))
    reshaped = "named_struct('c', `s`.`b`, 'a', CAST(`s`.`a` AS bigint), 'b', CAST(NULL AS date))"
    assert f"IF(`s` IS NULL, NULL, {reshaped}) AS `s`" in text


def test_no_changes_have_the_shape_of_changes() -> None:
    assert nothing_sql(NEW[:1]) == "SELECT CAST(NULL AS bigint) AS `id`, CAST(0 AS BIGINT) AS `_w` WHERE false"
