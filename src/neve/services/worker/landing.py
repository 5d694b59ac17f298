"""Files that arrive: the landing folders of tables are looked into, and what was submitted is loaded in batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

from neve.errors import InvalidInput, NeveError, Refused
from neve.model.batching import BatchOutcome
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.tablefile import LandingSection
from neve.plan.agenda import Errand, Member
from neve.plan.watching import Watcher, shapes_of
from neve.services.batching import BatchRequest, load_batches, look_ahead, put_submissions, submission
from neve.services.context import Context
from neve.services.deliveries import ask
from neve.services.descriptions import describe
from neve.services.landing import look_into

KIND = "landing"
_PATIENCE = timedelta(minutes=5)


@dataclass(slots=True)
class Landing:
    """What was seen of each table's files: which are still growing, and which dates failed as they are."""

    submits: bool = True
    """Whether files that are complete are submitted, or only counted."""
    watchers: dict[TableName, Watcher] = field(default_factory=dict)
    changing: dict[TableName, frozenset[date]] = field(default_factory=dict)
    growing: bool = False
    """Whether a file is too young to tell that it is complete: a later look will."""
    problems: list[BatchOutcome] = field(default_factory=list)
    """Files that could not be submitted, each told once."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """A slot may be loading files of a table while it is looked at."""

    def errands(self, context: Context, now: datetime, members: Mapping[TableName, Member]) -> Iterator[Errand]:
        self.growing = False
        pending = {TableName.parse(name) for name in context.store.submissions.pending()}
        described = {TableName.parse(row.table_name) for row in context.store.registry.list() if row.config_path}
        for name in sorted(members.keys() & (pending | described)):
            try:
                found = self._errand(context, now, members[name])
            except NeveError as exc:
                reason = Reason(code=exc.code, detail=exc.message)
                found = Errand(member=members[name], kind=KIND, due=False, reason=reason)
            if found is not None:
                yield found

    def load(self, context: Context, name: TableName) -> Iterator[BatchOutcome]:
        """Loads what is ready; what fails is left alone until it changes, or for a while when it may pass."""
        watcher, shapes = self._watcher(name), shapes_of(context.store.submissions.for_table(name.short), ())
        for outcome in load_batches(context, self._request(context, name, context.clock())):
            with self.lock:
                is_news = watcher.note(outcome, shapes, context.clock())
            if outcome.state != "waiting" and is_news:
                yield outcome

    def _errand(self, context: Context, now: datetime, member: Member) -> Errand | None:
        described = describe(context, member.table, None)
        landing = None if described is None else described.ingestion.landing
        news = 0 if landing is None else self._look(context, now, member.table, landing)
        plan = look_ahead(context, self._request(context, member.table, now))
        if plan.reason is not None and plan.reason.code == "nothing_submitted":
            if landing is None:
                return None
            what = f"{news:,} new files in {landing.folder}, to be loaded when they are complete"
            reason = Reason(code="landed", detail=what)
            if not news:
                reason = Reason(code="nothing_landed", detail=f"no new file in {landing.folder}")
            return Errand(member=member, kind=KIND, due=False, reason=reason)
        rows = [row for row in context.store.submissions.for_table(member.table.short) if row.run_id is None]
        oldest = min((row.submitted_at for row in rows), default=now)
        if plan.reason is not None:
            limits = described.ingestion.batch if described is not None else None
            due_at = None if limits is None else oldest + limits.max_age
            return Errand(member=member, kind=KIND, due=False, reason=plan.reason, due_at=due_at)
        files = sum(len(batch.files) for batch in plan.batches)
        reason = Reason(code="files", detail=f"{files:,} files wait to be loaded")
        return Errand(member=member, kind=KIND, due=True, reason=reason, since=oldest, patience=_PATIENCE)

    def _look(self, context: Context, now: datetime, name: TableName, landing: LandingSection) -> int:
        """Submits the files that are complete; how many new ones there are that are not submitted."""
        folder = landing.folder
        if "://" not in folder:
            folder = str(context.loaded.root / Path(folder).expanduser())
        watcher = self._watcher(name, settle=landing.settle)
        landed = look_into(folder, context.catalog.files)
        known = {row.path: row for row in context.store.submissions.for_table(name.short)}
        with self.lock:
            look = watcher.sort(landed, known, now)
        self.growing = self.growing or bool(look.growing)
        self.changing[name] = frozenset(known[file.path].date for file in look.growing if file.path in known)
        if not look.arrived or not self.submits:
            return len(look.arrived) + len(look.growing)
        asked = ask(context, name, None, sources=(), name_pattern=landing.date_from_name)
        rows = []
        for file in look.arrived:
            try:
                rows.append(submission(context, asked, file, known.get(file.path)))
            except (InvalidInput, Refused) as exc:
                watcher.refuse(file)
                self.problems.append(_problem(name, exc, file.path))
        put_submissions(context, rows)
        return len(look.growing)

    def _request(self, context: Context, name: TableName, now: datetime) -> BatchRequest:
        shapes = shapes_of(context.store.submissions.for_table(name.short), ())
        with self.lock:
            holding = self._watcher(name).standing(shapes, now) | self.changing.get(name, frozenset())
        return BatchRequest(table=name, holding=holding)

    def _watcher(self, name: TableName, *, settle: timedelta = timedelta(0)) -> Watcher:
        return self.watchers.setdefault(name, Watcher(settle=settle))


def _problem(table: TableName, error: NeveError, path: str) -> BatchOutcome:
    reason = Reason(code=error.code, detail=error.message)
    return BatchOutcome(table=str(table), state="failed", files=[path], reason=reason, hint=error.hint)
