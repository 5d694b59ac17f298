"""`lake.namespaces`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.model.names import parse_namespace
from neve.model.results import (
    NamespaceRow,
)
from neve.services import changes, look
from neve.services.context import Context

if TYPE_CHECKING:
    pass


class Namespaces:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(self) -> list[NamespaceRow]:
        return look.list_namespaces(self._context)

    def create(self, name: str, *, if_not_exists: bool = False) -> NamespaceRow:
        return changes.create_namespace(self._context, parse_namespace(name), if_not_exists=if_not_exists)

    def drop(self, name: str) -> NamespaceRow:
        return changes.drop_namespace(self._context, parse_namespace(name))
