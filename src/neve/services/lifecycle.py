"""Renaming and emptying tables."""

from __future__ import annotations

from pydantic import JsonValue

from neve.errors import AlreadyExists
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.ranges import RangeTree, to_property
from neve.model.results import Reason, Receipt
from neve.model.specs import RANGES
from neve.model.splits import check_encoded
from neve.plan.ranges import need_keys
from neve.plan.tables import refuse_dynamic, refuse_with_dependants
from neve.services.context import Context
from neve.services.deletion import look_again, refuse_half_deleted
from neve.services.look import RUN_ID, dependants_of
from neve.services.ranges.looking import asked_tree
from neve.services.registry import is_taken, move_row
from neve.services.runs import receipt_of, recorded


def rename_table(context: Context, old: TableName, new: TableName) -> Receipt:
    """Only the name changes: id, folder, snapshots and rows stay."""
    facts = context.catalog.facts(old)
    refuse_with_dependants(old, dependants_of(context, old), verb="rename")
    refuse_half_deleted(facts)
    if is_taken(context, new):
        raise AlreadyExists(f"table {new} already exists", hint="choose another name, or delete it first")
    plan: dict[str, JsonValue] = {"to": str(new), "uuid": facts.uuid}
    with recorded(context, "rename", old, plan=plan, snapshot_before=facts.current_snapshot_id) as run:
        context.catalog.ensure_namespace(new.namespace)
        while not context.catalog.rename(old, new, expected=facts.metadata_location):
            facts = look_again(context, facts)
            refuse_half_deleted(facts)
        move_row(context, old, new, facts.uuid)
        run.details = {"to": str(new)}
        run.snapshot_after = facts.current_snapshot_id
        run.undo = neve("table", "rename", new.short, old.short)
    return receipt_of(run)


def reinitialise_table(
    context: Context,
    name: TableName,
    *,
    delete_partitions: bool = False,
    split_points: str | None = None,
    encoded: bool = False,
    ranges: str | None = None,
    dry_run: bool = False,
) -> Receipt:
    """Takes every row out in one commit; layout, properties, tags and history stay.

    The ranges of a key-range table stay too, unless `delete_partitions` makes them one, or `split_points` (the text of
    a split file) or `ranges` (that of an export) puts others in their place.
    """
    facts = context.catalog.facts(name)
    refuse_dynamic(
        facts, verb="empty", instead="drop it: neve dynamic drop NAME; or bring it up to date: neve dynamic refresh"
    )
    tree = _new_tree(
        facts, delete_partitions=delete_partitions, split_points=split_points, encoded=encoded, ranges=ranges
    )
    refuse_with_dependants(name, dependants_of(context, name), verb="reinitialise")
    before = facts.current_snapshot_id
    rows = facts.current.rows if facts.current else 0
    empty = facts.current is None or (rows == 0 and not facts.current.total("data-files"))
    details: dict[str, JsonValue] = {"rows_deleted": rows}
    if tree is not None:
        details["ranges"] = len(tree.leaves)
    if empty and tree is None:
        why = Reason(code="nothing_to_do", detail=f"{name} has no rows")
        return Receipt(run_id=None, action="reinitialise", table=str(name), reason=why)
    if dry_run:
        return Receipt(
            run_id=None, action="reinitialise", table=str(name), dry_run=True, snapshot_before=before, details=details
        )
    with recorded(context, "reinitialise", name, plan=details, snapshot_before=before) as run:
        if not empty:
            from neve.engine.rows import delete_all_rows

            delete_all_rows(context.session.spark, name, summary={RUN_ID: run.run_id})
        if tree is not None:
            context.catalog.set_properties(name, put={RANGES: to_property(tree)})
        run.snapshot_after = context.catalog.facts(name).current_snapshot_id
        run.details = details
        run.undo = None if empty else neve("table", "rollback", name.short, "--to", str(before))
    return receipt_of(run)


def _new_tree(
    facts: TableFacts, *, delete_partitions: bool, split_points: str | None, encoded: bool, ranges: str | None
) -> RangeTree | None:
    """The ranges to put in place; None to leave them as they are."""
    check_encoded(split_points, encoded=encoded)
    if split_points is None and ranges is None and not delete_partitions:
        return None
    keys = need_keys(facts)
    return asked_tree(
        keys, delete_partitions=delete_partitions, split_points=split_points, encoded=encoded, ranges=ranges
    )
