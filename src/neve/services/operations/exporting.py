"""EXPORT_CSV: rows into files below `.neve/exports`, which the service hands out until they expire.

An export is a folder whose name nobody can guess. It comes into being whole, by a rename, and says whose it is.
"""

from __future__ import annotations

import csv
import io
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import ValidationError

from neve.errors import NotFound
from neve.model.exports import Export
from neve.model.operation_answers import CsvExported
from neve.model.operations import ExportCsv, Query
from neve.plan.records import typed
from neve.services.context import Context
from neve.services.operations.asking import deadline, read_whole, reads_table
from neve.services.spool import spool
from neve.sql.records import RowSql

EXPORTS = "/exports"
KEPT = timedelta(hours=24)
_LEFT = KEPT + timedelta(hours=1)
"""Files stay a while longer, for whoever began to fetch them in time."""

_ID = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_FOLDER, _META, _ROWS, _UNFINISHED = "exports", "export.json", "rows", ".part"


@dataclass(frozen=True, slots=True)
class Files:
    """An export that can be sent: its files one after the other, behind the header."""

    export: Export
    parts: Sequence[Path]

    @property
    def bytes(self) -> int:
        return len(self.export.header.encode()) + sum(part.stat().st_size for part in self.parts)


def export_csv(context: Context, request: ExportCsv) -> CsvExported:
    """All rows that are asked for, however many. Spark writes them; none come through this process."""
    from neve.engine.csv_files import write_csv

    folder = exports(context)
    facts = context.catalog.facts(request.name)
    asked = Query(operation="QUERY", **request.model_dump(include=_SHARED))
    text = RowSql(facts.columns, typed).select(request.name.sql, asked, most=request.limit)
    export_id = secrets.token_urlsafe(32)
    unfinished = folder / f"{export_id}{_UNFINISHED}"
    unfinished.mkdir(parents=True, mode=0o700)
    try:
        with deadline(context, request.timeout_ms):
            rows, columns = read_whole(
                context,
                lambda: reads_table(context, request.name, text),
                lambda frame: (write_csv(frame, unfinished / _ROWS), frame.columns),
            )
        export = Export(
            tenant=request.tenant_id,
            filename=request.filename or f"{request.table}.csv",
            header=_line(columns) if request.include_header else "",
            rows=rows,
            expires_at=context.clock() + KEPT,
        )
        (unfinished / _META).write_text(export.model_dump_json())
        unfinished.rename(folder / export_id)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return CsvExported(
        download_url=f"{EXPORTS}/{export_id}",
        filename=export.filename,
        rows_exported=rows,
        bytes=_files(folder / export_id, export).bytes,
        expires_at=export.expires_at,
    )


def find_export(context: Context, export_id: str, tenant: str | None) -> Files:
    """The export of this id, for a tenant whose it is; None is for whoever may see all.

    Raises:
        NotFound: there is none for them, or none any more. It is not said which.
    """
    folder = context.loaded.root / ".neve" / _FOLDER / export_id
    try:
        if _ID.match(export_id) is None:
            raise FileNotFoundError
        export = Export.model_validate_json((folder / _META).read_bytes())
    except (OSError, ValidationError) as exc:
        raise _none() from exc
    if export.expires_at <= context.clock() or (tenant is not None and export.tenant != tenant):
        raise _none()
    return _files(folder, export)


def exports(context: Context) -> Path:
    """Where exports lie, without those that nobody can fetch any more."""
    return spool(context, _FOLDER, kept=_LEFT)


_SHARED = {"tenant_id", "namespace", "table", "projection", "filters", "sort", "include_deleted"}


def _none() -> NotFound:
    return NotFound("there is no such export", hint="exports are kept for a day; EXPORT_CSV makes one")


def _files(folder: Path, export: Export) -> Files:
    return Files(export, sorted((folder / _ROWS).glob("part-*.csv")))


def _line(columns: Sequence[str]) -> str:
    told = io.StringIO()
    csv.writer(told, lineterminator="\n").writerow(columns)
    return told.getvalue()
