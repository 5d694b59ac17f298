"""Compaction that loses to writers again and again, without a JVM: all up to the commit is done by this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lake.lakes import append, facts, make
from tests.lake.test_expire import rows

from neve.errors import CommitConflict
from neve.lake import Lake
from neve.services.leases import leased
from neve.services.rewrites.carrying import ATTEMPTS
from neve.services.rewrites.work import Rewriting


def test_it_gives_up_after_five_times_and_leaves_everything_to_the_others(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake)
    for number in range(4):
        append(lake, "t", [{"id": number, "v": "x"}])
    groups: list[int] = []

    def lose(rewriting: Rewriting, summary: object) -> int:
        groups.append(sum(len(made.group.files) for made in rewriting.made))
        append(lake, "t", [{"id": 100 + len(groups), "v": "rival"}])
        raise CommitConflict("a rival was first")

    monkeypatch.setattr(Rewriting, "commit", lose)
    with pytest.raises(CommitConflict, match=rf"{ATTEMPTS} times"):
        lake.table("t").compact()
    assert groups == [4, 5, 6, 7, 8], "looked at anew each time"
    assert sorted(rows(lake)) == [*range(4), *(100 + turn for turn in range(1, ATTEMPTS + 1))]
    assert not list(Path(facts(lake, "t").location).rglob("*-neve.parquet")), "what lost is removed"
    (run,) = lake.runs.list(kind="compact")
    assert (run.state, run.error_code) == ("failed", CommitConflict.code)
    with leased(lake._context, "compaction of default.t"):
        pass
