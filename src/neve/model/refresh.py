"""Refreshes of dynamic tables: how far one has come, what it did, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue

from neve.model.results import Answer, ColumnRow, Reason, Receipt

RefreshAction = Literal["NO_DATA", "INCREMENTAL", "FULL", "REINITIALIZE"]
RefreshState = Literal["SCHEDULED", "SUCCEEDED", "FAILED", "UPSTREAM_FAILED", "SKIPPED", "CANCELLED"]
"""How a refresh ended; SCHEDULED is one that was only decided."""
RefreshTrigger = Literal["MANUAL", "SCHEDULED", "CREATION"]
Freshness = Literal["fresh", "due", "late", "unknown", "suspended"]


class Pin(BaseModel):
    """A source at one moment: which table it is, and its snapshot; None before its first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uuid: str
    snapshot: int | None


class Frontier(BaseModel):
    """What the rows of a dynamic table are the result of: a query, a present moment, sources, and the settings of Spark
    that decide what a query answers (`session`).

    `base` are the plain tables below it, directly or through other dynamic tables: two tables agree when their bases
    do. `snapshot` is the table's own that this is said of, where it is said apart from it. `lasting` says that the rows
    stay right while the sources are the same, so that nobody need look at the query to see that nothing is to do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str
    at: AwareDatetime
    sources: Mapping[str, Pin]
    base: Mapping[str, Pin] = {}
    session: Mapping[str, str] = {}
    lasting: bool = False
    snapshot: int | None = None


class CommittedRefresh(BaseModel):
    """What the commit of a refresh says of itself beside the frontier. Rows are None where only the commit counts them.

    Fields that a later version adds are passed over, so that its tables can still be read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: RefreshAction
    reason: Reason
    trigger: RefreshTrigger
    round_id: str | None
    rows_inserted: int | None
    rows_deleted: int | None
    rows_changed_in_sources: int
    changed_sources: Sequence[str] | None = None
    strategy: str | None = None
    estimates: Mapping[str, JsonValue] | None = None


class RefreshReceipt(Receipt):
    """A receipt with what became of the rows, or why nothing did.

    `refresh` is None where nothing was decided. `upstream` is the table whose failure kept this one from its turn.
    `strategy` is how the rows were computed and written, `estimates` what that choice was made by.
    """

    round_id: str | None = None
    state: RefreshState = "SUCCEEDED"
    refresh: RefreshAction | None
    trigger: RefreshTrigger = "MANUAL"
    error_code: str | None = None
    upstream: str | None = None
    data_timestamp: AwareDatetime | None = None
    rows_inserted: int = 0
    rows_deleted: int = 0
    rows_changed_in_sources: int = 0
    changed_sources: Sequence[str] = ()
    strategy: str | None = None
    estimates: Mapping[str, JsonValue] | None = None


class DynamicRow(Answer):
    """A dynamic table in a list: how fresh it is, how it is refreshed, and how that went last.

    `warning` says that the next refresh may have to be a full one, before it is.
    """

    table: str
    scheduling_state: Literal["ACTIVE", "SUSPENDED"]
    freshness: Freshness
    target_lag: str
    current_lag: str | None
    data_timestamp: AwareDatetime | None
    refresh_mode: str
    follows_changes: bool
    reason: Reason | None
    last_state: RefreshState | None
    last_action: RefreshAction | None
    last_refresh_at: AwareDatetime | None
    last_rows_inserted: int | None
    last_rows_deleted: int | None
    next_due: AwareDatetime | None
    last_error: str | None
    warning: Reason | None
    rows: int | None
    bytes: int


class RecoveredRow(Answer):
    """What the state database did not know of a dynamic table, and knows now."""

    table: str
    detail: str


class Edge(Answer):
    upstream: str
    downstream: str


class DynamicGraph(Answer):
    """Dynamic tables in the order of their refresh, those of one wave side by side; `tables` are the plain ones."""

    waves: list[list[str]]
    tables: list[str]
    edges: list[Edge]


class DifferingRow(Answer):
    """A row, and how often it is there too often or too seldom."""

    count: int
    row: dict[str, JsonValue]


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
    """How the stored rows differ from the query at the frontier, with a few of those that do."""

    table: str
    rows: int | None
    missing: int
    surplus: int
    missing_rows: list[DifferingRow]
    surplus_rows: list[DifferingRow]
