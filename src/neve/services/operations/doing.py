"""Which use case an operation is."""

from __future__ import annotations

from neve.model.operations import (
    Compact,
    CreateTable,
    Delete,
    DescribeTable,
    DropNamespace,
    DropTable,
    ExecuteSql,
    ExportCsv,
    HardDelete,
    ListTables,
    Operation,
    Query,
    Update,
    Upsert,
    Write,
)
from neve.model.results import Answer
from neve.services.context import Context
from neve.services.operations import asking, changing, tables
from neve.services.operations.exporting import export_csv
from neve.services.operations.once import once_key
from neve.services.operations.sql_changes import change_by_sql
from neve.services.operations.writing import Writes
from neve.sql.row_statements import changes_rows


def do(  # noqa: PLR0912 - one case each
    context: Context, writes: Writes, operation: Operation, *, confined: bool = False, once: str | None = None
) -> Answer:
    """`confined` is for a tenant, who sees nothing but its own: see `plan/permissions.permit`.

    `once` makes a write that is sent again happen once.
    """
    key = None if once is None else once_key(operation, once)
    match operation:
        case CreateTable():
            return tables.create(context, operation)
        case ListTables():
            return tables.list_tables(context, operation)
        case DescribeTable():
            return tables.describe(context, operation, confined=confined)
        case DropTable():
            return tables.drop(context, operation)
        case DropNamespace():
            return tables.drop_place(context, operation)
        case Compact():
            return tables.compact(context, operation)
        case Query():
            return asking.query(context, operation)
        case ExecuteSql() if changes_rows(operation.sql):
            return change_by_sql(context, operation, confined=confined)
        case ExecuteSql():
            return asking.execute_sql(context, operation, confined=confined)
        case ExportCsv():
            return export_csv(context, operation)
        case Write():
            return changing.write(context, writes, operation, key)
        case Update():
            return changing.update(context, operation)
        case Delete():
            return changing.delete(context, operation)
        case HardDelete():
            return changing.hard_delete(context, operation)
        case Upsert():
            return changing.upsert(context, operation)
