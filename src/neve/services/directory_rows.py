"""delete, update, upsert, deduplicate, repair and restore on a plain folder: one journalled change each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from neve.directory import Change, Directory
from neve.directory.backups import Backups
from neve.errors import ColumnNotFound, JobFailed, NotFound
from neve.model.commands import neve
from neve.model.directories import Outline, RowStats
from neve.plan.directories import Dataset, Group, prune
from neve.plan.rows import check_keep, key_columns, new_columns, sort_fields
from neve.services.directories import (
    Workplace,
    check_codec,
    find_disagreements,
    open_parquet,
    open_to_change,
    read_dataset,
    recorded_run,
    trusted_dataset,
    written_by,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.engine.directories import RowWork


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a change is made, whatever it changes."""

    compression: str = "zstd"
    backup_dir: str | None = None
    create_backup: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A change that is understood and not yet made. `selected` are the files that may hold its rows."""

    session: SparkSession
    dataset: Dataset
    selected: Dataset
    work: RowWork | None
    outline: Outline | None = None
    inserts: DataFrame | None = None
    insert_groups: Mapping[Group, int] | None = None
    by_home: bool = False
    files_read: int | None = None


def delete_rows(
    work: Workplace, location: str, filter_expr: Any, *, partition_filter: Mapping[str, object] | None, how: How
) -> RowStats:
    """Removes the rows for which a condition is true."""

    def prepare(dataset: Dataset) -> Prepared:
        from neve.engine.directories import ByCondition, check_work
        from neve.engine.parquet_files import scan, work_session
        from neve.engine.row_values import condition_of, conjunction

        session = work_session(work.spark, dataset)
        selected, wanted = prune(dataset, partition_filter)
        condition = conjunction(condition_of(filter_expr), wanted)
        doomed = ByCondition(condition, None)
        check_work(doomed, scan(session, selected))
        return Prepared(session=session, dataset=dataset, selected=selected, work=doomed)

    return change_rows(work, location, "parquet delete", prepare, how=how, plan={"where": str(filter_expr)})


def update_rows(
    work: Workplace,
    location: str,
    filter_expr: Any,
    updates: Mapping[str, object],
    *,
    partition_filter: Mapping[str, object] | None,
    how: How,
) -> RowStats:
    """Gives columns new values in the rows for which a condition is true; every new value is of the old row."""

    def prepare(dataset: Dataset) -> Prepared:
        from neve.engine.directories import ByCondition, check_work
        from neve.engine.parquet_files import scan, work_session
        from neve.engine.row_values import condition_of, conjunction, new_values

        named = new_columns(dataset.names, updates, where=location)
        session = work_session(work.spark, dataset)
        selected, wanted = prune(dataset, partition_filter)
        rows = scan(session, selected)
        changed = ByCondition(conjunction(condition_of(filter_expr), wanted), new_values(rows, named))
        check_work(changed, rows)
        return Prepared(session=session, dataset=dataset, selected=selected, work=changed)

    plan: dict[str, JsonValue] = {"where": str(filter_expr), "set": {name: str(v) for name, v in updates.items()}}
    return change_rows(work, location, "parquet update", prepare, how=how, plan=plan)


def deduplicate_rows(
    work: Workplace, location: str, key_cols: Sequence[str], *, keep: str, order_by: Sequence[str], how: How
) -> RowStats:
    """Keeps one row of each key."""
    check_keep(keep)

    def prepare(dataset: Dataset) -> Prepared:
        from neve.engine.directories import find_duplicates
        from neve.engine.parquet_files import work_session

        keys = key_columns(dataset.names, key_cols, where=location)
        session = work_session(work.spark, dataset)
        order = sort_fields(dataset.names, order_by, where=location)
        losers, found = find_duplicates(session, dataset, keys, keep=keep, order_by=order)
        return Prepared(session=session, dataset=dataset, selected=dataset, work=losers, outline=found)

    plan: dict[str, JsonValue] = {"keys": list(key_cols), "keep": keep, "order_by": list(order_by)}
    return change_rows(work, location, "parquet dedupe", prepare, how=how, plan=plan)


def repair_rows(work: Workplace, location: str, *, how: How) -> RowStats:
    """Moves rows that lie in a folder of another value to where they belong."""

    def prepare(dataset: Dataset) -> Prepared:
        from neve.engine.directories import Misplaced
        from neve.engine.parquet_files import work_session

        wrong = {doubt.path for doubt in find_disagreements(open_parquet(location), dataset)}
        return Prepared(
            session=work_session(work.spark, dataset),
            dataset=dataset,
            selected=dataset.only(sorted(wrong)),
            work=Misplaced(dataset.keys),
            by_home=True,
            files_read=len(dataset.footers),
        )

    return change_rows(work, location, "parquet repair", prepare, how=how, plan={}, trust=False)


def restore_backup(work: Workplace, location: str, backup_id: str, *, how: How) -> RowStats:
    """Takes a change back: the very files that it replaced return."""
    directory = open_to_change(work, location)
    backups = Backups(directory, how.backup_dir)
    backup = backups.find(backup_id)
    with recorded_run(work, "parquet restore", location, plan={"backup": backup.run_id}, dry_run=how.dry_run) as run:
        with changing(directory, run.run_id, dry_run=how.dry_run) as (files, change):
            rows = {footer.path: footer.rows for footer in read_dataset(directory, files).footers}
            backups.check(backup, lambda path: written_by(directory, path))
            if change is not None:
                backups.restore(backup, change)
        before, doomed = sum(rows.values()), sum(rows[path] for path in backup.published)
        after = before - doomed + _kept_rows(backups, backup.run_id, backup.replaced)
        stats = RowStats(
            run_id=None if how.dry_run else run.run_id,
            dry_run=how.dry_run,
            partitions_affected=len({path.rpartition("/")[0] for path in (*backup.published, *backup.replaced)}),
            files_read=len(files),
            files_written=len(backup.replaced),
            files_deleted=len(backup.published),
            rows_before=before,
            rows_after=after,
            backup=backup.run_id,
        )
        run.details = stats.model_dump(mode="json")
    if not how.dry_run:
        backups.discard(backup.run_id)
    return stats


def _kept_rows(backups: Backups, run_id: str, paths: Sequence[str]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(backups.place / run_id / f"{path}.kept").num_rows for path in paths)


# ------------------------------------------------------------------------------------------------------- one for all


@contextmanager
def changing(directory: Directory, run_id: str, *, dry_run: bool) -> Iterator[tuple[list[Any], Change | None]]:
    """The files of a folder, and a change of it unless it is only a dry run."""
    if dry_run:
        with directory.reading() as files:
            yield files, None
    else:
        with directory.change(run_id) as change:
            yield directory.files(), change


def change_rows(
    work: Workplace,
    location: str,
    action: str,
    prepare: Callable[[Dataset], Prepared],
    *,
    how: How,
    plan: Mapping[str, JsonValue],
    trust: bool = True,
    create: bool = False,
) -> RowStats:
    from neve.engine.tracking import tracked

    codec = check_codec(how.compression)
    directory = open_to_change(work, location, create=create and not how.dry_run)
    backups = Backups(directory, how.backup_dir)
    with recorded_run(work, action, directory.location, plan=plan, dry_run=how.dry_run) as run:
        with changing(directory, run.run_id, dry_run=how.dry_run) as (files, change):
            dataset = (trusted_dataset if trust else read_dataset)(directory, files)
            with tracked(work.tell, "looking for rows" if change is None else "changing rows"):
                prepared = _prepared(prepare, dataset, create=create)
                stats = _carry_out(prepared, change, codec=codec)
            if change is not None and (change.published or stats.files_deleted):
                stats = stats.model_copy(update={"run_id": run.run_id})
                if how.create_backup:
                    replaced = [file.path for file in files if file.path in change.leaving]
                    backups.make(change, action=action, replaced=replaced, now=work.clock())
                    elsewhere = () if how.backup_dir is None else ("--backup-dir", str(backups.place))
                    undo = neve("parquet", "restore", directory.location, run.run_id, *elsewhere)
                    stats = stats.model_copy(update={"backup": run.run_id, "undo": undo})
        run.details, run.undo = stats.model_dump(mode="json"), stats.undo
    return stats


def _prepared(prepare: Callable[[Dataset], Prepared], dataset: Dataset, *, create: bool) -> Prepared:
    try:
        return prepare(dataset)
    except ColumnNotFound as exc:
        if dataset.footers or create:
            raise
        raise NotFound(f"{dataset.location} holds no Parquet files, and so no column") from exc


def _carry_out(prepared: Prepared, change: Change | None, *, codec: str) -> RowStats:
    """Finds the rows, and unless it is a dry run writes the files that take the place of those that hold them."""
    from neve.engine.directories import outline
    from neve.engine.parquet_files import scan

    dataset, selected = prepared.dataset, prepared.selected
    found = prepared.outline or Outline(files={})
    if prepared.outline is None and prepared.work is not None and selected.footers:
        rows = scan(prepared.session, selected, home=prepared.by_home)
        found = outline(prepared.work, rows, dataset)
    targets = {**found.targets, **(prepared.insert_groups or {})}
    sizes = {footer.path: footer for footer in dataset.footers}
    staying = [path for path, file in found.files.items() if sizes[path].rows > file.dropped + file.moved]
    inserted = sum((prepared.insert_groups or {}).values())
    folders = {path.rpartition("/")[0] for path in found.files} | {dataset.folder(group) for group in targets}
    stats = RowStats(
        dry_run=change is None,
        partitions_affected=len(folders),
        files_read=len(selected.footers) if prepared.files_read is None else prepared.files_read,
        files_written=len(staying) + len(targets),
        files_deleted=len(found.files),
        rows_before=dataset.rows,
        rows_after=dataset.rows - found.dropped + inserted,
        rows_deleted=found.dropped,
        rows_updated=found.changed,
        rows_inserted=inserted,
        bytes_read=sum(footer.bytes for footer in selected.footers),
        bytes_rewritten=sum(sizes[path].bytes for path in staying),
    )
    if change is not None:
        _write(prepared, found, staying, change, codec=codec, new_rows=inserted)
    return stats


def _write(
    prepared: Prepared, found: Outline, staying: Sequence[str], change: Change, *, codec: str, new_rows: int
) -> None:
    from neve.engine.directories import group_of, moving_rows, rewrite_files, write_partitions
    from neve.engine.parquet_files import relative_path, scan
    from neve.engine.parquet_tasks import Sink

    dataset, session, work = prepared.dataset, prepared.session, prepared.work
    sink = Sink(folder=change.stage_folder(), run_id=change.run_id, compression=codec)
    for path in found.files:
        change.remove(path)
    kept = 0
    if staying and work is not None:
        rows = scan(session, dataset.only(staying), home=prepared.by_home)
        for written in rewrite_files(work, rows, dataset, sink):
            change.publish(written.address, relative_path(written.group))
            kept += written.rows
    moved = [path for path, file in found.files.items() if file.moved]
    frames = [] if prepared.inserts is None or not new_rows else [prepared.inserts]
    if moved and work is not None:
        frames.append(moving_rows(work, scan(session, dataset.only(moved), home=prepared.by_home), dataset))
    new = 0
    for number, written in enumerate(write_partitions(_union(frames), dataset, sink) if frames else []):
        folder = dataset.folder(group_of(written.group))
        change.publish(written.address, f"{folder}/part-{change.run_id}-{number}.parquet".lstrip("/"))
        new += written.rows
    held = sum(footer.rows for footer in dataset.footers if footer.path in found.files)
    if kept + new != held - found.dropped + new_rows:
        raise JobFailed(
            f"{kept + new:,} rows were written where {held - found.dropped + new_rows:,} were expected",
            hint="nothing was changed; does the condition use the time of day?",
        )


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionByName(other)
    return first
