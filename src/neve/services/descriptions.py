"""What a table's file says: the one that was named, or the one it was created from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from neve.errors import InvalidInput
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
    """What the table's file says; None for a table that was made without one."""
    path = file_of(context, name, file)
    return None if path is None else load_table_file(path)


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
