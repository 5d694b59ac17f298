"""The rows of a repartition, part by part: each in the cheapest way that is right, and each one commit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from neve.directory import Directory
from neve.model.progress import progress_line
from neve.plan.adopt import Footer
from neve.plan.directories import MOST_OPEN, Dataset, split_threads, whole_files
from neve.plan.rows import find_names, sort_fields
from neve.services.directories import Workplace, check_codec
from neve.services.directory_copies import can_copy_files, copy_all, copy_of
from neve.services.repartition.request import RepartitionRequest
from neve.services.repartition.resuming import NOTE, Begun, check_target, note_of, start_over

if TYPE_CHECKING:
    from neve.engine.parquet_tasks import Sink, WrittenFile

_MIB = 1024 * 1024


@dataclass(slots=True)
class Tally:
    """`run_id` is the run that began: whoever goes on writes in its name, so that one undo takes all back."""

    run_id: str
    files_read: int = 0
    files_written: int = 0
    rows: int = 0
    bytes: int = 0
    resumed: bool = False


def target_of(request: RepartitionRequest, part: Dataset) -> Dataset:
    """What the rows go into, without a transform."""
    keys = find_names(part.names, request.columns, where="the rows", what="the partitioning")
    new = Dataset(request.target, (), part.columns, keys)
    _ = new.types  # refuses keys whose values no folder can name
    return new


def write_all(work: Workplace, request: RepartitionRequest, dataset: Dataset, target: Directory, run_id: str) -> Tally:
    """Part by part, each one commit of rows and of how far we are."""
    from neve.engine.directories import group_of
    from neve.engine.parquet_tasks import Sink
    from neve.engine.repartition import check_count

    begun = check_target(request, dataset)
    if begun and not request.resume:
        start_over(target, run_id)
        begun = None
    done, run_id = (0, run_id) if begun is None else (begun.done, begun.run_id)
    tally = Tally(run_id, resumed=done > 0)
    parts = list(_parts(dataset, request.chunk_mb * _MIB))
    codec = check_codec(request.compression)
    for number, part in enumerate(parts):
        tally.files_read += len(part.footers)
        tally.rows += part.rows
        tally.bytes += sum(footer.bytes for footer in part.footers)
        if number < done:
            continue
        with target.change(run_id) as change:
            sink = Sink(
                folder=change.stage_folder(),
                run_id=run_id,
                compression=codec,
                row_group_rows=request.batch_size,
                file_bytes=request.target_file_size_mb * _MIB,
            )
            what = f"writing part {number + 1} of {len(parts)}"
            new, files = _write_part(work, request, part, sink, what=what)
            if request.validate:
                check_count(part, files)
            for index, file in enumerate(files):
                folder = new.folder(group_of(file.group))
                change.publish(file.address, f"{folder}/part-{run_id}-{number}-{index}.parquet".lstrip("/"))
            ends = number == len(parts) - 1 and not (request.swap_with_source or request.delete_source)
            change.note(NOTE, None if ends else note_of(request, dataset, Begun(number + 1, run_id)))
        tally.files_written += len(files)
    return tally


def _write_part(
    work: Workplace, request: RepartitionRequest, part: Dataset, sink: Sink, *, what: str
) -> tuple[Dataset, list[WrittenFile]]:
    """The cheapest ways that are right: files as they are, rows in this process, and on Spark what is left."""
    if request.transform is not None or request.sort_by or part.lacking():
        return _shuffle(work, request, part, sink, what=what)
    new = target_of(request, part)
    copied, files = _copy_whole(work, request, part, new, sink, what=what)
    rest = part.only([footer.path for footer in part.footers if footer.path not in copied])
    if not rest.footers:
        return new, files
    split = _split(work, request, rest, new, sink, what=what)
    if split is None:
        return new, files + _shuffle(work, request, rest, sink, what=what)[1]
    return new, files + split


def _copy_whole(
    work: Workplace, request: RepartitionRequest, part: Dataset, new: Dataset, sink: Sink, *, what: str
) -> tuple[set[str], list[WrittenFile]]:
    """Source files that belong to one partition as a whole are not decoded; which they were, and what came of them."""
    from neve.engine.directories import group_name
    from neve.engine.parquet_tasks import WrittenFile

    packs = [
        (group, footers)
        for group, footers in whole_files(part, new.keys, limit=sink.file_bytes or 0)
        if can_copy_files(
            part.location, [footer.path for footer in footers], codec=sink.compression, most_rows=request.batch_size
        )
    ]
    meter = _Meter(work.tell, what, sum(footer.bytes for _, footers in packs for footer in footers))

    copies = [
        copy_of(
            part.location,
            [footer.path for footer in footers],
            f"{sink.folder}/copy-{number}.staged",
            run_id=sink.run_id,
        )
        for number, (_, footers) in enumerate(packs)
    ]
    made = copy_all(work, copies, lambda number: meter.advance(sum(footer.bytes for footer in packs[number][1])))
    files = [
        WrittenFile(
            address=copy.path,
            group=group_name(group),
            rows=sum(footer.rows for footer in footers),
            bytes=copy.result.bytes,
            digest=0,
        )
        for (group, footers), copy in zip(packs, made, strict=True)
    ]
    if packs:
        meter.end()
    return {footer.path for _, footers in packs for footer in footers}, files


def _split(
    work: Workplace, request: RepartitionRequest, part: Dataset, new: Dataset, sink: Sink, *, what: str
) -> list[WrittenFile] | None:
    """In this process, where the partitions are few; None where Spark is needed."""
    from neve.engine.splitting import TooManyGroups, columns_of, sample_groups, split_files

    size = sum(footer.bytes for footer in part.footers)
    threads = split_threads(sample_groups(part, new.keys), cores=os.cpu_count() or 1, bytes=size)
    if not threads:
        return None
    meter = _Meter(work.tell, what, size)
    try:
        files = split_files(
            part,
            columns_of(part),
            new.keys,
            sink,
            threads=threads,
            most_groups=MOST_OPEN,
            validate=request.validate,
            advance=meter.advance,
        )
    except TooManyGroups:
        return None
    meter.end()
    return files


def _shuffle(
    work: Workplace, request: RepartitionRequest, part: Dataset, sink: Sink, *, what: str
) -> tuple[Dataset, list[WrittenFile]]:
    """On Spark, with the rows as `transform_fn` makes them."""
    from neve.engine.parquet_files import work_session
    from neve.engine.repartition import target_dataset, transformed_rows, write_rows
    from neve.engine.tracking import tracked

    session = work_session(work.spark, part)
    rows = transformed_rows(session, part, request.transform)
    new = target_dataset(rows, request.target, request.columns)
    order = sort_fields(new.names, request.sort_by, where="the rows")
    size = sum(footer.bytes for footer in part.footers)
    with tracked(work.tell, what):
        return new, write_rows(session, rows, new, sink, order, source_bytes=size, validate=request.validate)


class _Meter:
    """Bytes that threads have done, told to a person."""

    def __init__(self, tell: Callable[[str], None], what: str, total: int) -> None:
        self._tell, self._what, self._total = tell, what, total
        self._done, self._began, self._lock = 0, time.monotonic(), Lock()

    def advance(self, amount: int) -> None:
        with self._lock:
            self._done += amount
            seconds = time.monotonic() - self._began
            self._tell(progress_line(self._what, self._done, self._total, seconds=seconds, bytes=True))

    def end(self) -> None:
        self._tell(f"{self._what}: {time.monotonic() - self._began:.0f} s")


def _parts(dataset: Dataset, size: int) -> Iterator[Dataset]:
    """Source files in the order of their names, in parts of about so many bytes."""
    chosen: list[Footer] = []
    held = 0
    for footer in dataset.footers:
        chosen.append(footer)
        held += footer.bytes
        if held >= size:
            yield dataset.only([each.path for each in chosen])
            chosen, held = [], 0
    if chosen:
        yield dataset.only([each.path for each in chosen])
