"""Answers to stdout, in the format that was asked for. JSON is the answer's model, word for word."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from pydantic import BaseModel

from neve.cli.dynamic_text import dynamic_text
from neve.cli.health import health_text
from neve.cli.options import options, say
from neve.cli.range_text import RANGE_COLUMNS, read_lines, split_lines
from neve.cli.rewrites import rewrite_lines
from neve.cli.text import block, cell, fitted, grid, table
from neve.cli.tidying import orphan_headline, orphan_table, statistics_table, tidying_headline, tidying_lines, would
from neve.errors import NeveError
from neve.model.batching import BatchOutcome
from neve.model.commands import neve
from neve.model.compaction import CompactionReceipt, Sources
from neve.model.delta import Step
from neve.model.health import StatusRow, TableHealth
from neve.model.history import RefreshRecord
from neve.model.ingest import DateRow, IngestReceipt
from neve.model.json_values import as_json, named_json
from neve.model.periods import date_ranges
from neve.model.range_rows import RangeRead, RangeRow, SplitReceipt
from neve.model.refresh import DynamicDetails, DynamicRow, RefreshReceipt, RefreshState
from neve.model.results import Receipt, SnapshotRow, TableDetails, TableStatus
from neve.model.retention import DeletesReceipt, ExpireReceipt, ManifestReceipt, OrphanReceipt, StatisticsReceipt
from neve.model.rewrites import RewriteReceipt
from neve.model.rows import RowReceipt
from neve.model.runs import Run
from neve.model.units import format_bytes
from neve.model.work import JobOutcome

_COLUMNS: dict[type[BaseModel], tuple[str, ...]] = {
    Run: ("run_id", "kind", "table_name", "state", "started_at", "finished_at", "error_message"),
    RefreshRecord: (
        "name",
        "state",
        "refresh_action",
        "refresh_trigger",
        "refresh_end_time",
        "rows_inserted",
        "rows_deleted",
        "reason_detail",
        "state_message",
        "run_id",
    ),
    DynamicRow: (
        "table",
        "freshness",
        "target_lag",
        "current_lag",
        "data_timestamp",
        "refresh_mode",
        "reason",
        "last_state",
        "last_action",
        "last_refresh_at",
        "last_rows_inserted",
        "last_rows_deleted",
        "next_due",
        "last_error",
        "warning",
        "rows",
        "bytes",
    ),
    JobOutcome: ("table", "action", "state", "what", "reason", "duration_ms", "run_id"),
    StatusRow: (
        "table",
        "state",
        "score",
        "freshness",
        "current_lag",
        "target_lag",
        "files",
        "small_files",
        "bytes",
        "due",
        "reason",
    ),
    RangeRow: RANGE_COLUMNS,
    SnapshotRow: (
        "snapshot",
        "at",
        "operation",
        "current",
        "references",
        "rows_added",
        "rows_deleted",
        "files_added",
        "files_deleted",
        "rows",
        "run_id",
    ),
}
_DONE = {
    "create": "created",
    "alter": "altered",
    "set": "set",
    "unset": "unset",
    "online": "is online",
    "offline": "is offline",
    "rename": "renamed",
    "replace": "has another query",
    "suspend": "is suspended",
    "resume": "is active again",
    "swap": "swapped",
    "delete": "deleted",
    "undelete": "is back",
    "reinitialise": "emptied",
    "rollback": "rolled back",
    "tag": "tagged",
    "branch": "branched",
    "delete_tag": "tag deleted",
    "delete_branch": "branch deleted",
    "register": "registered",
    "adopt": "adopted",
    "export": "exported",
    "submit": "has files that wait to be loaded",
}

_TEXTS: dict[type, Callable[[Any], str]] = {
    TableHealth: health_text,
    DynamicDetails: dynamic_text,
    RangeRead: lambda answer: block(read_lines(answer)),
}
_SOURCES: dict[Sources, str] = {
    "deleted": "deleted",
    "kept": "kept in _sources",
    "until_snapshots_expire": "out of the table; kept until its snapshots expire",
}


def emit(
    answer: BaseModel | Sequence[BaseModel], *, empty: str = "nothing to show", next_step: str | None = None
) -> None:
    """Prints an answer. `empty` and `next_step` are talk: they go to stderr, and only for people."""
    many = isinstance(answer, Sequence)
    rows: Sequence[BaseModel] = answer if isinstance(answer, Sequence) else [answer]
    match options.output:
        case "json":
            dumped = [row.model_dump(mode="json") for row in rows]
            _print(json.dumps(dumped if many else dumped[0], indent=2, ensure_ascii=False))
        case "jsonl":
            for row in rows:
                _print(row.model_dump_json())
        case "csv":
            _emit_csv(rows)
        case "table":
            _emit_text(answer, rows, many=many, empty=empty)
            if next_step is not None:
                say(f"Next: {next_step}")


def emit_error(error: NeveError) -> None:
    """One sentence, and how to go on; as a JSON object when JSON was asked for."""
    if options.output in ("json", "jsonl"):
        say(json.dumps(error.problem(), ensure_ascii=False))
        return
    say(f"✗ {error.message}")
    if error.hint:
        say(f"  {error.hint}")


def emit_stream(
    columns: Sequence[str], stream: Iterator[Sequence[Any]], *, shown: int | None, headline: bool = False
) -> None:
    """Rows of a query as they come. A table shows at most `shown` rows and says when there are more.

    `headline` tells the number of its rows before them, as a result; it is told after them otherwise.
    """
    match options.output:
        case "table":
            _emit_table(columns, stream, shown=shown, headline=headline)
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            for row in stream:
                writer.writerow(["" if value is None else _flat(value) for value in row])
        case "jsonl":
            for row in stream:
                _print(_object(columns, row))
        case "json":
            _emit_array(columns, stream)


def _emit_table(columns: Sequence[str], stream: Iterator[Sequence[Any]], *, shown: int | None, headline: bool) -> None:
    rows: list[list[str | int]] = []
    for row in stream:
        if shown is not None and len(rows) == shown:
            _print(grid(columns, rows, bold=options.color))
            say(f"the first {shown:,} rows; there are more: --limit N, or -o csv|jsonl for all of them")
            return
        rows.append([_shown(value) for value in row])
    if headline:
        say(f"✓ {len(rows):,} rows returned\n")
    _print(grid(columns, rows, bold=options.color))
    if not headline:
        say(f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}")


def _emit_array(columns: Sequence[str], stream: Iterator[Sequence[Any]]) -> None:
    """Nothing is written before there is a first row, or none: a query that fails at once leaves no half of a JSON."""
    objects = (_object(columns, row) for row in stream)
    first = next(objects, None)
    sys.stdout.write("[" if first is None else f"[\n  {first}")
    for text in objects:
        sys.stdout.write(f",\n  {text}")
    _print("\n]")


def _object(columns: Sequence[str], row: Sequence[Any]) -> str:
    return json.dumps(named_json(columns, row), ensure_ascii=False, allow_nan=False)


def _shown(value: Any) -> str | int:
    """A value of a query as it is: no separators, and NULL by its name."""
    if value is None:
        return "NULL"
    return value if isinstance(value, int) and not isinstance(value, bool) else str(_flat(value))


def _flat(value: Any) -> Any:
    plain = as_json(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list | bool) else plain


def _emit_csv(rows: Sequence[BaseModel]) -> None:
    dumped = [row.model_dump(mode="json") for row in rows]
    if dumped:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(dumped[0])
        for row in dumped:
            writer.writerow(["" if value is None else _flat(value) for value in row.values()])


def _emit_text(answer: BaseModel | Sequence[BaseModel], rows: Sequence[BaseModel], *, many: bool, empty: str) -> None:
    if not rows:
        say(empty)
    elif all(isinstance(row, Receipt) for row in rows):
        for row in rows:
            _emit_receipt(row)  # type: ignore[arg-type]
    elif all(isinstance(row, BatchOutcome) for row in rows):
        for row in rows:
            _emit_outcome(row)  # type: ignore[arg-type]
    elif many:
        columns = _COLUMNS.get(type(rows[0]), tuple(type(rows[0]).model_fields))
        _print(
            fitted(
                columns, [[getattr(row, key) for key in columns] for row in rows], screen=_screen(), bold=options.color
            )
        )
    elif isinstance(answer, TableDetails):
        _emit_details(answer)
    elif isinstance(answer, TableStatus):
        _emit_status(answer)
    elif (text := _TEXTS.get(type(answer))) is not None:
        _print(text(answer))
    elif isinstance(answer, Step):
        _emit_step(answer, 0)
    elif isinstance(answer, BaseModel):
        _print(block(list(answer)))


def _screen() -> int:
    """How wide the terminal is; what goes elsewhere has all the room."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


_MARKS: dict[RefreshState, str] = {"FAILED": "✗", "UPSTREAM_FAILED": "–", "SKIPPED": "–", "CANCELLED": "–"}


def _emit_receipt(receipt: Receipt) -> None:
    if isinstance(receipt, RefreshReceipt) and receipt.state in _MARKS:
        detail = receipt.reason.detail if receipt.reason else ""
        _print(f"{_MARKS[receipt.state]} {receipt.table} {receipt.state}: {detail}")
        return
    if isinstance(receipt, StatisticsReceipt) and receipt.columns:
        _print(statistics_table(receipt))
    if isinstance(receipt, OrphanReceipt) and receipt.orphans:
        _print(orphan_table(receipt))
    elif receipt.reason is not None and receipt.run_id is None and not receipt.dry_run:
        skipped = receipt.reason.code == "no_files" and not isinstance(receipt, RewriteReceipt)
        word = "skipped" if skipped else "nothing to do"
        named = isinstance(receipt, RefreshReceipt | OrphanReceipt | RewriteReceipt)
        about = f" for {receipt.table}" if named else ""
        _print(f"= {word}{about}: {receipt.reason.detail}")
        return
    _print(_headline(receipt))
    lines = [*_details(receipt).items(), *_own_lines(receipt)]
    unknown = receipt.dry_run and receipt.snapshot_after is None
    if receipt.snapshot_before != receipt.snapshot_after and not unknown:
        lines.append(
            ("snapshot", f"{cell('snapshot', receipt.snapshot_before)} → {cell('snapshot', receipt.snapshot_after)}")
        )
    if receipt.run_id:
        lines.append(("run", receipt.run_id))
    if receipt.undo:
        lines.append(("undo", receipt.undo))
    for key, value in lines:
        _print(f"  {key.replace('_', ' ')}: {cell(key, value)}")


def _details(receipt: Receipt) -> Mapping[str, object]:
    """Without what a receipt of this kind says in a line of its own."""
    own = ("rows_inserted", "rows_deleted") if isinstance(receipt, RefreshReceipt) else ()
    return {key: value for key, value in receipt.details.items() if key not in own}


def _headline(receipt: Receipt) -> str:
    if isinstance(receipt, OrphanReceipt):
        return orphan_headline(receipt)
    if isinstance(receipt, RefreshReceipt) and receipt.dry_run:
        return f"Would refresh {receipt.table}: {receipt.refresh}. Nothing was changed."
    if isinstance(receipt, RowReceipt):
        did = f"{_changed_rows(receipt)} of {receipt.table}"
        return f"Would have {did}. Nothing was changed." if receipt.dry_run else f"✓ {did}"
    if receipt.dry_run:
        return f"Would {would(receipt.action)} {receipt.table}. Nothing was changed."
    match receipt:
        case IngestReceipt():
            return f"✓ Ingested {receipt.rows_ingested:,} rows\nDestination: {receipt.destination}"
        case CompactionReceipt():
            return f"✓ Compacted {receipt.files_before:,} files ({receipt.rows:,} rows)\nOutput: {receipt.output}"
        case RewriteReceipt():
            done = f"{receipt.files_compacted:,} → {receipt.files_written:,} files"
            return f"✓ {receipt.table} compacted: {done}"
        case RefreshReceipt():
            return f"✓ {receipt.table} refreshed: {receipt.refresh}"
        case ExpireReceipt() | ManifestReceipt() | DeletesReceipt() | StatisticsReceipt():
            return tidying_headline(receipt)
    return f"✓ {receipt.table} {_DONE.get(receipt.action, receipt.action)}"


def _changed_rows(receipt: RowReceipt) -> str:
    """Such as `inserted 1 and updated 2 rows`."""
    counts = {
        "inserted": receipt.rows_inserted,
        "updated": receipt.rows_updated,
        "deleted": receipt.rows_deleted,
    }
    words = [f"{word} {count:,}" for word, count in counts.items() if count] or ["changed 0"]
    return f"{' and '.join(words)} rows"


def _own_lines(receipt: Receipt) -> list[tuple[str, object]]:
    """What a receipt of this kind has beside what all of them have."""
    match receipt:
        case RowReceipt():
            rows = ("rows", f"{receipt.rows_before:,} → {receipt.rows_after:,}")
            return [rows, *([("backup", f"tag {receipt.backup}")] if receipt.backup else [])]
        case IngestReceipt():
            return _ingest_lines(receipt)
        case CompactionReceipt():
            return _compaction_lines(receipt)
        case RewriteReceipt():
            return rewrite_lines(receipt)
        case SplitReceipt():
            return split_lines(receipt)
        case ExpireReceipt() | OrphanReceipt() | ManifestReceipt() | DeletesReceipt() | StatisticsReceipt():
            return tidying_lines(receipt)
        case RefreshReceipt(dry_run=True):
            return [("reason", receipt.reason.detail if receipt.reason else "")]
        case RefreshReceipt():
            return [
                ("reason", receipt.reason.detail if receipt.reason else ""),
                ("rows", f"+{receipt.rows_inserted:,} −{receipt.rows_deleted:,}"),
                ("time", f"{receipt.duration_ms / 1000:.1f} s"),
            ]
    return []


def _emit_outcome(outcome: BatchOutcome) -> None:
    """A batch as the receipt of its ingest; a failure is talk, as every error is."""
    if outcome.receipt is not None:
        _emit_receipt(outcome.receipt)
    elif outcome.state == "failed" and outcome.reason is not None:
        say(f"✗ {outcome.reason.detail}")
        if outcome.hint:
            say(f"  {outcome.hint}")
    elif outcome.reason is not None:
        _print(f"= nothing to load yet: {outcome.reason.detail}")
    else:
        files = f"{len(outcome.files):,} files, {format_bytes(outcome.bytes)}"
        _print(f"Would ingest {date_ranges(outcome.dates)} ({files}) into {outcome.table}. Nothing was changed.")


def _ingest_lines(receipt: IngestReceipt) -> list[tuple[str, object]]:
    by_action = {
        action: [row for row in receipt.dates if row.action == action] for action in ("load", "replace", "skip")
    }
    lines: list[tuple[str, object]] = [
        (f"{action} {len(rows):,}", _date_range(rows)) for action, rows in by_action.items() if rows
    ]
    if receipt.rows_rejected:
        rules = ", ".join(f"{rule}: {count:,}" for rule, count in receipt.rejected_by_rule.items())
        lines.append(("rejected", f"{receipt.rows_rejected:,} rows ({rules})"))
        lines.append(("see them", neve("sql", f"SELECT * FROM {receipt.table}__rejected")))  # noqa: S608 - only shown
    if receipt.columns_not_loaded:
        lines.append(("columns not loaded", receipt.columns_not_loaded))
    return lines + [(f"validation ({row.severity})", f"{row.validation}: {row.detail}") for row in receipt.findings]


def _compaction_lines(receipt: CompactionReceipt) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [("period", receipt.period)]
    if receipt.dry_run:
        lines.append(("files", f"{receipt.files_before:,} ({format_bytes(receipt.bytes_before)})"))
        lines.append(("rows", f"{receipt.rows:,}"))
    else:
        lines.append(("files", f"{receipt.files_before:,} → {receipt.files_after:,}"))
        lines.append(("bytes", f"{format_bytes(receipt.bytes_before)} → {format_bytes(receipt.bytes_after)}"))
        lines.append(("source files", _SOURCES[receipt.sources]))
    if receipt.missing_dates:
        lines.append(("missing dates", date_ranges(receipt.missing_dates)))
    return lines


def _date_range(rows: Sequence[DateRow]) -> str:
    first, last = rows[0].date, rows[-1].date
    files, size = sum(row.files for row in rows), format_bytes(sum(row.bytes for row in rows))
    return f"{first if first == last else f'{first} → {last}'} ({files:,} files, {size})"


def _emit_details(details: TableDetails) -> None:
    apart = ("columns", "properties", "references")
    _print(block([(key, value) for key, value in details if key not in apart]))
    _print("")
    _print(table(("column", "type", "required", "comment"), [[*dict(c).values()] for c in details.columns]))
    if len(details.references) > 1:
        _print("")
        _print(
            table(("reference", "kind", "snapshot", "at", "purpose"), [[*dict(r).values()] for r in details.references])
        )
    if details.properties:
        _print("")
        _print(table(("property", "value"), [[key, value] for key, value in details.properties.items()]))


def _emit_step(step: Step, depth: int) -> None:
    """A derivation as a tree, the table on top."""
    _print(f"{'  ' * depth}{step.operator}: {step.rule} ({step.detail})")
    for below in step.inputs:
        _emit_step(below, depth + 1)


def _emit_status(status: TableStatus) -> None:
    apart = ("ingestion", "compaction", "table")
    _print(f"Table: {status.table}\n")
    _print(block([(key, value) for key, value in status if key not in apart]))
    ingestion, compaction = status.ingestion, status.compaction
    _print(f"\nIngestion:\n  Total ingestions: {ingestion.total_ingestions:,}")
    if ingestion.total_ingestions:
        _print(f"  Date range: {ingestion.first_date} → {ingestion.last_date}")
        _print(f"  Total rows: {ingestion.total_rows:,}")
        if ingestion.missing_dates:
            _print(f"  Missing dates: {date_ranges(ingestion.missing_dates)}")
        if ingestion.rows_rejected:
            _print(f"  Rejected rows: {ingestion.rows_rejected:,}")
    _print(f"\nCompaction:\n  Total compactions: {compaction.total_compactions:,}")
    if compaction.total_compactions:
        _print(f"  Compacted range: {compaction.first_date} → {compaction.last_date}")
    for item in compaction.next:
        when = "due now" if item.due else f"due {item.due_at:%Y-%m-%d %H:%M} UTC" if item.due_at else "by hand"
        _print(f"  {item.period}: {when} ({item.reason.detail})")


def _print(text: str, *, file: TextIO | None = None) -> None:
    print(text, file=file or sys.stdout)
