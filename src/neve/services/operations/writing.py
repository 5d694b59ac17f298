"""WRITEs of this process: those that wait, and what is known of the tables that they are for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from neve.errors import InvalidInput, NotFound, StalePlan
from neve.model.appends import AppendTarget
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.operations import Write
from neve.plan.appends import with_defaults
from neve.plan.records import typed_records, visible
from neve.plan.tables import refuse_dynamic
from neve.services.context import Context
from neve.services.deletion import refuse_half_deleted
from neve.services.operations.appending import Batch, append_rows, write_by_spark
from neve.services.operations.counting import SmallFiles
from neve.services.operations.grouping import Groups, Pending
from neve.services.operations.once import OnceKey, Turns, claim, written_before

_INSTEAD = "write to the tables that it reads"


class Writes:
    """Threads may write side by side.

    A table's columns are remembered, as reading them for each write would take longer than the write; a commit compares
    them with the table's, and what does not fit any more is made anew.
    """

    def __init__(self) -> None:
        self.small_files = SmallFiles()
        self._groups = Groups()
        self._targets: dict[TableName, AppendTarget] = {}
        self._turns = Turns()
        self._lock = threading.Lock()

    def put(self, context: Context, request: Write, key: OnceKey | None = None) -> tuple[TableFacts, int | None]:
        """Returns when the records are in the table: the table, and which of its writes this was.

        That is None for a write that was there already, by its key.
        """
        if key is None:
            return self._put(context, request, None)
        with self._turns.turn(key):
            if written_before(context, request.name, key):
                return context.catalog.facts(request.name), None
            return self._put(context, request, key)

    def _put(self, context: Context, request: Write, key: OnceKey | None) -> tuple[TableFacts, int]:
        with self._lock:
            known = self._targets.get(request.name)
        if known is not None:
            try:
                return self._write(context, known, request, key)
            except (StalePlan, InvalidInput, NotFound):
                pass  # perhaps only what was remembered is wrong
        target = context.catalog.append_target(request.name)
        with self._lock:
            self._targets[request.name] = target
        return self._write(context, target, request, key)

    def _write(
        self, context: Context, target: AppendTarget, request: Write, key: OnceKey | None
    ) -> tuple[TableFacts, int]:
        facts = target.facts
        refuse_half_deleted(facts)
        refuse_dynamic(facts, verb="write to", instead=_INSTEAD)
        # Checked before they join others: one that is wrong fails its own request alone.
        pending = Pending(new_records(target, request.records), key)

        def commit(group: Sequence[Pending]) -> None:
            batch = Batch(
                target, sum(len(each.rows) for each in group), lambda run_id: _claimed(context, run_id, group)
            )
            if request.mode == "overwrite":
                write_by_spark(context, batch, overwrite=True)
            else:
                append_rows(context, batch)
            _number(context, facts, [each for each in group if each.error is None])

        if request.mode == "overwrite":
            commit([pending])
        else:
            self._groups.write(target.standing.key, pending, commit)
        return facts, pending.number


def _claimed(context: Context, run_id: str, group: Sequence[Pending]) -> list[dict[str, Any]]:
    return [row for each in claim(context, run_id, group) for row in each.rows]


def _number(context: Context, facts: TableFacts, group: Sequence[Pending]) -> None:
    """Counts the writes, by all processes together."""
    last = context.store.write_counts.add(facts.uuid, len(group))
    for number, each in enumerate(group, last - len(group) + 1):
        each.number = number


def new_records(target: AppendTarget, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records as new rows of a table, with its defaults."""
    return typed_records(visible(target.facts.columns), [with_defaults(target.fields, record) for record in records])
