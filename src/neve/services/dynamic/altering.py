"""Changing dynamic tables that are there: options, suspension, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from pydantic import JsonValue

from neve.errors import CommitConflict, InvalidInput, Unsupported
from neve.model.commands import neve
from neve.model.dynamic import DynamicOptions
from neve.model.names import TableName
from neve.model.results import Reason, Receipt
from neve.plan.evolution import comment_changes, layout_changes, metrics_of
from neve.plan.graph import downstream, waves
from neve.plan.tables import DEFINITION, STATE, SUSPENDED, check_alterations
from neve.services.context import Context
from neve.services.dynamic.definitions import (
    BY_FAILURES,
    BY_USER,
    SUSPENDED_BY,
    SUSPENDED_WHY,
    Definition,
    all_definitions,
    describe_lag,
    find_definition,
    understand_again,
)
from neve.services.dynamic.history import remember
from neve.services.dynamic.replacing import rebuild, refuse_broken_readers, refuse_frozen
from neve.services.dynamic.settling import record_swap
from neve.services.dynamic.validation import check_options, earlier, typed_columns
from neve.services.lifecycle import rename_table
from neve.services.registry import is_taken
from neve.services.runs import receipt_of, recorded

_DEFAULTS = {field.name: field.default for field in fields(DynamicOptions)}


def alter_options(
    context: Context, name: TableName, *, put: Mapping[str, object], unset: Sequence[str] = ()
) -> Receipt:
    """Gives options other values, or their defaults; all in one commit, or none."""
    if not put and not unset:
        raise InvalidInput("nothing to alter", hint="write --set TARGET_LAG='10 minutes', or --unset COMMENT")
    if twice := set(put) & set(unset):
        raise InvalidInput(f"{', '.join(sorted(twice)).upper()} is both set and unset")
    definition = find_definition(context, name)
    wanted: Any = {**put, **{field: _DEFAULTS[field] for field in unset}}
    return change_options(context, definition, replace(definition.options, **wanted))


def change_options(
    context: Context,
    definition: Definition,
    options: DynamicOptions,
    *,
    comments: Mapping[str, str | None] | None = None,
) -> Receipt:
    """The same query with other options, and other comments of columns where those are given.

    Raises:
        Refused: the query cannot have these options; with the construct and its place.
        StalePlan: somebody else changed the definition meanwhile.
    """
    wanted = replace(definition, options=replace(options, initialize=definition.options.initialize))
    analysis = understand_again(context, wanted)
    check_options(definition.name, wanted.options, analysis)
    if options.float_sums != definition.options.float_sums:
        refuse_frozen(wanted, what="FLOAT_SUMS")
        columns = _commented(context, wanted, typed_columns(context, wanted, analysis))
        return rebuild(context, wanted, analysis, columns, held=definition, before=earlier(context, definition))
    facts = context.catalog.facts(definition.name)
    named = [replace(column, comment=(comments or {}).get(column.name, column.comment)) for column in facts.columns]
    changes = [
        *layout_changes(facts, wanted.options.partition_by, wanted.options.cluster_by),
        *comment_changes(facts, named),
    ]
    if wanted == definition and not changes:
        same = Reason(code="same_definition", detail=f"{definition.name} is declared just so")
        return Receipt(run_id=None, action="alter", table=str(definition.name), reason=same)
    if changes:
        check_alterations(facts, changes, context.catalog.ever_partitioned_by(definition.name))
    told = _differences(definition.options, wanted.options)
    with recorded(context, "alter", definition.name, plan=told, snapshot_before=facts.current_snapshot_id) as run:
        context.catalog.alter(
            definition.name,
            changes,
            put={**wanted.properties(), **metrics_of(wanted.options.partition_by, wanted.options.cluster_by)}
            | ({} if options.comment is None else {"comment": options.comment}),
            remove=["comment"] if options.comment is None else [],
            expected={DEFINITION: facts.properties[DEFINITION]},
        )
        run.details = told
        run.snapshot_after = facts.current_snapshot_id
        remember(context, [context.catalog.facts(definition.name)])
        run.undo = _undo(definition, wanted.options)
    return receipt_of(run)


def suspend(context: Context, name: TableName) -> list[Receipt]:
    """Rounds leave the table out, and those that read it: they have nothing to follow. By name it can be refreshed."""
    return _suspend(context, name, by=BY_USER)


def suspend_failing(context: Context, name: TableName, why: str) -> list[Receipt]:
    """The same after too many failures, the last of which is kept until somebody resumes the table."""
    return _suspend(context, name, by=BY_FAILURES, why=why)


def _suspend(context: Context, name: TableName, *, by: str, why: str | None = None) -> list[Receipt]:
    definitions = all_definitions(context)
    find_definition(context, name)
    below = [other for other in _below(definitions, name) if definitions[other].suspended is None]
    own = definitions[name].suspended
    is_done = own == by or (own is not None and by == BY_FAILURES)
    if is_done and not below:
        return [_nothing("suspend", name, f"{name} is suspended already")]
    receipts = [] if is_done else [_mark(context, name, by, why=why)]
    return [*receipts, *(_mark(context, other, str(name)) for other in below)]


def resume(context: Context, name: TableName) -> list[Receipt]:
    """Rounds take the table in again, and those that read it, but for those that somebody suspended themselves."""
    definitions = all_definitions(context)
    find_definition(context, name)
    going = [name, *(other for other in _below(definitions, name) if definitions[other].suspended != BY_USER)]
    going = [other for other in going if definitions[other].suspended is not None]
    if not going:
        return [_nothing("resume", name, f"{name} is not suspended")]
    return [_mark(context, other, None) for other in going]


def rename_dynamic(context: Context, name: TableName, new: TableName) -> Receipt:
    """Another name for the table. While tables read it, it keeps its own: their queries say so."""
    definition = find_definition(context, name)
    graph = {other: known.sources for other, known in all_definitions(context).items() if other != name}
    if not is_taken(context, new):  # somebody's query may speak of a table that is gone
        waves({**graph, new: definition.sources})
    return rename_table(context, name, new)


def swap_dynamic(context: Context, one: TableName, other: TableName) -> Receipt:
    """Two dynamic tables change names in one step; each takes its query, rows and history with it.

    What reads either by its name reads the other one from now on, and is computed anew at its next refresh.
    """
    if one == other:
        raise InvalidInput(f"{one} cannot be swapped with itself")
    mine, theirs = find_definition(context, one), find_definition(context, other)
    if not context.catalog.exchanges:
        raise Unsupported("this catalog cannot exchange two tables in one step", hint="rename them one by one")
    graph = {name: known.sources for name, known in all_definitions(context).items()}
    waves({**graph, one: theirs.sources, other: mine.sources})
    facts = context.catalog.facts(one), context.catalog.facts(other)
    refuse_broken_readers(context, {one: facts[1].columns, other: facts[0].columns})
    plan: dict[str, JsonValue] = {"with": str(other), "uuids": [facts[0].uuid, facts[1].uuid]}
    with recorded(context, "swap", one, plan=plan) as run:
        expected = facts[0].metadata_location, facts[1].metadata_location
        if not context.catalog.exchange(one, other, expected=expected):
            raise CommitConflict(f"{one} or {other} was changed meanwhile", hint="try again; nothing was changed")
        record_swap(context, one, other)
        run.details = {"with": str(other)}
        run.undo = neve("sql", "--write", f"ALTER DYNAMIC TABLE {one} SWAP WITH {other}")
    return receipt_of(run)


def _below(definitions: Mapping[TableName, Definition], name: TableName) -> list[TableName]:
    graph = {other: definition.sources for other, definition in definitions.items()}
    below = downstream(graph, name)
    return [other for wave in waves(graph) for other in wave if other in below]


def _mark(context: Context, name: TableName, by: str | None, *, why: str | None = None) -> Receipt:
    action = "resume" if by is None else "suspend"
    with recorded(context, action, name, plan={"by": by}) as run:
        if by is None:
            context.catalog.alter(name, [], remove=[STATE, SUSPENDED_BY, SUSPENDED_WHY])
            context.store.setbacks.clear(context.catalog.facts(name).uuid)
        else:
            told = {STATE: SUSPENDED, SUSPENDED_BY: by} | ({} if why is None else {SUSPENDED_WHY: why})
            context.catalog.set_properties(name, put=told)
            if by != BY_USER:
                run.details["because"] = why or f"{by}, which it needs, is suspended"
        remember(context, [context.catalog.facts(name)])
        run.undo = neve("dynamic", "suspend" if by is None else "resume", name.short)
    return receipt_of(run)


def _commented(context: Context, definition: Definition, columns: Sequence[Any]) -> list[Any]:
    held = {column.name: column.comment for column in context.catalog.facts(definition.name).columns}
    return [replace(column, comment=held.get(column.name)) for column in columns]


def _differences(before: DynamicOptions, after: DynamicOptions) -> dict[str, JsonValue]:
    old, new = (_told(options) for options in (before, after))
    return {key: {"before": old[key], "after": new[key]} for key in new if old[key] != new[key]}


def _undo(before: Definition, after: DynamicOptions) -> str | None:
    """The command that gives options their values back; none where only comments of columns were changed."""
    old, new = (_told(options) for options in (before.options, after))
    words: list[str] = []
    for key in (key for key in new if old[key] != new[key]):
        word = {"partition_by": "PARTITIONED_BY"}.get(key, key.upper())
        is_default = getattr(before.options, key) == _DEFAULTS[key]
        words += ["--unset", word] if is_default else ["--set", f"{word}={old[key]}"]
    return neve("dynamic", "alter", before.name.short, *words) if words else None


def _told(options: DynamicOptions) -> dict[str, str | None]:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    values["target_lag"] = describe_lag(options.target_lag)
    return {
        key: None if value is None else ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for key, value in values.items()
    }


def _nothing(action: str, name: TableName, why: str) -> Receipt:
    return Receipt(run_id=None, action=action, table=str(name), reason=Reason(code="nothing_to_do", detail=why))
