"""Rewriting groups of files and committing them: what was written and not committed is removed at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from neve.errors import CommitConflict
from neve.model.changes import LiveFile
from neve.model.copying import CopyResult, FileShape
from neve.model.progress import progress_line
from neve.model.rewrites import Group
from neve.plan.merged_metrics import merged_metrics
from neve.plan.rewrites import RewriteRules
from neve.services.context import Context
from neve.services.copy_tasks import copy_by_tasks, executors_of
from neve.services.rewrites.files import Writing, copy_of, cores, write_group

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from neve.engine.rewrites import Order, Rewrite, SparkSwap, Swap

_JOBS = 4


@dataclass(frozen=True, slots=True)
class Made:
    """A group whose new files are written: by this process, or by Spark."""

    group: Group
    swap: Swap | None = None
    job: SparkSwap | None = None

    @property
    def files(self) -> int:
        return 1 if self.job is None else self.job.files

    @property
    def rows(self) -> int:
        return self.group.rows if self.job is None else self.job.rows

    @property
    def bytes(self) -> int:
        if self.swap is not None:
            return self.swap.new.file.bytes
        return 0 if self.job is None else self.job.bytes


@dataclass
class Rewriting:
    """Some groups of one table on their way. As a context, it removes what no commit names."""

    context: Context
    writing: Writing
    rules: RewriteRules
    order: Order
    shapes: Mapping[str, FileShape]
    made: list[Made] = field(default_factory=list)
    _loose: bool = True

    @cached_property
    def _rewrite(self) -> Rewrite:
        from neve.engine.rewrites import Rewrite
        from neve.engine.session import fresh_session

        facts = self.writing.files.facts
        if facts.current_snapshot_id is None:
            raise CommitConflict(f"{facts.name} is empty")
        return Rewrite(fresh_session(self.context.session.spark), facts.name, facts.current_snapshot_id)

    def make(self, groups: Sequence[Group]) -> None:
        """Writes the new files of all groups."""
        self._copy_by_tasks([group for group in groups if group.mechanic == "copy"])
        done = {id(made.group) for made in self.made}
        self._write_here([group for group in groups if group.mechanic != "spark" and id(group) not in done])
        self._write_by_spark([group for group in groups if group.mechanic == "spark"])
        turns = {id(group): turn for turn, group in enumerate(groups)}
        self.made.sort(key=lambda made: turns[id(made.group)])

    def commit(self, summary: Mapping[str, str]) -> int:
        """One commit for all groups; its snapshot.

        Raises:
            CommitConflict: files of some group were changed meanwhile; nothing was committed.
            CommitUnknown: perhaps it was made, so that its files stay.
        """
        swaps = [made.swap for made in self.made if made.swap is not None]
        jobs = [made.job for made in self.made if made.job is not None]
        rewrite = self._rewrite
        self.context.watch.check()
        # From here on the files may be the table's, whatever interrupts us: only a commit that surely failed gives them
        # back.
        self._loose = False
        try:
            return rewrite.commit(swaps, jobs, summary, changes_rows=self.order.merge is not None)
        except CommitConflict:
            self._loose = True
            raise

    def drop(self, lost: Callable[[Group], bool]) -> int:
        """Gives up the groups that were changed meanwhile, and removes what was written for them; how many."""
        gone = [made for made in self.made if lost(made.group)]
        self.made = [made for made in self.made if not any(made is other for other in gone)]
        for made in gone:
            self._remove(made)
        return len(gone)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loose:
            self.drop(lambda _: True)

    def _remove(self, made: Made) -> None:
        if made.swap is not None:
            self.writing.catalog.files.remove_all([made.swap.new.file.path])
        if made.job is not None:
            self._rewrite.discard([made.job])

    def _copy_by_tasks(self, groups: Sequence[Group]) -> None:
        """Has Spark's executors copy row groups, where it has some; what they cannot is left to this process."""
        executors = executors_of(self.context) if groups else None
        if executors is None:
            return
        copies = [copy_of(self.writing, group, self.writing.new_path(group.files[0].path)) for group in groups]
        for group, copy in zip(groups, copy_by_tasks(executors, copies), strict=True):
            if copy is not None:
                self._keep(self._swapped(group, copy.path, copy.result))

    def _write_here(self, groups: Sequence[Group]) -> None:
        """By copy or by encoding, several groups at once."""
        began, total = time.monotonic(), sum(group.bytes for group in groups)
        done = 0
        with ThreadPoolExecutor(cores()) as encoders, ThreadPoolExecutor(cores()) as pool:
            for made in pool.map(partial(self._written, encoders), groups):
                self.context.watch.check()
                done += made.group.bytes
                line = progress_line("compacting", done, total, seconds=time.monotonic() - began, bytes=True)
                self.context.tell(line)

    def _written(self, encoders: Executor, group: Group) -> Made:
        path = self.writing.new_path(group.files[0].path)
        done = write_group(self.writing, group, self.shapes, path, encoders)
        return self._keep(self._swapped(group, path, done))

    def _swapped(self, group: Group, path: str, done: CopyResult) -> Made:
        """What the commit is told of a new file: by its footer, and by what manifests say of those before it."""
        from neve.engine.data_files import NewFile
        from neve.engine.rewrites import Swap

        first, entries = group.files[0].entry, [file.entry for file in group.files]
        file = LiveFile(
            content="data",
            path=path,
            format="parquet",
            spec_id=first.file.spec_id,
            partition=first.file.partition,
            rows=done.rows,
            bytes=done.bytes,
            sequence=0,
        )
        new = NewFile(
            file=file,
            metrics=replace(
                merged_metrics([entry.metrics for entry in entries], self.writing.files.types),
                sizes={column.field_id: column.size for column in done.columns if column.field_id is not None},
            ),
            split_offsets=done.split_offsets,
        )
        return Made(group, swap=Swap(tuple(entry.file for entry in entries), new))

    def _keep(self, made: Made) -> Made:
        """Remembered as soon as it is written: when another group fails, this one's files are to go too."""
        self.made.append(made)
        return made

    def _write_by_spark(self, groups: Sequence[Group]) -> None:
        from neve.engine.tracking import tracked

        if not groups:
            return
        rewrite, target = self._rewrite, self.rules.target_bytes
        rewrite.find([file.path for group in groups for file in group.files])

        def write(group: Group) -> Made:
            paths = [file.path for file in group.files]
            job = rewrite.by_spark(paths, order=self.order, target_bytes=target, outputs=group.outputs(target))
            return self._keep(Made(group, job=job))

        with tracked(self.context.tell, "rewriting files"), ThreadPoolExecutor(min(_JOBS, len(groups))) as pool:
            for ended in [pool.submit(copy_context().run, write, group) for group in groups]:
                ended.result()
