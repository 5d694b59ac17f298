"""How changes are put into a stored table: a row delta under bounds, else a MERGE; and the file of vectors."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyroaring import BitMap64

from neve.files.puffin import vectors_file
from neve.files.vectors import decode_vector
from neve.model.facts import Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.plan.applying import (
    MOST_BYTES,
    MOST_MATCHED,
    MOST_ROWS,
    MOST_SHARE,
    ApplyPlan,
    goes_to_every_task,
    plan_full,
    settle_apply,
    split_size,
)

FEW = ApplyPlan("row_delta", Reason(code="few_rows", detail="at most 5 rows changed in the sources"))


@pytest.mark.parametrize(
    ("placed", "inserted", "deleted", "size", "code"),
    [
        (True, 3, 2, 0, "few_rows"),
        (True, MOST_ROWS * 9, MOST_ROWS, MOST_BYTES * 9, "few_rows"),
        (True, 0, MOST_ROWS + 1, 0, "many_rows"),
        (False, MOST_ROWS, MOST_MATCHED, MOST_BYTES, "few_rows"),
        (False, 1, MOST_MATCHED + 1, 0, "many_rows"),
        (False, 1, 1, 2 * MOST_BYTES + 2, "many_bytes"),
        (False, 9, 1, 9 * MOST_BYTES, "few_rows"),
    ],
)
def test_what_comes_to_the_driver_and_to_every_task_is_bounded(
    placed: bool, inserted: int, deleted: int, size: int, code: str
) -> None:
    plan = settle_apply(FEW, placed=placed, inserted=inserted, deleted=deleted, size=size)
    assert (plan.way, plan.reason.code) == ("row_delta" if code == "few_rows" else "merge", code)


@pytest.mark.parametrize(
    ("share", "followed", "frozen", "way"),
    [
        (0.05, False, False, "replace"),
        (MOST_SHARE, True, False, "merge"),
        (MOST_SHARE + 0.01, True, False, "replace"),
        (1.0, False, True, "merge"),
    ],
)
def test_a_result_computed_anew_is_compared_only_for_those_who_follow_it(
    share: float, followed: bool, frozen: bool, way: str
) -> None:
    assert plan_full(changed_share=share, followed=followed, frozen=frozen).way == way


def test_only_little_goes_to_every_task() -> None:
    assert goes_to_every_task(MOST_MATCHED, MOST_BYTES)
    assert not goes_to_every_task(MOST_MATCHED + 1, 0)
    assert not goes_to_every_task(1, MOST_BYTES + 1), "few rows may be wide"


def test_a_merge_stays_a_merge() -> None:
    plan = ApplyPlan("merge", Reason(code="no_vectors", detail="format 2 has no deletion vectors"))
    assert settle_apply(plan, placed=True, inserted=1, deleted=1, size=1) == plan


def test_a_file_of_vectors_is_a_puffin_file() -> None:
    first, second = BitMap64([1, 7]), BitMap64([1 << 33])
    content, places = vectors_file([("a.parquet", first), ("b.parquet", second)])
    assert (content[:4], content[-4:]) == (b"PFA1", b"PFA1")
    size = int.from_bytes(content[-12:-8], "little")
    assert content[-12 - size - 4 : -12 - size] == b"PFA1"
    blobs = json.loads(content[-12 - size : -12])["blobs"]
    assert [blob["properties"] for blob in blobs] == [
        {"referenced-data-file": "a.parquet", "cardinality": "2"},
        {"referenced-data-file": "b.parquet", "cardinality": "1"},
    ]
    for blob, place, positions in zip(blobs, places, (first, second), strict=True):
        assert (blob["offset"], blob["length"]) == (place.offset, place.size)
        assert decode_vector(content[place.offset : place.offset + place.size], where="here") == positions


@pytest.mark.parametrize(
    ("size_mb", "files", "deletes", "cores", "split_mb"),
    [
        (6, 1, 0, 2, 16),
        (6, 20, 20, 2, 40),  # Iceberg would make 10 tasks of them; now there are 4
        (100_000, 100, 0, 2, 512),
        (100_000, 100, 0, 200, 250),
        (1, 2_000, 2_000, 200, 40),
    ],
)
def test_small_files_of_refreshes_are_read_by_few_tasks(
    size_mb: int, files: int, deletes: int, cores: int, split_mb: int
) -> None:
    totals = {"files-size": size_mb << 20, "data-files": files, "delete-files": deletes}
    facts = stored({f"total-{key}": str(value) for key, value in totals.items()})
    assert split_size(facts, cores=cores) == split_mb << 20


def test_a_table_without_a_snapshot_has_nothing_to_be_split() -> None:
    assert split_size(replace(stored({}), current_snapshot_id=None), cores=2) is None


def stored(summary: dict[str, str]) -> TableFacts:
    now = datetime(2026, 11, 18, tzinfo=UTC)
    snapshot = Snapshot(
        id=1, parent_id=None, sequence_number=1, at=now, operation="append", summary=summary, manifest_list="1.avro"
    )
    return TableFacts(
        name=TableName.parse("s.t"),
        uuid="u",
        location="/w/t",
        metadata_location="/w/t/metadata/1.json",
        format_version=3,
        updated_at=now,
        columns=(),
        partition_by=(),
        sort_by=(),
        properties={},
        snapshots=(snapshot,),
        current_snapshot_id=1,
        made_current=(),
        references=(),
    )
