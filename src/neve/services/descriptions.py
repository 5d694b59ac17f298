"""What a table's file says: the one that was named, or the one it was created from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from neve.errors import InvalidInput, NeveError, StoreError
from neve.model.names import TableName
from neve.model.periods import Period
from neve.model.tablefile import PeriodSpec, TableFile
from neve.services.context import Context
from neve.services.specs import load_table_file


def file_of(context: Context, name: TableName, file: Path | None) -> Path | None:
    """The table's file; None for a table that was made without one."""
    if file is not None:
        return file
    known = context.store.registry.get(name.short)
    return Path(known.config_path) if known and known.config_path else None


def describe(context: Context, name: TableName, file: Path | None) -> TableFile | None:
    """What the table's file says now; None for a table that was made without one.

    A directory table whose own file is gone, or cannot be read, is still what it was made as.
    """
    path = file_of(context, name, file)
    if path is None:
        return None
    kept = made_as(context, name) if file is None else None
    return load_table_file(path) if kept is None else _read_again(context, name, path, kept)


def made_as(context: Context, name: TableName) -> TableFile | None:
    """What the file of a directory table said when the table was made; None when the name is not one's.

    Raises:
        StoreError: what the state database says of the table cannot be understood.
    """
    known = context.store.registry.get(name.short)
    if known is None or known.format == "iceberg":
        return None
    try:
        return TableFile.model_validate(dict(known.config))
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"what table_registry says of {name} cannot be understood: {where}: {first['msg']}",
            hint="delete the table and create it anew from its file; its folder stays",
        ) from exc


def _read_again(context: Context, name: TableName, path: Path, kept: TableFile) -> TableFile:
    try:
        given = load_table_file(path)
        if TableName.parse(given.name) == name:
            return given
        why = f"{path} describes {given.name}"
    except NeveError as exc:
        why = exc.message
    context.warn(f"{why}; {name} goes by what its file said when it was made")
    return kept


def period_spec(described: TableFile | None, period: Period | None = None) -> PeriodSpec:
    """How a table's days are compacted. A table whose file does not say takes any `period` that somebody names."""
    spec = (described or TableFile(name="any")).period_spec()
    if period is None or (described is not None and "compaction" in described.model_fields_set):
        return spec
    return replace(spec, outputs={period.kind: ""})


def check_length(period: Period) -> None:
    """Refuses a single day."""
    if period.kind == "day":
        raise InvalidInput(f"{period} is a day; days are what periods are made of", hint="give a month such as 2024-01")
