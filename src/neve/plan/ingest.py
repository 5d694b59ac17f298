"""What to do with each delivery: pure. Same date and same content is nothing to do; new content replaces that date."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from neve.errors import InvalidInput, InvalidSchema
from neve.model.facts import Snapshot, TableFacts
from neve.model.ingest import SUMMARY, DatePlan, Delivery, Held, IngestPlan, SourceFile
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.types import Field
from neve.model.units import Limit
from neve.plan.tables import holds_all_of

_SCANS = 24
_TASK_BYTES = 128 * 1024 * 1024
_OPENING_BYTES = 4 * 1024 * 1024
"""What opening a file counts as, as in Spark's own packing of small files into tasks."""


def make_delivery(day: date, files: Sequence[SourceFile], *, cleaning: str) -> Delivery:
    """Files of one date as a delivery; the hash does not depend on where they lie or how they are ordered."""
    content = json.dumps({"files": sorted(file.digest for file in files), "cleaning": cleaning})
    return Delivery(date=day, files=tuple(files), content_hash=hashlib.sha256(content.encode()).hexdigest())


def by_month(files: Iterable[SourceFile], dates: Mapping[SourceFile, date]) -> list[list[SourceFile]]:
    """Files of each month together, in order; of so many months that Spark would plan for long, several together."""
    months: dict[tuple[int, int], list[SourceFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: dates[file]):
        months[dates[file].year, dates[file].month].append(file)
    found = list(months.values())
    step = -(-len(found) // _SCANS)
    return [[file for part in found[at : at + step] for file in part] for at in range(0, len(found), step)]


def task_count(files: Collection[SourceFile], cores: int) -> int:
    """How many tasks Spark would read small files by: as many as there are cores, or more where there is more to read.

    >>> task_count([], 2), task_count([SourceFile(path="a", format="csv", bytes=1, digest="")] * 300, 2)
    (1, 10)
    """
    whole = sum(file.bytes + _OPENING_BYTES for file in files)
    return max(1, min(len(files), max(cores, -(-whole // _TASK_BYTES))))


def telling_snapshots(facts: TableFacts) -> list[Snapshot]:
    """The way to the current snapshot that tells what the table holds, newest first.

    It ends with the snapshot that last emptied the table, or where older ones have expired.
    """
    found: list[Snapshot] = []
    for snapshot in facts.ancestors():
        found.append(snapshot)
        if empties(snapshot):
            break
    return found


def empties(snapshot: Snapshot) -> bool:
    """Whether nothing is left of what was there before."""
    return snapshot.operation in ("delete", "overwrite") and snapshot.rows == 0


def held_in_snapshots(facts: TableFacts) -> list[Held]:
    """What the table's own history says of each date: the newest snapshot on the way to the current one decides.

    A snapshot that is no ancestor (rolled back) does not count, nor one before the table was emptied; one that expired
    is the ledger's to remember.
    """
    found: dict[date, Held] = {}
    for snapshot in telling_snapshots(facts):
        text = snapshot.summary.get(SUMMARY)
        for day, content_hash in (json.loads(text) if text else {}).items():
            when = date.fromisoformat(day)
            found.setdefault(
                when, Held(date=when, content_hash=content_hash, run_id=snapshot.summary.get("neve.run-id"))
            )
    return list(found.values())


def plan_ingest(
    deliveries: Iterable[Delivery], held: Mapping[date, Held], *, base_snapshot: int | None, replace: bool
) -> IngestPlan:
    """One plan for all dates; `replace` loads even what the table already holds."""
    return IngestPlan(
        base_snapshot=base_snapshot,
        dates=tuple(
            _plan_date(delivery, held.get(delivery.date), replace=replace)
            for delivery in sorted(deliveries, key=lambda item: item.date)
        ),
    )


def _plan_date(delivery: Delivery, held: Held | None, *, replace: bool) -> DatePlan:
    if held is None:
        return _decide(delivery, "load", "new_date", "no rows for this date yet")
    if held.content_hash == delivery.content_hash and not replace:
        run = f" (run {held.run_id})" if held.run_id else ""
        return _decide(delivery, "skip", "same_content", f"{delivery.date} already holds this content{run}")
    if held.content_hash == delivery.content_hash:
        return _decide(delivery, "replace", "asked_for", "loaded again because --replace was given")
    if held.content_hash is None:
        return _decide(delivery, "replace", "unknown_content", f"what the table holds of {delivery.date} is not known")
    return _decide(delivery, "replace", "new_content", "the content differs from what was loaded before")


def _decide(delivery: Delivery, action: str, code: str, detail: str) -> DatePlan:
    return DatePlan(delivery=delivery, action=action, reason=Reason(code=code, detail=detail))  # type: ignore[arg-type]


def too_many_rejected(rejected: int, total: int, limit: Limit | None) -> str | None:
    """Why a run must fail for its rejected rows; None when it need not."""
    if limit is None or limit.allows(failing=rejected, rows=total):
        return None
    return f"{rejected:,} of {total:,} rows were rejected; at most {limit} may be"


def check_fits(table: TableName, column: Field, held: Field) -> None:
    """Refuses to load a column into one of another type, unless that one holds every value of it."""
    if holds_all_of(held.type, column.type):
        return
    raise InvalidSchema(
        f"{column.name} is cleaned to {column.type}, but {table} has it as {held.type}",
        hint=f"give it the type {held.type} in the dataset config",
    )


def check_dates(files: Sequence[SourceFile], dates: Mapping[str, date | None]) -> None:
    """Every file must have a date before anything is read."""
    nameless = [file.path for file in files if dates.get(file.path) is None]
    if nameless:
        raise InvalidInput(
            f"no date for {nameless[0]}" + (f" and {len(nameless) - 1} more" if len(nameless) > 1 else ""),
            hint='give --date YYYY-MM-DD, or --date-from-name "sales_{date}.csv"',
        )
