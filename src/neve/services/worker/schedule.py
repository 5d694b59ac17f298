"""What is due, when, and why: the worker's own plan, looked at without doing anything."""

from __future__ import annotations

from datetime import UTC, datetime

from neve.model.results import JobRow
from neve.plan.agenda import Job, plan_agenda
from neve.services.context import Context
from neve.services.worker.facts import Memory, gather
from neve.services.worker.jobs import JOBS
from neve.services.worker.landing import Landing

_LAST = datetime.max.replace(tzinfo=UTC)
_KEPT = frozenset({"after", "by_hand", "claimed"})
"""What keeps work waiting whose time has come."""


def schedule(context: Context, now: datetime | None = None) -> list[JobRow]:
    """Due work in the order of its deadlines, then the rest in the order of its times."""
    moment = now or context.clock()
    known = gather(context, moment, Memory(landing=Landing(submits=False)), kinds=JOBS)
    agenda = plan_agenda(known.facts, moment)
    later = sorted(agenda.waiting, key=lambda job: (job.due_at or _LAST, job.table, job.action))
    return [_row(part, job) for job in (*agenda.ready, *later) for part in job.parts or (job,)]


def _row(part: Job, job: Job) -> JobRow:
    """`part` of a job that may keep several tables waiting together."""
    kept = job.waits is not None and job.waits.code in _KEPT
    return JobRow(
        table=str(part.table),
        action=part.action,
        due=job.waits is None or kept,
        reason=part.reason if job.waits is None or kept else job.waits,
        due_at=part.due_at if job.waits is None or kept else job.due_at,
        waits=job.waits if kept else None,
    )
