"""Declaring dynamic tables: made and filled, kept as they are, or built anew aside."""

from __future__ import annotations

from neve.errors import AlreadyExists
from neve.model.dynamic import CreateDynamic
from neve.model.results import Reason, Receipt
from neve.model.specs import TableSpec
from neve.services.changes import create_table
from neve.services.context import Context
from neve.services.deletion import delete_table
from neve.services.dynamic.altering import change_options
from neve.services.dynamic.definitions import Definition
from neve.services.dynamic.replacing import rebuild
from neve.services.dynamic.rounds import refresh_tables
from neve.services.dynamic.validation import (
    comments_of,
    definition_from,
    earlier,
    need_dynamic,
    stored_columns,
    validate,
)
from neve.services.registry import is_taken
from neve.sql.delta import equivalent


def create_dynamic(context: Context, asked: CreateDynamic) -> list[Receipt]:
    """Makes the table and, unless it waits for its schedule, fills it; a table that cannot be filled is not made."""
    if is_taken(context, asked.name):
        return _existing(context, asked)
    analysis = validate(context, asked)
    definition = definition_from(context, asked, analysis)
    spec = TableSpec(
        name=asked.name,
        columns=stored_columns(context, asked, definition, analysis),
        partition_by=asked.options.partition_by,
        sort_by=asked.options.cluster_by,
        comment=asked.options.comment,
    )
    receipts: list[Receipt] = [create_table(context, spec, own=definition.properties())]
    if asked.options.initialize == "ON_CREATE":
        try:
            receipts += refresh_tables(context, [asked.name.short], trigger="CREATION")
        except BaseException:
            delete_table(context, asked.name, force=True)
            raise
    return receipts


def _existing(context: Context, asked: CreateDynamic) -> list[Receipt]:
    there = Reason(code="already_exists", detail=f"{asked.name} already exists")
    if asked.if_not_exists and not asked.replace:
        return [Receipt(run_id=None, action="create", table=str(asked.name), reason=there)]
    if not asked.replace:
        raise AlreadyExists(there.detail, hint="drop it first, or write OR REPLACE or IF NOT EXISTS")
    return _replace(context, asked, need_dynamic(context, asked.name))


def _replace(context: Context, asked: CreateDynamic, held: Definition) -> list[Receipt]:
    """The same query keeps the table as it is, with what is new of the options; another one is built aside."""
    analysis = validate(context, asked)
    before = earlier(context, held)
    if before is not None and equivalent(before, analysis) and held.options.float_sums == asked.options.float_sums:
        comments = dict(comments_of(asked, [column.name for column in analysis.columns if not column.hidden]))
        return [change_options(context, held, asked.options, comments=comments)]
    definition = definition_from(context, asked, analysis)
    columns = stored_columns(context, asked, definition, analysis)
    return [rebuild(context, definition, analysis, columns, held=held, before=before)]
