"""When upkeep is worth a job of the worker, and that an offline table gets none: Sleeper's case 11, kind by kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.test_expiry_plan import table

from neve.config import CompactionSettings
from neve.model.specs import ONLINE
from neve.plan.schedule import plan_compaction, plan_expiry_job, plan_manifest_job
from neve.plan.tidying import ManifestPlan

HERE = table([])
AWAY = replace(HERE, properties={ONLINE: "false"})


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
