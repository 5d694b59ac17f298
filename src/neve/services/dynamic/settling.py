"""What a process that died while it replaced or swapped dynamic tables left behind."""

from __future__ import annotations

from neve.model.facts import TableFacts
from neve.model.names import TableName, aside_name
from neve.model.runs import Run
from neve.services.context import Context
from neve.services.look import RUN_ID
from neve.services.registry import register_row


def settle_replace(context: Context, run: Run, facts: TableFacts) -> bool:
    """Takes the hidden name away; whether the table was replaced before the process died."""
    context.catalog.forget_aside(aside_name(facts.name, run.run_id))
    made = any(snapshot.summary.get(RUN_ID) == run.run_id for snapshot in facts.snapshots)
    if made:
        from neve.services.dynamic.recording import record_apart  # reads queries: too much for who only looks

        record_apart(context, facts.name)
    return made


def settle_swap(context: Context, run: Run, facts: TableFacts) -> bool:
    """Gives rows and logs the names that the tables have now; whether those were exchanged before the process died."""
    plan = run.plan or {}
    uuids = plan.get("uuids")
    if not isinstance(uuids, list) or facts.uuid != uuids[1]:
        return False
    record_swap(context, facts.name, TableName.parse(str(plan["with"])))
    return True


def record_swap(context: Context, one: TableName, other: TableName) -> None:
    """The registry after two tables changed names: the first step parks what one had, for the second to take up."""
    for name in (one, other, one):
        register_row(context, name)
