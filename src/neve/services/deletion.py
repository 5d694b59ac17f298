"""Deleting tables: into the trash, for ever, or leaving the files. The catalog entry goes last."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from neve.errors import Conflict, InvalidInput, NeveError, Refused, StalePlan, StorageError
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.results import Receipt
from neve.model.runs import TrashedTable
from neve.model.units import format_duration
from neve.plan.adopt import ADOPTED_FROM
from neve.plan.tables import DEFINITION, DELETING, folder_of, refuse_with_dependants
from neve.services.context import Context
from neve.services.look import all_facts, dependants_of
from neve.services.registry import forget_row, park_row
from neve.services.runs import Progress, receipt_of, recorded
from neve.services.trash import empty_expired_trash, removable

METADATA = (".metadata.json", ".metadata.json.gz")
Way = Literal["keep", "trash", "purge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What will happen. `facts` is None when the metadata cannot be read; `folder` is what a purge removes."""

    name: TableName
    metadata_location: str
    facts: TableFacts | None
    way: Way
    folder: str | None


def plan_delete(context: Context, name: TableName, *, force: bool = False, keep_data: bool = False) -> Receipt:
    """What a delete would do, without doing it."""
    plan = _plan(context, name, force=force, keep_data=keep_data)
    return Receipt(
        run_id=None,
        action="delete",
        table=str(name),
        dry_run=True,
        snapshot_before=plan.facts.current_snapshot_id if plan.facts else None,
        details=_details(context, plan) | {"metadata_location": plan.metadata_location},
    )


def delete_table(context: Context, name: TableName, *, force: bool = False, keep_data: bool = False) -> Receipt:
    """Takes a table out of the lake: into the trash, for ever (`force`), or leaving its files (`keep_data`)."""
    plan = _plan(context, name, force=force, keep_data=keep_data)
    before = plan.facts.current_snapshot_id if plan.facts else None
    with recorded(context, "delete", name, plan=_recorded(plan), snapshot_before=before) as run:
        run.details = _details(context, plan)
        match plan.way, plan.facts:
            case "trash", TableFacts() as facts:
                _to_trash(context, facts, run)
                run.undo = neve("table", "undelete", name.short)
            case "purge", _:
                _purge(context, plan, run)
            case _:
                kept = _drop(context, plan)
                run.undo = neve("table", "register", name.short, kept)
        _forget(context, plan)
        _release(context, plan)
    empty_expired_trash(context)
    return receipt_of(run)


def look_again(context: Context, facts: TableFacts) -> TableFacts:
    """The same table after a rival's commit.

    Raises:
        TableNotFound: its name is gone.
        StalePlan: another table has its name now.
    """
    now = context.catalog.facts(facts.name)
    if now.uuid != facts.uuid:
        raise StalePlan(f"{facts.name} is another table now: it was deleted and made anew meanwhile")
    return now


def refuse_half_deleted(facts: TableFacts) -> None:
    """A table whose files are being removed, or were when the remover died, can only be deleted."""
    if DELETING in facts.properties:
        raise Conflict(
            f"{facts.name} is being deleted: its files are going or gone",
            hint=f"finish it: {neve('table', 'delete', facts.name.short, '--force')}",
        )


def _plan(context: Context, name: TableName, *, force: bool, keep_data: bool) -> Deletion:
    if force and keep_data:
        raise InvalidInput("--force removes the data and --keep-data keeps it: choose one")
    metadata_location = context.catalog.metadata_location(name)
    refuse_with_dependants(name, dependants_of(context, name), verb="delete")
    facts = _readable(context, name)
    way = _way(context, name, facts, force=force, keep_data=keep_data)
    folder = facts.location if facts else folder_of(metadata_location)
    ours = removable(context, folder, uuid=facts.uuid if facts else None, name=name)
    return Deletion(
        name=name,
        metadata_location=facts.metadata_location if facts else metadata_location,
        facts=facts,
        way=way,
        folder=folder if ours else None,
    )


def _way(context: Context, name: TableName, facts: TableFacts | None, *, force: bool, keep_data: bool) -> Way:
    if keep_data:
        return "keep"
    if force or not context.loaded.settings.trash.keep or (facts and DELETING in facts.properties):
        return "purge"
    if facts is None:
        raise Refused(
            f"the metadata of {name} cannot be read, so it could not come back from the trash",
            hint="mend it (neve doctor), remove it for ever (--force), or forget it and leave its files (--keep-data)",
        )
    return "trash"


def _details(context: Context, plan: Deletion) -> dict[str, JsonValue]:
    current = plan.facts.current if plan.facts else None
    fate = "stays where it is"
    if plan.way == "trash":
        fate = f"stays in the trash for {format_duration(context.loaded.settings.trash.keep)}"
    elif plan.way == "purge":
        fate = "stays where it is: its folder is not its own" if plan.folder is None else "is removed for ever"
    if plan.way != "keep" and plan.facts and (folder := plan.facts.properties.get(ADOPTED_FROM)):
        fate += f"; the files that it was made from stay in {folder}"
    return {
        "rows": (current.rows if current else 0) if plan.facts else None,
        "bytes": current.total("files-size") if current else 0,
        "data": fate,
    }


def _recorded(plan: Deletion) -> dict[str, JsonValue]:
    """What whoever settles this run needs to know, should this process die."""
    return {
        "way": plan.way,
        "metadata_location": plan.metadata_location,
        "uuid": plan.facts.uuid if plan.facts else None,
        "folder": plan.folder,
    }


def _readable(context: Context, name: TableName) -> TableFacts | None:
    """Facts, unless the metadata is broken: a table that cannot be read can still be deleted."""
    try:
        return context.catalog.facts(name)
    except StorageError:
        return None


def _to_trash(context: Context, facts: TableFacts, run: Progress) -> None:
    """The row in the trash first: a table that is in neither place would be lost."""
    now = context.clock()
    while True:
        row = TrashedTable(
            table_uuid=facts.uuid,
            table_name=facts.name.short,
            metadata_location=facts.metadata_location,
            location=facts.location,
            deleted_at=now,
            purge_after=now + context.loaded.settings.trash.keep,
            run_id=run.run_id,
        )
        context.store.trash.put(row)
        try:
            if context.catalog.drop(facts.name, expected=facts.metadata_location):
                return
            facts = look_again(context, facts)
        except NeveError:
            if any(other.uuid == row.table_uuid for other in all_facts(context)):
                context.store.trash.remove(row.table_uuid)
            raise


def _purge(context: Context, plan: Deletion, run: Progress) -> None:
    """Files first, then the catalog entry, then the metadata: a purge that fails can be repeated.

    The table is marked before its first file goes, so that nobody renames it away under us.
    """
    facts = plan.facts
    if facts is not None and plan.folder is not None and DELETING not in facts.properties:
        context.catalog.set_properties(plan.name, put={DELETING: run.run_id})
        facts = look_again(context, facts)
    expected = facts.metadata_location if facts else plan.metadata_location
    while True:
        if plan.folder is not None:
            context.catalog.files.remove_tree(plan.folder, keep=METADATA)
        if context.catalog.drop(plan.name, expected=expected):
            break
        expected = _moved_on(context, plan)
    if plan.folder is not None:
        with suppress(StorageError):  # the data is gone and so is the table; `doctor` names what is left
            context.catalog.files.remove_tree(plan.folder)


def _drop(context: Context, plan: Deletion) -> str:
    """Takes the table off the catalog; where its metadata lies."""
    expected = plan.metadata_location
    while not context.catalog.drop(plan.name, expected=expected):
        expected = _moved_on(context, plan)
    return expected


def _moved_on(context: Context, plan: Deletion) -> str:
    """Where the table's metadata lies after a rival's commit."""
    if plan.facts is not None:
        return look_again(context, plan.facts).metadata_location
    context.catalog.metadata_location(plan.name)  # raises when it is gone
    raise StalePlan(f"{plan.name} was changed meanwhile", hint="look at it again: it may be readable now")


def _release(context: Context, plan: Deletion) -> None:
    """A dynamic table that goes holds no snapshots of its sources any more."""
    if plan.facts is not None and DEFINITION in plan.facts.properties:
        from neve.services.dynamic.holds import release_sources

        release_sources(context, plan.facts)


def _forget(context: Context, plan: Deletion) -> None:
    if plan.facts is None or plan.way == "purge":
        forget_row(context, plan.name.short, plan.facts.uuid if plan.facts else None)
    else:
        park_row(context, plan.name.short, plan.facts.uuid)
