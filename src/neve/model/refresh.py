"""Refreshes of dynamic tables: how far one has come, what it did, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from neve.model.results import Answer, ColumnRow, Reason, Receipt

RefreshAction = Literal["NO_DATA", "INCREMENTAL", "FULL", "REINITIALIZE"]


class Pin(BaseModel):
    """A source at one moment: which table it is, and its snapshot; None before its first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uuid: str
    snapshot: int | None


class Frontier(BaseModel):
    """What the rows of a dynamic table are the result of: a query, a present moment, and sources.

    `snapshot` is the table's own that this is said of, where it is said apart from it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str
    at: AwareDatetime
    sources: Mapping[str, Pin]
    snapshot: int | None = None


class RefreshReceipt(Receipt):
    """A receipt with what became of the rows."""

    refresh: RefreshAction
    rows_inserted: int
    rows_deleted: int
    rows_changed_in_sources: int


class DynamicRow(Answer):
    """A dynamic table in a list."""

    table: str
    target_lag: str
    refresh_mode: str
    follows_changes: bool
    reason: Reason | None
    rows: int | None
    bytes: int
    refreshed: bool


class DynamicDetails(Answer):
    """A dynamic table as it was declared, and how far it has come."""

    table: str
    query: str
    state: Literal["active", "suspended"]
    suspended_by: str | None
    target_lag: str
    refresh_mode: str
    initialize: str
    partition_by: list[str]
    cluster_by: list[str]
    immutable_where: str | None
    deduplication: bool
    cardinality_threshold: float
    float_sums: str
    comment: str | None
    columns: list[ColumnRow]
    sources: list[str]
    dependants: list[str]
    follows_changes: bool
    reasons: list[Reason]
    frontier: Frontier | None
    rows: int | None
    bytes: int


class Difference(Answer):
    """How the stored rows differ from the query at the frontier."""

    table: str
    rows: int | None
    missing: int
    surplus: int
