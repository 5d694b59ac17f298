"""A repartition as a whole: its rows written, and then what becomes of the source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from neve.directory import Directory
from neve.directory.backups import Backups, duplicate
from neve.errors import StalePlan
from neve.model.commands import neve
from neve.model.directories import RepartitionStats, SizeEstimate
from neve.plan.directories import Dataset, Group
from neve.services.directories import (
    Workplace,
    check_codec,
    gone_if_refused,
    open_parquet,
    open_to_change,
    read_dataset,
    recorded_run,
    remove_if_empty,
)
from neve.services.repartition.parts import target_of, write_all
from neve.services.repartition.request import RepartitionRequest
from neve.services.repartition.resuming import check_target, forget

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Old:
    """The source's files as they were when they were read."""

    directory: Directory
    stamps: Mapping[str, tuple[int, int, int]]

    def check(self) -> None:
        """Refuses to remove what somebody has written since, which the target lacks."""
        if _stamps(self.directory) != self.stamps:
            raise StalePlan(
                f"{self.directory.location} has changed since it was read; the target holds it as it was",
                hint="the source was left alone: repartition it anew",
            )


def _stamps(directory: Directory) -> dict[str, tuple[int, int, int]]:
    found = {file.path: os.stat(directory.storage.address(file.path)) for file in directory.files()}  # noqa: PTH116
    return {path: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


def estimate(work: Workplace, request: RepartitionRequest) -> SizeEstimate:
    """How many partitions there would be; sizes and rows of the source as its footers give them."""
    directory = open_parquet(request.source)
    groups = _partitions(work, request, dataset := read_dataset(directory, directory.files()))
    total = sum(groups.values())
    return SizeEstimate(
        total_rows=total,
        total_files=len(dataset.footers),
        num_partitions=len(groups),
        avg_rows_per_partition=total / len(groups) if groups else 0.0,
        estimated_size_mb=sum(footer.bytes for footer in dataset.footers) / _MIB,
        partition_cols=list(request.columns),
    )


def repartition(work: Workplace, request: RepartitionRequest) -> RepartitionStats:
    """Writes the source's rows to the target, checks them, and on request lets them take the source's place."""
    request.check()
    check_codec(request.compression)
    started = work.clock()
    takes = request.swap_with_source or request.delete_source
    source = open_to_change(work, request.source) if takes else open_parquet(request.source)
    plan: dict[str, JsonValue] = {"target": request.target, "columns": list(request.columns)}
    with recorded_run(work, "parquet repartition", request.source, plan=plan, dry_run=request.dry_run) as run:
        old = _Old(source, _stamps(source))
        dataset = read_dataset(source, source.files(), constants=request.columns)
        if request.dry_run:
            check_target(request, dataset)
            return _preview(work, request, dataset).model_copy(update={"start_time": started, "end_time": work.clock()})
        with gone_if_refused(request.target):
            target = open_to_change(work, request.target, create=True)
            tally = write_all(work, request, dataset, target, run.run_id)
        new = read_dataset(target, target.files())
        stats = RepartitionStats(
            run_id=run.run_id,
            files_read=tally.files_read,
            files_written=tally.files_written,
            records_read=tally.rows,
            records_written=new.rows,
            partitions_created=len(new.folders),
            bytes_read=tally.bytes,
            bytes_written=sum(footer.bytes for footer in new.footers),
            resumed=tally.resumed,
            validated=request.validate,
            start_time=started,
        )
        stats = stats.model_copy(update=_finish(work, request, old, new, run_id=tally.run_id))
        stats = stats.model_copy(update={"end_time": work.clock()})
        run.details, run.undo = stats.model_dump(mode="json"), stats.undo
    return stats


def _preview(work: Workplace, request: RepartitionRequest, dataset: Dataset) -> RepartitionStats:
    groups = _partitions(work, request, dataset)
    return RepartitionStats(
        dry_run=True,
        files_read=len(dataset.footers),
        files_written=len(groups),
        records_read=dataset.rows,
        records_written=sum(groups.values()),
        partitions_created=len(groups),
        bytes_read=sum(footer.bytes for footer in dataset.footers),
        bytes_written=sum(footer.bytes for footer in dataset.footers),
    )


def _partitions(work: Workplace, request: RepartitionRequest, dataset: Dataset) -> dict[Group, int]:
    """The rows of each new partition: from the key columns alone, unless Spark has to make them."""
    from neve.engine.parquet_files import work_session
    from neve.engine.repartition import count_partitions, target_dataset, transformed_rows
    from neve.engine.splitting import count_groups

    if request.transform is None and not dataset.lacking():
        return count_groups(dataset, target_of(request, dataset).keys)
    rows = transformed_rows(work_session(work.spark, dataset), dataset, request.transform)
    return count_partitions(rows, target_dataset(rows, request.target, request.columns).keys)


def _finish(work: Workplace, request: RepartitionRequest, old: _Old, new: Dataset, *, run_id: str) -> dict[str, Any]:
    """What becomes of the source."""
    if request.swap_with_source:
        return _swap(work, request, old, new, run_id=run_id)
    if request.delete_source:
        with old.directory.change(run_id) as change:
            old.check()
            for path in old.stamps:
                change.remove(path)
        remove_if_empty(request.source)
        forget(open_parquet(request.target), run_id)
    return {}


def _swap(work: Workplace, request: RepartitionRequest, old: _Old, new: Dataset, *, run_id: str) -> dict[str, Any]:
    """The new files take the place of the old ones in one change of the source, which a backup can take back."""
    backups = Backups(old.directory)
    with old.directory.change(run_id) as change:
        old.check()
        for footer in new.footers:
            staged = change.stage(footer.path)
            duplicate(Path(request.target, footer.path), Path(staged))
            change.publish(staged, footer.path)
        for path in old.stamps:
            change.remove(path)
        if not request.delete_source:
            backups.make(change, action="parquet repartition", replaced=list(old.stamps), now=work.clock())
    forget(open_parquet(request.target), run_id, [footer.path for footer in new.footers])
    remove_if_empty(request.target)
    if request.delete_source:
        return {}
    return {"backup": run_id, "undo": neve("parquet", "restore", request.source, run_id)}
