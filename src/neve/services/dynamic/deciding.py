"""What a refresh of a dynamic table will do, and why: from its frontier and the lineage of its sources, no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from neve.config.connections import spark_meaning
from neve.errors import CommitConflict, Refused
from neve.model.facts import Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier, Pin, RefreshAction, RefreshTrigger
from neve.model.results import Reason
from neve.plan.applying import ApplyPlan, plan_apply
from neve.plan.refresh import SPREAD, RefreshEstimate, RefreshSizes, SourceSize, choose_refresh
from neve.services.context import Context
from neve.services.dynamic.definitions import FRONTIER, Definition, definition_of, understand_again
from neve.services.dynamic.past import past_refreshes
from neve.services.row_changes import RowChanges, changes_since
from neve.sql.delta import KNOWN_TEXTS, Analysis, DeltaQuery, Moments, derive

SAME = Reason(code="no_changes", detail="no row of a source changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What a refresh reads: each source as its round has it, the plain tables below them, and the present moment."""

    at: datetime
    sources: Mapping[TableName, Pin]
    base: Mapping[TableName, Pin] = field(default_factory=dict)
    round_id: str | None = None
    trigger: RefreshTrigger = "MANUAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """A refresh that was decided: from which frontier to which, how, and why.

    `changes` are those of the sources that changed, to be closed when they have been read. `estimate` is there when
    they could be followed, and so is `text`, which follows them, unless they cannot reach the result.
    """

    definition: Definition
    analysis: Analysis
    facts: TableFacts
    before: Frontier | None
    after: Frontier
    action: RefreshAction
    reason: Reason
    changes: Mapping[TableName, RowChanges] = field(default_factory=dict)
    round_id: str | None = None
    trigger: RefreshTrigger = "MANUAL"
    estimate: RefreshEstimate | None = None
    text: DeltaQuery | None = None

    @property
    def table(self) -> TableName:
        return self.definition.name

    @property
    def changed_rows(self) -> int:
        """Rows that changed in the sources, at most; 0 where they were not looked at."""
        return sum(change.estimate.rows for change in self.changes.values())

    @property
    def changed_sources(self) -> list[str]:
        """The sources of which rows are known to have changed, by name."""
        return sorted(map(str, self.changes))

    @property
    def changed_bytes(self) -> int:
        """What they take in files, about."""
        return sum(change.estimate.row_bytes for change in self.changes.values())

    @property
    def apply(self) -> ApplyPlan:
        """How its changes are to be put into the table, unless they turn out to be otherwise."""
        return plan_apply(self.facts, changed_rows=self.changed_rows)

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

    A commit of metadata may have moved it on without a row changed: it counts while the rows are those of the snapshot
    that it speaks of. A rewrite of files changes no row.
    """
    text = facts.properties.get(FRONTIER)
    told = None if text is None else Frontier.model_validate_json(text)
    if told is not None and told.snapshot == facts.current_snapshot_id:
        return told
    for snapshot in facts.ancestors():
        if told is not None and told.snapshot == snapshot.id:
            return told
        if FRONTIER in snapshot.summary:
            return Frontier.model_validate_json(snapshot.summary[FRONTIER])
        if snapshot.operation != "replace":
            return None
    return None


def decide(context: Context, definition: Definition, pins: Pins) -> Refresh:
    """What a refresh will do; no Spark.

    Raises:
        Refused: the table is declared INCREMENTAL and cannot follow these changes; the reason is told.
        CommitConflict: another round brought the table to a later moment; nothing was changed.
    """
    facts = context.catalog.facts(definition.name)
    analysis = understand_again(context, definition)
    first = Refresh(
        definition=definition,
        analysis=analysis,
        facts=facts,
        before=frontier_of(facts),
        after=Frontier(
            fingerprint=definition.fingerprint,
            at=pins.at,
            sources={str(name): pins.sources[name] for name in definition.sources},
            base={str(name): pin for name, pin in pins.base.items()},
            session=spark_meaning(context.loaded),
            lasting=analysis.incremental and not analysis.timed,
        ),
        action="FULL",
        reason=Reason(code="first", detail="the table has no rows yet"),
        round_id=pins.round_id,
        trigger=pins.trigger,
    )
    if first.before is not None and first.before.at > pins.at:
        raise CommitConflict(f"{definition.name} was refreshed to a later moment meanwhile")
    if first.before is None and first.is_empty:
        return first
    if first.before is None:
        detail = "the table was written to by somebody else, or its own commits have expired"
        return _forced(first, Reason(code="unknown_rows", detail=detail))
    if first.before.fingerprint != definition.fingerprint:
        reason = Reason(code="new_query", detail="the query is another one")
        return replace(first, action="REINITIALIZE", reason=reason)
    if (why := _other_session(first.before, first.after)) is not None:
        return replace(first, action="REINITIALIZE", reason=why)
    if definition.options.refresh_mode == "FULL":
        return _full_unless_same(first, Reason(code="asked", detail="REFRESH_MODE is FULL"))
    if not first.analysis.incremental:
        why = first.analysis.reasons[0]
        return _forced(first, Reason(code=why.code, detail=str(why)))
    return _follow(context, first, first.before)


def _other_session(before: Frontier, after: Frontier) -> Reason | None:
    """Rows that are already there would be answered otherwise now, which the changes of the sources do not tell."""
    told = [f"{key} is {value}" for key, value in after.session.items() if before.session.get(key) != value]
    return Reason(code="new_session", detail=f"{', '.join(told)} now") if told else None


def is_current(context: Context, facts: TableFacts, definition: Definition, pins: Pins) -> bool:
    """Whether a refresh would find nothing to do, told by the frontier alone: the query need not be looked at."""
    before = frontier_of(facts)
    return (
        before is not None
        and before.lasting
        and before.fingerprint == definition.fingerprint
        and before.session == spark_meaning(context.loaded)
        and before.sources == {str(name): pins.sources[name] for name in definition.sources}
        and before.base == {str(name): pin for name, pin in pins.base.items()}
    )


def _follow(context: Context, refresh: Refresh, before: Frontier) -> Refresh:
    """By the changes of the sources, where they can be read and followed, and that does not look dearer than anew."""
    looked: dict[TableName, RowChanges] = {}
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
        looked[name] = change
    changes = {name: change for name, change in looked.items() if not change.nothing}
    if not changes and not refresh.analysis.timed:
        return replace(refresh, action="NO_DATA", reason=SAME)
    told = "; ".join(f"{name.short}: {change.plan.reason.detail}" for name, change in changes.items())
    return _chosen(context, replace(refresh, changes=changes), looked, told or "time has passed")


def _chosen(context: Context, refresh: Refresh, looked: Mapping[TableName, RowChanges], told: str) -> Refresh:
    """Followed, or computed anew where that is chosen by cost."""
    options, current = refresh.definition.options, refresh.facts.current
    text = _derived(refresh)
    read = _read_whole(text)
    choice = choose_refresh(
        RefreshSizes(
            sources=[_size(change, read[name]) for name, change in looked.items()],
            stored_bytes=current.total("files-size") if current else 0,
            spread=SPREAD if text and text.apply.kind == "scoped" else 1.0,
            past=past_refreshes(context, refresh.table),
        ),
        mode=options.refresh_mode,
        threshold=options.cardinality_threshold,
        reason=Reason(code="changes", detail=told),
    )
    action: RefreshAction = "FULL" if choice.full else "INCREMENTAL"
    return replace(refresh, action=action, reason=choice.reason, estimate=choice.estimate, text=text)


def _derived(refresh: Refresh) -> DeltaQuery | None:
    """How the refresh follows its changes; None when they cannot reach the result."""
    if refresh.before is None:
        raise AssertionError("changes are followed from a frontier")
    moments = Moments(refresh.before.at, refresh.after.at) if refresh.analysis.timed else None
    changed, places = frozenset(map(str, refresh.changes)), refresh.apply.way == "row_delta"
    return _derived_once(refresh.analysis, changed, moments, places)


@lru_cache(maxsize=KNOWN_TEXTS)
def _derived_once(
    analysis: Analysis, changed: frozenset[str], moments: Moments | None, places: bool
) -> DeltaQuery | None:
    return derive(analysis, changed, moments=moments, places=places)


def _read_whole(text: DeltaQuery | None) -> Counter[TableName]:
    """How often each source is read at either end."""
    reads = () if text is None else text.reads
    return Counter(TableName.parse(read.source) for read in reads if read.source is not None and read.kind != "delta")


def _size(change: RowChanges, read: int) -> SourceSize:
    """The larger of both sides, so that what went counts as well."""
    facts, plan = change.lineage.facts, change.plan
    sides = [facts.snapshot(snapshot) for snapshot in (plan.since, plan.until) if snapshot is not None]
    found = [side for side in sides if side is not None]
    return SourceSize(
        rows=max((side.total("records") for side in found), default=0),
        bytes=max((side.total("files-size") for side in found), default=0),
        changed_rows=change.estimate.rows,
        changed_bytes=change.estimate.bytes,
        read=read,
    )


def _full_unless_same(refresh: Refresh, reason: Reason) -> Refresh:
    if refresh.before is not None and refresh.before.sources == refresh.after.sources and refresh.analysis.incremental:
        return replace(refresh, action="NO_DATA", reason=SAME)
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


def move_on(context: Context, refresh: Refresh) -> None:
    """Writes a frontier that changed no row; nothing when it has not moved."""
    before, after = refresh.before, refresh.after
    if (
        before is not None
        and (before.sources, before.base) == (after.sources, after.base)
        and not refresh.analysis.timed
    ):
        return
    told = refresh.after.model_copy(update={"snapshot": refresh.base})
    context.catalog.set_properties(refresh.table, put={FRONTIER: told.model_dump_json()})


def check_rollback(facts: TableFacts, target: Snapshot) -> None:
    """Refuses to go back to rows that are not the result of the table's query: those of another query, or of nobody."""
    definition = definition_of(facts)
    then = frontier_of(replace(facts, current_snapshot_id=target.id))
    if definition is not None and (then is None or then.fingerprint != definition.fingerprint):
        raise Refused(
            f"cannot roll back {facts.name}: snapshot {target.id} is not the result of its query",
            hint="roll back to a snapshot that a refresh has made since the query is what it is",
        )
