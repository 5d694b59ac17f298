"""Changing what a table is: create, alter, properties, tags, rollback. Metadata commits; no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from neve.config.connections import table_defaults
from neve.errors import AlreadyExists, InvalidInput, Refused, SnapshotNotFound, Unsupported, nearest
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import Namespace, TableName
from neve.model.results import NamespaceRow, Reason, Receipt
from neve.model.specs import (
    ONLINE,
    AddColumn,
    Alteration,
    DropColumn,
    DropRequired,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetPartitioning,
    SetSortOrder,
    SetType,
    TableSpec,
    check_spec,
    in_ranges,
)
from neve.plan.adopt import refuse_reused_names
from neve.plan.moments import check_reference_name, find_snapshot
from neve.plan.tables import (
    check_alterations,
    check_properties,
    check_range_properties,
    check_values,
    first_properties,
    is_dynamic_table,
    keep_key_metrics,
    overlap,
    refuse_dynamic,
    row_keys_of,
    table_location,
)
from neve.services.context import Context
from neve.services.look import all_facts
from neve.services.registry import is_taken, register_row
from neve.services.runs import receipt_of, recorded

_DYNAMIC = "neve dynamic alter NAME --set …, or CREATE OR REPLACE DYNAMIC TABLE with another query"
_VERBS = {"tag": "tag", "branch": "branches"}


def create_table(
    context: Context,
    spec: TableSpec,
    *,
    if_not_exists: bool = False,
    config_path: str | None = None,
    own: Mapping[str, str] | None = None,
) -> Receipt:
    """Makes an empty table in a folder of its own, and its namespace when missing; `own` are properties of ours."""
    check_spec(spec)
    check_range_properties(spec.columns, spec.properties, (*spec.row_keys, *spec.sort_keys))
    spec = in_ranges(spec)
    properties = {**first_properties(spec, table_defaults(context.loaded)), **(own or {})}
    if is_taken(context, spec.name):
        return _existing(spec.name, if_not_exists=if_not_exists)
    location = table_location(context.loaded.warehouse_location, spec.name, uuid.uuid4().hex)
    plan: dict[str, JsonValue] = {"location": location, "config_path": config_path}
    with recorded(context, "create", spec.name, plan=plan) as run:
        context.catalog.ensure_namespace(spec.name.namespace)
        try:
            context.catalog.create(spec, location=location, properties=properties)
        except AlreadyExists:
            if not if_not_exists:
                raise
            run.reason = Reason(code="already_exists", detail=f"{spec.name} already exists")
        else:
            run.undo = neve("table", "delete", spec.name.short)
            run.details["location"] = location
            register_row(context, spec.name, config_path=config_path, new_table=True)
    return receipt_of(run)


def alter_table(
    context: Context, name: TableName, alterations: Sequence[Alteration], *, dry_run: bool = False
) -> Receipt:
    """All alterations in one commit, or none."""
    facts = context.catalog.facts(name)
    refuse_dynamic(facts, verb="alter", instead=_DYNAMIC)
    check_alterations(facts, alterations, context.catalog.ever_partitioned_by(name))
    refuse_reused_names(facts.properties, alterations)
    if dry_run:
        return Receipt(run_id=None, action="alter", table=str(name), dry_run=True, details=_described(alterations))
    with recorded(
        context, "alter", name, plan=_described(alterations), snapshot_before=facts.current_snapshot_id
    ) as run:
        context.catalog.alter(name, alterations)
        run.details = _described(alterations)
        run.undo = _undo_alter(name, alterations)
        run.snapshot_after = facts.current_snapshot_id
    return receipt_of(run)


def set_properties(context: Context, name: TableName, properties: Mapping[str, str]) -> Receipt:
    check_properties(properties)
    check_values(properties)
    if not properties:
        raise InvalidInput("nothing to set", hint="write key=value")
    facts = context.catalog.facts(name)
    _refuse_declared(facts, properties)
    keep_key_metrics(facts, properties)
    keys = [item.term.column for item in facts.sort_by] if row_keys_of(facts) else []
    check_range_properties(facts.columns, {**facts.properties, **properties}, keys)
    if all(facts.properties.get(key) == value for key, value in properties.items()):
        return _nothing("set", name, "the properties already have these values")
    with recorded(context, "set", name, plan=dict(properties)) as run:
        context.catalog.set_properties(name, put=properties)
        run.details = {key: {"before": facts.properties.get(key), "after": value} for key, value in properties.items()}
        run.undo = _undo_properties(name, facts, properties)
    return receipt_of(run)


def unset_properties(context: Context, name: TableName, keys: Sequence[str]) -> Receipt:
    check_properties(dict.fromkeys(keys, ""))
    facts = context.catalog.facts(name)
    _refuse_declared(facts, keys)
    keep_key_metrics(facts, keys)
    for key in keys:
        if key not in facts.properties:
            raise InvalidInput(f"{name} has no property {key}", hint=nearest(key, facts.properties))
    with recorded(context, "unset", name, plan={"keys": list(keys)}) as run:
        context.catalog.set_properties(name, put={}, remove=keys)
        run.details = {key: {"before": facts.properties[key], "after": None} for key in keys}
        run.undo = _undo_properties(name, facts, keys)
    return receipt_of(run)


def set_online(context: Context, name: TableName, *, online: bool) -> Receipt:
    """An offline table is left alone by every scheduled job; ingest and query go on."""
    action = "online" if online else "offline"
    known = context.store.registry.get(name.short)
    if known is not None and known.format != "iceberg":
        if online and context.store.setbacks.clear(known.table_uuid):
            return _nothing(action, name, f"scheduled jobs of {name} that failed are tried again")
        raise Unsupported(
            f"{name} is a directory of {known.format} files, which keeps no mark that would hold scheduled jobs off",
            hint="what is scheduled for it is what its file said when it was made: `compaction: {enabled: false}` is"
            " none; and a worker does only what its --tables name",
        )
    facts = context.catalog.facts(name)
    resumed = context.store.setbacks.clear(facts.uuid) if online else 0
    if facts.online == online:
        again = "; scheduled jobs that failed are tried again" if resumed else ""
        return _nothing(action, name, f"{name} is {action} already{again}")
    with recorded(context, action, name) as run:
        if online:
            context.catalog.set_properties(name, put={}, remove=[ONLINE])
        else:
            context.catalog.set_properties(name, put={ONLINE: "false"})
        run.undo = neve("table", "offline" if online else "online", name.short)
    return receipt_of(run)


def create_tag(context: Context, name: TableName, tag: str, *, at: str | None = None) -> Receipt:
    return _create_reference(context, name, tag, kind="tag", at=at)


def create_branch(context: Context, name: TableName, branch: str, *, at: str | None = None) -> Receipt:
    return _create_reference(context, name, branch, kind="branch", at=at)


def _create_reference(context: Context, name: TableName, label: str, *, kind: str, at: str | None) -> Receipt:
    facts = context.catalog.facts(name)
    check_reference_name(label)
    if any(reference.name == label for reference in facts.references):
        raise AlreadyExists(f"{name} already has a tag or branch {label}", hint="choose another name, or --delete it")
    snapshot = find_snapshot(facts, at) if at is not None else facts.current
    if snapshot is None:
        raise SnapshotNotFound(f"{name} has no snapshot yet: there is nothing to name", hint="write to it first")
    with recorded(context, kind, name, plan={"name": label, "snapshot": snapshot.id}) as run:
        make = context.catalog.create_tag if kind == "tag" else context.catalog.create_branch
        make(name, label, snapshot_id=snapshot.id)
        run.details = {"name": label, "snapshot": snapshot.id}
        run.undo = neve("table", _VERBS[kind], name.short, label, "--delete")
    return receipt_of(run)


def delete_reference(context: Context, name: TableName, label: str, *, kind: str) -> Receipt:
    facts = context.catalog.facts(name)
    if kind == "branch" and label == "main":
        raise Refused("main is the table itself and cannot be deleted")
    found = next((ref for ref in facts.references if ref.name == label and ref.kind == kind), None)
    if found is None:
        known = [reference.name for reference in facts.references if reference.kind == kind]
        raise SnapshotNotFound(f"{name} has no {kind} {label}", hint=nearest(label, known))
    with recorded(context, f"delete_{kind}", name, plan={"name": label}) as run:
        remove = context.catalog.remove_tag if kind == "tag" else context.catalog.remove_branch
        remove(name, label)
        run.details = {"name": label, "snapshot": found.snapshot_id}
        run.undo = neve("table", _VERBS[kind], name.short, label, "--at", str(found.snapshot_id))
    return receipt_of(run)


def rollback(context: Context, name: TableName, to: str, *, dry_run: bool = False) -> Receipt:
    """Makes an earlier snapshot the current one; later snapshots stay until they expire, so this can be undone."""
    facts = context.catalog.facts(name)
    target = find_snapshot(facts, to)
    if is_dynamic_table(facts):
        from neve.services.dynamic.deciding import check_rollback

        check_rollback(facts, target)
    before = facts.current_snapshot_id
    if target.id == before:
        return _nothing("rollback", name, f"snapshot {target.id} is the current one")
    details: dict[str, JsonValue] = {
        "rows_before": facts.current.rows if facts.current else 0,
        "rows_after": target.rows,
    }
    if dry_run:
        return Receipt(
            run_id=None,
            action="rollback",
            table=str(name),
            dry_run=True,
            details=details,
            snapshot_before=before,
            snapshot_after=target.id,
        )
    with recorded(context, "rollback", name, plan={"to": target.id}, snapshot_before=before) as run:
        context.catalog.set_current_snapshot(name, target.id, expected=before)
        run.details = details
        run.snapshot_after = target.id
        run.undo = None if before is None else neve("table", "rollback", name.short, "--to", str(before))
    return receipt_of(run)


def register_table(context: Context, name: TableName, metadata_location: str) -> Receipt:
    """Adds a table that lies somewhere already, by its metadata file; nothing is copied."""
    if "://" not in metadata_location and not metadata_location.startswith("file:"):
        metadata_location = str(Path(metadata_location).absolute())
    if is_taken(context, name):
        raise AlreadyExists(f"table {name} already exists", hint="choose another name, or delete it first")
    facts = context.catalog.facts_at(name, metadata_location)
    for other in all_facts(context):
        if other.uuid == facts.uuid or overlap(other.location, facts.location):
            raise AlreadyExists(
                f"{facts.location} is already registered as {other.name}", hint="two names must not share files"
            )
    plan: dict[str, JsonValue] = {"metadata_location": metadata_location, "uuid": facts.uuid}
    with recorded(context, "register", name, plan=plan) as run:
        context.catalog.ensure_namespace(name.namespace)
        context.catalog.register(name, metadata_location)
        register_row(context, name)
        run.details = {"location": facts.location, "rows": facts.current.rows if facts.current else 0}
        run.snapshot_after = facts.current_snapshot_id
        run.undo = neve("table", "delete", name.short, "--keep-data")
    return receipt_of(run)


def create_namespace(context: Context, namespace: Namespace, *, if_not_exists: bool = False) -> NamespaceRow:
    text = ".".join(namespace)
    if not context.catalog.ensure_namespace(namespace) and not if_not_exists:
        raise AlreadyExists(f"namespace {text} already exists")
    return NamespaceRow(namespace=text, tables=sum(name.namespace == namespace for name in context.catalog.tables()))


def drop_namespace(context: Context, namespace: Namespace) -> NamespaceRow:
    context.catalog.drop_namespace(namespace)
    return NamespaceRow(namespace=".".join(namespace), tables=0)


def _existing(name: TableName, *, if_not_exists: bool) -> Receipt:
    if not if_not_exists:
        raise AlreadyExists(f"table {name} already exists", hint="choose another name, or add --if-not-exists")
    return _nothing("create", name, f"{name} already exists")


def _refuse_declared(facts: TableFacts, keys: Iterable[str]) -> None:
    """What a dynamic table's declaration says is changed there, so that both always agree."""
    if "comment" in keys:
        refuse_dynamic(facts, verb="change the comment of", instead="neve dynamic alter NAME --set COMMENT=…")


def _nothing(action: str, name: TableName, why: str) -> Receipt:
    return Receipt(run_id=None, action=action, table=str(name), reason=Reason(code="nothing_to_do", detail=why))


def _described(alterations: Sequence[Alteration]) -> dict[str, JsonValue]:
    return {"changes": [_describe(change) for change in alterations]}


def _describe(change: Alteration) -> str:
    match change:
        case AddColumn(path, column, _):
            return f"add {f'{path}.' if path else ''}{column.name} {column.type}"
        case DropColumn(path):
            return f"drop {path}"
        case RenameColumn(path, new_name):
            return f"rename {path} to {new_name}"
        case MoveColumn(path, position):
            return f"move {path} {position.side} {position.column or ''}".rstrip()
        case SetType(path, kind):
            return f"change {path} to {kind}"
        case SetComment(path, comment):
            return f"comment {path}: {comment}"
        case DropRequired(path):
            return f"make {path} optional"
        case SetPartitioning(transforms):
            return f"partition by {', '.join(map(str, transforms)) or 'nothing'}"
        case SetSortOrder(fields):
            return f"sort by {', '.join(map(str, fields)) or 'nothing'}"


def _undo_alter(name: TableName, alterations: Sequence[Alteration]) -> str | None:
    """Only a single change whose opposite brings everything back has an undo; a dropped column does not."""
    match list(alterations):
        case [AddColumn(path, column, _)]:
            return neve("table", "alter", name.short, "--drop", f"{path}.{column.name}" if path else column.name)
        case [RenameColumn(path, new_name)]:
            *parents, old = path.split(".")
            return neve("table", "alter", name.short, "--rename", f"{'.'.join([*parents, new_name])}={old}")
        case _:
            return None


def _undo_properties(name: TableName, facts: TableFacts, keys: Sequence[str] | Mapping[str, str]) -> str:
    back = [f"{key}={facts.properties[key]}" for key in keys if key in facts.properties]
    gone = [key for key in keys if key not in facts.properties]
    commands = []
    if back:
        commands.append(neve("table", "set", name.short, *back))
    if gone:
        commands.append(neve("table", "unset", name.short, *gone))
    return " && ".join(commands)
