"""WRITE, UPDATE, DELETE, HARD_DELETE and UPSERT: one commit each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from neve.errors import NeedsConfirmation, Unsupported
from neve.model.directories import Expression
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.operation_answers import Deleted, HardDeleted, Updated, Upserted, Written
from neve.model.operations import Delete, HardDelete, Update, Upsert, Write
from neve.model.queries import Filter
from neve.model.rows import RowReceipt
from neve.plan.operations import needed_key
from neve.plan.records import check_upsert, typed, typed_records, visible
from neve.services.context import Context
from neve.services.operations.once import OnceKey
from neve.services.operations.tables import ensure
from neve.services.operations.writing import Writes, new_records
from neve.services.row_commits import Way, change_rows
from neve.sql.records import DELETED_AT, RowSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.engine.table_rows import TableWork

_LINEAGE_VERSION = 3


def write(context: Context, writes: Writes, request: Write, key: OnceKey | None = None) -> Written:
    """Every record as it is, equal ones too; after `overwrite` there are no others."""
    number: int | None
    if (asked := request.creation) is not None:
        ensure(context, asked)
    if request.mode == "upsert":
        done = upsert_records(context, request.name, request.records)
        written = done.rows_inserted + done.rows_updated
        facts = context.catalog.facts(request.name)
        number = context.store.write_counts.add(facts.uuid, 1)
    else:
        written = len(request.records)
        facts, number = writes.put(context, request, key)
    small = None if number is None else writes.small_files.at(context, facts, number)
    enough = context.loaded.settings.compaction.min_files_to_compact
    return Written(
        records_written=written,
        compaction_recommended=small is not None and small >= enough,
        small_files_count=small,
    )


def update(context: Context, request: Update) -> Updated:
    """Rows that are there and for which all filters hold, as they are now."""
    done = _update(context, request.name, request.filters, lambda rows: _new_values(rows, request.updates))
    return Updated(records_updated=done.rows_updated)


def delete(context: Context, request: Delete) -> Deleted:
    """Softly: the rows stay, and are left out of answers."""
    if request.mode == "hard":
        return Deleted(records_deleted=_remove(context, request.name, request.filters, deleted_too=False).rows_deleted)
    if not RowSql(context.catalog.facts(request.name).columns, typed).keeps_deleted:
        raise Unsupported(
            f"{request.name} cannot keep deleted rows: it was not made by CREATE_TABLE", hint='give mode "hard"'
        )
    at = context.clock().isoformat()
    values = {DELETED_AT: Expression(RowSql.moment(at))}
    done = _update(context, request.name, request.filters, lambda _: values)
    return Deleted(records_deleted=done.rows_updated)


def hard_delete(context: Context, request: HardDelete) -> HardDeleted:
    """Removes rows, those that were deleted softly too; earlier snapshots hold them until they expire."""
    if not request.confirm:
        raise NeedsConfirmation(
            "HARD_DELETE removes rows, those that were deleted before too", hint='give "confirm": true'
        )
    done = _remove(context, request.name, request.filters, deleted_too=True)
    facts = context.catalog.facts(request.name)
    snapshot = None if done.snapshot_after is None else facts.snapshot(done.snapshot_after)
    rewritten = 0 if snapshot is None else int(snapshot.summary.get("deleted-data-files", 0))
    return HardDeleted(records_deleted=done.rows_deleted, files_rewritten=rewritten)


def upsert(context: Context, request: Upsert) -> Upserted:
    if request.filters:
        done = _update_or_insert(context, request)
    else:
        done = upsert_records(context, request.name, request.records)
    return Upserted(
        records_inserted=done.rows_inserted,
        records_updated=done.rows_updated,
        total_affected=done.rows_inserted + done.rows_updated,
    )


def upsert_records(context: Context, name: TableName, records: Sequence[Mapping[str, Any]]) -> RowReceipt:
    """Records whose key a row has that is there give it the values that they name; the others come as new rows."""
    keys = needed_key(context.catalog.facts(name))
    given = check_upsert(records, keys)

    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.records import frame_of
        from neve.engine.row_input import prepare_input
        from neve.engine.table_rows import plan_upsert

        columns = [column for column in visible(facts.columns) if column.name in given]
        # NULL equals NULL in a key: rows that are there match, those that were deleted do not.
        hidden = [DELETED_AT] if RowSql(facts.columns, typed).keeps_deleted else []
        key = [*keys, *hidden]
        rows = typed_records(columns, records)
        frame = frame_of(session, name.sql, rows, [*given, *hidden])
        schema = session.table(name.sql).schema
        new = prepare_input(frame, schema, key, ordered=False, on_duplicate="refuse", order_by=())
        return plan_upsert(
            session,
            name.sql,
            new,
            key,
            [column for column in given if column not in keys],
            required=[column.name for column in facts.columns if column.required],
            lineage=facts.format_version >= _LINEAGE_VERSION,
        )

    plan: dict[str, JsonValue] = {"rows": len(records), "keys": list(keys)}
    return change_rows(context, name, "upsert_rows", prepare, plan=plan, way=Way())


def _update_or_insert(context: Context, request: Upsert) -> RowReceipt:
    """Rows for which all filters hold get the updates; where there is none, the records come. Decided and done at once:
    of two who find none, the second finds what the first inserted."""
    name = request.name

    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.records import frame_of
        from neve.engine.table_rows import plan_insert

        records = new_records(context.catalog.append_target(name), request.records)
        found = _planned_update(session, facts, request.filters, lambda rows: _new_values(rows, request.updates))
        if not found.nothing:
            return found
        return plan_insert(frame_of(session, name.sql, records), rows=len(records))

    plan: dict[str, JsonValue] = {**_described(request.filters), "rows": len(request.records)}
    return change_rows(context, name, "upsert_rows", prepare, plan=plan, way=Way())


def _new_values(rows: RowSql, updates: Mapping[str, Any]) -> dict[str, Expression]:
    return {name: Expression(rows.value(name, value)) for name, value in updates.items()}


def _update(
    context: Context, name: TableName, filters: Sequence[Filter], values: Callable[[RowSql], Mapping[str, Expression]]
) -> RowReceipt:
    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        return _planned_update(session, facts, filters, values)

    return change_rows(context, name, "update_rows", prepare, plan=_described(filters), way=Way())


def _planned_update(
    session: SparkSession,
    facts: TableFacts,
    filters: Sequence[Filter],
    values: Callable[[RowSql], Mapping[str, Expression]],
) -> TableWork:
    from neve.engine.row_values import condition_of, new_values
    from neve.engine.table_rows import plan_update

    rows, table = RowSql(facts.columns, typed), facts.name.sql
    condition = condition_of(rows.condition(filters))
    columns = new_values(session.table(table), values(rows))
    required = [column.name for column in facts.columns if column.required]
    return plan_update(session, table, condition, columns, required=required)


def _remove(context: Context, name: TableName, filters: Sequence[Filter], *, deleted_too: bool) -> RowReceipt:
    def prepare(session: SparkSession, facts: TableFacts) -> TableWork:
        from neve.engine.row_values import condition_of
        from neve.engine.table_rows import plan_delete

        text = RowSql(facts.columns, typed).condition(filters, include_deleted=deleted_too)
        return plan_delete(session, name.sql, condition_of(text))

    return change_rows(context, name, "delete_rows", prepare, plan=_described(filters), way=Way())


def _described(filters: Sequence[Filter]) -> dict[str, JsonValue]:
    return {"filters": [f"{each.field} {each.operator} {each.value}" for each in filters]}
