"""What a change of rows asks for, checked against the columns that a folder or a table has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neve.errors import ColumnNotFound, InvalidInput, InvalidSchema, nearest
from neve.model.facts import TableFacts
from neve.model.layout import SortField, parse_sort_field
from neve.model.names import shown
from neve.model.types import Primitive
from neve.plan.folders import Value, key_type, parse_value, text_of

NEW_ROWS = "the new rows"


def find_name(known_names: Sequence[str], name: str, *, where: str) -> str:
    """The column as it is written there, whatever its case here.

    Raises:
        ColumnNotFound: there is none such.
    """
    if name in known_names:
        return name
    for known in known_names:
        if known.casefold() == name.casefold():
            return known
    raise ColumnNotFound(
        f"no column {shown(name)} in {where}",
        hint=nearest(name, known_names) or f"it has {', '.join(map(shown, known_names)) or 'no columns'}",
    )


def find_names(known_names: Sequence[str], names: Sequence[str], *, where: str, what: str) -> tuple[str, ...]:
    """Several columns as they are written, none of them twice."""
    if isinstance(names, str):
        raise InvalidInput(f"{what} is a list of columns, not one text", hint=f'["{names}"]')
    found = tuple(find_name(known_names, name, where=where) for name in names)
    if len(set(found)) < len(found):
        raise InvalidInput(f"{what} names a column twice: {', '.join(found)}")
    return found


def key_columns(known_names: Sequence[str], key_cols: Sequence[str], *, where: str) -> tuple[str, ...]:
    """The columns that tell rows apart; at least one."""
    if isinstance(key_cols, str) or not key_cols:
        raise InvalidInput("key columns are a list of names", hint='key_cols=["id"]')
    return find_names(known_names, key_cols, where=where, what="the key")


def new_columns(known_names: Sequence[str], values: Mapping[str, object], *, where: str) -> dict[str, object]:
    """The new values of an update by the columns that get them; at least one."""
    if not values:
        raise InvalidInput("no column is given a new value", hint='name one: {"column": value}, or --set column=SQL')
    named = {find_name(known_names, name, where=where): value for name, value in values.items()}
    if len(named) < len(values):
        raise InvalidInput(f"a column is given two values: {', '.join(values)}")
    return named


def sort_fields(known_names: Sequence[str], order_by: Sequence[str], *, where: str) -> list[SortField]:
    """`amount desc`, `at`… as sort fields, of columns that are there."""
    if isinstance(order_by, str):
        raise InvalidInput("an order is a list of columns", hint=f'order_by=["{order_by}"]')
    fields = [parse_sort_field(text) for text in order_by]
    for field in fields:
        if field.term.function != "identity":
            raise InvalidInput(f"rows are ordered by columns, not by {field.term}", hint="name a column")
    return [
        replace(field, term=replace(field.term, column=find_name(known_names, field.term.column, where=where)))
        for field in fields
    ]


def partition_values(
    types: Mapping[str, str], partition_filter: Mapping[str, object] | None, *, where: str
) -> dict[str, Value]:
    """The values that a partition filter wants, as the types of the partition keys.

    Raises:
        InvalidInput: a key is no partition key, or a value none of its type.
    """
    wanted: dict[str, Value] = {}
    for name, value in (partition_filter or {}).items():
        key = next((key for key in types if key.casefold() == name.casefold()), None)
        if key is None:
            raise InvalidInput(
                f"{shown(name)} is not a partition key of {where}",
                hint=f"its keys: {', '.join(map(shown, types)) or 'none: it is not partitioned'}",
            )
        wanted[key] = _value(key, value, types[key])
    return wanted


def _value(key: str, value: object, kind: str) -> Value:
    if value is None:
        return None
    text = text_of(value) if isinstance(value, bool) else str(value)
    parsed = parse_value(text, kind)
    if parsed is None:
        raise InvalidInput(f"partition filter: {value!r} is not a {Primitive(kind)}, the type of {shown(key)}")
    return parsed


def table_partition_values(facts: TableFacts, partition_filter: Mapping[str, object] | None) -> dict[str, Value]:
    """The same for a table, whose files are pruned by any condition on its columns."""
    plain = {item.column for item in facts.partition_by if item.function == "identity"}
    for name in partition_filter or {}:
        other = [item for item in facts.partition_by if item.column.casefold() == name.casefold()]
        if other and not any(item.column in plain for item in other):
            raise InvalidInput(
                f"{facts.name} is partitioned by {other[0]}, not by {shown(name)} itself",
                hint=f"put a condition on {shown(name)} into the rows that are meant: as few files are read",
            )
    types = {column.name: key_type(column) for column in facts.columns if column.name in plain}
    return partition_values(types, partition_filter, where=str(facts.name))


def check_keep(keep: str) -> None:
    if keep not in ("first", "last"):
        raise InvalidInput(f"keep is first or last, not {keep!r}")


def check_on_duplicate(on_duplicate: str) -> None:
    if on_duplicate not in ("refuse", "last"):
        raise InvalidInput(f"on_duplicate is refuse or last, not {on_duplicate!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertColumns:
    """The columns of an upsert as the target writes them: the key, and those that known rows get anew."""

    keys: tuple[str, ...]
    update: tuple[str, ...]


def upsert_columns(
    given: Sequence[str],
    known_names: Sequence[str],
    *,
    where: str,
    key_cols: Sequence[str],
    update_cols: Sequence[str] | None,
    hint: str,
) -> UpsertColumns:
    """New rows with columns `given`, into a target with others. `hint` says what to do about columns it lacks.

    Raises:
        ColumnNotFound: a key or update column is missing on either side.
        InvalidSchema: the new rows have columns that the target lacks.
    """
    key_columns(given, key_cols, where=NEW_ROWS)
    keys = key_columns(known_names, key_cols, where=where)
    known = {name.casefold() for name in known_names}
    if extra := [name for name in given if name.casefold() not in known]:
        raise InvalidSchema(
            f"the new rows have columns that {where} lacks: {', '.join(map(shown, extra))}",
            hint=f"leave them out, or {hint}",
        )
    if update_cols is None:
        all_given = find_names(known_names, given, where=where, what=NEW_ROWS)
        return UpsertColumns(keys=keys, update=tuple(name for name in all_given if name not in keys))
    find_names(given, update_cols, where=NEW_ROWS, what="update_cols")
    update = find_names(known_names, update_cols, where=where, what="update_cols")
    if both := [name for name in update if name in keys]:
        raise InvalidInput(f"{', '.join(map(shown, both))} is part of the key, and a key is not updated")
    return UpsertColumns(keys=keys, update=update)
