"""What a commit says of the rows that it added and removed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from neve.model.facts import Snapshot
from neve.plan.row_counts import rows_changed

IN_PLACE = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}


def snapshot(operation: str, **summary: int) -> Snapshot:
    told = {key.replace("_", "-"): str(value) for key, value in summary.items()}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Snapshot(id=1, parent_id=None, sequence_number=1, at=at, operation=operation, summary=told, manifest_list="")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (snapshot("append", added_records=3), (3, 0)),
        (snapshot("overwrite", added_records=2, added_position_deletes=2), (2, 2)),
        # a vector of three rows takes the place of one of two
        (snapshot("delete", added_position_deletes=3, removed_position_deletes=2), (0, 1)),
        # a file of ten rows goes, of which a vector had taken four
        (snapshot("delete", deleted_records=10, removed_position_deletes=4), (0, 6)),
    ],
)
def test_rows_that_came_and_went(made: Snapshot, expected: tuple[int, int]) -> None:
    assert rows_changed(made, IN_PLACE) == expected


def test_files_that_are_written_anew_tell_nothing() -> None:
    whole = {**IN_PLACE, "write.update.mode": "copy-on-write"}
    assert rows_changed(snapshot("overwrite", added_records=9, deleted_records=9), whole) == (None, None)
    assert rows_changed(snapshot("append", added_records=9), whole) == (9, 0)
