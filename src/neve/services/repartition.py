"""A folder's rows into another folder under other keys: in parts that are each committed, so that it can be resumed.

How far it has come stands in `_repartition.json` of the target, written by the same commits as the rows.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from neve.directory import Directory
from neve.directory.backups import Backups, duplicate
from neve.errors import InvalidInput, NotEmpty, Refused, StalePlan
from neve.model.commands import neve
from neve.model.directories import RepartitionStats, SizeEstimate
from neve.model.progress import progress_line
from neve.plan.adopt import Footer
from neve.plan.directories import MOST_OPEN, Dataset, Group, split_threads, whole_files
from neve.plan.folders import overlap
from neve.plan.rows import find_names, sort_fields
from neve.services.directories import Workplace, check_codec, check_local, open_parquet, read_dataset, recorded_run
from neve.services.directory_copies import can_copy_files, copy_files

if TYPE_CHECKING:
    from neve.engine.parquet_tasks import Sink, WrittenFile

_MIB = 1024 * 1024
_NOTE = "_repartition.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionRequest:
    source: str
    target: str
    columns: tuple[str, ...]
    compression: str = "zstd"
    batch_size: int = 1_000_000
    target_file_size_mb: int = 128
    chunk_mb: int = 4096
    sort_by: Sequence[str] = ()
    transform: Callable[[Any], Any] | None = None
    delete_source: bool = False
    validate: bool = True
    dry_run: bool = False
    resume: bool = True
    swap_with_source: bool = False

    def check(self) -> None:
        for name in ("batch_size", "target_file_size_mb", "chunk_mb"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name} must be more than 0, not {getattr(self, name)}")
        check_local(self.target)
        if overlap(self.source, self.target):
            raise Refused(f"{self.target} and {self.source} overlap", hint="repartition into a folder of its own")


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


@dataclass(slots=True)
class _Tally:
    files_read: int = 0
    files_written: int = 0
    rows: int = 0
    bytes: int = 0
    resumed: bool = False


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
    source = open_parquet(request.source)
    plan: dict[str, JsonValue] = {"target": request.target, "columns": list(request.columns)}
    with recorded_run(work, "parquet repartition", request.source, plan=plan, dry_run=request.dry_run) as run:
        old = _Old(source, _stamps(source))
        dataset = read_dataset(source, source.files(), constants=request.columns)
        if request.dry_run:
            _check_target(request, dataset)
            return _preview(work, request, dataset).model_copy(update={"start_time": started, "end_time": work.clock()})
        is_new = not Path(request.target).exists()
        target = open_parquet(request.target, create=True)
        try:
            tally = _write_all(work, request, dataset, target, run.run_id)
        except BaseException:
            if is_new:
                _remove_if_empty(request.target)
            raise
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
        stats = stats.model_copy(update=_finish(work, request, old, new, run_id=run.run_id))
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
    from neve.engine.splitting import columns_of, count_groups

    if request.transform is None and not dataset.lacking() and columns_of(dataset) is not None:
        return count_groups(dataset, _target(request, dataset).keys)
    rows = transformed_rows(work_session(work.spark, dataset), dataset, request.transform)
    return count_partitions(rows, target_dataset(rows, request.target, request.columns).keys)


def _target(request: RepartitionRequest, part: Dataset) -> Dataset:
    """What the rows go into, without a transform."""
    keys = find_names(part.names, request.columns, where="the rows", what="the partitioning")
    new = Dataset(request.target, (), part.columns, keys)
    _ = new.types  # refuses keys whose values no folder can name
    return new


# -------------------------------------------------------------------------------------------------------------- parts


def _write_all(
    work: Workplace, request: RepartitionRequest, dataset: Dataset, target: Directory, run_id: str
) -> _Tally:
    """Part by part, each one commit of rows and of how far we are."""
    from neve.engine.directories import group_of
    from neve.engine.parquet_tasks import Sink
    from neve.engine.repartition import check_count

    done = _check_target(request, dataset)
    if done and not request.resume:
        _start_over(target, run_id)
        done = 0
    tally = _Tally(resumed=done > 0)
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
            change.note(_NOTE, None if ends else _note(request, dataset, number + 1))
        tally.files_written += len(files)
    return tally


def _write_part(
    work: Workplace, request: RepartitionRequest, part: Dataset, sink: Sink, *, what: str
) -> tuple[Dataset, list[WrittenFile]]:
    """The cheapest ways that are right: files as they are, rows in this process, and on Spark what is left."""
    if request.transform is not None or request.sort_by or part.lacking():
        return _shuffle(work, request, part, sink, what=what)
    new = _target(request, part)
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

    def copy(item: tuple[int, tuple[Group, list[Footer]]]) -> WrittenFile:
        number, (group, footers) = item
        address = f"{sink.folder}/copy-{number}.staged"
        size = copy_files(part.location, [footer.path for footer in footers], address, run_id=sink.run_id)
        meter.advance(sum(footer.bytes for footer in footers))
        rows = sum(footer.rows for footer in footers)
        return WrittenFile(address=address, group=group_name(group), rows=rows, bytes=size, digest=0)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        files = list(pool.map(copy, enumerate(packs)))
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
    if not threads or (columns := columns_of(part)) is None:
        return None
    meter = _Meter(work.tell, what, size)
    try:
        files = split_files(
            part,
            columns,
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
    for footer in dataset.footers:
        chosen.append(footer)
        if sum(each.bytes for each in chosen) >= size:
            yield dataset.only([each.path for each in chosen])
            chosen = []
    if chosen:
        yield dataset.only([each.path for each in chosen])


def _note(request: RepartitionRequest, dataset: Dataset, done: int) -> bytes:
    return json.dumps({**_identity(request, dataset), "done": done}, ensure_ascii=False).encode()


def _identity(request: RepartitionRequest, dataset: Dataset) -> dict[str, Any]:
    """What must be the same for a run to go on where another one stopped."""
    return {
        "source": request.source,
        "columns": list(request.columns),
        "chunk_mb": request.chunk_mb,
        "files": [[footer.path, footer.bytes] for footer in dataset.footers],
    }


def _check_target(request: RepartitionRequest, dataset: Dataset) -> int:
    """How many parts the target holds already.

    Raises:
        NotEmpty: it holds something else.
    """
    if not Path(request.target).is_dir():
        return 0
    target = open_parquet(request.target)
    held = target.files()
    if not target.storage.exists(_NOTE):
        if held:
            raise NotEmpty(f"{request.target} is not empty: it holds {held[0].path}", hint="choose a new folder")
        return 0
    found = json.loads(target.storage.read(_NOTE))
    done = int(found.pop("done"))
    if found != _identity(request, dataset):
        if {file.path: file.bytes for file in held} == {footer.path: footer.bytes for footer in dataset.footers}:
            raise NotEmpty(
                f"{request.source} holds the files of {request.target} already: a run that then died had swapped them",
                hint=f"nothing is left to do but to remove {request.target}",
            )
        raise NotEmpty(
            f"{request.target} holds an unfinished repartition of {found.get('source')} and not of this",
            hint="the source, its files or the partition columns are others: choose a new folder",
        )
    return done


def _start_over(target: Directory, run_id: str) -> None:
    _forget(target, run_id, [file.path for file in target.files()])


# ---------------------------------------------------------------------------------------------------------------- ends


def _finish(work: Workplace, request: RepartitionRequest, old: _Old, new: Dataset, *, run_id: str) -> dict[str, Any]:
    """What becomes of the source."""
    if request.swap_with_source:
        return _swap(work, request, old, new, run_id=run_id)
    if request.delete_source:
        with old.directory.change(run_id) as change:
            old.check()
            for path in old.stamps:
                change.remove(path)
        _remove_if_empty(request.source)
        _forget(open_parquet(request.target), run_id)
    return {}


def _forget(target: Directory, run_id: str, files: Sequence[str] = ()) -> None:
    """The source is dealt with, so nothing is left to resume."""
    with target.change(run_id) as change:
        for path in files:
            change.remove(path)
        change.note(_NOTE, None)


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
    _forget(open_parquet(request.target), run_id, [footer.path for footer in new.footers])
    _remove_if_empty(request.target)
    if request.delete_source:
        return {}
    return {"backup": run_id, "undo": neve("parquet", "restore", request.source, run_id)}


def _remove_if_empty(folder: str) -> None:
    try:
        Path(folder).rmdir()
    except OSError:
        return
