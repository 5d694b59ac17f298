"""All that the scheduler goes by: metadata, logs and landing folders. Never Spark."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median_high

from neve.errors import NeveError
from neve.model.facts import TableFacts
from neve.model.history import RefreshRecord
from neve.model.names import TableName
from neve.model.results import JobRow, Reason
from neve.plan.agenda import DynamicFact, Errand, Facts, Held, Member, Setback
from neve.plan.freshness import has_moved
from neve.plan.lag import UNKNOWN, Lags
from neve.plan.rounds import Standing
from neve.plan.tables import is_suspended, row_keys_of
from neve.services.context import Context
from neve.services.directory_tables.tables import DirectoryTable, all_directories, contents
from neve.services.dynamic.deciding import frontier_of
from neve.services.dynamic.definitions import BY_FAILURES, SUSPENDED_WHY, Definition, definitions_in
from neve.services.dynamic.history import as_of
from neve.services.dynamic.laps import pin_of
from neve.services.look import all_facts
from neve.services.status import directory_jobs, table_jobs
from neve.services.worker.landing import Landing

RECENT = 5
"""Refreshes of a table by which its next one's length is told; one on a cold Spark says little."""
_UPKEEP_EVERY = timedelta(minutes=1)
_KINDS = {"compact": "compact_period"}
"""Rows such as `compact 2024-01` are of another kind than plain `compact`."""


@dataclass(slots=True)
class Memory:
    """What a worker remembers between two looks, so that it need not read every manifest at each."""

    upkeep: dict[str, tuple[str, datetime, Sequence[JobRow]]] = field(default_factory=dict)
    since: dict[tuple[str, str], datetime] = field(default_factory=dict)
    landing: Landing = field(default_factory=Landing)
    pauses: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Until when work is left alone that was just done, or failed for no fault of its own."""
    settled: dict[tuple[str, str], int] = field(default_factory=dict)
    """Snapshots of which a piece of work can make nothing more: it rests until there is another."""

    def forget(self, uuid: str) -> None:
        """Look at a table anew: something was done to it."""
        self.upkeep.pop(uuid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The lake as it was looked at once: `recent` refreshes by uuid, newest first; tables in key ranges."""

    facts: Facts
    definitions: Mapping[TableName, Definition]
    recent: Mapping[str, Sequence[RefreshRecord]]
    ranged: Sequence[TableFacts] = ()


def gather(context: Context, now: datetime, memory: Memory, *, kinds: Container[str]) -> Known:
    """Everything at one moment; what cannot be read is told with its table, and keeps no other from its turn.

    `kinds` are those that a worker can do; the rest is for people.
    """
    tables = {facts.name: facts for facts in all_facts(context)}
    directories = {table.name: table for table in all_directories(context)}
    definitions = definitions_in(tables.values())
    recent = context.store.refreshes.recent(RECENT)
    errands = [*_upkeep(context, now, memory, tables, directories)]
    members = {name: Member(table=name, uuid=facts.uuid) for name, facts in tables.items() if facts.online}
    members |= {name: Member(table=name, uuid=table.uuid) for name, table in directories.items()}
    errands += memory.landing.errands(context, now, members)
    setbacks = {
        key: Setback(
            failures=row.failures,
            retry_at=row.retry_at,
            suspended=None
            if row.suspended_at is None
            else Reason(code="suspended", detail=f"after {row.failures} failures: {row.error_message}"),
        )
        for key, row in context.store.setbacks.list().items()
    }
    memory.pauses = {key: until for key, until in memory.pauses.items() if now < until}
    paused = {key: Setback(failures=0, retry_at=until) for key, until in memory.pauses.items()}
    errands = [replace(errand, by_hand=errand.kind not in kinds) for errand in errands]
    facts = Facts(
        lags=_lags(definitions, tables, recent),
        dynamic=dict(_dynamic(context, definitions, tables)),
        pins={name: pin_of(facts) for name, facts in tables.items() if name not in definitions},
        errands=errands,
        setbacks={**paused, **setbacks},
        held={
            uuid: Held(owner=claim.owner, job=claim.action, expires_at=claim.expires_at)
            for uuid, claim in context.store.claims.held().items()
        },
    )
    ranged = [facts for facts in tables.values() if row_keys_of(facts)]
    return Known(facts=facts, definitions=definitions, recent=recent, ranged=ranged)


def duration_of(records: Sequence[RefreshRecord]) -> timedelta:
    """How long the next refresh is taken to last."""
    took = [row.took for row in records]
    return median_high(took) if took else UNKNOWN


def _lags(
    definitions: Mapping[TableName, Definition],
    tables: Mapping[TableName, TableFacts],
    recent: Mapping[str, Sequence[RefreshRecord]],
) -> Lags:
    return Lags.of(
        {name: definition.sources for name, definition in definitions.items()},
        {name: definition.options.target_lag for name, definition in definitions.items()},
        {name: duration_of(recent.get(tables[name].uuid, ())) for name in definitions},
    )


def _dynamic(
    context: Context, definitions: Mapping[TableName, Definition], tables: Mapping[TableName, TableFacts]
) -> Iterator[tuple[TableName, DynamicFact]]:
    known, sources = context.store.dynamic.list(), context.store.dynamic.sources()
    for name, definition in definitions.items():
        facts = tables[name]
        frontier, rests = frontier_of(facts), _rests(facts, definition)
        moved: bool | None = None
        base = None
        if frontier is not None:
            base = {TableName.parse(source): pin for source, pin in frontier.base.items()}
            moved = has_moved(frontier, tables)
            if moved is False and (not frontier.lasting or frontier.fingerprint != definition.fingerprint):
                moved = True  # the query may say something else by now
        at = as_of(frontier, known.get(facts.uuid), sources.get(facts.uuid, {}))
        yield (
            name,
            DynamicFact(
                member=Member(table=name, uuid=facts.uuid),
                standing=Standing(base=base, at=at, suspended=rests is not None),
                moved=moved,
                rests=rests,
            ),
        )


def _rests(facts: TableFacts, definition: Definition) -> Reason | None:
    if not facts.online:
        return Reason(code="offline", detail="the table is offline: scheduled jobs leave it alone")
    if not is_suspended(facts):
        return None
    if definition.suspended == BY_FAILURES:
        why = facts.properties.get(SUSPENDED_WHY, "too many failures")
        return Reason(code="suspended", detail=f"suspended: {why}")
    return Reason(code="suspended", detail=f"suspended by {definition.suspended}")


def _upkeep(
    context: Context,
    now: datetime,
    memory: Memory,
    tables: Mapping[TableName, TableFacts],
    directories: Mapping[TableName, DirectoryTable],
) -> Iterator[Errand]:
    seen: set[tuple[str, str]] = set()
    for name in sorted({*tables, *directories}):
        if (facts := tables.get(name)) is not None:
            uuid, token = facts.uuid, facts.metadata_location
            rows = _remembered(memory, uuid, token, now, _of_table(context, facts))
        else:
            uuid, token = directories[name].uuid, ""
            rows = _remembered(memory, uuid, token, now, _of_directory(context, directories[name]))
        for row in rows:
            kind, _, what = row.action.partition(" ")
            key = (uuid, row.action)
            settled = facts is not None and key in memory.settled and memory.settled[key] == facts.current_snapshot_id
            if row.due:
                seen.add(key)
                memory.since.setdefault(key, now)
            yield Errand(
                member=Member(table=name, uuid=uuid),
                kind=_KINDS.get(kind, kind) if what else kind,
                what=what,
                due=row.due and not settled,
                reason=row.reason,
                due_at=row.due_at,
                since=memory.since.get(key),
            )
    memory.since = {key: since for key, since in memory.since.items() if key in seen}


def _of_table(context: Context, facts: TableFacts) -> Callable[[], Sequence[JobRow]]:
    return lambda: table_jobs(context, facts, context.catalog.layout(facts))


def _of_directory(context: Context, table: DirectoryTable) -> Callable[[], Sequence[JobRow]]:
    return lambda: directory_jobs(context, table, contents(context, table))


def _remembered(
    memory: Memory, uuid: str, token: str, now: datetime, look: Callable[[], Sequence[JobRow]]
) -> Sequence[JobRow]:
    """The jobs of a table that has not changed, for a minute; after that another turn of its schedule may have come."""
    known = memory.upkeep.get(uuid)
    if known is not None and known[0] == token and timedelta(0) <= now - known[1] < _UPKEEP_EVERY:
        return known[2]
    try:
        rows = look()
    except NeveError as exc:
        rows = [JobRow(table="", action="compact", due=False, reason=Reason(code=exc.code, detail=exc.message))]
    memory.upkeep[uuid] = (token, now, rows)
    return rows
