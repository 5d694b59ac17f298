"""The trash: deleted tables that can still come back, and what happens when their time is over."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from neve.errors import AlreadyExists, StorageError, TableNotFound, nearest
from neve.model.commands import neve
from neve.model.names import TableName
from neve.model.results import Receipt, TrashRow
from neve.model.runs import TrashedTable
from neve.plan.tables import DEFINITION, overlap, owns_location
from neve.services.context import Context
from neve.services.look import all_facts
from neve.services.registry import forget_logs, is_taken, register_row
from neve.services.runs import receipt_of, recorded


def list_trash(context: Context) -> list[TrashRow]:
    return [
        TrashRow(table=row.table_name, uuid=row.table_uuid, deleted_at=row.deleted_at, purge_after=row.purge_after)
        for row in context.store.trash.list()
    ]


def undelete_table(context: Context, name: TableName, *, new_name: TableName | None = None) -> Receipt:
    """Brings the table of that name that was deleted last back from the trash."""
    trashed, metadata_location = _latest(context, name)
    target = new_name or name
    if is_taken(context, target):
        raise AlreadyExists(
            f"table {target} already exists",
            hint=f"bring it back as another: {neve('table', 'undelete', name.short, '--as')} NEW_NAME",
        )
    refuse_second_name(context, trashed.table_uuid)
    facts = context.catalog.facts_at(target, metadata_location)
    with recorded(context, "undelete", target, plan={"trashed": trashed.model_dump(mode="json")}) as run:
        context.catalog.ensure_namespace(target.namespace)
        if not context.store.trash.take(trashed.table_uuid):
            raise TableNotFound(f"{name} is not in the trash any more: somebody else was first")
        try:
            context.catalog.register(target, metadata_location)
        except BaseException:
            context.store.trash.put(trashed)
            raise
        register_row(context, target)
        if DEFINITION in facts.properties:
            from neve.services.dynamic.holds import hold_sources

            hold_sources(context, [facts])
        run.snapshot_after = facts.current_snapshot_id
        run.details = {"rows": facts.current.rows if facts.current else 0}
        run.undo = neve("table", "delete", target.short)
    return receipt_of(run)


def refuse_second_name(context: Context, uuid: str) -> None:
    """A table has one name: two would share files, and deleting either would break the other."""
    for facts in all_facts(context):
        if facts.uuid == uuid:
            raise AlreadyExists(f"that table is in the lake already, as {facts.name}")


def empty_expired_trash(context: Context, *, now: datetime | None = None) -> list[str]:
    """Removes for ever what has lain in the trash for longer than its period; the names of what went.

    A table whose files cannot be removed stays, condemned: it cannot come back, and the next call tries again.
    """
    moment = now or context.clock()
    gone = []
    for row in context.store.trash.expired(moment):
        with suppress(StorageError):
            if context.store.trash.condemn(row.table_uuid, moment):
                if removable(context, row.location, uuid=row.table_uuid):
                    context.catalog.files.remove_tree(row.location)
                forget_logs(context, row.table_uuid)
                context.store.trash.remove(row.table_uuid)
                gone.append(row.table_name)
    return gone


def removable(context: Context, folder: str, *, uuid: str | None, name: TableName | None = None) -> bool:
    """Whether a table's folder is ours and its own: no other table of the lake or the trash has a file in there."""
    if not owns_location(folder, context.loaded.warehouse_location):
        return False
    live = [location for other, location in context.catalog.metadata_locations().items() if other != name]
    trashed = [row.location for row in context.store.trash.list() if row.table_uuid != uuid]
    return not any(overlap(folder, location) for location in (*live, *trashed))


def _latest(context: Context, name: TableName) -> tuple[TrashedTable, str]:
    rows = context.store.trash.list()
    for row in rows:
        if row.table_name == name.short and row.metadata_location is not None:
            return row, row.metadata_location
    raise TableNotFound(
        f"no table {name} in the trash",
        hint=nearest(name.short, (row.table_name for row in rows)) or "see it: neve table trash",
    )
