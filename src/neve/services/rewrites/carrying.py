"""Carrying out a planned compaction: write, commit, and do again what a writer changed in between, and only that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from neve.errors import CommitConflict, CommitUnknown
from neve.model.ingest import is_hidden
from neve.model.ranges import RANGE
from neve.model.rewrites import Group
from neve.model.units import counted
from neve.plan.ranges import Keys, keys_of
from neve.plan.rewrite_groups import cut_by_bytes
from neve.plan.rewrites import SORTED, candidates
from neve.services.context import Context
from neve.services.look import RUN_ID
from neve.services.rewrites.looking import Look
from neve.services.rewrites.receipts import Done
from neve.services.rewrites.work import Rewriting
from neve.services.runs import Progress
from neve.sql.merging import merged
from neve.sql.ranges import locate

if TYPE_CHECKING:
    from neve.engine.rewrites import Order

ATTEMPTS = 5
COMMIT_BYTES = 16 << 30
"""So much is rewritten before it is committed, at most: what is done stays done when the rest fails."""

PART = "neve.part"


def carry_out(
    context: Context,
    look: Look,
    run: Progress,
    *,
    again: Callable[[Done], Look],
    check: Callable[[int], None] | None = None,
) -> Done:
    """Writes and commits what a look has planned; groups that lost to a writer are looked at `again`.

    `again` is told what is done, and `check` the snapshot of each commit before anything more is.

    Raises:
        CommitConflict: writers changed the same files again and again, and nothing could be committed.
    """
    done = Done()
    for attempt in range(1, ATTEMPTS + 1):
        done.lost = 0
        for groups in cut_by_bytes(look.plan.groups, COMMIT_BYTES):
            made = len(done.commits)
            done.lost += _rewrite(context, look, groups, done, run)
            if check is not None and len(done.commits) > made:
                check(done.commits[-1])
        if not done.lost:
            break
        done.conflicts += done.lost
        if attempt < ATTEMPTS:
            context.tell(
                f"{counted(done.lost, 'group')} of files changed meanwhile; once more ({attempt + 1} of {ATTEMPTS})"
            )
            look = again(done)
    else:
        _give_up(look, done)
    _drop_dangling(context, look, done)
    return done


def _give_up(look: Look, done: Done) -> None:
    if not done.commits:
        raise CommitConflict(
            f"writers changed the same files of {look.request.table} {ATTEMPTS} times while they were compacted",
            hint="try again when less is written, or part by part: --partition k=v",
        )


def _drop_dangling(context: Context, look: Look, done: Done) -> None:
    """Deletes of several files outlive those that they were folded into; vectors, which are of one, do not."""
    if all(delete.is_vector for group in done.groups for file in group.files for delete in file.deletes):
        return
    from neve.engine.session import fresh_session
    from neve.engine.tidying import remove_dangling_deletes

    with suppress(CommitConflict):  # the next compaction finds them
        remove_dangling_deletes(fresh_session(context.session.spark), look.request.table)


def _rewrite(context: Context, look: Look, groups: Sequence[Group], done: Done, run: Progress) -> int:
    """Rewrites and commits some groups; how many lost to a writer. Those are as they were."""
    summary = {RUN_ID: run.run_id, PART: str(len(done.commits)), **look.order_summary(groups)}
    with Rewriting(context, look.writing, look.rules, _order(look, context.clock()), look.shapes) as work:
        work.make(groups)
        while work.made:
            try:
                done.commits.append(work.commit(summary))
                break
            except CommitConflict:
                changed = _changed(context, look)
                if not work.drop(changed):
                    work.drop(lambda _: True)
            except CommitUnknown:
                snapshot = _made(context, look, summary)
                if snapshot is None:
                    raise
                done.commits.append(snapshot)
                break
        done.groups += [made.group for made in work.made]
        done.files_written += sum(made.files for made in work.made)
        done.bytes_written += sum(made.bytes for made in work.made)
        done.rows_deleted += sum(made.group.rows - made.rows for made in work.made)
        return len(groups) - len(work.made)


def _made(context: Context, look: Look, summary: Mapping[str, str]) -> int | None:
    """The snapshot that carries our summary: the commit was made, and its answer lost."""
    ours = (
        step.id
        for step in context.catalog.facts(look.request.table).ancestors()
        if all(step.summary.get(key) == value for key, value in summary.items())
    )
    return next(ours, None)


def _changed(context: Context, look: Look) -> Callable[[Group], bool]:
    """Whether files of a group are gone by now, or have other deletes than they had."""
    now = {file.path: file.deletes for file in candidates(context.catalog.table_files(look.request.table))}
    return lambda group: any(now.get(file.path) != file.deletes for file in group.files)


def _merge(look: Look, keys: Keys, now: datetime) -> Callable[[str], str] | None:
    """Rows become one only within what Névé knows of them, such as their date: that date can still be replaced."""
    if keys.merging is None:
        return None
    merging, columns = keys.merging, [column for column in look.files.facts.columns if column.name != RANGE]
    own = [column.name for column in columns if is_hidden(column.name)]
    return lambda relation: merged(relation, merging, columns, [*keys.order, *own], now=now)


def _order(look: Look, now: datetime) -> Order:
    from neve.engine.rewrites import Order

    strategy, keys = look.rules.strategy, keys_of(look.files.facts)
    if keys is not None:
        return Order(kind="keys", placing=locate(keys.tree, keys.row_keys), merge=_merge(look, keys, now))
    if strategy not in SORTED:
        return Order()
    if strategy == "sort":
        terms = [(term.term.column, term.descending, term.nulls_first) for term in look.sort_by]
        return Order(kind="sort", terms=tuple(terms))
    return Order(kind=strategy, columns=tuple(term.term.column for term in look.sort_by))
