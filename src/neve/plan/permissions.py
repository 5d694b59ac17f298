"""What a caller may do. Pure; what is not named here is for an admin alone."""

from __future__ import annotations

from collections.abc import Mapping

from neve.errors import Forbidden, InvalidInput
from neve.model.keys import Caller, Role
from neve.model.operations import Compact, Delete, ExecuteSql, ExportCsv, Operation, Query
from neve.sql.row_statements import changes_rows

LONGEST_MS = 300_000
"""How long a tenant's question may take."""

_NEEDED: Mapping[str, Role] = {
    "LIST_TABLES": "reader",
    "DESCRIBE_TABLE": "reader",
    "QUERY": "reader",
    "EXECUTE_SQL": "reader",
    "EXPORT_CSV": "reader",
    "CREATE_TABLE": "writer",
    "WRITE": "writer",
    "UPDATE": "writer",
    "UPSERT": "writer",
    "DELETE": "writer",
    "COMPACT": "writer",
}


def needed_role(operation: Operation) -> Role:
    """The least role that may do it. Taking rows out for good, or a table's past, is for an admin."""
    match operation:
        case Delete(mode="hard"):
            return "admin"
        case ExecuteSql(sql=text) if changes_rows(text):
            return "writer"
        case Compact(snapshot_retention_hours=hours) if hours is not None:
            return "admin"
    return _NEEDED.get(operation.operation, "admin")


def check_role(caller: Caller, needed: Role, what: str) -> None:
    if not caller.may(needed):
        raise Forbidden(f"{what} is for the role {needed}; this key is a {caller.role}'s", hint="use another key")


def check_whole_lake(caller: Caller, what: str) -> None:
    if caller.tenant is not None:
        raise Forbidden(f"{what} is for keys of the whole lake", hint="ask its operator")


def permit(caller: Caller, operation: Operation) -> Operation:
    """The operation as the caller may have it done: in their own tenant, which need not be named.

    Raises:
        Forbidden: it is another's tenant, or above their role.
    """
    check_role(caller, needed_role(operation), operation.operation)
    if caller.tenant is None:
        return operation
    if operation.tenant_id not in (None, caller.tenant):
        raise Forbidden(f"this key is for the tenant {caller.tenant}", hint="leave tenant_id out")
    words: dict[str, object] = {"tenant_id": caller.tenant}
    if isinstance(operation, Query | ExecuteSql | ExportCsv):
        words["timeout_ms"] = _in_time(operation.timeout_ms)
    return operation.model_copy(update=words)


def _in_time(asked: int | None) -> int:
    """A tenant's question ends some time, whether it says so or not: others wait for the same Spark."""
    if asked is not None and asked > LONGEST_MS:
        raise InvalidInput(f"timeout_ms is {LONGEST_MS:,} at most", hint="ask for less at a time")
    return LONGEST_MS if asked is None else asked
