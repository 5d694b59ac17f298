"""Another query for a table that is there: built aside, and put in its place in one step.

A second, hidden name points at the table's own metadata. Under it columns, layout, definition and rows are changed,
commit by commit, in the table's own folder; readers go on reading the table. Then one conditional transaction of the
catalog makes what the hidden name points at the table. Id, folder and history stay, so the tables that read it go on
following it. Whatever fails or dies before leaves the table as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from neve.errors import CommitConflict, DependentsExist, NeveError, Refused, StalePlan, Unsupported
from neve.model.facts import TableFacts
from neve.model.names import TableName, aside_name
from neve.model.results import Reason, Receipt
from neve.model.specs import Alteration, TableSpec, check_spec
from neve.model.types import Field, Type
from neve.plan.evolution import layout_changes, metrics_of, reshape, same_columns
from neve.plan.tables import STATE
from neve.services.context import Context
from neve.services.dynamic.definitions import SUSPENDED_BY, Definition, all_definitions, definition_of, understand_again
from neve.services.dynamic.recording import record_apart
from neve.services.dynamic.refresh import fill
from neve.services.dynamic.rounds import pins_for
from neve.services.look import RUN_ID
from neve.services.runs import Progress, receipt_of, recorded
from neve.sql.delta import Analysis, Schema


def rebuild(
    context: Context,
    definition: Definition,
    analysis: Analysis,
    columns: Sequence[Field],
    *,
    held: Definition,
    before: Analysis | None,
) -> Receipt:
    """Puts another definition and its rows in the place of those that were looked at; all of it at once, or nothing.

    Raises:
        DependentsExist: a table that reads this one needs a column that would go or change; they are named.
        CommitConflict: the table was changed meanwhile; nothing was changed.
    """
    if not context.catalog.exchanges:
        raise Unsupported(
            f"this catalog cannot put another query in the place of {definition.name} in one step",
            hint="drop the table and create it",
        )
    facts = context.catalog.facts(definition.name)
    if definition_of(facts) != held:
        raise StalePlan(f"{definition.name} was changed meanwhile", hint="look at it and decide again")
    refuse_broken_readers(context, {definition.name: tuple(columns)})
    check_spec(_spec(definition, columns))
    changes = reshape(facts, columns, context.catalog.ever_partitioned_by(definition.name))
    keep = definition.options.immutable_where is None and _same_rows(facts, columns, before, analysis)
    with recorded(context, "replace", definition.name, snapshot_before=facts.current_snapshot_id) as run:
        aside = aside_name(definition.name, run.run_id)
        base = context.catalog.set_aside(definition.name, aside)
        try:
            _reshape(context, aside, facts, definition, changes)
            _refill(context, replace(definition, name=aside), run, keep=keep)
            if base != facts.metadata_location or not context.catalog.supersede(definition.name, aside, expected=base):
                raise CommitConflict(f"{definition.name} was changed meanwhile", hint="try again; nothing was changed")
        finally:
            context.catalog.forget_aside(aside)
        record_apart(context, definition.name)
        run.snapshot_after = context.catalog.facts(definition.name).current_snapshot_id
        run.reason = Reason(code="new_query", detail="the query is another one")
    return receipt_of(run)


def refuse_broken_readers(context: Context, instead: Mapping[TableName, Schema]) -> None:
    """Refuses columns under which a table that reads these would have other columns itself, or none."""
    broken = []
    for name, definition in sorted(all_definitions(context).items(), key=lambda item: str(item[0])):
        if name not in instead and set(instead) & set(definition.sources):
            broken += [f"{name} ({why})" for why in _complaints(context, definition, instead)]
    if broken:
        raise DependentsExist(
            f"tables that read {', '.join(map(str, instead))} would break: {'; '.join(broken)}",
            hint="change or drop those first",
        )


def _complaints(context: Context, definition: Definition, instead: Mapping[TableName, Schema]) -> list[str]:
    try:
        now = understand_again(context, definition)
    except NeveError:
        return []
    try:
        then = understand_again(context, definition, instead=instead)
    except NeveError as exc:
        return [exc.message]
    if [(c.name, c.type) for c in now.columns] != [(c.name, c.type) for c in then.columns]:
        return ["its own columns would be others"]
    return [
        f"{column} would be {new[column]}"
        for source in now.sources
        if (name := TableName.parse(source.name)) in instead
        for held, new in [(_types(context.catalog.facts(name).columns), _types(instead[name]))]
        for column in source.columns
        if new[column] != held[column]
    ]


def _types(columns: Schema) -> dict[str, Type]:
    return {column.name: column.type for column in columns}


def _same_rows(facts: TableFacts, columns: Sequence[Field], before: Analysis | None, after: Analysis) -> bool:
    """Whether stored rows can be compared with those to come, so that only the difference is written."""
    if before is None or not same_columns(facts.columns, columns):
        return False
    if before.incremental != after.incremental:
        return False
    kinds = [analysis.shape.apply if analysis.shape and analysis.incremental else None for analysis in (before, after)]
    return kinds[0] == kinds[1]


def _spec(definition: Definition, columns: Sequence[Field]) -> TableSpec:
    options = definition.options
    return TableSpec(
        name=definition.name, columns=tuple(columns), partition_by=options.partition_by, sort_by=options.cluster_by
    )


def _reshape(
    context: Context, aside: TableName, facts: TableFacts, definition: Definition, changes: Sequence[Alteration]
) -> None:
    """Columns, layout and definition of the table aside: the old layout goes first, as it may speak of old columns."""
    options, alter = definition.options, context.catalog.alter
    other_layout = layout_changes(facts, options.partition_by, options.cluster_by)
    if changes and other_layout:
        alter(aside, layout_changes(facts, (), ()))
    put = {**definition.properties(), **metrics_of(options.partition_by, options.cluster_by)}
    put |= {} if options.comment is None else {"comment": options.comment}
    gone = [
        *(["comment"] if options.comment is None else []),
        *([STATE, SUSPENDED_BY] if definition.suspended is None else []),
    ]
    alter(aside, changes, put=put, remove=gone)
    if other_layout:
        alter(aside, layout_changes(context.catalog.facts(aside), options.partition_by, options.cluster_by))


def _refill(context: Context, definition: Definition, run: Progress, *, keep: bool) -> None:
    if not keep and context.catalog.facts(definition.name).current is not None:
        from neve.engine.rows import delete_all_rows

        delete_all_rows(context.session.spark, definition.name, summary={RUN_ID: run.run_id})
    done = fill(context, definition, pins_for(context, definition), run)
    run.details = {"rows_inserted": done.inserted, "rows_deleted": done.deleted, "rows_compared": keep}


def refuse_frozen(definition: Definition, *, what: str) -> None:
    """Rows that are frozen may be those of a past that sources no longer have: they are not computed anew unasked."""
    if definition.options.immutable_where is not None:
        raise Refused(
            f"{what} computes every row of {definition.name} anew, and some are frozen",
            hint="UNSET IMMUTABLE WHERE first",
        )
