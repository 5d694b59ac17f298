"""One refresh of one dynamic table: what changed, what that does to its rows, and one commit that says so.

The frontier says which snapshots of the sources the rows are the result of. It is written in the commit that changes
the rows, or, where no row changes, in a commit of metadata alone. Either is seen whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.engine.refresh import Applied, apply_changes, compare, kept, load_all, provide
from neve.engine.staging import publish, staged
from neve.errors import Refused
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier, Pin, RefreshAction, RefreshReceipt
from neve.model.results import Reason
from neve.services.context import Context
from neve.services.dynamic.definitions import FRONTIER, Definition, understand_again
from neve.services.ledger import branch_of
from neve.services.look import RUN_ID
from neve.services.row_changes import RowChanges, changes_since
from neve.services.runs import Progress, recorded
from neve.sql.delta import Analysis, DeltaQuery, Moments, Version, derive, full

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORED = "_neve_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The sources of a round of refreshes, each as it was looked at once, and the round's present moment."""

    at: datetime
    sources: Mapping[TableName, Pin]

    def joined_by(self, others: Pins) -> Pins:
        """With sources that were looked at later in the same round; its moment stays."""
        return replace(self, sources={**self.sources, **others.sources})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A refresh that was decided: from which frontier to which, how, and why.

    `changes` are those of the sources that changed, to be closed when they have been read.
    """

    definition: Definition
    analysis: Analysis
    facts: TableFacts
    before: Frontier | None
    after: Frontier
    action: RefreshAction
    reason: Reason
    changes: Mapping[TableName, RowChanges] = field(default_factory=dict)

    @property
    def table(self) -> TableName:
        return self.definition.name

    @property
    def is_empty(self) -> bool:
        return self.facts.current is None or self.facts.current.rows == 0

    @property
    def base(self) -> int | None:
        """The table's snapshot that is refreshed; whoever commits to it first wins."""
        return self.facts.current_snapshot_id


def pin(context: Context, names: set[TableName]) -> Pins:
    """Looks at every source once."""
    found = {name: context.catalog.facts(name) for name in sorted(names, key=str)}
    sources = {name: Pin(uuid=facts.uuid, snapshot=facts.current_snapshot_id) for name, facts in found.items()}
    return Pins(at=context.clock(), sources=sources)


def frontier_of(facts: TableFacts) -> Frontier | None:
    """What the table's rows are the result of; None before its first refresh, and when somebody else wrote since.

    A commit of metadata may have moved it on without a row changed: it counts while it speaks of the current snapshot.
    A rewrite of files changes no row.
    """
    text = facts.properties.get(FRONTIER)
    told = None if text is None else Frontier.model_validate_json(text)
    if told is not None and told.snapshot == facts.current_snapshot_id:
        return told
    for snapshot in facts.ancestors():
        if FRONTIER in snapshot.summary:
            return Frontier.model_validate_json(snapshot.summary[FRONTIER])
        if snapshot.operation != "replace":
            return None
    return None


def refresh_table(context: Context, definition: Definition, pins: Pins) -> RefreshReceipt:
    """Brings the table to its query over the pinned sources.

    Raises:
        Refused: the table is declared INCREMENTAL and cannot follow these changes; the reason is told.
        CommitConflict: another refresh was first; nothing was changed.
    """
    began = time.monotonic()
    refresh = decide(context, definition, pins)
    if refresh.action == "NO_DATA":
        _move_on(context, refresh)
        return _receipt(refresh, began=began)
    plan: dict[str, JsonValue] = {"refresh": refresh.action, "reason": refresh.reason.detail}
    try:
        with recorded(context, "refresh", refresh.table, plan=plan, snapshot_before=refresh.base) as run:
            done = _carry_out(context, refresh, run)
            run.details = {**plan, "rows_inserted": done.inserted, "rows_deleted": done.deleted}
            if refresh.base is not None:
                run.undo = neve("table", "rollback", refresh.table.short, "--to", str(refresh.base))
    finally:
        for change in refresh.changes.values():
            change.close()
    return _receipt(refresh, began=began, run=run, done=done)


def decide(context: Context, definition: Definition, pins: Pins) -> Refresh:
    """What a refresh will do; no Spark."""
    facts = context.catalog.facts(definition.name)
    first = Refresh(
        definition=definition,
        analysis=understand_again(context, definition),
        facts=facts,
        before=frontier_of(facts),
        after=Frontier(
            fingerprint=definition.fingerprint,
            at=pins.at,
            sources={str(name): pins.sources[name] for name in definition.sources},
        ),
        action="FULL",
        reason=Reason(code="first", detail="the table has no rows yet"),
    )
    if first.before is None and first.is_empty:
        return first
    if first.before is None:
        detail = "the table was written to by somebody else, or its own commits have expired"
        return _forced(first, Reason(code="unknown_rows", detail=detail))
    if first.before.fingerprint != definition.fingerprint:
        reason = Reason(code="new_query", detail="the query is another one")
        return replace(first, action="REINITIALIZE", reason=reason)
    if definition.options.refresh_mode == "FULL":
        return _full_unless_same(first, Reason(code="asked", detail="REFRESH_MODE is FULL"))
    if not first.analysis.incremental:
        why = first.analysis.reasons[0]
        return _full_unless_same(first, Reason(code=why.code, detail=str(why)))
    return _follow(context, first, first.before)


def _follow(context: Context, refresh: Refresh, before: Frontier) -> Refresh:
    """By the changes of the sources, where they can be read and followed."""
    changes: dict[TableName, RowChanges] = {}
    for source in refresh.analysis.sources:
        name = TableName.parse(source.name)
        old, new = before.sources.get(str(name)), refresh.after.sources[str(name)]
        if old is None:
            return _forced(refresh, Reason(code="new_source", detail=f"{name} was not read before"))
        change = changes_since(
            context, name, uuid=old.uuid, since=old.snapshot, until=new.snapshot, columns=source.columns
        )
        if (why := _obstacle(change, old)) is not None:
            return _forced(refresh, why)
        if not change.nothing:
            changes[name] = change
    if not changes and not refresh.analysis.timed:
        return replace(refresh, action="NO_DATA", reason=Reason(code="no_changes", detail="no row of a source changed"))
    told = "; ".join(f"{name.short}: {change.plan.reason.detail}" for name, change in changes.items())
    reason = Reason(code="changes", detail=told or "time has passed")
    return replace(refresh, action="INCREMENTAL", reason=reason, changes=changes)


def _full_unless_same(refresh: Refresh, reason: Reason) -> Refresh:
    if refresh.before is not None and refresh.before.sources == refresh.after.sources and refresh.analysis.incremental:
        return replace(refresh, action="NO_DATA", reason=Reason(code="no_changes", detail="its sources are the same"))
    return replace(refresh, action="FULL", reason=reason)


def _forced(refresh: Refresh, reason: Reason) -> Refresh:
    """In full, which a table declared INCREMENTAL does not do by itself."""
    if refresh.definition.options.refresh_mode == "INCREMENTAL":
        raise Refused(f"{refresh.table} cannot follow these changes: {reason.detail}", hint="use REFRESH_MODE = AUTO")
    action: RefreshAction = "REINITIALIZE" if reason.code == "other_table" else "FULL"
    return replace(refresh, action=action, reason=reason)


def _obstacle(change: RowChanges, old: Pin) -> Reason | None:
    """Why the changes of a source cannot be followed."""
    if not change.plan.possible:
        return change.plan.reason
    if old.snapshot is None or change.nothing:
        return None
    lineage = change.lineage
    earlier = {column.id: column for column in lineage.schemas[lineage.steps[old.snapshot].schema_id]}
    if any(earlier.get(column.id) != column for column in change.plan.columns):
        detail = f"columns of {change.plan.table} that the query reads were renamed, added or changed since"
        return Reason(code="schema_changed", detail=detail)
    return None


def _carry_out(context: Context, refresh: Refresh, run: Progress) -> Applied:
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    if refresh.before is None and refresh.is_empty:
        return _initialise(context, spark, refresh, run)
    if refresh.action == "INCREMENTAL" and refresh.before is not None:
        moments = Moments(refresh.before.at, refresh.after.at)
        query = derive(refresh.analysis, frozenset(map(str, refresh.changes)), moments=moments)
        if query is None:
            _move_on(context, refresh)
            return Applied(0, 0)
        provide_all(spark, query, refresh)
        changes = spark.sql(query.sql)
    else:
        query = full(refresh.analysis, Version.NEW, moment=refresh.after.at)
        provide_all(spark, query, refresh)
        provide(spark, STORED, refresh.table, refresh.base, query.columns)
        changes = compare(spark, query.sql, STORED, query.columns)
    with kept(changes) as done:
        if done == Applied(0, 0):
            _move_on(context, refresh)
            return done
        with staged(spark, refresh.table, branch_of(run.run_id), base=refresh.base) as branch:
            apply, summary = query.apply, _summary(refresh, run)
            apply_changes(spark, branch, query.columns, kind=apply.kind, keys=apply.keys, summary=summary)
            run.snapshot_after = publish(spark, branch, base=refresh.base)
    return done


def _initialise(context: Context, spark: SparkSession, refresh: Refresh, run: Progress) -> Applied:
    query = full(refresh.analysis, Version.NEW, moment=refresh.after.at)
    provide_all(spark, query, refresh)
    with staged(spark, refresh.table, branch_of(run.run_id), base=refresh.base) as branch:
        hashed = query.apply.kind != "keyed"
        load_all(spark, branch, query.sql, query.columns, hashed=hashed, summary=_summary(refresh, run))
        run.snapshot_after = publish(spark, branch, base=refresh.base)
    current = context.catalog.facts(refresh.table).current
    return Applied((current.rows if current else 0) or 0, 0)


def _summary(refresh: Refresh, run: Progress) -> dict[str, str]:
    return {RUN_ID: run.run_id, FRONTIER: refresh.after.model_dump_json()}


def provide_all(spark: SparkSession, query: DeltaQuery, refresh: Refresh) -> None:
    """Every relation that a text reads, under its name."""
    for read in query.reads:
        if read.source is None:
            provide(spark, read.relation, refresh.table, refresh.base, read.columns)
            continue
        name = TableName.parse(read.source)
        if read.kind == "delta":
            refresh.changes[name].frame(spark).createOrReplaceTempView(read.relation)
        else:
            side = refresh.before if read.kind == "old" and refresh.before is not None else refresh.after
            provide(spark, read.relation, name, side.sources[str(name)].snapshot, read.columns)


def _move_on(context: Context, refresh: Refresh) -> None:
    """Writes a frontier that changed no row; nothing when it has not moved."""
    if refresh.before is not None and refresh.before.sources == refresh.after.sources and not refresh.analysis.timed:
        return
    told = refresh.after.model_copy(update={"snapshot": refresh.base})
    context.catalog.set_properties(refresh.table, put={FRONTIER: told.model_dump_json()})


def _receipt(
    refresh: Refresh, *, began: float, run: Progress | None = None, done: Applied | None = None
) -> RefreshReceipt:
    return RefreshReceipt(
        run_id=run.run_id if run else None,
        action="refresh",
        table=str(refresh.table),
        reason=refresh.reason,
        snapshot_before=refresh.base,
        snapshot_after=(run.snapshot_after if run else None) or refresh.base,
        duration_ms=round((time.monotonic() - began) * 1000),
        undo=run.undo if run else None,
        refresh=refresh.action,
        rows_inserted=done.inserted if done else 0,
        rows_deleted=done.deleted if done else 0,
        rows_changed_in_sources=sum(change.estimate.rows for change in refresh.changes.values()),
    )
