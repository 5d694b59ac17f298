"""What is due, when, and why: the worker's own plan, looked at without doing anything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from neve.model.results import JobRow
from neve.plan.agenda import Job, plan_agenda
from neve.services.context import Context
from neve.services.worker.facts import Memory, gather
from neve.services.worker.landing import Landing

_LAST = datetime.max.replace(tzinfo=UTC)
_KEPT = frozenset({"after", "claimed"})
"""What keeps work waiting whose time has come."""


def schedule(context: Context, now: datetime | None = None) -> list[JobRow]:
    """Due work in the order of its deadlines, then the rest in the order of its times."""
    moment = now or context.clock()
    agenda = plan_agenda(gather(context, moment, Memory(landing=Landing(submits=False))).facts, moment)
    later = sorted(agenda.waiting, key=lambda job: (job.due_at or _LAST, job.table, job.action))
    return [row for job in (*agenda.ready, *later) for row in _rows(job)]


def _rows(job: Job) -> Iterator[JobRow]:
    kept = job.waits is not None and job.waits.code in _KEPT
    is_due = job.waits is None or kept
    for member in job.asked:
        yield JobRow(
            table=str(member.table),
            action=job.action,
            due=is_due,
            reason=job.reason if job.waits is None or kept else job.waits,
            due_at=job.due_at,
            waits=job.waits if kept else None,
        )
