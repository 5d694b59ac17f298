"""Settling what a process that died left behind, so that catalog, state and warehouse agree again."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from neve.errors import Conflict, NeveError, NotFound, StorageError
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.runs import REQUEST, Run, TrashedTable
from neve.model.specs import ONLINE
from neve.plan.ranges import keys_of
from neve.plan.tables import folder_of, is_suspended
from neve.services.context import Context
from neve.services.directory_tables.settle import settle_directory
from neve.services.dynamic.settling import settle_replace, settle_swap
from neve.services.export import settle_export
from neve.services.ledger import settle_compaction, settle_ingest
from neve.services.lineage import tell_run
from neve.services.look import RUN_ID, all_facts
from neve.services.processes import is_alive
from neve.services.registry import forget_row, is_directory, move_row, park_row, register_row
from neve.services.rejected import settle_rejected
from neve.services.row_commits import settle_rows


def dead_runs(context: Context) -> list[Run]:
    """Runs that say `running` though their process, on this machine, is no more."""
    here = socket.gethostname()
    return [
        run for run in context.store.runs.unfinished() if run.host == here and not is_alive(run.pid, run.started_at)
    ]


def settle_dead_runs(context: Context) -> list[str]:
    """Settles every dead run of this machine; what was done. One query when there is none.

    What cannot be settled now must not keep other work from being done: it stays for `doctor` to name.
    """
    done = []
    for run in dead_runs(context):
        with suppress(NeveError):
            done.append(settle(context, run))
    return done


def settle(context: Context, run: Run) -> str:
    """Finishes or clears up what a dead run left, and ends it by what the catalog shows it achieved."""
    made = _settle_work(context, run)
    ended: dict[str, Any] = {
        "state": "succeeded" if made else "failed",
        "finished_at": context.clock(),
        "result": {} if run.result and not made else None,
        "error_code": None if made else "died",
        "error_message": None if made else _epitaph(run, made=made),
    }
    with suppress(Conflict):  # a rival has settled it
        context.store.runs.finish(run.run_id, **ended)
        tell_run(context, run.model_copy(update=ended))
    outcome = {True: "had been made", False: "had not been made", None: "may have been made"}[made]
    return f"run {run.run_id} ({run.kind} {run.table_name or ''}) {outcome}"


def registry_gaps(context: Context) -> list[str]:
    """Tables whose row in `table_registry` is missing, stale or left over."""
    catalog = {facts.name.short: facts.uuid for facts in all_facts(context)}
    unreadable = {name.short for name in context.catalog.tables()} - set(catalog)
    registered = {row.table_name: row.table_uuid for row in context.store.registry.list() if row.format == "iceberg"}
    names = {*catalog, *registered} - unreadable
    return sorted(name for name in names if catalog.get(name) != registered.get(name))


def reconcile_registry(context: Context) -> list[str]:
    """Brings `table_registry` and the logs in line with the catalog, by the tables' uuids; the names that changed."""
    gaps = registry_gaps(context)
    names = {facts.uuid: facts.name for facts in all_facts(context)}
    for row in context.store.registry.list():
        if row.table_name in gaps and row.format == "iceberg":
            target = names.get(row.table_uuid)
            if target is None:
                park_row(context, row.table_name, row.table_uuid)
            else:
                move_row(context, TableName.parse(row.table_name), target, row.table_uuid)
    for name in names.values():
        if name.short in gaps:
            register_row(context, name)
    return gaps


def stray_folders(context: Context) -> list[str]:
    """Folders of the warehouse that belong to no table and to nothing in the trash."""
    warehouse = context.loaded.warehouse_location
    used = [*context.catalog.metadata_locations().values(), *(facts.location for facts in all_facts(context))]
    used += [row.location for row in context.store.trash.list()]
    folders = [f"{warehouse}/{child}" for child in context.catalog.files.children(warehouse)]
    return [folder for folder in folders if not any(f"{place}/".startswith(f"{folder}/") for place in used)]


def _settle_work(context: Context, run: Run) -> bool | None:
    """Whether the run achieved what it was for; None when nothing tells."""
    if run.table_name is None or run.kind == REQUEST:  # the runs within a request are settled for themselves
        return None
    name, plan = TableName.parse(run.table_name), run.plan or {}
    if is_directory(context, name):
        made = settle_directory(context, name, run)
        if run.kind == "ingest" and made is not None:
            settle_rejected(context, name, run.run_id, made=made)
        return made
    match run.kind:
        case "create" | "adopt":
            return _settle_create(context, name, plan)
        case "export":
            return settle_export(context, run.run_id, plan)
        case "register":
            return _settle_register(context, name, plan)
        case "undelete":
            return _settle_undelete(context, name, plan)
        case "delete":
            return _settle_delete(context, name, plan, run)
        case "rename":
            return _settle_rename(context, name, plan)
        case _:
            return _settle_data(context, name, run, plan)


def _settle_data(context: Context, name: TableName, run: Run, plan: Mapping[str, object]) -> bool | None:
    """The same, for runs that change rows or files of a table."""
    match run.kind:
        case "ingest":
            made = settle_ingest(context, name, run.run_id)
            settle_rejected(context, name, run.run_id, made=made)
            return made
        case "refresh":
            from neve.services.dynamic.history import settle_refresh

            return settle_refresh(context, name, run)
        case "delete_rows" | "update_rows" | "upsert_rows" | "dedupe_rows":
            return settle_rows(context, name, run.run_id)
        case "compact":
            return settle_compaction(context, name, run.run_id, plan.get("period"))
        case _:
            facts = _facts(context, name)
            return None if facts is None else _settle_commit(context, run, facts, plan)


def _settle_create(context: Context, name: TableName, plan: Mapping[str, object]) -> bool:
    location = plan.get("location")
    if not isinstance(location, str):
        return context.catalog.exists(name)
    config_path = plan.get("config_path")
    for other, metadata in context.catalog.metadata_locations().items():
        if folder_of(metadata) == location:
            if other == name and context.store.registry.get(name.short) is None:
                path = config_path if isinstance(config_path, str) else None
                register_row(context, name, config_path=path, new_table=True)
            return True
    if location in stray_folders(context):
        context.catalog.files.remove_tree(location)
    return False


def _settle_register(context: Context, name: TableName, plan: Mapping[str, object]) -> bool:
    facts = _facts(context, name)
    known = plan.get("uuid")
    if facts is None or (known is not None and facts.uuid != known):
        return False
    register_row(context, name)
    return True


def _settle_undelete(context: Context, name: TableName, plan: Mapping[str, object]) -> bool:
    row = TrashedTable.model_validate(plan["trashed"])
    facts = _facts(context, name)
    if facts is not None and facts.uuid == row.table_uuid:
        register_row(context, name)
        context.store.trash.take(row.table_uuid)
        return True
    known = {other.table_uuid for other in context.store.trash.list()}
    if row.table_uuid not in known and _live_name(context, row.table_uuid) is None:
        context.store.trash.put(row)
    return False


def _settle_delete(context: Context, name: TableName, plan: Mapping[str, object], run: Run) -> bool:
    uuid, folder = plan.get("uuid"), plan.get("folder")
    if not isinstance(uuid, str):
        return not context.catalog.exists(name)
    if _live_name(context, uuid) is not None:
        for row in context.store.trash.list():
            if row.table_uuid == uuid and row.run_id == run.run_id:
                context.store.trash.remove(uuid)
        return False
    if plan.get("way") == "purge":
        forget_row(context, name.short, uuid)
        if isinstance(folder, str) and folder in stray_folders(context):
            context.catalog.files.remove_tree(folder)
    else:
        park_row(context, name.short, uuid)
    return True


def _settle_rename(context: Context, name: TableName, plan: Mapping[str, object]) -> bool:
    uuid, target = plan.get("uuid"), TableName.parse(str(plan.get("to", name)))
    facts = _facts(context, target)
    if facts is None or facts.uuid != uuid:
        return False
    move_row(context, name, target, facts.uuid)
    return True


def _settle_commit(context: Context, run: Run, facts: TableFacts, plan: Mapping[str, object]) -> bool | None:
    match run.kind:
        case "replace":
            return settle_replace(context, run, facts)
        case "swap":
            return settle_swap(context, run, facts)
        case _:
            return _is_visible(facts, run, plan)


def _is_visible(facts: TableFacts, run: Run, plan: Mapping[str, object]) -> bool | None:
    """Whether a change of one commit can be seen in the table; None for a kind that leaves no trace of its own."""
    if any(snapshot.summary.get(RUN_ID) == run.run_id for snapshot in facts.snapshots):
        return True
    references = {(reference.kind, reference.name): reference.snapshot_id for reference in facts.references}
    match run.kind:
        case "write":
            return False
        case "set":
            return all(facts.properties.get(key) == value for key, value in plan.items())
        case "unset":
            keys = plan.get("keys")
            return isinstance(keys, list) and not any(key in facts.properties for key in keys)
        case "online" | "offline":
            return (facts.properties.get(ONLINE) != "false") == (run.kind == "online")
        case "tag" | "branch":
            return references.get((run.kind, str(plan.get("name")))) == plan.get("snapshot")
        case "delete_tag" | "delete_branch":
            return (run.kind.removeprefix("delete_"), str(plan.get("name"))) not in references
        case "suspend" | "resume":
            return is_suspended(facts) == (run.kind == "suspend")
        case "split":
            return _are_divided(facts, plan)
        case "rollback":
            return facts.current_snapshot_id == plan.get("to")
        case "expire":
            left = {reference.name for reference in facts.references} | {snapshot.id for snapshot in facts.snapshots}
            return not left & {*_items(plan.get("among")), *_items(plan.get("references"))}
        case _:
            return None


def _are_divided(facts: TableFacts, plan: Mapping[str, object]) -> bool:
    keys = keys_of(facts)
    known = {} if keys is None else keys.tree.ranges
    return all((found := known.get(int(each))) is not None and not found.leaf for each in _items(plan.get("ranges")))


def _items(value: object) -> list[str | int]:
    return [item for item in value if isinstance(item, str | int)] if isinstance(value, list) else []


def _epitaph(run: Run, *, made: bool | None) -> str:
    if made is None:
        return f"process {run.pid} died, perhaps after it was done: look at the table"
    return f"process {run.pid} died before it was done; nothing of it is visible"


def _facts(context: Context, name: TableName) -> TableFacts | None:
    try:
        return context.catalog.facts(name)
    except (NotFound, StorageError):
        return None


def _live_name(context: Context, uuid: str) -> TableName | None:
    return next((facts.name for facts in all_facts(context) if facts.uuid == uuid), None)
