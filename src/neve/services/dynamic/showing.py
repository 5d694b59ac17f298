"""One dynamic table as it was declared and as it stands; metadata alone."""

from __future__ import annotations

from neve.errors import NeveError
from neve.model.dynamic import THRESHOLD
from neve.model.names import TableName
from neve.model.refresh import DynamicDetails
from neve.model.results import ColumnRow, Reason
from neve.services.context import Context
from neve.services.dynamic.deciding import frontier_of
from neve.services.dynamic.definitions import Definition, describe_lag, find_definition, understand_again
from neve.services.look import dependants_of, live_rows


def show_dynamic(context: Context, name: TableName) -> DynamicDetails:
    definition, facts = find_definition(context, name), context.catalog.facts(name)
    options, frontier = definition.options, frontier_of(facts)
    return DynamicDetails(
        table=str(name),
        query=definition.query,
        state="active" if definition.suspended is None else "suspended",
        suspended_by=definition.suspended,
        target_lag=describe_lag(options.target_lag),
        refresh_mode=options.refresh_mode,
        initialize=options.initialize,
        partition_by=[str(item) for item in options.partition_by],
        cluster_by=[str(item) for item in options.cluster_by],
        immutable_where=options.immutable_where,
        deduplication=options.deduplication,
        cardinality_threshold=THRESHOLD if (share := options.cardinality_threshold) is None else share,
        float_sums=options.float_sums,
        comment=options.comment,
        columns=[
            ColumnRow(name=column.name, type=str(column.type), required=column.required, comment=column.comment)
            for column in facts.columns
        ],
        sources=[str(source) for source in definition.sources],
        dependants=[str(other) for other in dependants_of(context, name)],
        follows_changes=not (reasons := _reasons(context, definition)),
        reasons=reasons,
        frontier=frontier,
        rows=live_rows(facts),
        bytes=facts.current.total("files-size") if facts.current else 0,
    )


def _reasons(context: Context, definition: Definition) -> list[Reason]:
    """Why it cannot follow changes, or why its query makes no sense any more."""
    try:
        return [
            Reason(code=reason.code, detail=str(reason)) for reason in understand_again(context, definition).reasons
        ]
    except NeveError as exc:
        return [Reason(code=exc.code, detail=exc.message)]
