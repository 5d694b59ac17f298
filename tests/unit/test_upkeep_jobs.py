"""When upkeep is worth a job of the worker, and that an offline table gets none: Sleeper's case 11, kind by kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest
from tests.unit.test_expiry_plan import NOW, snapshot, table
from tests.unit.test_tidying_plan import file

from neve.config import CompactionSettings, RetentionSettings, StatisticsSettings
from neve.model.facts import FileFact, TableFacts
from neve.model.results import Reason
from neve.model.retention import ColumnStatistics
from neve.model.runs import OrphanScan
from neve.model.specs import ONLINE
from neve.plan.expiry import GC_ENABLED
from neve.plan.schedule import (
    Job,
    plan_compaction,
    plan_deletes_job,
    plan_expiry_job,
    plan_manifest_job,
    plan_orphan_job,
    plan_statistics_job,
    removes_orphans,
)
from neve.plan.tables import DELETING
from neve.plan.tidying import DELETE_GRANULARITY, ManifestPlan
from neve.sql.columns import parse_columns

HERE = table([])
AWAY = replace(HERE, properties={ONLINE: "false"})
GOING = replace(HERE, properties={DELETING: "run"})
DAY = timedelta(days=1)


def manifests(before: int, after: int) -> ManifestPlan:
    return ManifestPlan(before=before, after=after, bytes=1, specs=(0,))


@pytest.mark.parametrize(("expirable", "due"), [(0, False), (19, False), (20, True), (500, True)])
def test_twenty_snapshots_that_nobody_needs_are_worth_a_commit(expirable: int, due: bool) -> None:
    job = plan_expiry_job(HERE, expirable)
    assert (job is not None and job.due) == due
    assert plan_expiry_job(AWAY, expirable) is None


@pytest.mark.parametrize(
    ("before", "after", "due"), [(2, 2, False), (101, 1, False), (102, 1, True), (300, 250, False)]
)
def test_a_hundred_manifests_more_than_needed_are_worth_a_rewrite(before: int, after: int, due: bool) -> None:
    job = plan_manifest_job(HERE, manifests(before, after))
    assert (job is not None and job.due) == due
    assert plan_manifest_job(AWAY, manifests(before, after)) is None


def test_offline_tables_say_why_nothing_is_due() -> None:
    settings = CompactionSettings()
    assert plan_compaction(AWAY, [], settings, 1 << 27).reason.code == "offline"
    assert plan_compaction(HERE, [], settings, 1 << 27).reason.code == "few_small_files"


# ------------------------------------------------------------------------------------------------------------- deletes

V2 = replace(HERE, format_version=2)
SHARED = {DELETE_GRANULARITY: "partition"}
REST = Job(table=HERE.name, action="compact", reason=Reason(code="few_small_files", detail=""), due=False)
COMPACT = replace(REST, due=True)


def data(count: int, *, rows: int = 1000) -> list[FileFact]:
    return [replace(file("data", path=f"d{number}", sequence=3), rows=rows) for number in range(count)]


def deletes(count: int, **more: Any) -> list[FileFact]:
    """Two files of deletes per data file."""
    return [file("position", path=f"p{number}", of=f"d{number // 2}", **more) for number in range(count)]


@pytest.mark.parametrize(
    ("deleted", "files", "due"),
    [(0, 1, False), (9, 5, False), (10, 5, True), (10, 99, True), (10, 100, False), (40, 100, True)],
)
def test_ten_files_of_deletes_and_a_tenth_of_all_are_worth_a_rewrite(deleted: int, files: int, due: bool) -> None:
    everything = [*data(files), *deletes(deleted)]
    job = plan_deletes_job(V2, everything, REST)
    assert (job is not None and job.due) == due
    for other in (AWAY, GOING):
        assert plan_deletes_job(replace(other, format_version=2), everything, REST) is None


def test_what_a_rewrite_would_not_make_fewer_is_not_due() -> None:
    one_each = [file("position", path=f"p{number}", of=f"d{number}") for number in range(30)]
    assert plan_deletes_job(V2, [*data(30), *one_each], REST) is None
    shared = plan_deletes_job(replace(V2, properties=SHARED), [*data(30), *one_each], REST)
    assert shared is not None
    assert shared.reason.detail == "30 files of position deletes could be fewer"
    vectors = [file("vector", path=f"v{number}", of=f"d{number}") for number in range(30)]
    assert plan_deletes_job(HERE, [*data(30), *vectors], REST) is None
    equality = [file("equality", path=f"e{number}", sequence=9) for number in range(30)]
    assert plan_deletes_job(V2, [*data(30), *equality], REST) is None, "the command would refuse"


def test_vectors_and_deletes_with_no_data_file_left() -> None:
    old = plan_deletes_job(HERE, [*data(8), *deletes(16)], REST)
    assert old is not None
    assert old.reason.detail == "16 files of position deletes could be vectors"
    lost = [file("vector", path=f"v{number}", of="gone") for number in range(11)]
    job = plan_deletes_job(HERE, [*data(8), *lost], REST)
    assert job is not None
    assert job.reason.detail == "11 deletes with no data file left"


def test_compaction_goes_first_where_it_folds_the_deletes_in() -> None:
    named = [replace(each, deletes_from=each.only_of) for each in deletes(16)]
    for many in ([*data(8, rows=40), *named], [*data(8), *deletes(16)]):
        assert plan_deletes_job(V2, many, COMPACT) is None
        assert plan_deletes_job(V2, many, REST) is not None, "compaction may be switched off"
    assert plan_deletes_job(V2, [*data(8, rows=41), *named], COMPACT) is not None, "so few rows stay where they are"


# ------------------------------------------------------------------------------------------------------------- orphans

WEEKLY = RetentionSettings()
WAREHOUSE = "/w"
OURS = f"{WAREHOUSE}/t-{'0' * 32}"


def aged(days: float, **more: Any) -> TableFacts:
    return replace(table([snapshot(1, None, 24 * days)], current=1), **{"location": OURS, **more})


def scanned(days: float) -> OrphanScan:
    at = NOW - days * DAY
    return OrphanScan(table_uuid="u", table_name="t", scanned_at=at, older_than_seconds=1, files=0, bytes=0)


def scan_job(facts: TableFacts, scan: OrphanScan | None, settings: RetentionSettings = WEEKLY) -> Job | None:
    return plan_orphan_job(facts, scan, settings, warehouse=WAREHOUSE, now=NOW)


def test_a_folder_is_looked_through_every_week() -> None:
    old = aged(30)
    assert [scan_job(old, scanned(days)) is not None for days in (0, 6.9, 7, 20)] == [False, False, True, True]
    assert scan_job(old, None) is not None
    daily = RetentionSettings(orphan_scan_every=DAY)
    assert [scan_job(old, scanned(days), daily) is not None for days in (0.9, 1)] == [False, True]
    never = RetentionSettings(orphan_scan_every=timedelta(0))
    assert scan_job(old, None, never) is scan_job(old, scanned(90), never) is None


def test_a_table_is_looked_through_first_when_files_in_it_can_be_old_enough() -> None:
    assert [scan_job(aged(days), None) is not None for days in (0, 6.9, 7)] == [False, False, True]
    daily = RetentionSettings(orphan_scan_every=DAY)
    assert [scan_job(aged(days), None, daily) is not None for days in (1, 6.9, 7)] == [False, False, True]
    monthly = RetentionSettings(orphan_scan_every=30 * DAY)
    assert [scan_job(aged(days), None, monthly) is not None for days in (7, 30)] == [False, True]
    empty = replace(HERE, location=OURS, updated_at=NOW - 8 * DAY)
    assert [scan_job(facts, None) is not None for facts in (HERE, empty)] == [False, True]
    expired = table([snapshot(5, 4, 1), snapshot(6, 5, 0)], current=6)
    assert scan_job(expired, None) is not None, "snapshots were taken off, so it is older than those that are left"


def test_what_is_found_is_removed_where_that_is_wanted_and_the_folder_is_ours() -> None:
    removing = RetentionSettings(orphan_delete=True)
    foreign = aged(30, location="/elsewhere/t")
    told = {
        (facts.location, settings.orphan_delete): (
            removes_orphans(facts, settings, warehouse=WAREHOUSE),
            job.reason.detail if (job := scan_job(facts, scanned(8.5), settings)) else None,
        )
        for facts in (aged(30), foreign)
        for settings in (WEEKLY, removing)
    }
    again = "its folder was last looked through 8d ago; files that nothing names are"
    assert told == {
        (OURS, False): (False, f"{again} listed"),
        (OURS, True): (True, f"{again} removed"),
        ("/elsewhere/t", False): (False, f"{again} listed"),
        ("/elsewhere/t", True): (False, f"{again} only listed, as this lake did not make it"),
    }


def test_a_table_whose_files_may_be_others_says_so_and_is_left_alone() -> None:
    job = scan_job(aged(30, properties={GC_ENABLED: "false"}), None)
    assert job is not None
    assert (job.due, job.reason.code) == (False, "foreign_files")
    for properties in (AWAY.properties, GOING.properties):
        assert scan_job(aged(30, properties=properties), None) is None


# ---------------------------------------------------------------------------------------------------------- statistics

ASKED = StatisticsSettings()
ALL = StatisticsSettings(tables="all")
EACH: tuple[Literal["asked", "all", "none"], ...] = ("asked", "all", "none")


def written(*rows: int, ages: tuple[float, ...] = (96, 72, 48, 24)) -> TableFacts:
    """A table that was written to so often, so many rows each time; the first snapshot is number 1."""
    past = [
        snapshot(
            number,
            number - 1 or None,
            ages[number - 1],
            summary={"added-records": str(count), "total-records": str(sum(rows[:number]))},
        )
        for number, count in enumerate(rows, start=1)
    ]
    facts = table(past, current=len(past) or None)
    return replace(facts, columns=parse_columns("id bigint, name string, s struct<a:int>"))


def known(facts: TableFacts, **counted: int) -> list[ColumnStatistics]:
    """Columns, each with the snapshot that it was counted for."""
    moments = {item.id: item.at for item in facts.snapshots}
    return [
        ColumnStatistics(column=name, distinct_values=1, snapshot=number, at=moments.get(number))
        for name, number in counted.items()
    ]


def count_job(
    facts: TableFacts, counted: list[ColumnStatistics], settings: StatisticsSettings = ASKED, **more: Any
) -> Job | None:
    return plan_statistics_job(facts, counted, settings, now=NOW, **more)


@pytest.mark.parametrize(
    ("rows", "due"), [((100,), False), ((100, 25), False), ((100, 26), True), ((100, 9, 17), True)]
)
def test_what_was_counted_is_counted_again_when_a_fifth_was_written_since(rows: tuple[int, ...], due: bool) -> None:
    facts = written(*rows)
    job = count_job(facts, known(facts, id=1, name=1))
    assert (job is not None and job.due) == due
    assert (job is not None and "26 rows written or deleted" in job.reason.detail) == due
    for properties in (AWAY.properties, GOING.properties):
        assert count_job(replace(facts, properties=properties), known(facts, id=1)) is None


def test_how_much_is_a_setting() -> None:
    facts = written(100, 26)
    due = {
        share: count_job(facts, known(facts, id=1), StatisticsSettings(stale_after=share)) for share in (0, 0.1, 0.5)
    }
    assert {share: job is not None for share, job in due.items()} == {0: False, 0.1: True, 0.5: False}


def test_tables_that_were_never_counted_wait_to_be_asked_for_or_not() -> None:
    facts = written(100)
    counted = known(facts, id=1)
    later = written(100, 100)
    asked = {tables: count_job(facts, [], StatisticsSettings(tables=tables)) for tables in EACH}
    again = {tables: count_job(later, counted, StatisticsSettings(tables=tables)) for tables in EACH}
    assert {tables: job is not None for tables, job in asked.items()} == {"asked": False, "all": True, "none": False}
    assert {tables: job is not None for tables, job in again.items()} == {"asked": True, "all": True, "none": False}
    assert count_job(facts, [], StatisticsSettings(tables="all", stale_after=0)) is not None, "once, then"
    nested = replace(facts, columns=parse_columns("s struct<a:int>"))
    assert count_job(nested, [], ALL) is count_job(written(), [], ALL) is count_job(written(0), [], ALL) is None


def test_the_column_that_was_counted_longest_ago_decides() -> None:
    facts = written(100, 30)
    assert count_job(facts, known(facts, id=2)) is None
    assert count_job(facts, known(facts, id=2, name=1)) is not None
    assert count_job(facts, known(facts, id=2, s=1, gone=1)) is None, "columns that cannot be counted any more"


def test_values_counted_within_the_hour_are_left() -> None:
    for age, due in ((0.9, False), (1, True)):
        facts = written(100, 100, ages=(age, 0))
        assert (count_job(facts, known(facts, id=1)) is not None) == due


def test_values_of_a_snapshot_that_is_no_more_are_counted_again() -> None:
    facts = written(100, 1)
    assert count_job(facts, known(facts, id=7)) is not None
    assert count_job(replace(facts, current_snapshot_id=1), known(facts, id=2)) is not None, "it was rolled back"
    assert count_job(facts, known(facts, id=1)) is None
    job = count_job(facts, known(facts, id=1), going={1})
    assert job is not None
    assert job.reason.code == "expiring_statistics"
    assert count_job(facts, known(facts, id=2), going={1}) is None
