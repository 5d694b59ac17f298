"""A change of an Iceberg table's rows: counted, staged on a branch, published in one commit, recorded.

Whoever was first wins: when the table moved meanwhile, the rows are looked at anew. The rows before the change are
tagged in the same commit, so the tag also tells whether a run whose process died had been published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.errors import CommitConflict, CommitUnknown, InvalidSchema, JobFailed
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName, shown
from neve.model.results import Reason
from neve.model.rows import RowReceipt
from neve.plan.tables import refuse_dynamic
from neve.services.context import Context
from neve.services.deletion import look_again, refuse_half_deleted
from neve.services.ledger import branch_of, settle_staged
from neve.services.look import RUN_ID
from neve.services.runs import Progress, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.engine.table_rows import TableWork

ATTEMPTS = 10
Prepare = Callable[["SparkSession", TableFacts], "TableWork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a change is made, whatever it changes."""

    create_backup: bool = True
    dry_run: bool = False


def backup_tag(run_id: str) -> str:
    """The tag of the rows before a run."""
    return f"undo_{run_id.lower()}"


def settle_rows(context: Context, name: TableName, run_id: str) -> bool:
    """Clears up after a change whose process died; whether it had been published."""
    settle_staged(context, name, run_id)
    return _is_published(context.catalog.facts(name), run_id)


def _is_published(facts: TableFacts, run_id: str) -> bool:
    """By the tag, or by the snapshot: a delete of whole files leaves no word in the latter."""
    tag = backup_tag(run_id)
    return any(reference.name == tag for reference in facts.references) or any(
        snapshot.summary.get(RUN_ID) == run_id for snapshot in facts.ancestors()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    facts: TableFacts
    session: SparkSession
    work: TableWork
    rows: int

    @property
    def rows_after(self) -> int:
        return self.rows - self.work.deleted + self.work.inserted


def change_rows(
    context: Context, name: TableName, action: str, prepare: Prepare, *, plan: Mapping[str, JsonValue], way: Way
) -> RowReceipt:
    """Counts the rows, and unless that is all or there are none makes the change, recorded as a run."""
    began = time.monotonic()
    facts = context.catalog.facts(name)
    prepared = _prepare(context, facts, prepare)
    if way.dry_run or prepared.work.nothing:
        return _receipt(name, action, prepared, began=began, way=way)
    before = prepared.facts.current_snapshot_id
    with recorded(context, action, name, plan=plan, snapshot_before=before) as run:
        prepared, backup = _carry_out(context, prepared, prepare, run, way=way)
        made = _receipt(name, action, prepared, began=began, way=way, run=run, backup=backup)
        run.details = {key: value for key, value in made.model_dump(mode="json").items() if key.startswith("rows_")}
        run.details["backup"] = backup
        run.undo, run.reason = made.undo, made.reason
    return made


def _prepare(context: Context, facts: TableFacts, prepare: Prepare) -> _Prepared:
    """Counts what is to be done, on rows that did not move while they were counted."""
    from neve.engine.session import fresh_session
    from neve.engine.table_rows import count_rows
    from neve.engine.tracking import tracked

    refuse_half_deleted(facts)
    then = neve("dynamic", "refresh", facts.name.short)
    refuse_dynamic(facts, verb="change rows of", instead=f"change those of the tables that it reads, then {then}")
    for _ in range(ATTEMPTS):
        session = fresh_session(context.session.spark)
        with tracked(context.tell, "looking for rows"):
            work = prepare(session, facts)
        known = facts.current.rows if facts.current else 0
        rows = count_rows(session, facts.name.sql) if known is None else known
        now = look_again(context, facts)
        if now.current_snapshot_id == facts.current_snapshot_id:
            _refuse_nulls(facts, work)
            return _Prepared(facts=facts, session=session, work=work, rows=rows)
        facts = now
    raise CommitConflict(f"{facts.name} is being written to all the time", hint="try again later")


def _carry_out(
    context: Context, prepared: _Prepared, prepare: Prepare, run: Progress, *, way: Way
) -> tuple[_Prepared, str | None]:
    """Stages and publishes, and says by which tag; when the table moved meanwhile, looks again and starts anew."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return prepared, _stage_and_publish(context, prepared, run, way=way)
        except (CommitConflict, CommitUnknown):
            if attempt == ATTEMPTS:
                raise
        now = look_again(context, prepared.facts)
        if _is_published(now, run.run_id):  # the answer was lost on its way
            run.snapshot_after = now.current_snapshot_id
            return prepared, backup_tag(run.run_id)
        context.tell(f"the table was written to meanwhile; once more ({attempt + 1} of {ATTEMPTS})")
        prepared = _prepare(context, now, prepare)
        run.snapshot_before = prepared.facts.current_snapshot_id
        if prepared.work.nothing:
            break
    return prepared, None


def _stage_and_publish(context: Context, prepared: _Prepared, run: Progress, *, way: Way) -> str | None:
    from neve.engine.staging import Backup, publish, staged
    from neve.engine.table_rows import label_commits
    from neve.engine.tracking import tracked

    facts, session = prepared.facts, prepared.session
    keep = context.loaded.settings.trash.keep
    label_commits(session, {RUN_ID: run.run_id})
    with staged(session, facts.name, branch_of(run.run_id), base=facts.current_snapshot_id) as branch:
        with tracked(context.tell, "changing rows"):
            prepared.work.write(branch.sql)
        _check(context, prepared, branch.name)
        age = context.clock() - facts.current.at if facts.current else timedelta()
        backup = Backup(backup_tag(run.run_id), age + keep)
        run.snapshot_after = publish(session, branch, base=facts.current_snapshot_id, backup=backup)
    if facts.current is None:
        return None
    if way.create_backup and keep:
        return backup.tag
    context.catalog.remove_tag(facts.name, backup.tag)
    return None


def _check(context: Context, prepared: _Prepared, branch: str) -> None:
    """Refuses what was staged when it is not what was counted."""
    facts = context.catalog.facts(prepared.facts.name)
    staged_id = next(reference.snapshot_id for reference in facts.references if reference.name == branch)
    snapshot = facts.snapshot(staged_id)
    if snapshot is not None and snapshot.rows is not None and snapshot.rows != prepared.rows_after:
        raise JobFailed(
            f"{snapshot.rows:,} rows were written where {prepared.rows_after:,} were expected",
            hint="nothing was changed; does the condition use the time of day?",
        )


def _receipt(
    name: TableName,
    action: str,
    prepared: _Prepared,
    *,
    began: float,
    way: Way,
    run: Progress | None = None,
    backup: str | None = None,
) -> RowReceipt:
    work, before = prepared.work, prepared.facts.current_snapshot_id
    done = run is not None and run.snapshot_after is not None
    return RowReceipt(
        run_id=None if run is None else run.run_id,
        action=action,
        table=str(name),
        reason=Reason(code="nothing_to_do", detail="no row is concerned") if work.nothing else None,
        snapshot_before=before,
        snapshot_after=None if run is None else run.snapshot_after,
        duration_ms=round((time.monotonic() - began) * 1000),
        dry_run=way.dry_run,
        undo=_undo(name, before) if done else None,
        rows_before=prepared.rows,
        rows_after=prepared.rows_after,
        rows_deleted=work.deleted,
        rows_updated=work.updated,
        rows_inserted=work.inserted,
        backup=backup,
    )


def _undo(name: TableName, before: int | None) -> str:
    if before is None:
        return neve("table", "reinitialise", name.short)
    return neve("table", "rollback", name.short, "--to", str(before))


def _refuse_nulls(facts: TableFacts, work: TableWork) -> None:
    if work.nulls:
        raise InvalidSchema(
            f"{', '.join(map(shown, work.nulls))} of {facts.name} cannot be NULL, and would be in some of these rows",
            hint=f"give values, or: {neve('table', 'alter', facts.name.short, '--optional', work.nulls[0])}",
        )
