"""Dynamic tables as they are declared: what each statement about one asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from neve.model.layout import SortField, Transform
from neve.model.names import TableName

Lag = timedelta | Literal["DOWNSTREAM"]
"""How far a table may lie behind its sources; DOWNSTREAM when only those that read it say so."""
RefreshMode = Literal["AUTO", "INCREMENTAL", "FULL"]
Initialize = Literal["ON_CREATE", "ON_SCHEDULE"]
FloatSums = Literal["EXACT", "FAST"]
MIN_LAG = timedelta(minutes=1)
THRESHOLD = 0.3
"""The share of changed source rows beyond which AUTO computes anew, where a table has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicOptions:
    """The properties of a dynamic table, with their defaults."""

    target_lag: Lag
    refresh_mode: RefreshMode = "AUTO"
    initialize: Initialize = "ON_CREATE"
    partition_by: tuple[Transform, ...] = ()
    cluster_by: tuple[SortField, ...] = ()
    immutable_where: str | None = None
    deduplication: bool = True
    cardinality_threshold: float | None = None
    float_sums: FloatSums = "EXACT"
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDynamic:
    """`query` is the text behind AS; `line` and `column` say where in the statement it begins, from 1."""

    name: TableName
    query: str
    options: DynamicOptions
    line: int = 1
    column: int = 1
    columns: tuple[tuple[str, str | None], ...] = ()
    replace: bool = False
    if_not_exists: bool = False

    @property
    def placed(self) -> str:
        """The query behind so much white space that a parser counts its lines and columns as the statement's own."""
        return placed(self.query, self.line, self.column)


def placed(query: str, line: int, column: int) -> str:
    return "\n" * (line - 1) + " " * (column - 1) + query


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDynamic:
    """`set` holds the options that were named, ready to be put in place of those of the table."""

    name: TableName
    action: Literal["set", "unset", "suspend", "resume", "rename", "refresh", "swap"]
    set: Mapping[str, object] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    other: TableName | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDynamic:
    name: TableName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LookDynamic:
    """`show` lists tables (those like `pattern`), `describe` and `explain` speak of one."""

    action: Literal["show", "describe", "explain"]
    name: TableName | None = None
    pattern: str | None = None


DynamicStatement = CreateDynamic | AlterDynamic | DropDynamic | LookDynamic
