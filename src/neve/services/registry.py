"""What `table_registry` and the logs keep of a table: written, moved and parked together, by the table's uuid.

Each function is one transaction and may be repeated: whoever finishes the work of a process that died calls it again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from neve.errors import NotFound
from neve.model.names import TableName
from neve.model.runs import CompactionRecord, IngestionRecord, RegisteredTable
from neve.plan.tables import DEFINITION
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.store.logs import TableLog
    from neve.store.submissions import Submissions


def is_directory(context: Context, name: TableName) -> bool:
    """Whether a directory table has a name."""
    known = context.store.registry.get(name.short)
    return known is not None and known.format != "iceberg"


def is_taken(context: Context, name: TableName) -> bool:
    """Whether a table of any kind has a name."""
    return context.catalog.exists(name) or is_directory(context, name)


def register_row(context: Context, name: TableName, *, config_path: str | None = None, new_table: bool = False) -> None:
    """Writes the table's row as the catalog has it now; logs that were parked when it was deleted come back."""
    facts = context.catalog.facts(name)
    now = context.clock()
    with context.store.transaction():
        known = _make_room(context, name.short, facts.uuid, new_name=new_table)
        for log in _logs(context):
            if not log.for_table(name.short):
                log.rename(facts.uuid, name.short)
        context.store.registry.put(
            RegisteredTable(
                table_name=name.short,
                config_path=config_path or (known.config_path if known else None),
                base_path=facts.location,
                created_at=known.created_at if known else now,
                updated_at=now,
                table_uuid=facts.uuid,
            )
        )
    _remember_dynamic(context, name)


def move_row(context: Context, old: TableName, new: TableName, uuid: str) -> None:
    """Gives a renamed table's row and logs the new name; a row that some earlier table left there makes room."""
    with context.store.transaction():
        _make_room(context, new.short, uuid, new_name=True)
        known = context.store.registry.get(old.short)
        if known is not None and known.table_uuid == uuid:
            context.store.registry.rename(old.short, new.short, context.clock())
    _remember_dynamic(context, new)


def park_row(context: Context, short: str, uuid: str) -> None:
    """Takes a deleted table off the registry. Its logs wait under its uuid, so a new table of the name has none."""
    with context.store.transaction():
        known = context.store.registry.get(short)
        if known is not None and known.table_uuid != uuid:
            return
        context.store.registry.forget(short)
        context.store.dynamic.forget(uuid)
        for log in _logs(context):
            if log.for_table(short):
                log.forget(uuid)
                log.rename(short, uuid)


def forget_row(context: Context, short: str, uuid: str | None) -> None:
    """Takes a table that never comes back off the registry, its logs too. `uuid` is None when nobody can read it."""
    with context.store.transaction():
        known = context.store.registry.get(short)
        if known is None or uuid in (None, known.table_uuid):
            context.store.registry.forget(short)
            forget_logs(context, short)
        if uuid is not None:
            context.store.dynamic.forget(uuid)
            context.store.setbacks.clear(uuid)
            forget_logs(context, uuid)


def forget_logs(context: Context, key: str) -> None:
    """Removes what the logs have of a name, or of the uuid that they are parked under."""
    for log in _logs(context):
        log.forget(key)
    context.store.refreshes.forget(key)
    context.store.scans.forget(key)


def _remember_dynamic(context: Context, name: TableName) -> None:
    """What the state database keeps of a dynamic table comes with its row; its history belongs to its uuid."""
    with suppress(NotFound):  # a rival may have given it yet another name
        if DEFINITION in (facts := context.catalog.facts(name)).properties:
            from neve.services.dynamic.history import remember

            remember(context, [facts])


def _make_room(context: Context, short: str, uuid: str, *, new_name: bool) -> RegisteredTable | None:
    """The row that the table itself has under a name. What an earlier table left there is put aside.

    Log entries without a row are nobody's when the name is new to the table, and its own when it is not.
    """
    known = context.store.registry.get(short)
    if known is not None and known.table_uuid != uuid:
        park_row(context, short, known.table_uuid)
        return None
    if known is None and new_name:
        forget_logs(context, short)
    return known


def _logs(context: Context) -> tuple[TableLog[IngestionRecord], TableLog[CompactionRecord], Submissions]:
    return context.store.ingestions, context.store.compactions, context.store.submissions
