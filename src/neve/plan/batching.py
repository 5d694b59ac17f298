"""When submitted files are loaded, and which of them together: pure.

The unit is a date, because loading a date replaces its rows. A date is therefore loaded from all its files, those that
were loaded before too, or the rows of its first file would go when its second comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime

from neve.model.batching import Batch, BatchLimits, BatchPlan, DateFiles, SubmittedFile
from neve.model.results import Reason
from neve.model.units import format_bytes, format_duration


def plan_batches(
    pending: Sequence[SubmittedFile],
    done: Sequence[SubmittedFile],
    limits: BatchLimits,
    *,
    now: datetime,
    force: bool = False,
) -> BatchPlan:
    """Every date that has a pending file, oldest first, or the reason to wait; `force` does not wait.

    A batch closes before it would hold more than a maximum; a date that alone holds more is a batch of its own.
    """
    if not pending:
        return BatchPlan(reason=Reason(code="nothing_submitted", detail="no submitted file waits to be loaded"))
    if not force and (reason := _reason_to_wait(pending, limits, now)):
        return BatchPlan(reason=reason)
    return BatchPlan(batches=tuple(_fill(_by_date(pending, done), limits)))


def halve(batch: Batch) -> tuple[Batch, Batch]:
    """A batch of several dates as two, so that what is wrong with one date does not keep the others."""
    middle = len(batch.dates) // 2
    return Batch(dates=batch.dates[:middle]), Batch(dates=batch.dates[middle:])


def _reason_to_wait(pending: Sequence[SubmittedFile], limits: BatchLimits, now: datetime) -> Reason | None:
    age = now - min(file.submitted_at for file in pending)
    if age >= limits.max_age:
        return None
    size = sum(file.bytes for file in pending)
    until = f"the oldest file is loaded at the latest when it has waited {format_duration(limits.max_age)}"
    if len(pending) < limits.min_files:
        return Reason(code="min_files", detail=f"{len(pending):,} of at least {limits.min_files:,} files; {until}")
    if size < limits.min_size:
        detail = f"{format_bytes(size)} of at least {format_bytes(limits.min_size)}; {until}"
        return Reason(code="min_size", detail=detail)
    return None


def _by_date(pending: Iterable[SubmittedFile], done: Iterable[SubmittedFile]) -> list[DateFiles]:
    files: dict[date, list[SubmittedFile]] = {}
    for file in pending:
        files.setdefault(file.date, []).append(file)
    for file in done:
        if file.date in files:
            files[file.date].append(file)
    return [
        DateFiles(date=day, files=tuple(sorted(members, key=lambda file: file.path)))
        for day, members in sorted(files.items())
    ]


def _fill(dates: Sequence[DateFiles], limits: BatchLimits) -> list[Batch]:
    batches: list[Batch] = []
    for day in dates:
        joined = Batch(dates=(*batches[-1].dates, day)) if batches else None
        if joined and len(joined.files) <= limits.max_files and joined.bytes <= limits.max_size:
            batches[-1] = joined
        else:
            batches.append(Batch(dates=(day,)))
    return batches
