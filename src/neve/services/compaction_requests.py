"""What a compaction of a period is asked for, what it refuses and what it logs: the same for every kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neve.errors import CheckFailed, Refused
from neve.model.compaction import Action
from neve.model.names import TableName
from neve.model.periods import Period, parse_period
from neve.model.results import Reason
from neve.model.runs import CompactionRecord
from neve.services.context import Context
from neve.services.descriptions import check_length


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """What was asked for. `delete_source` is None where the table's file decides."""

    table: TableName
    file: Path | None
    period: Period
    delete_source: bool | None = None
    ignore_delay: bool = False
    dry_run: bool = False


def ask(
    table: TableName,
    file: Path | None,
    *,
    period: str,
    delete_source: bool | None = None,
    ignore_delay: bool = False,
    dry_run: bool = False,
) -> CompactionRequest:
    asked = parse_period(period)
    check_length(asked)
    return CompactionRequest(
        table=table,
        file=file,
        period=asked,
        delete_source=delete_source,
        ignore_delay=ignore_delay,
        dry_run=dry_run,
    )


def refuse(action: Action, reason: Reason) -> None:
    """Raises what a plan that says no means."""
    if action != "refuse":
        return
    if reason.code == "missing_days":
        raise CheckFailed(reason.detail, hint="ingest the missing days, or set compaction.strategy.expected: any")
    hint = "wait, or add --ignore-delay" if reason.code == "too_early" else "set compaction.enabled: true"
    raise Refused(reason.detail, hint=hint)


def log_compaction(
    context: Context, request: CompactionRequest, *, sources: Sequence[str], output: str, rows: int, run_id: str
) -> None:
    context.store.compactions.put(
        CompactionRecord(
            table_name=request.table.short,
            period=str(request.period),
            period_start=request.period.first,
            period_end=request.period.last,
            source_files=tuple(sources),
            output_file=output,
            rows_processed=rows,
            compacted_at=context.clock(),
            run_id=run_id,
        )
    )
