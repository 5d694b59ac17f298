"""The figures of a lake and its workers as Prometheus text. From the state store and metadata alone, never Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from neve.errors import StorageError
from neve.model.facts import TableFacts
from neve.model.health import StatusRow
from neve.model.history import RefreshRecord
from neve.observe.prometheus import Metric, as_text
from neve.plan.ranges import keys_of
from neve.services.context import Context
from neve.services.health import lake_status
from neve.services.worker.facts import Known, Memory, gather
from neve.services.worker.jobs import JOBS
from neve.services.worker.landing import Landing

_HEALTH_EVERY = timedelta(minutes=1)


def metrics_text(
    context: Context, now: datetime, *, known: Known | None = None, health: Sequence[StatusRow] | None = None
) -> str:
    """Everything at one moment; what the caller has looked at already is not looked at again."""
    seen = known or gather(context, now, Memory(landing=Landing(submits=False)), kinds=JOBS)
    rows = lake_status(context) if health is None else health
    of_ranges = _ranges(seen.ranged)
    return as_text(
        [*_freshness(seen, now), *_refreshes(context, seen), *_workers(context, now), *_health(rows), *of_ranges]
    )


@dataclass(slots=True)
class MetricsFile:
    """A file that always holds whole metrics: it is written aside and put in place."""

    path: Path
    health: Sequence[StatusRow] = ()
    looked_at: datetime | None = field(default=None)

    def write(self, context: Context, known: Known, now: datetime) -> None:
        if self.looked_at is None or not timedelta(0) <= now - self.looked_at < _HEALTH_EVERY:
            self.health, self.looked_at = lake_status(context), now
        text = metrics_text(context, now, known=known, health=self.health)
        aside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(self.path)
        except OSError as exc:
            raise StorageError(f"cannot write {self.path}: {exc.strerror}", hint="check its folder") from exc


def _freshness(known: Known, now: datetime) -> Iterator[Metric]:
    lag = Metric(name="neve_lag_seconds", help="How far rows lie behind the sources; 0 while none has moved.")
    target = Metric(name="neve_target_lag_seconds", help="The lag that a dynamic table has to keep.")
    suspended = Metric(name="neve_suspended", help="1 for a dynamic table that scheduled work leaves alone.")
    for name, fact in sorted(known.facts.dynamic.items()):
        suspended.add(int(fact.rests is not None), table=str(name))
        if (wanted := known.facts.lags.targets[name]) is not None:
            target.add(wanted.total_seconds(), table=str(name))
        if fact.standing.at is not None and fact.moved is not None:
            behind = (now - fact.standing.at).total_seconds() if fact.moved else 0.0
            lag.add(max(behind, 0.0), table=str(name))
    yield from (lag, target, suspended)


def _refreshes(context: Context, known: Known) -> Iterator[Metric]:
    took = Metric(name="neve_refresh_duration_seconds", help="What the last refresh that changed a table took.")
    share = Metric(name="neve_cardinality_ratio", help="Changed rows of the sources by all of theirs, last refresh.")
    saved = Metric(name="neve_dedup_ratio", help="Share of changed source rows without a row written, last refresh.")
    for name, fact in sorted(known.facts.dynamic.items()):
        if not (records := known.recent.get(fact.member.uuid)):
            continue
        last = records[0]
        took.add(last.took.total_seconds(), table=str(name))
        changed = (last.estimates or {}).get("changed_share")
        if isinstance(changed, int | float):
            share.add(float(changed), table=str(name))
        if (ratio := _saved(last)) is not None:
            saved.add(ratio, table=str(name))
    total = Metric(name="neve_refresh_total", help="Refreshes by how they ended.", kind="counter")
    errors = Metric(name="neve_errors_total", help="What failed, by the kind of error.", kind="counter")
    statuses: dict[tuple[str, str], int] = {}
    codes: dict[str, int] = context.store.runs.errors()
    for (name_, state, code), count in context.store.refreshes.tally().items():
        statuses[name_, state] = statuses.get((name_, state), 0) + count
        if state == "FAILED":
            codes[code or "error"] = codes.get(code or "error", 0) + count
    for (name_, state), count in sorted(statuses.items()):
        total.add(count, table=name_, status=state)
    for code, count in sorted(codes.items()):
        errors.add(count, error_type=code)
    yield from (took, share, saved, total, errors)


def _saved(last: RefreshRecord) -> float | None:
    """What netting saved: changes that cancel each other, or leave the result as it is, write nothing."""
    if not last.source_rows_changed:
        return None
    return max(0.0, 1 - (last.rows_inserted + last.rows_deleted) / last.source_rows_changed)


def _workers(context: Context, now: datetime) -> Iterator[Metric]:
    health = Metric(name="neve_worker_health", help="1 for a worker that is alive, 0 for one taken for dead.")
    lease = context.loaded.settings.worker.lease
    for worker in context.store.workers.list():
        if worker.stopped_at is None:
            health.add(int(now - worker.seen_at <= lease), worker=worker.name)
    running = Metric(name="neve_claims", help="Tables that are being worked on, by worker.")
    counts: dict[str, int] = {}
    for claim in context.store.claims.held().values():
        if claim.expires_at > now:
            counts[claim.owner] = counts.get(claim.owner, 0) + 1
    for owner, count in sorted(counts.items()):
        running.add(count, worker=owner)
    yield from (health, running)


def _ranges(tables: Sequence[TableFacts]) -> Iterator[Metric]:
    ranges = Metric(name="neve_ranges", help="Key ranges of a table, those that were divided among them.")
    leaves = Metric(name="neve_range_leaves", help="Key ranges of a table that are not divided.")
    files = Metric(name="neve_range_files_mean", help="Data files of a table by its key ranges that are not divided.")
    rows = Metric(name="neve_range_rows", help="Rows of a table that lies in key ranges.")
    for facts in sorted(tables, key=lambda facts: facts.name):
        if (keys := keys_of(facts)) is None:
            continue
        name, current = str(facts.name), facts.current
        ranges.add(len(keys.tree.ranges), table=name)
        leaves.add(len(keys.tree.leaves), table=name)
        files.add((current.total("data-files") if current else 0) / len(keys.tree.leaves), table=name)
        if current is None or current.rows is not None:
            rows.add(0 if current is None else current.rows or 0, table=name)
    yield from (ranges, leaves, files, rows)


def _health(rows: Sequence[StatusRow]) -> Iterator[Metric]:
    score = Metric(name="neve_table_score", help="A table's health, of 100.")
    files = Metric(name="neve_table_files", help="Data files of a table.")
    small = Metric(name="neve_table_small_files", help="Data files of a table that are small.")
    size = Metric(name="neve_table_bytes", help="Bytes of a table's files.")
    for row in rows:
        for metric, value in ((score, row.score), (files, row.files), (small, row.small_files), (size, row.bytes)):
            if value is not None:
                metric.add(value, table=row.table)
    yield from (score, files, small, size)
