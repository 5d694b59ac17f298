"""`lake.database`: the JSON operations of document 003."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.model.keys import KEYLESS, Caller
from neve.model.operations import Operation
from neve.model.results import Answer
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.services.operations.exporting import Files


class Database:
    """Tables of tenants, by operations such as `neve.model.operations.Write`."""

    def __init__(self, context: Context) -> None:
        from neve.services.operations.writing import Writes

        self._context = context
        self._writes = Writes()

    def do(self, operation: Operation, caller: Caller = KEYLESS, *, once: str | None = None) -> Answer:
        """Carries out an operation as far as its caller may; threads may do so side by side.

        A WRITE that comes again with the same `once`, its Idempotency-Key, happens once.

        Raises:
            Forbidden: they may not.
        """
        from neve.plan.permissions import permit
        from neve.services.operations.doing import do

        confined = caller.tenant is not None
        return do(self._context, self._writes, permit(caller, operation), confined=confined, once=once)

    def export(self, export_id: str, caller: Caller = KEYLESS) -> Files:
        """What EXPORT_CSV wrote under this id.

        Raises:
            NotFound: there is none for this caller, or none any more.
        """
        from neve.services.operations.exporting import find_export

        return find_export(self._context, export_id, caller.tenant)

    def remove_exports(self) -> None:
        """Removes what EXPORT_CSV wrote and nobody can fetch any more."""
        from neve.services.operations.exporting import exports

        exports(self._context)
