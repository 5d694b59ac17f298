"""Alterations → PyIceberg's updates, inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import parse_transform

from neve.errors import InvalidSchema
from neve.model.layout import SortField, Transform
from neve.model.specs import (
    AddColumn,
    Alteration,
    ColumnChange,
    DropColumn,
    DropRequired,
    MoveColumn,
    Position,
    RenameColumn,
    SetComment,
    SetPartitioning,
    SetSortOrder,
    SetType,
)
from neve.model.types import Field, Type, fields_to_iceberg
from neve.plan.tables import follow_columns

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.table.update.schema import UpdateSchema
    from pyiceberg.types import IcebergType


def apply_alterations(transaction: Transaction, alterations: Sequence[Alteration]) -> None:
    """Columns first, then partitioning, then sort order: a later part may use a column that an earlier one added."""
    properties = transaction.table_metadata.properties
    followed = follow_columns(properties, alterations)
    try:
        if columns := [change for change in alterations if isinstance(change, ColumnChange)]:
            with transaction.update_schema() as update:
                for change in columns:
                    _change_column(update, change)
        for layout in alterations:
            if isinstance(layout, SetPartitioning):
                _set_partitioning(transaction, layout.transforms)
            elif isinstance(layout, SetSortOrder):
                _set_sort_order(transaction, layout.fields)
        if put := {key: value for key, value in followed.items() if properties.get(key) != value}:
            transaction.set_properties(put)
        if gone := [key for key in properties if key not in followed]:
            transaction.remove_properties(*gone)
    except (ValueError, NotImplementedError, ValidationError, ResolveError) as exc:
        raise InvalidSchema(str(exc)) from exc


def _change_column(update: UpdateSchema, change: ColumnChange) -> None:
    match change:
        case AddColumn(path, column, position):
            full = (*path.split("."), column.name) if path else (column.name,)
            update.add_column(full, iceberg_type(column.type), doc=column.comment)
            if position is not None:
                _move(update, ".".join(full), position)
        case DropColumn(path):
            update.delete_column(path)
        case RenameColumn(path, new_name):
            update.rename_column(path, new_name)
        case MoveColumn(path, position):
            _move(update, path, position)
        case SetType(path, kind):
            update.update_column(path, field_type=iceberg_type(kind))
        case SetComment(path, comment):
            update.update_column(path, doc=comment)
        case DropRequired(path):
            update.make_column_optional(path)


def _move(update: UpdateSchema, path: str, position: Position) -> None:
    parent = path.rpartition(".")[0]
    match position.side, position.column:
        case "before", str(other):
            update.move_before(path, _sibling(parent, other))
        case "after", str(other):
            update.move_after(path, _sibling(parent, other))
        case _:
            update.move_first(path)


def _sibling(parent: str, other: str) -> str:
    """A field beside another one, which may be named by its full path or by its own name."""
    return f"{parent}.{other}" if parent and "." not in other else other


def _set_partitioning(transaction: Transaction, wanted: tuple[Transform, ...]) -> None:
    metadata = transaction.table_metadata
    schema = metadata.schema()
    for item in wanted:
        column = schema.find_field(item.column)
        if not parse_transform(item.function).can_transform(column.field_type):
            raise InvalidSchema(f"cannot partition by {item}: {item.column} is a {column.field_type}")
    names = {(schema.find_field(item.column).field_id, item.function): item for item in wanted}
    present = {(field.source_id, str(field.transform)): field for field in metadata.spec().fields}
    with transaction.update_spec() as update:
        for key, field in present.items():
            if key not in names and str(field.transform) != "void":
                update.remove_field(field.name)
        for key, item in names.items():
            if key not in present:
                update.add_field(item.column, parse_transform(item.function), item.field_name)


def _set_sort_order(transaction: Transaction, wanted: tuple[SortField, ...]) -> None:
    schema = transaction.table_metadata.schema()
    for item in wanted:
        column = schema.find_field(item.term.column)
        if not parse_transform(item.term.function).can_transform(column.field_type):
            raise InvalidSchema(f"cannot sort by {item.term}: {item.term.column} is a {column.field_type}")
    with transaction.update_sort_order() as update:
        for item in wanted:
            nulls = NullOrder.NULLS_FIRST if item.nulls_first else NullOrder.NULLS_LAST
            add = update.desc if item.descending else update.asc
            add(item.term.column, parse_transform(item.term.function), nulls)


def iceberg_type(kind: Type) -> IcebergType:
    """A type as PyIceberg knows it; nested ids are placeholders that PyIceberg replaces."""
    ids = iter(range(1, 1_000_000))
    fields = fields_to_iceberg((Field("c", kind),), lambda: next(ids))
    return Schema.model_validate({"type": "struct", "fields": fields}).fields[0].field_type
