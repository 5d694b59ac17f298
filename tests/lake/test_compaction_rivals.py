"""Compaction that loses to writers again and again, without a JVM: all up to the commit is done by this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from tests.lake.lakes import V2, append, current, facts, make
from tests.lake.test_expire import rows

from neve.cli.rewrites import rewrite_lines
from neve.engine.errors import from_java
from neve.engine.rewrites import Swap
from neve.errors import CommitConflict, CommitUnknown
from neve.lake import Lake, LakeTable
from neve.model.names import TableName
from neve.services.leases import leased
from neve.services.rewrites import carrying
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


@pytest.mark.parametrize("made", [True, False])
def test_an_answer_that_was_lost_costs_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    """The commit that was made counts; where nobody can tell, as it may still be on its way, its files stay."""
    make(lake)
    for number in range(4):
        append(lake, "t", [{"id": number, "v": "x"}])

    class Losing:
        def commit(self, swaps: Sequence[Swap], _: object, summary: Mapping[str, str], **__: object) -> int:
            if made:
                _swap(lake, "t", swaps, summary)
            raise from_java(": org.apache.iceberg.exceptions.CommitStateUnknownException: the line went dead")

    monkeypatch.setattr(Rewriting, "_rewrite", Losing())
    if made:
        done = lake.table("t").compact()
        assert (done.compacted, done.files_after, done.commits, done.conflicts) == (True, 1, 1, 0)
        assert done.snapshot_after == current(lake, "t")
    else:
        with pytest.raises(CommitUnknown, match="went dead"):
            lake.table("t").compact()
    assert sorted(rows(lake)) == [0, 1, 2, 3]
    assert len(list(Path(facts(lake, "t").location).rglob("*-neve.parquet"))) == 1


def _swap(lake: Lake, name: str, swaps: Sequence[Swap], summary: Mapping[str, str]) -> None:
    """Commits as Iceberg would, by PyIceberg."""
    table = lake._context.catalog._backend.open_table(TableName.parse(name))
    with table.transaction() as change, change.update_snapshot(dict(summary)).overwrite() as update:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        old = {file.path for swap in swaps for file in swap.old}
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.data_file.file_path in old:
                    update.delete_data_file(entry.data_file)
        for swap in swaps:
            file = swap.new.file
            update.append_data_file(
                DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=file.path,
                    file_format=FileFormat.PARQUET,
                    partition=Record(*file.partition),
                    record_count=file.rows,
                    file_size_in_bytes=file.bytes,
                    spec_id=file.spec_id,
                )
            )


class Busy:
    """Commits what it is given, except for files of a partition that a rival writes to each time before."""

    def __init__(self, lake: Lake, hot: str) -> None:
        self._lake, self._hot = lake, hot

    def commit(self, swaps: Sequence[Swap], _: object, summary: Mapping[str, str], **__: object) -> int:
        if any(file.partition == (self._hot,) for swap in swaps for file in swap.old):
            append(self._lake, "t", [{"id": 99, "v": self._hot}])
            raise CommitConflict("a rival was first")
        _swap(self._lake, "t", swaps, summary)
        return current(self._lake, "t")


@pytest.fixture
def parted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    """Three files in each of four partitions, `a` is written to whenever it is compacted; a commit for each."""
    lake.tables.create("t", "id bigint, v string", partition_by=["v"], properties=V2)
    for number in range(12):
        append(lake, "t", [{"id": number, "v": "abcd"[number % 4]}])
    monkeypatch.setattr(Rewriting, "_rewrite", Busy(lake, "a"))
    monkeypatch.setattr(carrying, "COMMIT_BYTES", 1)
    return lake.table("t")


def test_a_conflict_makes_no_more_of_max_files(parted: LakeTable) -> None:
    done = parted.compact(max_files=6)
    assert (done.files_compacted, done.groups_lost) == (3, 1), "the other three are for what loses again and again"


def test_what_lost_and_what_rivals_wrote_is_told_as_it_is(parted: LakeTable) -> None:
    done = parted.compact()
    assert (done.files_compacted, done.files_written, done.conflicts, done.groups_lost) == (9, 3, ATTEMPTS, 1)
    files = [row for row in parted.files() if row.content == "data"]
    assert (done.files_after, done.bytes_after) == (len(files), sum(row.bytes for row in files))
    assert (done.files_after, done.files_before) == (3 + 3 + ATTEMPTS, 12)
    assert done.bytes_saved == sum(group.bytes for group in done.groups) - sum(
        row.bytes for row in files if row.partition != "v=a"
    )
    lines = dict(rewrite_lines(done))
    assert (lines["done again"], lines["lost"]) == (
        f"{ATTEMPTS - 1} groups, after a writer changed them",
        "1 group, which writers changed each time",
    )


def test_all_tables_are_compacted_whether_or_not_somebody_reads_the_answers(lake: Lake) -> None:
    make(lake)
    assert [receipt.table for receipt in lake.compact()[:1]] == ["default.t"], "a list, not something yet to be done"
