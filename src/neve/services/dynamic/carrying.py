"""A decided refresh carried out on Spark: its changes computed once, and applied in the way that is planned."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.engine.finding import Places, find_bag, measure_bag, read_places, see, write_bag, write_seen
from neve.engine.refresh import (
    Applied,
    Steps,
    apply_changes,
    compare,
    count,
    held,
    load_all,
    plan_small,
    provide,
    size_of,
)
from neve.engine.row_delta import RowDelta, row_delta
from neve.engine.staging import publish, staged
from neve.errors import JobFailed
from neve.model.names import TableName
from neve.model.refresh import CommittedRefresh
from neve.model.results import Reason
from neve.plan.applying import (
    MOST_FILES,
    MOST_MATCHED,
    ApplyPlan,
    goes_to_every_task,
    plan_full,
    settle_apply,
    split_size,
)
from neve.services.context import Context
from neve.services.dynamic.deciding import Refresh, move_on
from neve.services.dynamic.definitions import FRONTIER, REFRESH, Definition, all_definitions
from neve.services.dynamic.marking import mark
from neve.services.ledger import branch_of
from neve.services.look import RUN_ID
from neve.services.runs import Progress
from neve.sql.delta import DeltaQuery, Version, full, stepwise
from neve.sql.freezing import thawed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORED = "_neve_stored"


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What became of the rows, and by which way; no way when nothing was written."""

    applied: Applied
    plan: ApplyPlan | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """Changes that are held on Spark, to be applied."""

    context: Context
    spark: SparkSession
    refresh: Refresh
    run: Progress
    query: DeltaQuery
    changes: DataFrame

    def summary(self, done: Applied, plan: ApplyPlan) -> Mapping[str, str]:
        return _summary(self.refresh, self.run, done, plan)

    @property
    def keyed(self) -> bool:
        return self.query.apply.kind == "keyed"


def carry_out(context: Context, refresh: Refresh, run: Progress) -> CarriedOut:
    """Computes what the refresh decided, and commits it once.

    Raises:
        CommitConflict: the table was written to meanwhile; nothing was changed.
        JobFailed: a row that is to go is not there.
    """
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    frozen = refresh.definition.options.immutable_where is not None
    if refresh.before is None and (refresh.is_empty or not frozen):
        return _write_all(context, spark, refresh, run)
    plan = refresh.apply
    if refresh.action == "FULL" and refresh.estimate is not None:
        followed = any(refresh.table in other.sources for other in all_definitions(context).values())
        anew = plan_full(changed_share=refresh.estimate.changed_share, followed=followed, frozen=frozen)
        if anew.way == "replace":
            return _write_all(context, spark, refresh, run, anew)
    if plan.way == "row_delta" and refresh.action == "INCREMENTAL":
        plan_small(spark)
    query = _query(refresh)
    if query is None:
        move_on(context, refresh)
        return CarriedOut(Applied(0, 0))
    small = goes_to_every_task(refresh.changed_rows, refresh.changed_bytes)
    with closing(Steps(spark, small=small)) as steps:
        found, read_off = _changes(spark, query, refresh, steps)
        changes = unfrozen(found, refresh.definition)
        with held(changes, read_off=read_off) as kept:
            return _apply(_Work(context, spark, refresh, run, query, kept), plan)


def unfrozen(changes: DataFrame, definition: Definition) -> DataFrame:
    """Net changes of rows that may change: a frozen one neither comes nor goes."""
    predicate = definition.options.immutable_where
    return changes if predicate is None else changes.where(thawed(predicate))


def provide_all(spark: SparkSession, query: DeltaQuery, refresh: Refresh) -> None:
    """Every table that a text reads as it is or was, under its name."""
    for read in query.reads:
        if read.source is None:
            split = split_size(refresh.facts, cores=spark.sparkContext.defaultParallelism)
            provide(spark, read.relation, refresh.table, refresh.base, read.columns, place=read.place, split=split)
        elif read.kind != "delta":
            side = refresh.before if read.kind == "old" and refresh.before is not None else refresh.after
            name = TableName.parse(read.source)
            provide(spark, read.relation, name, side.sources[str(name)].snapshot, read.columns)


def _follow(spark: SparkSession, query: DeltaQuery, refresh: Refresh, steps: Steps) -> tuple[DataFrame, bool]:
    """The changes of the sources, and what the text computes of them, step by step."""
    text = stepwise(query)
    sources = {read.relation: TableName.parse(read.source) for read in query.reads if read.source is not None}
    for step in text.steps:
        if step.sql is not None:
            rows = spark.sql(step.sql)
        else:
            rows = refresh.changes[sources[step.name]].frame(spark)
            rows = steps.pin(rows) if step.kept else rows
        steps.add(step.name, rows, kept=step.kept, few=step.few)
    return spark.sql(text.sql), text.read_off


def _query(refresh: Refresh) -> DeltaQuery | None:
    if refresh.action == "INCREMENTAL":
        return refresh.text
    return full(refresh.analysis, Version.NEW, moment=refresh.after.at)


def _changes(spark: SparkSession, query: DeltaQuery, refresh: Refresh, steps: Steps) -> tuple[DataFrame, bool]:
    """The net changes, and whether they are read off what is kept already."""
    provide_all(spark, query, refresh)
    if refresh.action == "INCREMENTAL":
        return _follow(spark, query, refresh, steps)
    provide(spark, STORED, refresh.table, refresh.base, query.columns)
    return compare(spark, query.sql, STORED, query.columns), False


def _apply(work: _Work, plan: ApplyPlan) -> CarriedOut:
    if plan.way == "row_delta" and work.keyed and work.query.place is None:
        plan = ApplyPlan("merge", Reason(code="no_places", detail="a full computation does not tell where rows lie"))
    if plan.way == "merge" or work.refresh.base is None:
        return _merge(work, plan, count(work.changes))
    with row_delta(work.spark, work.refresh.table, base=work.refresh.base) as delta:
        done, settled = _row_delta_bag(work, plan, delta) if work.query.place is None else _row_delta(work, plan, delta)
        if settled.way == "row_delta" and done != Applied(0, 0):
            return CarriedOut(done, settled)
    return _merge(work, settled, done)


def _row_delta(work: _Work, plan: ApplyPlan, delta: RowDelta) -> tuple[Applied, ApplyPlan]:
    """Of changes that tell where the rows that go lie. A few keys come in one pass; of other rows a single changed one
    may touch any number, so they are counted first."""
    few = work.keyed and work.refresh.changed_rows <= MOST_MATCHED
    seen = write_seen(delta, work.changes) if few else see(work.changes)
    done, together = seen.rows, seen.gone_together > 0
    if work.keyed and (together or seen.come_together):
        raise JobFailed(f"{work.refresh.table} holds two rows of one key: it is not what its changes were derived for")
    if done == Applied(0, 0):
        return done, plan
    size = size_of(work.changes) if together else 0
    settled = settle_apply(plan, placed=not together, inserted=done.inserted, deleted=done.deleted, size=size)
    if settled.way == "merge":
        return done, settled
    if done.inserted and not few:
        write_bag(delta, work.changes, few=done.inserted <= MOST_MATCHED)
    places = _places(work, delta, done, together=together) if done.deleted else {}
    return done, _commit(work, settled, delta, places, done)


def _places(work: _Work, delta: RowDelta, done: Applied, *, together: bool) -> Places:
    """Of several equal rows that go, the changes tell one place: they are looked for."""
    if together or work.query.place is None:
        return find_bag(work.spark, delta, work.query.columns, (), done.deleted)
    return read_places(work.changes, work.query.place, done.deleted)


def _row_delta_bag(work: _Work, plan: ApplyPlan, delta: RowDelta) -> tuple[Applied, ApplyPlan]:
    done, ranges = measure_bag(work.changes, work.query.columns)
    if done == Applied(0, 0):
        return done, plan
    size = size_of(work.changes)
    settled = settle_apply(plan, placed=False, inserted=done.inserted, deleted=done.deleted, size=size)
    if settled.way == "merge":
        return done, settled
    places = find_bag(work.spark, delta, work.query.columns, ranges, done.deleted)
    if done.inserted:
        write_bag(delta, work.changes, few=done.inserted <= MOST_MATCHED)
    return done, _commit(work, settled, delta, places, done)


def _commit(work: _Work, plan: ApplyPlan, delta: RowDelta, places: Places, done: Applied) -> ApplyPlan:
    """Commits, or says why another way must be taken; nothing is changed then."""
    if len(places) > MOST_FILES:
        detail = f"rows go from {len(places):,} files, more than {MOST_FILES:,}"
        return ApplyPlan("merge", Reason(code="many_files", detail=detail))
    lineage = work.context.catalog.lineage(work.refresh.table)
    marked, why = mark(work.context, lineage, delta.base, places)
    if why is not None:
        return ApplyPlan("merge", why)
    if len(marked) != len(places):
        raise JobFailed(f"rows of {work.refresh.table} to be removed lie in files that are not its own")
    work.run.snapshot_after = delta.commit(marked, work.summary(done, plan))
    return plan


def _merge(work: _Work, plan: ApplyPlan, done: Applied) -> CarriedOut:
    """By MERGE; where no row changed, only the frontier moves on."""
    refresh, apply = work.refresh, work.query.apply
    if done == Applied(0, 0):
        move_on(work.context, refresh)
        return CarriedOut(done)
    with staged(work.spark, refresh.table, branch_of(work.run.run_id), base=refresh.base) as branch:
        apply_changes(
            work.spark, branch, work.query.columns, kind=apply.kind, keys=apply.keys, summary=work.summary(done, plan)
        )
        work.run.snapshot_after = publish(work.spark, branch, base=refresh.base)
    return CarriedOut(done, plan)


def _write_all(
    context: Context, spark: SparkSession, refresh: Refresh, run: Progress, plan: ApplyPlan | None = None
) -> CarriedOut:
    """Fills an empty table, or puts all rows in the place of those that are there: they are mostly other ones, or ones
    that somebody else wrote, of which nothing can be relied on."""
    query = full(refresh.analysis, Version.NEW, moment=refresh.after.at)
    provide_all(spark, query, refresh)
    gone = 0 if refresh.facts.current is None else refresh.facts.current.rows or 0
    with staged(spark, refresh.table, branch_of(run.run_id), base=refresh.base) as branch:
        load_all(
            spark,
            branch,
            query.sql,
            query.columns,
            summary=_summary(refresh, run, None, plan, gone=gone),
            replace=not refresh.is_empty,
        )
        run.snapshot_after = publish(spark, branch, base=refresh.base)
    current = context.catalog.facts(refresh.table).current
    return CarriedOut(Applied((current.rows if current else 0) or 0, gone), plan)


def _summary(
    refresh: Refresh, run: Progress, done: Applied | None, plan: ApplyPlan | None, *, gone: int = 0
) -> Mapping[str, str]:
    """What the commit says of itself: enough to write the history of refreshes from it."""
    told = CommittedRefresh(
        action=refresh.action,
        reason=refresh.reason,
        trigger=refresh.trigger,
        round_id=refresh.round_id,
        rows_inserted=done.inserted if done else None,
        rows_deleted=done.deleted if done else gone,
        rows_changed_in_sources=refresh.changed_rows,
        changed_sources=refresh.changed_sources,
        strategy=plan.way if plan else None,
        estimates=None if refresh.estimate is None else refresh.estimate.model_dump(),
    )
    return {RUN_ID: run.run_id, FRONTIER: refresh.after.model_dump_json(), REFRESH: told.model_dump_json()}
