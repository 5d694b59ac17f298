"""delete, update, upsert and dedupe on an Iceberg table: one commit each, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from neve.errors import InvalidInput
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.ingest import is_hidden
from neve.model.names import TableName
from neve.model.rows import RowReceipt
from neve.plan.rows import (
    NEW_ROWS,
    check_keep,
    check_on_duplicate,
    key_columns,
    new_columns,
    sort_fields,
    table_partition_values,
    upsert_columns,
)
from neve.services.context import Context
from neve.services.row_commits import Way, change_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.engine.table_rows import TableWork

_LINEAGE_VERSION = 3


def delete_rows(
    context: Context, name: TableName, where: Any, *, partition_filter: Mapping[str, object] | None, way: Way
) -> RowReceipt:
    """Removes the rows for which a condition is true."""

    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.row_values import condition_of, conjunction
        from neve.engine.table_rows import plan_delete

        wanted = table_partition_values(facts, partition_filter)
        return plan_delete(session, name.sql, conjunction(condition_of(where), wanted))

    plan: dict[str, JsonValue] = {"where": str(where), **_described(partition_filter)}
    return change_rows(context, name, "delete_rows", prepare, plan=plan, way=way)


def update_rows(
    context: Context,
    name: TableName,
    values: Mapping[str, object],
    where: Any,
    *,
    partition_filter: Mapping[str, object] | None,
    way: Way,
) -> RowReceipt:
    """Gives columns new values in the rows for which a condition is true; every new value is of the old row."""

    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.row_values import condition_of, conjunction, new_values
        from neve.engine.table_rows import plan_update

        named = new_columns(_names(facts), values, where=str(name))
        _refuse_own(named)
        wanted = table_partition_values(facts, partition_filter)
        columns = new_values(session.table(name.sql), named)
        condition = conjunction(condition_of(where), wanted)
        return plan_update(session, name.sql, condition, columns, required=_required(facts))

    plan: dict[str, JsonValue] = {
        "where": str(where),
        "set": {column: str(value) for column, value in values.items()},
        **_described(partition_filter),
    }
    return change_rows(context, name, "update_rows", prepare, plan=plan, way=way)


def dedupe_rows(
    context: Context, name: TableName, key_cols: Sequence[str], *, keep: str, order_by: Sequence[str], way: Way
) -> RowReceipt:
    """Keeps one row of each key."""
    check_keep(keep)

    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.table_rows import plan_dedupe

        keys = key_columns(_names(facts), key_cols, where=str(name))
        order = sort_fields(_names(facts), order_by, where=str(name))
        return plan_dedupe(
            session,
            name.sql,
            keys,
            keep=keep,
            order_by=order,
            lineage=_has_lineage(facts),
            whole_files=_merges_whole_files(facts),
        )

    plan: dict[str, JsonValue] = {"keys": list(key_cols), "keep": keep, "order_by": list(order_by)}
    return change_rows(context, name, "dedupe_rows", prepare, plan=plan, way=way)


def upsert_rows(
    context: Context,
    name: TableName,
    new_data: Any,
    *,
    key_cols: Sequence[str],
    update_cols: Sequence[str] | None,
    on_duplicate: str,
    order_by: Sequence[str],
    way: Way,
) -> RowReceipt:
    """Rows with a known key get the new values of `update_cols`; the others are inserted.

    Raises:
        Refused: the input holds a key twice, unless the last one is asked for.
        ColumnNotFound: a key or update column is missing.
        InvalidSchema: the input has columns that the table lacks, or values that it would not hold as they are.
    """
    check_on_duplicate(on_duplicate)
    with ExitStack() as stack:

        def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
            from neve.engine.row_input import ORDER, as_frame, prepare_input
            from neve.engine.table_rows import plan_upsert

            frame, ordered = stack.enter_context(as_frame(session, new_data))
            given = [column for column in frame.columns if column != ORDER]
            hint = f"add them: {neve('table', 'alter', name.short, '--add', 'NAME TYPE')}"
            columns = upsert_columns(
                given, _names(facts), where=str(name), key_cols=key_cols, update_cols=update_cols, hint=hint
            )
            _refuse_own(given)
            rows = prepare_input(
                frame,
                session.table(name.sql).schema,
                columns.keys,
                ordered=ordered,
                on_duplicate=on_duplicate,
                order_by=sort_fields(given, order_by, where=NEW_ROWS),
            )
            return plan_upsert(
                session,
                name.sql,
                rows,
                columns.keys,
                columns.update,
                required=_required(facts),
                lineage=_has_lineage(facts),
            )

        update: JsonValue = None if update_cols is None else list(update_cols)
        plan: dict[str, JsonValue] = {"keys": list(key_cols), "update": update}
        return change_rows(context, name, "upsert_rows", prepare, plan=plan, way=way)


def _names(facts: TableFacts) -> list[str]:
    return [column.name for column in facts.columns]


def _required(facts: TableFacts) -> list[str]:
    return [column.name for column in facts.columns if column.required]


def _has_lineage(facts: TableFacts) -> bool:
    return facts.format_version >= _LINEAGE_VERSION


def _merges_whole_files(facts: TableFacts) -> bool:
    """Iceberg's copy-on-write, which is what a table does that says nothing."""
    return facts.properties.get("write.merge.mode", "").lower() != "merge-on-read"


def _refuse_own(names: Mapping[str, object] | Sequence[str]) -> None:
    if own := [name for name in names if is_hidden(name)]:
        raise InvalidInput(f"{', '.join(own)} is Névé's own column, and is not given by hand")


def _described(partition_filter: Mapping[str, object] | None) -> dict[str, JsonValue]:
    return {"partition": {key: str(value) for key, value in partition_filter.items()}} if partition_filter else {}
