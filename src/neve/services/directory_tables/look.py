"""Looking at directory tables: the folder, its ledger and the logs; Spark only to count and to query."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from neve.errors import NotFound, StorageError
from neve.model.directories import DataFile
from neve.model.directory_tables import LedgerColumn
from neve.model.ingest import INGEST_DATE
from neve.model.names import Namespace, TableName
from neve.model.patterns import match_pattern
from neve.model.results import (
    ColumnRow,
    CompactionBlock,
    DateCount,
    FileRow,
    IngestionBlock,
    TableDetails,
    TableStatus,
    TableSummary,
)
from neve.services.context import Context
from neve.services.directory_tables.tables import (
    Contents,
    DirectoryTable,
    all_directories,
    columns_of,
    contents,
    damaged_directories,
    plain_files,
    shape_of,
)
from neve.services.verification import compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MIB = 1024 * 1024


def list_directories(context: Context, namespace: Namespace | None = None) -> list[TableSummary]:
    """Every directory table, or those below a namespace; those that cannot be read are listed all the same."""
    rows = {table.name: _summary(context, table) for table in all_directories(context, as_made=True)}
    rows |= {name: _unknown(name, online=None) for name in damaged_directories(context)}
    return [rows[name] for name in sorted(rows) if namespace in (None, name.namespace[: len(namespace or ())])]


def show(context: Context, table: DirectoryTable) -> TableDetails:
    found = contents(context, table)
    described = table.described
    return TableDetails(
        table=str(table.name),
        uuid=table.uuid,
        comment=described.description,
        format=table.format,
        format_version=None,
        online=True,
        location=table.location,
        columns=[
            ColumnRow(name=column.name, type=column.type, required=False, comment=None)
            for column in columns_of(table, found.ledger)
        ],
        partition_by=[described.day_pattern],
        sort_by=[],
        row_keys=[],
        sort_keys=[],
        ranges=None,
        rows=_rows(found),
        files=len(found.files),
        delete_files=0,
        bytes=sum(file.bytes for file in found.files),
        snapshots=0,
        current_snapshot=None,
        updated_at=_updated_at(context, table, found),
        properties={},
        dependants=[],
    )


def status(
    context: Context, table: DirectoryTable, found: Contents, *, ingestion: IngestionBlock, compaction: CompactionBlock
) -> TableStatus:
    threshold = context.loaded.settings.compaction.small_file_threshold_mb * _MIB
    return TableStatus(
        table=str(table.name),
        online=True,
        rows=_rows(found),
        files=len(found.files),
        small_files=sum(file.bytes < threshold for file in found.files),
        delete_files=0,
        bytes=sum(file.bytes for file in found.files),
        snapshots=0,
        updated_at=_updated_at(context, table, found),
        ingestion=ingestion,
        compaction=compaction,
    )


def files(context: Context, table: DirectoryTable) -> list[FileRow]:
    """The files of the folder; the partition is the day or the period that a file is named after."""
    found = contents(context, table)
    rows = {entry.output: entry.rows for entry in found.ledger.periods.values()}
    return [
        FileRow(
            path=f"{table.location}/{file.path}",
            content="data",
            format=table.format,
            partition=label,
            rows=_file_rows(found, file, label, rows),
            bytes=file.bytes,
        )
        for file in found.files
        for label in [file_label(table, found, file)]
    ]


def verify(context: Context, table: DirectoryTable) -> list[DateCount]:
    """Rows per date, counted and compared with the log."""
    from neve.engine.directory_tables import count_plain, plain_session

    found = contents(context, table)
    if not found.files:
        return compare(context, table.name, {})
    spark = plain_session(context.session.spark)
    return compare(
        context,
        table.name,
        count_plain(spark, plain_files(context, table, found), shape_of(context, table, found.ledger)),
    )


def frame(context: Context, table: DirectoryTable, spark: SparkSession) -> DataFrame:
    """All rows of the table, in a session."""
    from neve.engine.directory_tables import read_plain

    found = contents(context, table)
    plain = plain_files(context, table, found)
    ledger = found.ledger
    if not ledger.columns and plain:
        ledger = ledger.with_columns(_inferred(context, spark, table, found))
    return read_plain(spark, plain, shape_of(context, table, ledger))


def _inferred(context: Context, spark: SparkSession, table: DirectoryTable, found: Contents) -> list[LedgerColumn]:
    from neve.engine.directory_tables import infer_plain

    columns = infer_plain(spark, plain_files(context, table, found), table.format)
    return [LedgerColumn(name=name, type=kind) for name, kind in columns if name != INGEST_DATE]


def _summary(context: Context, table: DirectoryTable) -> TableSummary:
    try:
        found = contents(context, table)
    except (NotFound, StorageError):
        return _unknown(table.name, online=True)
    return TableSummary(
        table=str(table.name),
        online=True,
        rows=_rows(found),
        files=len(found.files),
        bytes=sum(file.bytes for file in found.files),
        snapshots=0,
        updated_at=_updated_at(context, table, found),
    )


def _unknown(name: TableName, *, online: bool | None) -> TableSummary:
    return TableSummary(
        table=str(name), online=online, rows=None, files=None, bytes=None, snapshots=None, updated_at=None
    )


def _rows(found: Contents) -> int:
    return sum(entry.rows for entry in found.ledger.dates.values())


def _updated_at(context: Context, table: DirectoryTable, found: Contents) -> dt.datetime:
    times = [entry.ingested_at for entry in found.ledger.dates.values()]
    times += [entry.compacted_at for entry in found.ledger.periods.values()]
    known = context.store.registry.get(table.name.short)
    return max([*times, *([known.updated_at] if known else [])], default=context.clock())


def file_label(table: DirectoryTable, found: Contents, file: DataFile) -> str:
    """The day or the period that a file is named after; empty when it is named after none."""
    for label, entry in found.ledger.periods.items():
        if entry.output == file.path:
            return label
    day = match_pattern(table.described.day_pattern, file.path, table.described.date_format)
    return "" if day is None else str(day)


def _file_rows(found: Contents, file: DataFile, label: str, periods: dict[str, int]) -> int:
    if file.path in periods:
        return periods[file.path]
    entry = found.ledger.dates.get(dt.date.fromisoformat(label)) if label else None
    return entry.rows if entry else 0
