"""Statements about dynamic tables, carried out: the same use cases that commands call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from neve.model.dynamic import AlterDynamic, CreateDynamic, DropDynamic, DynamicStatement, LookDynamic
from neve.model.names import TableName
from neve.model.results import Answer, Reason, Receipt
from neve.plan.graph import downstream, waves
from neve.services.context import Context
from neve.services.deletion import delete_table
from neve.services.dynamic.altering import alter_options, rename_dynamic, resume, suspend, swap_dynamic
from neve.services.dynamic.declaring import create_dynamic
from neve.services.dynamic.definitions import all_definitions, find_definition
from neve.services.dynamic.look import explain_dynamic, list_dynamic
from neve.services.dynamic.rounds import refresh_tables
from neve.services.dynamic.showing import show_dynamic
from neve.services.registry import is_taken


def changes_something(statement: DynamicStatement) -> bool:
    return not isinstance(statement, LookDynamic)


def carry_out(context: Context, statement: DynamicStatement) -> Sequence[Answer]:
    """Does what a statement asks for, and answers with receipts or with what it shows."""
    match statement:
        case CreateDynamic():
            return create_dynamic(context, statement)
        case DropDynamic():
            return drop_dynamic(context, statement.name, if_exists=statement.if_exists, cascade=statement.cascade)
        case AlterDynamic():
            return _alter(context, statement)
        case LookDynamic(action="show"):
            matches = _like(statement.pattern)
            return [row for row in list_dynamic(context) if matches(TableName.parse(row.table).name)]
        case LookDynamic(action="explain", name=TableName() as name):
            return [explain_dynamic(context, name)]
        case LookDynamic(name=TableName() as name):
            return [show_dynamic(context, name)]
    raise AssertionError(statement)


def drop_dynamic(context: Context, name: TableName, *, if_exists: bool = False, cascade: bool = False) -> list[Receipt]:
    """Deletes a dynamic table, and with `cascade` those that read it, the last first; into the trash, as any table."""
    if if_exists and not is_taken(context, name):
        return [_not_there("delete", name)]
    find_definition(context, name)
    graph = {other: definition.sources for other, definition in all_definitions(context).items()}
    going = {name} | (downstream(graph, name) if cascade else set())
    order = [other for wave in reversed(waves(graph)) for other in wave if other in going]
    return [delete_table(context, other) for other in order]


def _alter(context: Context, statement: AlterDynamic) -> Sequence[Answer]:
    name = statement.name
    if statement.if_exists and not is_taken(context, name):
        return [_not_there("alter", name)]
    match statement:
        case AlterDynamic(action="refresh"):
            find_definition(context, name)
            return refresh_tables(context, [name.short])
        case AlterDynamic(action="suspend"):
            return suspend(context, name)
        case AlterDynamic(action="resume"):
            return resume(context, name)
        case AlterDynamic(action="rename", other=TableName() as other):
            return [rename_dynamic(context, name, other)]
        case AlterDynamic(action="swap", other=TableName() as other):
            return [swap_dynamic(context, name, other)]
        case _:
            return [alter_options(context, name, put=statement.set, unset=statement.unset)]


def _not_there(action: str, name: TableName) -> Receipt:
    reason = Reason(code="not_there", detail=f"there is no table {name}")
    return Receipt(run_id=None, action=action, table=str(name), reason=reason)


def _like(pattern: str | None) -> Callable[[str], Any]:
    """SQL's LIKE: % is anything, _ is one character."""
    if pattern is None:
        return lambda _: True
    text = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.compile(text, re.IGNORECASE | re.DOTALL).fullmatch
