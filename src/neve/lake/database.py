"""`lake.database`: the JSON operations of document 003."""

from __future__ import annotations

from neve.model.operations import Operation
from neve.model.results import Answer
from neve.services.context import Context


class Database:
    """Tables of tenants, by operations such as `neve.model.operations.Write`."""

    def __init__(self, context: Context) -> None:
        from neve.services.operations.counting import Writes

        self._context = context
        self._writes = Writes()

    def do(self, operation: Operation) -> Answer:
        """Carries out an operation; threads may do so side by side."""
        from neve.services.operations.doing import do

        return do(self._context, self._writes, operation)
