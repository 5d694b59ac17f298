"""Rows of one or more WRITEs into a table, in one commit: as a file that this process writes, or by Spark."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import JsonValue

from neve.errors import CommitConflict, NeveError, StalePlan
from neve.files.row_files import row_file
from neve.model.appends import AppendTarget
from neve.model.changes import LiveFile, PartitionValue
from neve.model.facts import TableFacts
from neve.plan.appends import spark_needed
from neve.plan.partition_values import partition_fields
from neve.services.context import Context
from neve.services.deletion import look_again
from neve.services.look import RUN_ID
from neve.services.runs import Progress, recorded

if TYPE_CHECKING:
    from neve.engine.appending import Append
    from neve.engine.data_files import NewFile

Row = dict[str, Any]
Partition = tuple[PartitionValue, ...]
Claim = Callable[[str], Sequence[Row]]
"""Hears the run's id before anything is written, and gives the rows; perhaps fewer than were announced."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows made for a table, at most so many."""

    target: AppendTarget
    most: int
    claim: Claim


def append_rows(context: Context, batch: Batch) -> None:
    """
    Raises:
        StalePlan: the table was altered or replaced meanwhile; nothing was written.
    """
    if spark_needed(batch.target, batch.most) is None:
        _append_file(context, batch)
    else:
        write_by_spark(context, batch)


def write_by_spark(context: Context, batch: Batch, *, overwrite: bool = False) -> None:
    """The same by a Spark job; with `overwrite`, the rows that were there go in the same commit."""
    from neve.engine.records import append, frame_of
    from neve.engine.session import fresh_session

    facts = batch.target.facts
    now = look_again(context, facts)
    if now.columns != facts.columns:
        raise _altered(facts)
    session = fresh_session(context.session.spark)
    with _run(context, batch, now.current_snapshot_id, overwrite=overwrite) as run:
        rows = batch.claim(run.run_id)
        if rows:
            frame = frame_of(session, facts.name.sql, rows, [column.name for column in facts.columns])
            append(frame, facts.name.sql, summary={RUN_ID: run.run_id}, overwrite=overwrite)
        run.details = {"rows": len(rows)}


def _append_file(context: Context, batch: Batch) -> None:
    from neve.engine.appending import Append

    facts = batch.target.facts
    append = Append(context.session.spark, facts.name)
    if append.standing() != batch.target.standing:
        raise _altered(facts)
    with _run(context, batch, append.snapshot(), overwrite=False) as run:
        rows = batch.claim(run.run_id)
        if rows:
            _commit(context, append, batch.target, rows, run.run_id)
        run.details = {"rows": len(rows)}


def _run(context: Context, batch: Batch, before: int | None, *, overwrite: bool) -> AbstractContextManager[Progress]:
    plan: dict[str, JsonValue] = {"rows": batch.most, "overwrite": overwrite}
    return recorded(context, "write", batch.target.facts.name, plan=plan, snapshot_before=before)


def _commit(context: Context, append: Append, target: AppendTarget, rows: Sequence[Row], run_id: str) -> None:
    new = [_written(context, target, part, own) for part, own in _partitions(target, rows).items()]
    try:
        made = append.commit(new, {RUN_ID: run_id})
    except NeveError:
        # The answer was lost, and the commit perhaps not: the files stay, for whoever cleans up.
        if not _is_made(context, target, run_id):
            raise
    else:
        if not made:
            context.catalog.files.remove_all([each.file.path for each in new])
            raise CommitConflict(f"{target.facts.name} is being written to all the time", hint="try again later")


def _partitions(target: AppendTarget, rows: Sequence[Row]) -> dict[Partition, list[Row]]:
    """The rows of each partition; a file holds those of one."""
    fields = partition_fields(target.spec, target.fields) or []
    found: dict[Partition, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(compute(row) for compute in fields)].append(row)
    return found


def _written(context: Context, target: AppendTarget, partition: Partition, rows: Sequence[Row]) -> NewFile:
    from neve.engine.data_files import NewFile

    made = row_file(target.fields, rows, target.facts.properties)
    folder = "".join(
        f"{quote(field['name'], safe='')}={quote(str(value), safe='')}/"
        for field, value in zip(target.spec, partition, strict=True)
    )
    path = f"{target.facts.location.rstrip('/')}/data/{folder}{uuid.uuid4()}-neve.parquet"
    context.catalog.files.write_new(path, made.content)
    file = LiveFile(
        content="data",
        path=path,
        format="parquet",
        spec_id=target.spec_id,
        partition=partition,
        rows=made.rows,
        bytes=len(made.content),
        sequence=0,
    )
    return NewFile(file=file, metrics=made.metrics, split_offsets=made.split_offsets)


def _is_made(context: Context, target: AppendTarget, run_id: str) -> bool:
    try:
        now = look_again(context, target.facts)
    except NeveError:
        return False  # what went wrong first is told
    return any(snapshot.summary.get(RUN_ID) == run_id for snapshot in now.snapshots)


def _altered(facts: TableFacts) -> StalePlan:
    return StalePlan(f"{facts.name} was altered meanwhile", hint="send the records again")
