"""What a layout costs, deduction by deduction, and what helps most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.model.facts import Bound, FileFact, Snapshot
from neve.model.health import Deduction, TableHealth
from neve.model.names import TableName
from neve.plan.health import MANY_SMALL_FILES, HealthFacts, Lateness, Past, judge, state_of
from neve.plan.measures import MIB, meetings, size_classes, write_rate

COMPACT, EXPIRE, MANIFESTS = "neve compact t", "neve expire t", "neve manifests t"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
TARGET, SMALL = 128 * MIB, 64 * MIB
NO_PAST = Past(snapshots=(), expirable=0, manifests=0, manifest_bytes=0, metadata_bytes=0)


def file(
    size: int,
    partition: str | None = "a",
    *,
    content: Any = "data",
    rows: int = 100,
    of: str | None = None,
    path: str = "f",
    sequence: int = 1,
    span: tuple[Bound, Bound] | None = None,
) -> FileFact:
    return FileFact(
        content=content,
        path=path,
        format="parquet",
        partition={} if partition is None else {"p": partition},
        rows=rows,
        bytes=size,
        sequence_number=sequence,
        spec_id=0,
        deletes_from=of,
        sort_range=span,
    )


def snapshots(count: int, *, every: timedelta = timedelta(hours=1)) -> tuple[Snapshot, ...]:
    return tuple(
        Snapshot(
            id=number + 1,
            parent_id=None,
            sequence_number=number,
            at=NOW - every * number,
            operation="append",
            summary={},
            manifest_list="",
        )
        for number in range(count)
    )


def table(files: Sequence[FileFact] = (), *, past: Past | None = NO_PAST, **changes: Any) -> HealthFacts:
    facts = HealthFacts(
        table=TableName.parse("t"),
        format="iceberg" if past else "parquet",
        files=files,
        target_bytes=TARGET,
        small_bytes=SMALL,
        min_files=3,
        past=past,
    )
    return replace(facts, **changes)


def health(facts: HealthFacts) -> TableHealth:
    return judge(facts, now=NOW)


def deducted(facts: HealthFacts) -> dict[str, Deduction]:
    found = health(facts)
    assert found.score == max(100 - sum(item.points for item in found.deductions), 0)
    return {item.reason.code: item for item in found.deductions}


GOOD = [file(TARGET, name) for name in "abc"]


def test_nothing_costs_nothing() -> None:
    for facts in (table(), table(past=None), table(GOOD), table(GOOD, past=None)):
        found = health(facts)
        assert (found.score, found.state, found.deductions, found.action) == (100, "healthy", [], None)
    empty = health(table())
    assert (empty.files, empty.bytes, empty.partitions, empty.worst, empty.skew, empty.sort) == (
        0,
        0,
        0,
        [],
        None,
        None,
    )


def test_what_a_folder_does_not_have_is_absent() -> None:
    found = health(table(GOOD, past=None))
    absent = ("deletes", "snapshots", "manifests", "manifest_bytes", "metadata_bytes", "writes", "sort")
    assert {key: getattr(found, key) for key in absent} == dict.fromkeys(absent)


@pytest.mark.parametrize(
    ("score", "state"), [(100, "healthy"), (80, "healthy"), (79, "fair"), (50, "fair"), (49, "unhealthy")]
)
def test_words_for_scores(score: int, state: str) -> None:
    assert state_of(score) == state


# --------------------------------------------------------------------------------------------------------- small files


def test_small_files_cost_by_their_share_and_their_number() -> None:
    assert deducted(table([file(1)] * 10))["small_files"].points == 6
    assert deducted(table([file(1)] * MANY_SMALL_FILES))["small_files"].points == 60
    assert deducted(table([file(1)] * 100 + [file(TARGET)] * 100))["small_files"].points == 30
    detail = deducted(table([file(1)] * 10))["small_files"].reason.detail
    assert detail == "10 files below 67 MB could be fewer, in 1 partition"


def test_small_files_that_cannot_be_fewer_cost_nothing() -> None:
    """A table that was compacted must not ask to be compacted again."""
    lone = [file(1, str(number)) for number in range(500)]
    assert deducted(table(lone)) == {}
    assert health(table(lone)).small_files == 500
    assert deducted(table([file(1)] * 2)) == {}, "min_files_to_compact"
    assert deducted(table([file(1)] * 2, min_files=2))["small_files"].points == 1
    assert deducted(table([file(1)] * 1, min_files=1)) == {}
    assert deducted(table([file(SMALL)] * 9)) == {}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=60), st.sampled_from("ab"), st.integers(1, 40)
)
def test_more_small_files_never_raise_the_score(held: list[tuple[str, bool]], partition: str, more: int) -> None:
    files = [file(1 if small else SMALL, name) for name, small in held]
    before, after = health(table(files)), health(table([*files, *[file(1, partition)] * more]))
    assert after.score <= before.score


def test_small_files_of_partitions_are_shown_the_worst_first() -> None:
    files = [file(1, f"p{number:02}") for number in range(12) for _ in range(number + 1)]
    found = health(table([*files, file(TARGET, "p05")]))
    assert [load.partition for load in found.worst] == [f"p=p{number:02}" for number in range(11, 1, -1)]
    assert (found.worst[6].files, found.worst[6].small_files, found.worst[6].bytes) == (7, 6, TARGET + 6)
    assert found.partitions == 12


# -------------------------------------------------------------------------------------------------------------- deletes


def test_deleted_rows_cost() -> None:
    def of(gone: int) -> dict[str, Deduction]:
        return deducted(table([file(TARGET, rows=100), file(9, content="position_deletes", rows=gone)]))

    assert of(5) == {}
    assert of(30)["deleted_rows"].points == 30 == of(100)["deleted_rows"].points == of(500)["deleted_rows"].points
    assert 0 < of(10)["deleted_rows"].points < of(20)["deleted_rows"].points < 30
    found = health(table([file(TARGET, rows=100), file(9, content="position_deletes", rows=20)])).deletes
    assert found is not None
    assert (found.delete_files, found.rows_deleted, found.share) == (1, 20, 0.2)


def test_delete_files_cost_when_there_are_some() -> None:
    def of(count: int) -> dict[str, Deduction]:
        return deducted(table([file(TARGET)] * 20 + [file(9, content="position_deletes", rows=1)] * count))

    assert of(9) == {}
    assert 0 < of(10)["delete_files"].points < of(20)["delete_files"].points == 15


def test_equality_deletes_cost_most() -> None:
    equality = [file(9, content="equality_deletes", rows=1)] * 100
    found = deducted(table([file(TARGET)] * 2000 + equality))
    assert {code: item.points for code, item in found.items()} == {"equality_deletes": 25}
    assert found["equality_deletes"].action == "compact"


# ------------------------------------------------------------------------------------------------------------- metadata


def test_snapshots_cost_and_are_expired_only_when_old() -> None:
    def of(count: int, expirable: int = 0) -> HealthFacts:
        return table(past=replace(NO_PAST, snapshots=snapshots(count), expirable=expirable, metadata_bytes=1000))

    assert deducted(of(100)) == {}
    assert deducted(of(500))["snapshots"].points == 10
    assert health(of(300)).action is None, "none is older than the table keeps them"
    action = health(of(300, 40)).action
    assert action is not None
    assert (action.kind, action.command, action.gain_points) == (
        "expire",
        EXPIRE,
        1,
    )
    assert (action.gain, action.cost_bytes) == ("40 snapshots go, and the files that only they hold", 1000)


def test_manifests_cost_beyond_what_their_bytes_need() -> None:
    def of(count: int, size: int) -> HealthFacts:
        return table(past=replace(NO_PAST, manifests=count, manifest_bytes=size))

    assert deducted(of(101, 8)) == {}
    assert deducted(of(501, 8))["manifests"].points == 10
    assert deducted(of(500, 500 * 8 * MIB)) == {}, "a large table needs many"
    action = health(of(301, 1000)).action
    assert action is not None
    assert (action.kind, action.command, action.cost_bytes) == (
        "manifests",
        MANIFESTS,
        1000,
    )
    assert action.gain == "301 manifests become about 1"


def test_a_large_metadata_file_costs() -> None:
    assert deducted(table(past=replace(NO_PAST, metadata_bytes=8 * MIB))) == {}
    found = deducted(table(past=replace(NO_PAST, metadata_bytes=64 * MIB, expirable=1)))
    assert (found["metadata"].points, found["metadata"].action) == (10, "expire")


def test_commits_are_counted() -> None:
    rate = write_rate(snapshots(49), NOW)
    assert (rate.last_hour, rate.last_day, rate.per_day) == (2, 25, 24.5)
    assert write_rate((), NOW).per_day == 0
    assert write_rate(snapshots(3, every=timedelta(minutes=1)), NOW).per_day == 3, "a young table is not busy"


# --------------------------------------------------------------------------------------------------------- skew, order


def test_skew_costs_where_a_partition_is_large() -> None:
    def of(large: int, count: int) -> HealthFacts:
        return table([*(file(TARGET, "big") for _ in range(large)), *(file(TARGET, str(n)) for n in range(count))])

    assert deducted(of(3, 20)) == {}
    found = deducted(of(10, 20))["skew"]
    assert 0 < found.points < 10
    assert found.reason.detail == "p=big holds 7 times the average of a partition"
    assert found.action is None
    assert deducted(of(100, 100))["skew"].points == 10
    tiny = [file(1000, "big"), *(file(1, str(number)) for number in range(50))]
    assert deducted(table(tiny)) == {}, "it fits into one file"
    assert health(table(tiny)).skew == pytest.approx(48.57)
    assert health(table([file(TARGET)])).skew is None


def test_files_out_of_order_cost() -> None:
    def of(ranges: Sequence[tuple[Bound, Bound]], partition: Mapping[int, str] = {}) -> HealthFacts:
        files = [file(TARGET, partition.get(n, "a"), span=span) for n, span in enumerate(ranges)]
        return table(files, sorted_by="id")

    ordered = [(number, number + 1) for number in range(10)]
    assert deducted(of(ordered)) == {}
    assert deducted(of([(0, 9)] * 10))["sort_overlap"].points == 10
    assert deducted(of([(0, 9)] * 2, {0: "a", 1: "b"})) == {}, "of other partitions"
    assert deducted(replace(of([(0, 9)] * 10), sorted_by=None)) == {}
    sort = health(of([*ordered, (0, 10)])).sort
    assert sort is not None
    assert (sort.column, sort.files, sort.overlapping, sort.share, sort.depth) == ("id", 11, 11, 0.1818, 2.82)
    halves = of([(0, 9)] * 10, dict.fromkeys(range(5), "b"))
    assert deducted(halves)["sort_overlap"].points == 10, "as out of order as partitions let them be"
    assert health(table([file(TARGET)] * 3, sorted_by="id")).sort is None, "no file says its range"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: tuple(sorted(pair))), max_size=25))
def test_meetings_are_counted_as_by_looking_at_each_pair(ranges: list[tuple[int, int]]) -> None:
    assert meetings(ranges) == [
        sum(other != place and low < ranges[other][1] and ranges[other][0] < high for other in range(len(ranges)))
        for place, (low, high) in enumerate(ranges)
    ]


# -------------------------------------------------------------------------------------------------------------- action


def test_compaction_with_its_cost_and_gain() -> None:
    small = [file(MIB, "a", path=f"s{number}") for number in range(200)]
    action = health(table([*small, file(TARGET, "a"), file(1, "b"), *(file(2, "c") for _ in range(3))])).action
    assert action is not None
    assert (action.kind, action.command) == ("compact", COMPACT)
    assert action.cost_bytes == 200 * MIB + 6
    assert (action.gain, action.cost) == ("203 files become about 3", "reads and writes 210 MB")
    assert action.gain_points == 60


def test_compaction_takes_the_files_with_deleted_rows() -> None:
    data = [file(TARGET, path=f"f{number}", sequence=number) for number in range(6)]
    vector = file(9, content="position_deletes", rows=50, of="f5", sequence=9)
    older = file(9, content="position_deletes", rows=50, sequence=2)
    for deletes, size in (([vector], TARGET), ([older], 3 * TARGET), ([vector, older], 4 * TARGET)):
        action = health(table([*data, *deletes])).action
        assert action is not None
        assert action.cost_bytes == size
        assert f"{50 * len(deletes)} deleted rows go" in action.gain


def test_the_action_with_the_most_points_is_chosen() -> None:
    past = replace(NO_PAST, snapshots=snapshots(500), expirable=400, metadata_bytes=64 * MIB)
    few, many = [file(1)] * 20, [file(1)] * 60
    kinds = [action.kind for files in (few, many) if (action := health(table(files, past=past)).action)]
    assert kinds == ["expire", "compact"]


def test_gain_is_no_more_than_the_score_can_rise() -> None:
    past = replace(NO_PAST, snapshots=snapshots(500), manifests=600, metadata_bytes=64 * MIB)
    equality = [file(1, content="equality_deletes")] * 100
    found = health(table([*[file(1)] * 100, *equality, file(1, content="position_deletes", rows=10**6)], past=past))
    assert (found.score, found.state) == (0, "unhealthy")
    assert found.action is not None
    assert found.action.gain_points == 100 - 30


def test_late_rows_come_before_bad_files() -> None:
    facts = table([file(1)] * 200, lateness=Lateness(freshness="late", target_lag="5m", current_lag="17m"))
    found = health(facts)
    assert found.action is not None
    assert (found.action.kind, found.action.command) == ("refresh", "neve dynamic refresh t")
    assert (found.freshness, found.current_lag, found.target_lag, found.score) == ("late", "17m", "5m", 40)
    due = health(replace(facts, lateness=Lateness(freshness="due", target_lag="5m", current_lag="2m"))).action
    assert due is not None
    assert due.kind == "compact"


def test_a_folder_is_compacted_by_period_and_only_one_that_can_be() -> None:
    files = [file(10, "2024-01") for _ in range(31)] + [file(10, "2024-02") for _ in range(29)]
    facts = table(files, past=None)
    assert health(facts).action is None
    assert deducted(facts)["small_files"].action is None
    assert deducted(facts)["small_files"].reason.detail.endswith("in 2 periods")
    action = health(replace(facts, due_periods={"p=2024-02": "2024-02"})).action
    assert action is not None
    assert (action.command, action.cost_bytes) == ("neve compact t --period 2024-02", 290)
    assert (action.gain, action.gain_points) == ("29 files of 2024-02 become 1", 36 - 19)
    both = replace(facts, due_periods={"p=2024-02": "2024-02", "p=2024-01": "2024-01"})
    worst = health(both).action
    assert worst is not None
    assert worst.command.endswith("2024-01")


@given(
    st.lists(
        st.builds(
            file,
            st.integers(0, 3 * TARGET),
            st.sampled_from(["a", "b", None]),
            content=st.sampled_from(["data", "position_deletes", "equality_deletes"]),
            rows=st.integers(0, 100),
            span=st.none() | st.tuples(st.integers(0, 5), st.integers(5, 9)),
        ),
        max_size=40,
    ),
    st.integers(0, 1000),
    st.integers(0, 10**9),
)
def test_any_table_has_a_score_its_reasons_and_an_action_for_them(
    files: list[FileFact], manifests: int, size: int
) -> None:
    past = Past(snapshots=(), expirable=1, manifests=manifests, manifest_bytes=size, metadata_bytes=size)
    found = health(table(files, past=past, sorted_by="id"))
    assert 0 <= found.score <= 100
    assert all(0 < item.points <= 60 and item.reason.detail for item in found.deductions)
    assert [item.points for item in found.deductions] == sorted((i.points for i in found.deductions), reverse=True)
    assert sum(item.files for item in found.histogram) == found.files
    assert (found.action is None) == all(item.action is None for item in found.deductions)
    if found.action is not None:
        assert 0 <= found.action.gain_points <= 100 - found.score


def test_size_classes_hold_every_file_once() -> None:
    sizes = [0, MIB - 1, MIB, 8 * MIB, 600 * MIB]
    assert [item.files for item in size_classes(sizes)] == [2, 1, 1, 0, 0, 1]
    assert sum(item.bytes for item in size_classes(sizes)) == sum(sizes)
