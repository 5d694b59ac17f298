"""Few large files out of many small ones, in a plain folder; and how badly it needs that.

The cheapest mechanic that is right does the work, file by file of the output: row groups are copied as they are when
they are large enough and fit together, in this process or by Spark's executors; else pyarrow merges the files in
Spark's tasks, a row group in memory at a time; and Spark sorts when an order is asked for.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from neve.directory import Change, Directory
from neve.directory.backups import Backups
from neve.errors import CheckFailed, InvalidInput
from neve.model.commands import neve
from neve.model.directories import CompactStats, Fragmentation, PartitionFiles
from neve.model.progress import progress_line
from neve.plan.directories import Bin, CompactionRules, Dataset, plan_bins, prune
from neve.plan.measures import size_classes
from neve.plan.rows import sort_fields
from neve.services.directories import (
    Workplace,
    check_codec,
    open_parquet,
    open_to_change,
    read_dataset,
    recorded_run,
    trusted_dataset,
)
from neve.services.directory_copies import can_copy_files, copy_all, copy_of
from neve.services.directory_rows import changing

_MIB = 1024 * 1024
_MANY_FILES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    target_file_size_mb: int = 100
    compression: str = "zstd"
    min_file_count: int = 2
    max_file_size_mb: float | None = None
    target_file_count: int | None = None
    sort_by: Sequence[str] = ()
    partition_filter: Mapping[str, object] | None = None
    delete_source_files: bool = True
    dry_run: bool = False
    verify: bool = True

    def rules(self) -> CompactionRules:
        for name in ("target_file_size_mb", "min_file_count", "max_file_size_mb", "target_file_count"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"{name} must be more than 0, not {value}")
        return CompactionRules(
            target_bytes=self.target_file_size_mb * _MIB,
            min_file_count=self.min_file_count,
            max_file_bytes=None if self.max_file_size_mb is None else round(self.max_file_size_mb * _MIB),
            target_file_count=self.target_file_count,
            sorts=bool(self.sort_by),
        )


@dataclass(slots=True)
class _Made:
    """Staged files: whose bin each holds, and its size."""

    files: list[tuple[Bin, str, int]] = field(default_factory=list)


def compact_files(work: Workplace, location: str, request: CompactRequest) -> CompactStats:
    """Merges small files within their partitions; every row stays, and in its partition."""
    rules, codec, started = request.rules(), check_codec(request.compression), work.clock()
    directory = open_to_change(work, location)
    plan = {"min_file_count": request.min_file_count, "target_mb": request.target_file_size_mb}
    with recorded_run(work, "parquet compact", location, plan=plan, dry_run=request.dry_run) as run:
        with changing(directory, run.run_id, dry_run=request.dry_run) as (files, change):
            dataset = trusted_dataset(directory, files) if request.partition_filter else read_dataset(directory, files)
            selected, _ = prune(dataset, request.partition_filter)
            order = sort_fields(dataset.names, request.sort_by, where=location)
            bins, partitions = plan_bins(selected.footers, rules)
            merged = sum(item.bytes for item in bins)
            after, undo = merged, None
            if change is not None and bins:
                made = _make(work, dataset, bins, change, codec=codec, order=order, verify=request.verify)
                after = sum(size for _, _, size in made.files)
                sources = _publish(change, made)
                if not request.delete_source_files:
                    Backups(directory).make(change, action="parquet compact", replaced=sources, now=work.clock())
                    undo = neve("parquet", "restore", directory.location, run.run_id)
        total = sum(footer.bytes for footer in selected.footers)
        stats = CompactStats(
            run_id=run.run_id if bins and not request.dry_run else None,
            dry_run=request.dry_run,
            partitions_scanned=partitions,
            partitions_compacted=len({item.folder for item in bins}),
            files_before=len(selected.footers),
            files_after=len(selected.footers) - sum(len(item.files) for item in bins) + len(bins),
            bytes_before=total,
            bytes_after=total - merged + after,
            rows=selected.rows,
            start_time=started,
            end_time=work.clock(),
            undo=undo,
        )
        run.details, run.undo = stats.model_dump(mode="json"), undo
    return stats


def _publish(change: Change, made: _Made) -> list[str]:
    """Lets the new files take the place of their sources; the paths of those."""
    sources = []
    for number, (item, address, _) in enumerate(made.files):
        for path in item.files:
            change.remove(path)
            sources.append(path)
        change.publish(address, f"{item.folder}/compact-{change.run_id}-{number}.parquet".lstrip("/"))
    return sources


def _make(
    work: Workplace,
    dataset: Dataset,
    bins: Sequence[Bin],
    change: Change,
    *,
    codec: str,
    order: Sequence[Any],
    verify: bool,
) -> _Made:
    made = _Made()
    copied = [] if order else [item for item in bins if can_copy_files(dataset.location, item.files, codec=codec)]
    began, done = time.monotonic(), list(accumulate(item.bytes for item in copied))

    def tell(number: int) -> None:
        if work.context is not None:
            work.context.watch.check()
        seconds = time.monotonic() - began
        work.tell(progress_line("copying row groups", done[number], done[-1], seconds=seconds, bytes=True))

    copies = [
        copy_of(dataset.location, item.files, change.stage(f"{number}.parquet"), run_id=change.run_id)
        for number, item in enumerate(copied)
    ]
    for item, copy in zip(copied, copy_all(work, copies, tell), strict=True):
        made.files.append((item, copy.path, copy.result.bytes))
    if copied:
        work.tell(f"copying row groups: {time.monotonic() - began:.0f} s")
    done_already = set(copied)
    others = [item for item in bins if item not in done_already]
    if others:
        made.files += _encode(work, dataset, others, change, codec=codec, order=order, verify=verify)
    return made


def _encode(
    work: Workplace,
    dataset: Dataset,
    bins: Sequence[Bin],
    change: Change,
    *,
    codec: str,
    order: Sequence[Any],
    verify: bool,
) -> list[tuple[Bin, str, int]]:
    from neve.engine.compaction import merge_bins, sort_bins, verify_bins
    from neve.engine.parquet_files import work_session
    from neve.engine.parquet_tasks import Sink
    from neve.engine.tracking import tracked

    session = work_session(work.spark, dataset)
    sink = Sink(folder=change.stage_folder(), run_id=change.run_id, compression=codec)
    with tracked(work.tell, "sorting files" if order else "merging files"):
        written = sort_bins(session, dataset, bins, sink, order) if order else merge_bins(session, dataset, bins, sink)
    rows = {footer.path: footer.rows for footer in dataset.footers}
    by_number = {int(file.group): file for file in written}
    for number, item in enumerate(bins):
        expected = sum(rows[path] for path in item.files)
        found = by_number[number].rows if number in by_number else 0
        if found != expected:
            raise CheckFailed(
                f"{item.folder or dataset.location}: {found:,} rows came of {expected:,}", hint="nothing was changed"
            )
    if verify:
        with tracked(work.tell, "comparing rows"):
            verify_bins(session, dataset, bins, {number: file.address for number, file in by_number.items()})
    return [(item, by_number[number].address, by_number[number].bytes) for number, item in enumerate(bins)]


# ------------------------------------------------------------------------------------------------------ fragmentation


def fragmentation(location: str, *, target_file_size_mb: int, worst: int = 10) -> Fragmentation:
    """How the files of a folder are spread, from their footers; no Spark."""
    directory: Directory = open_parquet(location)
    dataset = read_dataset(directory, directory.files())
    small = round(0.75 * target_file_size_mb * _MIB)
    partitions: dict[str, list[Any]] = defaultdict(list)
    for footer in dataset.footers:
        partitions[footer.path.rpartition("/")[0]].append(footer)
    rows = [_partition_files(folder, footers, small) for folder, footers in partitions.items()]
    rows.sort(key=lambda row: (-row.small_files, row.average_file, row.partition))
    sizes = [footer.bytes for footer in dataset.footers]
    return Fragmentation(
        directory=location,
        partitions=len(rows),
        files=len(sizes),
        small_files=sum(row.small_files for row in rows),
        rows=dataset.rows,
        bytes=sum(sizes),
        fragmented=sum(row.files >= _MANY_FILES for row in rows),
        worst=rows[:worst],
        histogram=size_classes(sizes),
    )


def _partition_files(folder: str, footers: Sequence[Any], small: int) -> PartitionFiles:
    sizes = [footer.bytes for footer in footers]
    return PartitionFiles(
        partition=folder,
        files=len(sizes),
        small_files=sum(size < small for size in sizes),
        rows=sum(footer.rows for footer in footers),
        bytes=sum(sizes),
        smallest_file=min(sizes),
        largest_file=max(sizes),
        average_file=sum(sizes) // len(sizes),
    )
