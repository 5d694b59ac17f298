"""EXECUTE_SQL that changes rows: one statement, of one table, in one commit."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.errors import Refused
from neve.model.facts import Snapshot, TableFacts
from neve.model.names import TableName
from neve.model.operation_answers import QueryMetadata, SqlChanged
from neve.model.operations import ExecuteSql
from neve.plan.records import visible
from neve.plan.row_counts import rows_changed
from neve.plan.tables import refuse_dynamic
from neve.services.context import Context
from neve.services.deletion import look_again, refuse_half_deleted
from neve.services.look import RUN_ID
from neve.services.operations.asking import deadline, one_statement
from neve.services.queries import named
from neve.services.runs import recorded
from neve.sql.confining import confine_change
from neve.sql.row_statements import read_change, with_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def change_by_sql(context: Context, request: ExecuteSql, *, confined: bool = False) -> SqlChanged:
    """Confined, the table and all that is read are the request's tenant's.

    It is analysed, looked at, and run as it was seen: no name can come to mean something else in between.

    Raises:
        CommitConflict: rows that it was about were changed meanwhile.
        TimedOut: it took longer than `timeout_ms`; nothing was changed.
    """
    from neve.engine.confinement import check_change_within
    from neve.engine.row_statements import analysed, run_analysed
    from neve.engine.session import fresh_session
    from neve.engine.statements import close_off, use_namespace
    from neve.engine.table_rows import label_commits

    text = one_statement(request.sql).placed
    read_change(text)
    text = confine_change(text, request.place) if confined else text
    began = time.monotonic()
    with deadline(context, request.timeout_ms):
        session = fresh_session(context.session.spark)
        close_off(session)
        facts = _target(context, session, text, request)
        use_namespace(session, request.place)
        plan = analysed(session, _complete(text, facts), request.params)
        if confined and request.tenant_id is not None:
            check_change_within(plan, request.tenant_id)
        what: dict[str, JsonValue] = {"sql": request.sql}
        before = facts.current_snapshot_id
        with recorded(context, "sql", facts.name, plan=what, snapshot_before=before) as run:
            label_commits(session, {RUN_ID: run.run_id})
            run_analysed(session, plan)
            made = _made(look_again(context, facts), facts, run.run_id)
            run.snapshot_after = None if made is None else made.id
            run.details = what
    added, removed = (0, 0) if made is None else rows_changed(made, facts.properties)
    took = round((time.monotonic() - began) * 1000, 2)
    metadata = QueryMetadata(row_count=0, execution_time_ms=took, query_id=uuid.uuid4().hex, warnings=[])
    return SqlChanged(
        records=[],
        query_metadata=metadata,
        rows_added=added,
        rows_removed=removed,
        snapshot=None if made is None else made.id,
    )


def _target(context: Context, session: SparkSession, text: str, request: ExecuteSql) -> TableFacts:
    """The one table that would be changed, by Spark's parser. Rows of a dynamic table are its query's alone."""
    from neve.engine.statements import targets

    found: list[TableName | None] = [named(parts, request.place) for parts in targets(session, text)]
    if len(found) != 1 or found[0] is None:
        raise Refused("this changes no table by its name", hint="write namespace.table, of one table and no branch")
    facts = context.catalog.facts(found[0])
    refuse_half_deleted(facts)
    refuse_dynamic(facts, verb="write to", instead="write to the tables that it reads")
    return facts


def _complete(text: str, facts: TableFacts) -> str:
    """An INSERT by position is about the columns that people know of."""
    known = visible(facts.columns)
    return text if len(known) == len(facts.columns) else with_columns(text, [column.name for column in known])


def _made(now: TableFacts, before: TableFacts, run_id: str) -> Snapshot | None:
    """The snapshot that came of it, if one did. A delete of whole files does not say whose it is, but nobody else's is
    taken for it: it is the only one that came."""
    known = {snapshot.id for snapshot in before.snapshots}
    new = [snapshot for snapshot in now.snapshots if snapshot.id not in known]
    own = [snapshot for snapshot in new if snapshot.summary.get(RUN_ID) == run_id]
    alone = [snapshot for snapshot in new if RUN_ID not in snapshot.summary] if len(new) == 1 else []
    return next(iter(own or alone), None)
