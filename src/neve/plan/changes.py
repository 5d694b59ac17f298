"""How the changes of a table between two snapshots are read: decided from its lineage, before a file is opened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from neve.errors import ColumnNotFound, InvalidInput, nearest
from neve.model.changes import (
    APPEND,
    REPLACE,
    WEIGHT,
    ChangePlan,
    Column,
    FileReads,
    Leg,
    Lineage,
    Road,
    SnapshotStep,
    Tier,
)
from neve.model.ingest import is_hidden
from neve.model.names import TableName
from neve.model.results import Reason

KEEP_LONGER = (
    "keep snapshots longer (table property history.expire.max-snapshot-age-ms), or tag those that are still needed"
)
_UNCOMPARABLE = ("variant", "geometry", "geography")


def plan_changes(
    lineage: Lineage,
    *,
    since: int | None,
    until: int | None,
    columns: Sequence[str] | None = None,
    uuid: str | None = None,
    road: Road = "auto",
) -> ChangePlan:
    """The cheapest right way to read what changed from snapshot `since` to snapshot `until`.

    `since` None is before the first row; `until` None is a table without a row. `uuid` is the table that `since` was
    seen in, where the caller knows it. A road other than "auto" takes the choice between fast and general away.

    Raises:
        ColumnNotFound: the later schema has no such column.
        InvalidInput: a column goes by the name of the weight.
    """
    plan = ChangePlan(
        table=lineage.facts.name,
        uuid=lineage.facts.uuid,
        metadata_location=lineage.facts.metadata_location,
        since=since,
        until=until,
        schema_id=lineage.schema_id,
        columns=(),
        tier="nothing",
        reason=_reason("same_snapshot", "it has no snapshot yet" if until is None else f"both are snapshot {until}"),
    )
    if impossible := _impossible(lineage, plan, uuid):
        return impossible
    plan = replace(plan, schema_id=lineage.schema_of(until))
    plan = replace(plan, columns=choose_columns(lineage.facts.name, lineage.schemas[plan.schema_id], columns))
    if since == until:
        return plan
    tier, reason, legs = _walk(lineage, since, until)
    if tier == "nothing":
        return replace(plan, tier=tier, reason=reason)
    if tier == "diff" and (bad := [column.name for column in plan.columns if _is_uncomparable(column)]):
        detail = (
            f"values of {', '.join(bad)} cannot be compared, so rows that stayed cannot be told; choose other columns"
        )
        return replace(plan, tier="impossible", reason=_reason("uncomparable_column", detail))
    plan = replace(plan, tier=tier, reason=reason, legs=legs)
    if back := _columns_back(lineage, plan):
        detail = "the later moment has an earlier schema, which the files of the other do not all fit"
        return replace(compared(plan, _reason("schema_went_back", detail)), columns=back)
    return compared(plan, _reason("asked", "the general road was asked for")) if road == "general" else plan


def compared(plan: ChangePlan, reason: Reason) -> ChangePlan:
    """The same changes by the general road: both snapshots are read whole."""
    return replace(plan, tier="compare", reason=reason, legs=())


def settled(plan: ChangePlan, reads: FileReads) -> ChangePlan:
    """The plan once its files are known: operations are what writers say, files are what is there."""
    if not any((reads.plus, reads.minus, reads.picked_plus, reads.picked_minus)):
        return replace(plan, tier="nothing", reason=_reason("same_files", "both snapshots hold the same rows"), legs=())
    return replace(plan, tier="appends" if reads.only_adds else "diff")


def choose_columns(table: TableName, schema: Sequence[Column], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns by name, as Spark would find them; without names, all but those that Névé keeps for itself."""
    if names is None:
        chosen = [column for column in schema if not is_hidden(column.name)]
    else:
        chosen = list({column.id: column for column in (_find(table, schema, name) for name in names)}.values())
    if any(column.name.casefold() == WEIGHT for column in chosen):
        raise InvalidInput(f"{table} has a column {WEIGHT}, the name of the weight", hint="rename the column")
    return tuple(chosen)


def _find(table: TableName, schema: Sequence[Column], name: str) -> Column:
    exact = [column for column in schema if column.name == name]
    alike = exact or [column for column in schema if column.name.casefold() == name.casefold()]
    if len(alike) != 1:
        known = [column.name for column in schema]
        raise ColumnNotFound(f"{table} has no column {name}", hint=nearest(name, known) or f"it has {', '.join(known)}")
    return alike[0]


def _impossible(lineage: Lineage, plan: ChangePlan, uuid: str | None) -> ChangePlan | None:
    if uuid is not None and uuid != plan.uuid:
        detail = f"{plan.table} was dropped and made anew: it is table {plan.uuid}, not {uuid}"
        return replace(plan, tier="reinitialise", reason=_reason("other_table", detail))
    for snapshot in (plan.since, plan.until):
        if snapshot is not None and snapshot not in lineage.steps:
            detail = f"{plan.table} has no snapshot {snapshot}: unknown, or expired; {KEEP_LONGER}"
            return replace(plan, tier="impossible", reason=_reason("snapshot_expired", detail))
    return None


def _walk(lineage: Lineage, since: int | None, until: int | None) -> tuple[Tier, Reason, tuple[Leg, ...]]:
    if until is None:
        raise InvalidInput(f"{lineage.facts.name} has no snapshot to read changes up to")
    if since is None:
        return "appends", _reason("from_nothing", f"every row of snapshot {until}"), (Leg(None, until),)
    path = _path(lineage, since, until)
    if path is None:
        detail = f"snapshot {since} does not lead to {until}, or a snapshot between them has expired"
        return "diff", _reason("not_an_ancestor", f"{detail}: their files are compared"), (Leg(since, until),)
    kinds = {step.operation for step in path} - {REPLACE}
    if not kinds:
        return "nothing", _reason("only_rewrites", f"{len(path)} rewrites of files that changed no row"), ()
    legs = tuple(_legs(since, path))
    if kinds == {APPEND}:
        count = sum(step.operation == APPEND for step in path)
        return "appends", _reason("only_appends", f"{count} appends; the files they added are read"), legs
    detail = f"{', '.join(sorted(kinds))} in {len(path)} snapshots; only files that differ are read"
    return "diff", _reason("rows_changed", detail), legs


def _columns_back(lineage: Lineage, plan: ChangePlan) -> tuple[Column, ...] | None:
    """Where time runs backwards over a change of the chosen columns: those columns, in types that hold both sides."""
    if plan.since is None or (theirs := lineage.schema_of(plan.since)) <= plan.schema_id:
        return None
    there = {column.id: column for column in lineage.schemas[theirs]}
    if all(column.id in there and there[column.id].type == column.type for column in plan.columns):
        return None
    return tuple(
        replace(column, type=there[column.id].type) if column.id in there else column for column in plan.columns
    )


def _path(lineage: Lineage, since: int, until: int) -> list[SnapshotStep] | None:
    """The steps from one snapshot to the other, oldest first; None when they do not lead there."""
    path: list[SnapshotStep] = []
    at: int | None = until
    while at != since:
        step = None if at is None else lineage.steps.get(at)
        if step is None:
            return None
        path.append(step)
        at = step.parent_id
    return path[::-1]


def _legs(since: int, path: Sequence[SnapshotStep]) -> Iterator[Leg]:
    """Runs of steps between rewrites."""
    start = since
    end: int | None = None
    for step in path:
        if step.operation != REPLACE:
            end = step.id
            continue
        if end is not None:
            yield Leg(start, end)
        start, end = step.id, None
    if end is not None:
        yield Leg(start, end)


def _is_uncomparable(column: Column) -> bool:
    text = json.dumps(column.type)
    return any(f'"{kind}' in text for kind in _UNCOMPARABLE)


def _reason(code: str, detail: str) -> Reason:
    return Reason(code=code, detail=detail)
