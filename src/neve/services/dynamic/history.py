"""What is remembered of dynamic tables: written after the commit that it tells of, and written anew from that commit.

The tables' own properties and snapshots know everything but refreshes that failed. So a process that dies between the
commit and the row loses nothing (`settle_refresh`), and neither does a lake that lost its state database (`recover`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from neve.model.dynamic import Lag
from neve.model.facts import Snapshot, TableFacts
from neve.model.history import DynamicRecord, RefreshRecord, SourceRecord
from neve.model.names import TableName
from neve.model.refresh import CommittedRefresh, Frontier, Pin, RecoveredRow, RefreshReceipt
from neve.model.results import Reason
from neve.model.runs import Run, run_started
from neve.plan.tables import DEFINITION, SUSPENDED, is_suspended, sources_of
from neve.services.context import Context
from neve.services.dynamic.deciding import Pins, frontier_of
from neve.services.dynamic.definitions import (
    FRONTIER,
    REFRESH,
    Definition,
    definition_of,
    describe_lag,
)
from neve.services.dynamic.turns import Turn
from neve.services.ledger import settle_staged
from neve.services.look import RUN_ID, all_facts

ACTIVE = "ACTIVE"


def remember(context: Context, tables: Iterable[TableFacts]) -> list[str]:
    """Brings what is known of dynamic tables in line with their properties; the names of those that were not."""
    known, sources, changed = context.store.dynamic.list(), context.store.dynamic.sources(), []
    for facts in tables:
        if (definition := definition_of(facts)) is None:
            continue
        before, read = known.get(facts.uuid), sources.get(facts.uuid, {})
        record, reads = _declared(context, facts, definition, as_of(frontier_of(facts), before, read)), _reads(facts)
        if before is not None:
            record = record.model_copy(update={"updated_at": before.updated_at})
        if before != record or read != {source.source_table: source for source in reads}:
            upstream = [str(source) for source in definition.sources]
            context.store.dynamic.put(record.model_copy(update={"updated_at": context.clock()}), reads, upstream)
            changed.append(str(facts.name))
    return changed


def as_of(
    frontier: Frontier | None, known: DynamicRecord | None, sources: Mapping[str, SourceRecord]
) -> datetime | None:
    """As of when the rows are. Refreshes that found nothing to do made no commit: the state database knows of them.

    It is believed while it speaks of the same snapshots; a table that was rolled back is as of what it went back to.
    """
    if frontier is None or known is None or known.data_timestamp is None:
        return None if frontier is None else frontier.at
    same = {name: source.last_snapshot for name, source in sources.items()} == snapshots_of(
        frontier.base, frontier.sources
    )
    return max(frontier.at, known.data_timestamp) if same else frontier.at


@dataclass(frozen=True, slots=True)
class _Written:
    """What a refresh wrote, by the summary of its commit; `rows_copied` were in files that it wrote anew."""

    rows_copied: int = 0
    files_added: int = 0
    files_deleted: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, *, inserted: int) -> _Written:
        added, files_added, files_deleted = (
            int(snapshot.summary.get(key, 0)) for key in ("added-records", "added-data-files", "deleted-data-files")
        )
        return cls(rows_copied=added - inserted, files_added=files_added, files_deleted=files_deleted)


def told(
    facts: TableFacts,
    definition: Definition,
    receipt: RefreshReceipt,
    pins: Pins | None,
    *,
    before: DynamicRecord | None,
    after: TableFacts | None,
    turn: Turn | None,
    now: datetime,
) -> RefreshRecord:
    """A receipt as a row of history; `before` and `after` are what was known of the table, and what it is since."""
    done = receipt.state == "SUCCEEDED"
    reason = receipt.reason or Reason(code="", detail="")
    written = _written(receipt, after) if done else None
    return RefreshRecord(
        table_uuid=facts.uuid,
        name=str(facts.name),
        state=receipt.state,
        state_code=receipt.error_code or (None if done else reason.code),
        state_message=None if done else reason.detail,
        data_timestamp=receipt.data_timestamp if done else None,
        refresh_start_time=turn.started_at if turn else now,
        refresh_end_time=(turn.ended_at if turn else None) or now,
        completion_target=_target(before, definition.options.target_lag),
        target_lag_seconds=_seconds(definition.options.target_lag),
        refresh_action=receipt.refresh,
        refresh_trigger=receipt.trigger,
        reason_code=reason.code if done else None,
        reason_detail=reason.detail if done else None,
        strategy=receipt.strategy,
        estimates=receipt.estimates,
        rows_inserted=receipt.rows_inserted,
        rows_deleted=receipt.rows_deleted,
        source_rows_changed=receipt.rows_changed_in_sources if done else None,
        changed_sources=_listed(receipt.changed_sources) if done else None,
        source_snapshots=None if pins is None else snapshots_of(pins.base, pins.sources),
        upstream=receipt.upstream,
        snapshot_id=receipt.snapshot_after if done else None,
        round_id=receipt.round_id,
        run_id=receipt.run_id,
        last_completed_dependency=turn.after if turn else None,
        queued_time_ms=turn.watch.spent_ms("queued") if turn else None,
        compilation_time_ms=turn.watch.spent_ms("compilation") if turn else None,
        execution_time_ms=turn.watch.spent_ms("execution") if turn else None,
        **({} if written is None else asdict(written)),
    )


def _written(receipt: RefreshReceipt, after: TableFacts | None) -> _Written | None:
    """None when its commit cannot be looked at, because the table or the snapshot is gone."""
    if receipt.snapshot_after == receipt.snapshot_before:
        return _Written()
    snapshot = None if after is None or receipt.snapshot_after is None else after.snapshot(receipt.snapshot_after)
    return None if snapshot is None else _Written.of(snapshot, inserted=receipt.rows_inserted)


def settle_refresh(context: Context, name: TableName, run: Run) -> bool:
    """Clears up after a refresh whose process died; whether it had been published. Either way it is in the history."""
    if not context.catalog.exists(name):
        return False
    settle_staged(context, name, run.run_id)
    facts = context.catalog.facts(name)
    found = next((record for record in committed(facts) if record.run_id == run.run_id), None)
    context.store.refreshes.add([_died(facts, run, context.clock()) if found is None else found])
    remember(context, [facts])
    return found is not None


def recover(context: Context) -> list[RecoveredRow]:
    """Writes all that the state database keeps of dynamic tables anew, from the catalog alone; what was missing."""
    tables = [facts for facts in all_facts(context) if definition_of(facts) is not None]
    said = [
        RecoveredRow(table=name, detail="what it is, and how far it has come") for name in remember(context, tables)
    ]
    live = {facts.uuid for facts in tables}
    for uuid, record in context.store.dynamic.list().items():
        if uuid not in live:
            context.store.dynamic.forget(uuid)
            said.append(RecoveredRow(table=record.name, detail="it is there no more"))
    found = {str(facts.name): catch_up(context, facts) for facts in tables}
    return said + [RecoveredRow(table=name, detail=f"{count:,} refreshes") for name, count in found.items() if count]


def catch_up(context: Context, facts: TableFacts) -> int:
    """Writes the rows of history that a table's own commits tell of and that are missing; how many."""
    known = {record.run_id for record in context.store.refreshes.of(facts.uuid)}
    missing = [record for record in committed(facts) if record.run_id not in known]
    context.store.refreshes.add(missing)
    return len(missing)


def committed(facts: TableFacts) -> Iterator[RefreshRecord]:
    """The refreshes that a table's own snapshots tell of, oldest first. What was staged and never published is none."""
    published = {snapshot for _, snapshot in facts.made_current} | {snapshot.id for snapshot in facts.ancestors()}
    for snapshot in sorted(facts.snapshots, key=lambda item: (item.sequence_number, item.at)):
        if snapshot.id in published and {FRONTIER, REFRESH, RUN_ID} <= set(snapshot.summary):
            yield _from_commit(facts, snapshot)


def _died(facts: TableFacts, run: Run, now: datetime) -> RefreshRecord:
    plan = run.plan or {}
    told = {"refresh_action": plan.get("refresh"), "refresh_trigger": plan.get("trigger", "MANUAL")}
    return RefreshRecord.model_validate(
        {
            **told,
            "table_uuid": facts.uuid,
            "name": str(facts.name),
            "state": "FAILED",
            "state_code": "died",
            "state_message": f"process {run.pid} died before it was done",
            "refresh_start_time": run.started_at,
            "refresh_end_time": now,
            "round_id": plan.get("round_id"),
            "run_id": run.run_id,
        }
    )


def _from_commit(facts: TableFacts, snapshot: Snapshot) -> RefreshRecord:
    frontier = Frontier.model_validate_json(snapshot.summary[FRONTIER])
    done = CommittedRefresh.model_validate_json(snapshot.summary[REFRESH])
    run_id = snapshot.summary[RUN_ID]
    inserted = int(snapshot.summary.get("added-records", 0)) if done.rows_inserted is None else done.rows_inserted
    return RefreshRecord(
        table_uuid=facts.uuid,
        name=str(facts.name),
        state="SUCCEEDED",
        data_timestamp=frontier.at,
        refresh_start_time=run_started(run_id),
        refresh_end_time=snapshot.at,
        refresh_action=done.action,
        refresh_trigger=done.trigger,
        reason_code=done.reason.code,
        reason_detail=done.reason.detail,
        strategy=done.strategy,
        estimates=done.estimates,
        rows_inserted=inserted,
        rows_deleted=done.rows_deleted or 0,
        source_rows_changed=done.rows_changed_in_sources,
        changed_sources=_listed(done.changed_sources),
        source_snapshots=snapshots_of(frontier.base, frontier.sources),
        snapshot_id=snapshot.id,
        round_id=done.round_id,
        run_id=run_id,
        **asdict(_Written.of(snapshot, inserted=inserted)),
    )


def _declared(context: Context, facts: TableFacts, definition: Definition, at: datetime | None) -> DynamicRecord:
    return DynamicRecord(
        table_uuid=facts.uuid,
        name=str(facts.name),
        schema_name=".".join(facts.name.namespace),
        query_sql=definition.query,
        target_lag=describe_lag(definition.options.target_lag),
        refresh_mode=definition.options.refresh_mode,
        scheduling_state=SUSPENDED if is_suspended(facts) else ACTIVE,
        options=json.loads(facts.properties[DEFINITION])["options"],
        data_timestamp=at,
        updated_at=context.clock(),
    )


def _reads(facts: TableFacts) -> list[SourceRecord]:
    frontier = frontier_of(facts)
    if frontier is None:
        return []
    direct = set(sources_of(facts))
    return [
        SourceRecord(
            table_uuid=facts.uuid,
            dynamic_table=str(facts.name),
            source_table=name,
            source_uuid=pin.uuid,
            last_snapshot=pin.snapshot,
            direct=int(name in direct),
            last_processed_at=frontier.at,
        )
        for name, pin in {**frontier.base, **frontier.sources}.items()
    ]


def _target(before: DynamicRecord | None, lag: Lag) -> datetime | None:
    if before is None or before.data_timestamp is None or isinstance(lag, str):
        return None
    return before.data_timestamp + lag


def _seconds(lag: Lag) -> int | None:
    return None if isinstance(lag, str) else round(lag.total_seconds())


def _listed(names: Iterable[str] | None) -> str | None:
    return None if names is None else ", ".join(names)


def snapshots_of(*pins: Mapping[Any, Pin]) -> dict[str, JsonValue]:
    return {str(name): pin.snapshot for some in pins for name, pin in some.items()}
