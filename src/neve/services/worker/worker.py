"""The worker: looks at what is due, claims it, does it in slots, and writes down what became of it.

Facts are looked at anew before each decision, so that many workers need no queue and no leader: a claim on every table
of a job keeps them apart. Whoever dies leaves claims that run out, and runs that the next change settles.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue

from pydantic import JsonValue

from neve.errors import Cancelled, NeveError, SparkUnavailable
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.runs import new_run_id
from neve.model.work import Claim, JobOutcome, SetbackRecord, WorkerRecord
from neve.observe.log import Event, Level
from neve.plan.agenda import Agenda, Job, plan_agenda
from neve.plan.lag import REST
from neve.services.context import Context
from neve.services.lineage import job_of_worker
from neve.services.worker.abandoned import free_abandoned
from neve.services.worker.alerting import Alarm
from neve.services.worker.choosing import chosen, missing, not_found
from neve.services.worker.facts import Known, Memory, gather
from neve.services.worker.failures import note_failure, suspend_for
from neve.services.worker.jobs import CONFLICTS, JOBS, NOT_ITS_OWN, Done, Hands

_SLICE = 0.25
"""Seconds after which a wait looks up: a signal sets a flag only, as it may come at any point of the code."""
_GROWING = timedelta(seconds=1)
"""Between two looks at files that may be complete soon."""
_PAUSE = timedelta(seconds=20)
"""How long work is left alone that met a conflict or a worker without Spark, or was cancelled."""
_REMEMBERED = timedelta(days=1)
"""How long a worker that gives no more sign of life is spoken of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """`tables` are names or patterns; `on_look` hears of every look, with what is known and planned."""

    slots: int = 1
    tables: Sequence[str] = ()
    lease: timedelta = timedelta(minutes=1)
    poll: timedelta = timedelta(seconds=10)
    log: Callable[[Event], None] = lambda _: None
    on_look: Callable[[Context, Known, datetime], None] = lambda *_: None


class Worker:
    """One process's part in the work of a lake."""

    def __init__(self, context: Context, options: WorkerOptions) -> None:
        self._context, self._options = context, options
        self.name = f"{socket.gethostname()}-{os.getpid()}-{context.entropy(3).hex()}"
        self._memory = Memory()
        self._alarm = Alarm(context, self._log)
        self._claims: dict[tuple[str, int], Claim] = {}
        self._lost: set[tuple[str, int]] = set()
        self._outcomes: SimpleQueue[JobOutcome] = SimpleQueue()
        self._freed = threading.Event()
        self._known: Known | None = None
        self._missing: set[TableName] | None = None
        self._draining = False
        self._is_broken = False

    def tick(self, now: datetime | None = None) -> list[JobOutcome]:
        """Does all that is due, each job once, and answers when it is done; `now` is this moment unless given."""
        return list(self._work(once=True, now=now))

    def run(self) -> Iterator[JobOutcome]:
        """Works until `drain`; what became of each table, as it happens."""
        return self._work(once=False, now=None)

    def drain(self) -> None:
        """Finish what runs, begin nothing more. May be called from a signal handler."""
        self._draining = True

    # ------------------------------------------------------------------------------------------------------- the loop

    def _work(self, *, once: bool, now: datetime | None) -> Iterator[JobOutcome]:
        tried: set[tuple[str, str]] = set()
        running: set[Future[None]] = set()
        slots = self._options.slots
        with (
            self._alive(),
            ThreadPoolExecutor(slots, thread_name_prefix="neve-slot") as pool,
            self._breaking_off(running),
        ):
            while True:
                agenda = self._look(now or self._context.clock(), patient=not once)
                for job in agenda.ready if not self._draining else ():
                    if len(running) >= slots:
                        break
                    asked = {(member.uuid, job.action) for member in job.asked}
                    if once and asked <= tried:
                        continue
                    tried |= asked
                    if (future := self._begin(job, pool)) is not None:
                        running.add(future)
                yield from self._told()
                if not running and (self._draining or (once and not self._is_waiting(agenda, tried))):
                    break
                self._wait(running, agenda, now)
                for future in [future for future in running if future.done()]:
                    running.discard(future)
                    future.result()
                yield from self._told()
        if self._is_broken:
            raise SparkUnavailable("Spark has died under this worker", hint="see .neve/spark.log, and start it again")

    def _look(self, now: datetime, *, patient: bool) -> Agenda:
        """What to do now; a lake that cannot be read is waited for, unless this is the only look."""
        try:
            self._known = gather(self._context, now, self._memory, kinds=JOBS)
            gone = missing(self._context, self._options.tables)
        except NeveError as exc:
            if not patient:
                raise
            self._log("look_failed", level="error", error_type=exc.code, detail=exc.message)
            return Agenda(ready=(), waiting=(), wake_at=None)
        self._check_named(gone)
        self._tell_of_look(self._known, now)
        for problem in self._memory.landing.problems:
            detail = problem.reason.detail if problem.reason else ""
            self._log("file_refused", level="warning", table=problem.table, detail=detail)
        self._memory.landing.problems.clear()
        names = chosen(self._known.facts, self._options.tables)
        self._alarm.look(self._known.facts, now, only=names)
        agenda = plan_agenda(self._known.facts, now, only=names, in_full=False)
        for claim in free_abandoned(self._context, agenda, only=names, but=self.name):
            self._log("claim_freed", table=claim.table_name, action=claim.action, detail=f"{claim.owner} died")
        return agenda

    def _check_named(self, gone: set[TableName]) -> None:
        """A name of no table is a mistake at the first look. Later somebody dropped it, and it may come back."""
        if self._missing is None and gone:
            raise not_found(self._context, min(gone))
        for name in sorted(gone - (self._missing or set())):
            self._log("table_gone", level="warning", table=str(name))
        self._missing = gone

    def _tell_of_look(self, known: Known, now: datetime) -> None:
        """Who hears of looks, such as a file of metrics on a full disk, keeps nothing from its turn."""
        try:
            self._options.on_look(self._context, known, now)
        except NeveError as exc:
            self._log("look_untold", level="error", error_type=exc.code, detail=exc.message)

    def _is_waiting(self, agenda: Agenda, tried: set[tuple[str, str]]) -> bool:
        """Whether one more look may find something: a file that may be complete by then, or a job not tried yet."""
        untried = any((member.uuid, job.action) not in tried for job in agenda.ready for member in job.asked)
        return self._memory.landing.growing or untried

    def _wait(self, running: set[Future[None]], agenda: Agenda, now: datetime | None) -> None:
        """Until a job ends or frees a table, the next one is due, or it is time for another look."""
        until = self._context.clock() + self._options.poll
        if agenda.wake_at is not None and now is None:
            until = min(until, agenda.wake_at)
        if self._memory.landing.growing:
            until = min(until, self._context.clock() + _GROWING)
        self._freed.clear()
        while self._context.clock() < until and not self._freed.is_set():
            if running:
                if wait(running, timeout=_SLICE, return_when=FIRST_COMPLETED).done:
                    return
            elif self._draining:
                return
            else:
                time.sleep(_SLICE)

    def _told(self) -> Iterator[JobOutcome]:
        while True:
            try:
                yield self._outcomes.get_nowait()
            except Empty:
                return

    @contextmanager
    def _breaking_off(self, running: set[Future[None]]) -> Iterator[None]:
        """A second Ctrl-C ends what runs: jobs of Spark are cancelled until all have ended."""
        try:
            yield
        except KeyboardInterrupt:
            while wait(running, timeout=_SLICE).not_done:
                self._context.session.cancel_jobs()
            raise

    # ------------------------------------------------------------------------------------------------------- one job

    def _begin(self, job: Job, pool: ThreadPoolExecutor) -> Future[None] | None:
        """Claims a job and hands it to a slot; None when somebody else has it, or it cannot be done here."""
        claims = self._claim(job)
        if claims is None:
            return None
        job_id = new_run_id(self._context.clock(), self._context.entropy)
        detail = job.reason.detail
        self._log("job_started", table=str(job.table), action=job.action, job_id=job_id, detail=detail)
        return pool.submit(_Doing(self, job, job_id, claims).do)

    def _claim(self, job: Job) -> dict[TableName, Claim] | None:
        store, now = self._context.store, self._context.clock()
        with store.transaction():
            found = store.claims.claim(
                {member.uuid: str(member.table) for member in job.members},
                action=job.action,
                owner=self.name,
                ttl=self._options.lease,
                now=now,
            )
            if found is None:
                return None
            died = [
                note_failure(
                    self._context, claim, Reason(code="died", detail=f"worker {claim.owner} died at it"), now=now
                )
                for claim in found.lapsed
            ]
        for claim, setback in zip(found.lapsed, died, strict=True):
            told = {"detail": f"{claim.owner} gave no sign of life since {claim.expires_at:%H:%M:%S}"}
            self._log("claim_taken_over", level="warning", table=claim.table_name, action=claim.action, **told)
            self._learn(setback)
        if any(setback.suspended_at is not None for setback in died):
            for claim in found.claims:
                store.claims.release(claim)
            return None
        names = {member.uuid: member.table for member in job.members}
        self._claims |= {(claim.table_uuid, claim.fence): claim for claim in found.claims}
        return {names[claim.table_uuid]: claim for claim in found.claims}

    def _conclude(self, claim: Claim, done: Done) -> bool:
        """Gives a table back, with what its job's end means for the next; whether it was still this worker's."""
        if done.state == "failed" and self._has_lost_spark():
            done = replace(done, own=False)
        store, now = self._context.store, self._context.clock()
        setback = None
        with store.transaction():
            mine = store.claims.release(claim)
            if mine and done.state == "succeeded":
                store.setbacks.clear(claim.table_uuid, claim.action)
            elif mine and done.state == "failed" and done.own:
                setback = note_failure(self._context, claim, done.reason, now=now)
        self._claims.pop((claim.table_uuid, claim.fence), None)
        self._memory.forget(claim.table_uuid)
        if done.settled is not None:
            self._memory.settled[claim.table_uuid, claim.action] = done.settled
        if setback is None:
            rest = REST if done.state == "succeeded" else _PAUSE
            self._memory.pauses[claim.table_uuid, claim.action] = now + rest
        if setback is not None:
            self._learn(setback)
        if mine and done.refresh is not None and self._known is not None:
            self._alarm.refreshed(done.refresh, claim.table_uuid, self._known.recent.get(claim.table_uuid, ()))
        self._freed.set()
        return mine

    def _has_lost_spark(self) -> bool:
        """A worker whose Spark has died can do nothing more, and no table is to blame for it: it ends."""
        if not self._is_broken and "session" in self._context.__dict__ and self._context.session.is_gone:
            self._is_broken = self._draining = True
            self._log("spark_died", level="error", detail="this worker ends; its work is left for others")
        return self._is_broken

    def _learn(self, setback: SetbackRecord) -> None:
        """A failure was counted: tell of it, and suspend what failed too often."""
        self._alarm.failed(setback)
        if setback.suspended_at is not None:
            try:
                told = suspend_for(self._context, setback)
            except NeveError as exc:  # the setback says it too, and keeps the job waiting
                told = f"{setback.error_message}; the table could not be marked: {exc.message}"
            self._log("suspended", level="error", table=setback.table_name, action=setback.action, detail=told)

    # ---------------------------------------------------------------------------------------------------- being there

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Gives signs of life and renews every claim while the worker works."""
        now = self._context.clock()
        record = WorkerRecord(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self._options.slots,
            started_at=now,
            seen_at=now,
        )
        self._alarm = Alarm(self._context, self._log)
        self._context.store.workers.forget(now - _REMEMBERED)
        self._context.store.workers.put(record)
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(record, over), name="neve-heartbeat", daemon=True)
        beating.start()
        self._log("worker_started", slots=self._options.slots)
        try:
            yield
        finally:
            over.set()
            beating.join()
            self._alarm.close()
            ended = self._context.clock()
            self._context.store.workers.put(record.model_copy(update={"seen_at": ended, "stopped_at": ended}))
            self._log("worker_stopped")

    def _beat(self, record: WorkerRecord, over: threading.Event) -> None:
        while not over.wait(self._options.lease.total_seconds() / 4):
            now = self._context.clock()
            try:
                held = list(self._claims.values())
                for claim in self._context.store.claims.renew(held, self._options.lease, now):
                    if (key := (claim.table_uuid, claim.fence)) in self._claims and key not in self._lost:
                        self._lost.add(key)
                        self._log("claim_lost", level="error", table=claim.table_name, action=claim.action)
                self._context.store.workers.put(record.model_copy(update={"seen_at": now}))
            except NeveError as exc:  # the database may come back before the claims are over
                self._log("heartbeat_failed", level="error", detail=exc.message)

    def _log(self, name: str, *, level: Level = "info", **fields: JsonValue) -> None:
        told: dict[str, JsonValue] = {"worker": self.name, **fields}
        self._options.log(Event(at=self._context.clock(), name=name, level=level, fields=told))


class _Doing:
    """One job in its slot: tables are given back as each is done, so that others may go on with them."""

    def __init__(self, worker: Worker, job: Job, job_id: str, claims: dict[TableName, Claim]) -> None:
        self._worker, self._job, self._id, self._claims = worker, job, job_id, claims
        self._context = worker._context
        self._started, self._began = self._context.clock(), time.monotonic()
        self._told: Callable[[str, str | None], None] = lambda *_: None

    def do(self) -> None:
        tables = [member.table for member in self._job.asked]
        with job_of_worker(self._context, self._id, self._job.action, tables) as self._told:
            self._do()

    def _do(self) -> None:
        hands = Hands(context=self._context, landing=self._worker._memory.landing, tell=self.end)
        try:
            JOBS[self._job.kind](hands, self._job)
        except Cancelled as exc:
            self.end_all("cancelled", Reason(code=exc.code, detail=exc.message), run_id=exc.run_id)
        except NeveError as exc:
            state = "conflict" if exc.code in CONFLICTS else "failed"
            reason, own = Reason(code=exc.code, detail=exc.message), exc.code not in NOT_ITS_OWN
            self.end_all(state, reason, run_id=exc.run_id, own=own)
        except Exception as exc:  # noqa: BLE001 - the boundary: whatever breaks one job, the worker goes on
            detail = f"{type(exc).__name__}: {next(iter(str(exc).splitlines()), '')}"
            self.end_all("failed", Reason(code="error", detail=detail))
        finally:
            for name in list(self._claims):  # tables that a round had no turn for
                self._give_back(Done(table=name, state="conflict"))

    def end(self, done: Done) -> None:
        """A table is done: it is given back, and what became of it is told."""
        if done.table not in self._claims:
            return
        state = done.state if self._give_back(done) else "lost"
        took = round((time.monotonic() - self._began) * 1000)
        outcome = JobOutcome(
            table=str(done.table),
            action=self._job.action,
            state=state,
            what=done.what,
            reason=done.reason,
            run_id=done.run_id,
            job_id=self._id,
            worker=self._worker.name,
            due_at=self._job.due_at,
            started_at=self._started,
            duration_ms=took,
        )
        level: Level = "info" if state == "succeeded" else "error" if state == "failed" else "warning"
        self._worker._log(
            f"job_{state}",
            level=level,
            table=outcome.table,
            action=outcome.action,
            what=outcome.what,
            run_id=outcome.run_id,
            job_id=self._id,
            duration_ms=took,
            error_type=done.reason.code if done.reason and state != "succeeded" else None,
            detail=done.reason.detail if done.reason else None,
        )
        self._told(state, done.reason.detail if done.reason else None)
        self._worker._outcomes.put(outcome)

    def end_all(self, state: str, reason: Reason, *, run_id: str | None = None, own: bool = True) -> None:
        """Ends the tables that asked for the job and are not done yet."""
        for member in self._job.asked:
            told = {"table": member.table, "state": state, "reason": reason, "run_id": run_id, "own": own}
            self.end(Done(**told))  # type: ignore[arg-type]
        for name in list(self._claims):
            self._give_back(Done(table=name, state="conflict"))

    def _give_back(self, done: Done) -> bool:
        try:
            return self._worker._conclude(self._claims.pop(done.table), done)
        except NeveError as exc:  # the claim runs out by itself
            told = {"table": str(done.table), "job_id": self._id, "detail": exc.message}
            self._worker._log("conclusion_failed", level="error", **told)
            return False
