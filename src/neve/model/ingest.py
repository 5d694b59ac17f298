"""Ingest by date: what lies in the landing folder, what a table already holds, and what should be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from neve.model.names import TableName
from neve.model.results import Answer, Reason, Receipt

INGEST_DATE, SOURCE_FILE, SOURCE_LINE = "_ingest_date", "_source_file", "_source_line"
SUMMARY = "neve.ingest"
FileFormat = Literal["csv", "json", "parquet", "orc", "avro"]
Action = Literal["load", "replace", "skip"]


def is_hidden(column: str) -> bool:
    """Whether `SELECT *` leaves a column out: those that Névé keeps for itself.

    >>> is_hidden("_ingest_date"), is_hidden("_neve_count"), is_hidden("_row_id")
    (True, True, False)
    """
    return column == INGEST_DATE or column.startswith("_neve")


def rejected_name(table: TableName) -> TableName:
    """The table beside a table that keeps the rows it did not take."""
    return TableName(table.namespace, f"{table.name}__rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to ingest. `header` holds the column names of a csv file; other formats carry their own.

    A csv file is `plain` where its lines can be cut at their delimiters, in memory: nothing is quoted, and neither a
    line nor the whole is very long.
    """

    path: str
    format: FileFormat
    bytes: int
    digest: str
    header: tuple[str, ...] | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """All the files of one date, and a hash of their content and of how it will be cleaned."""

    date: date
    files: tuple[SourceFile, ...]
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a table holds for one date, by the ledger or by its snapshots."""

    date: date
    content_hash: str | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatePlan:
    delivery: Delivery
    action: Action
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """One commit: dates to load, dates whose rows are replaced, and dates that are left alone."""

    base_snapshot: int | None
    dates: tuple[DatePlan, ...]

    def having(self, *actions: Action) -> tuple[DatePlan, ...]:
        return tuple(item for item in self.dates if item.action in actions)

    @property
    def work(self) -> tuple[DatePlan, ...]:
        return self.having("load", "replace")


class DateRow(Answer):
    """One date of an ingest."""

    date: date
    action: Action
    reason: Reason
    files: int
    bytes: int
    rows_ingested: int | None = None
    rows_rejected: int | None = None


class FindingRow(Answer):
    """A validation that did not hold."""

    validation: str
    severity: Literal["warn", "error"]
    detail: str


class IngestReceipt(Receipt):
    """A receipt with what came in, by date."""

    destination: str
    dates: list[DateRow]
    rows_ingested: int
    rows_rejected: int
    rejected_by_rule: dict[str, int]
    findings: list[FindingRow]
    columns_not_loaded: list[str]
    files_read: int
    bytes_read: int
