"""Files below a table's folder that nothing names: listed, and removed when that is asked for. No JVM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from neve.catalog.files import canonical, canonical_folder
from neve.catalog.reach import Reach
from neve.errors import CommitConflict, NeveError, NotFound, Refused, StorageError
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.retention import OrphanFile, OrphanKind, OrphanReceipt
from neve.model.runs import OrphanScan
from neve.model.units import format_duration
from neve.plan.expiry import refuse_without_gc
from neve.plan.orphans import Named, Orphans, check_age, cut_off, find_orphans
from neve.plan.tables import owns_location
from neve.services.context import Context
from neve.services.deletion import look_again, refuse_half_deleted
from neve.services.repair import settle_dead_runs, stray_folders
from neve.services.runs import Progress, recorded
from neve.services.shared import Neighbour, others_around

_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRequest:
    """What was asked for. Without `delete` nothing is removed."""

    older_than: timedelta
    delete: bool = False


def ask(context: Context, *, older_than: timedelta | None = None, delete: bool = False) -> OrphanRequest:
    age = context.loaded.settings.retention.orphan_age if older_than is None else older_than
    return OrphanRequest(older_than=check_age(age), delete=delete)


def table_orphans(context: Context, name: TableName, request: OrphanRequest) -> OrphanReceipt:
    """Looks for files that nothing names; removes them if that is asked for.

    Raises:
        Refused: the table's files may not be its own.
    """
    began = time.monotonic()
    settle_dead_runs(context)
    facts = context.catalog.facts(name)
    refuse_half_deleted(facts)
    refuse_without_gc(facts, verb="look for orphans of")
    if request.delete:
        _refuse_foreign(context, facts)
    facts, found = _scan(context, facts, request)
    if not request.delete or not found.found:
        _remember(context, facts, request, found)
        return _receipt(facts, request, found, began=began)
    what: dict[str, JsonValue] = {"files": len(found.found), "bytes": found.bytes}
    with recorded(context, "orphans", name, plan=what, snapshot_before=facts.current_snapshot_id) as run:
        left = context.catalog.files.remove_all([file.path for file in found.found])
        run.snapshot_after = facts.current_snapshot_id
        run.details = {"files_removed": len(found.found) - len(left), "bytes_found": found.bytes}
        _remember(context, facts, request, found, run=run, left=left)
        return _receipt(facts, request, found, began=began, run=run, left=left)


def all_orphans(context: Context, request: OrphanRequest) -> list[OrphanReceipt]:
    """Every table, and the folders of the warehouse that belong to none, which are only listed.

    A table that cannot be looked through says why, and does not keep the others from it.
    """
    answers = [_told(context, name, request) for name in context.catalog.tables()]
    return answers + [_stray(context, folder, request) for folder in stray_folders(context)]


def _told(context: Context, name: TableName, request: OrphanRequest) -> OrphanReceipt:
    try:
        return table_orphans(context, name, request)
    except (NotFound, Refused, StorageError) as exc:
        return _empty(str(name), "", request, Reason(code=exc.code, detail=exc.message))


def _stray(context: Context, folder: str, request: OrphanRequest) -> OrphanReceipt:
    """What lies in a folder that belongs to no table."""
    nothing = Orphans(found=(), young=0, unknown_age=0, others=0)
    before = cut_off(context.clock(), request.older_than, _began(context, None))
    try:
        found = find_orphans(context.catalog.files.listing(folder), Named(files=()), before=before)
    except StorageError:
        found = nothing
    answer = _empty("", folder, request, Reason(code="no_table", detail="this folder belongs to no table"))
    return answer.model_copy(
        update={
            "orphans": _rows(folder, found),
            "files": len(found.found),
            "bytes": found.bytes,
            "young": found.young,
            "unknown_age": found.unknown_age,
        }
    )


def _refuse_foreign(context: Context, facts: TableFacts) -> None:
    if not owns_location(facts.location, context.loaded.warehouse_location):
        raise Refused(
            f"{facts.name} lies in {facts.location}, which this lake did not make: other things may lie there too",
            hint="look at what is listed without --delete, and remove it by hand",
        )


def _scan(context: Context, facts: TableFacts, request: OrphanRequest) -> tuple[TableFacts, Orphans]:
    """Lists first and reads the metadata after, so that what is committed in between is named.

    What was named before and still is must be listed: where paths cannot be compared, all would look like orphans.
    """
    reach = context.catalog.reach()
    for _ in range(_TRIES):
        earlier = _own_names(context, facts, reach)
        before = cut_off(context.clock(), request.older_than, _began(context, facts))
        listed = list(context.catalog.files.listing(facts.location))
        facts = look_again(context, facts)
        named = _named(context, facts, reach, earlier)
        found = find_orphans(listed, named, before=before)
        now = look_again(context, facts)
        if now.metadata_location == facts.metadata_location or not found.found:
            return facts, found
        facts = now
    raise CommitConflict(f"{facts.name} is being changed all the time", hint="try again later")


def _own_names(context: Context, facts: TableFacts, reach: Reach) -> set[str]:
    return {canonical(path) for path in context.catalog.named_files(facts.metadata_location, reach)}


def _named(context: Context, facts: TableFacts, reach: Reach, earlier: set[str]) -> Named:
    """What must stay: all that this table and its neighbours name, and the folders of those within."""
    own = canonical_folder(facts.location)
    files = _own_names(context, facts, reach)
    log = {canonical(path) for path in context.catalog.earlier_metadata(facts.metadata_location)}
    sure = {path for path in (files & earlier) - log if path.startswith(f"{own}/")}
    folders = set()
    for other in others_around(context, facts):
        files |= {canonical(path) for path in _names_of(context, other, reach)}
        within = (canonical_folder(folder) for folder in other.folders)
        folders |= {folder for folder in within if folder.startswith(f"{own}/")}
    return Named(files=files, folders=folders, must_be_listed=sure)


def _names_of(context: Context, other: Neighbour, reach: Reach) -> list[str]:
    if other.metadata_location is None:
        return []
    try:
        return context.catalog.named_files(other.metadata_location, reach)
    except NeveError as exc:
        raise Refused(
            f"{other.label} has files in the same folder, and what they are cannot be read: {exc.message}",
            hint="mend that table first: neve doctor",
        ) from exc


def _began(context: Context, facts: TableFacts | None) -> list[datetime]:
    """When work began that has not ended and may have written files: of this table, or of anything."""
    runs = context.store.runs.unfinished()
    return [run.started_at for run in runs if facts is None or run.table_name in (None, facts.name.short)]


def _remember(
    context: Context,
    facts: TableFacts,
    request: OrphanRequest,
    found: Orphans,
    *,
    run: Progress | None = None,
    left: Sequence[str] | None = None,
) -> None:
    there = found.found if left is None else [file for file in found.found if file.path in set(left)]
    context.store.scans.put(
        OrphanScan(
            table_uuid=facts.uuid,
            table_name=facts.name.short,
            scanned_at=context.clock(),
            older_than_seconds=round(request.older_than.total_seconds()),
            files=len(there),
            bytes=sum(file.bytes for file in there),
            run_id=run.run_id if run else None,
        )
    )


def _receipt(
    facts: TableFacts,
    request: OrphanRequest,
    found: Orphans,
    *,
    began: float,
    run: Progress | None = None,
    left: Sequence[str] = (),
) -> OrphanReceipt:
    elsewhere = _elsewhere(facts)
    answer = _empty(str(facts.name), facts.location, request, None if found.found else _nothing(request, elsewhere))
    return answer.model_copy(
        update={
            "run_id": run.run_id if run else None,
            "snapshot_before": facts.current_snapshot_id,
            "snapshot_after": facts.current_snapshot_id,
            "duration_ms": round((time.monotonic() - began) * 1000),
            "dry_run": run is None and bool(found.found),
            "orphans": _rows(facts.location, found),
            "files": len(found.found),
            "bytes": found.bytes,
            "removed": len(found.found) - len(left) if run else 0,
            "young": found.young,
            "unknown_age": found.unknown_age,
            "others": found.others,
            "elsewhere": elsewhere,
            "files_left": list(left),
        }
    )


def _empty(table: str, location: str, request: OrphanRequest, reason: Reason | None) -> OrphanReceipt:
    return OrphanReceipt(
        run_id=None,
        action="orphans",
        table=table,
        reason=reason,
        location=location,
        older_than=format_duration(request.older_than),
        orphans=[],
        files=0,
        bytes=0,
        removed=0,
        young=0,
        unknown_age=0,
        others=0,
        elsewhere=[],
        files_left=[],
    )


def _elsewhere(facts: TableFacts) -> list[str]:
    """Folders that the table's properties send writers to: others may write there too, so nothing there is judged."""
    own = canonical_folder(facts.location)
    given = {value for key in _PATHS if (value := facts.properties.get(key))}
    return sorted(place for place in given if not f"{canonical_folder(place)}/".startswith(f"{own}/"))


def _nothing(request: OrphanRequest, elsewhere: Sequence[str]) -> Reason:
    detail = f"no file that is older than {format_duration(request.older_than)} and that nothing names"
    outside = f"; not looked through: {', '.join(elsewhere)}" if elsewhere else ""
    return Reason(code="nothing_to_do", detail=detail + outside)


def _rows(location: str, found: Orphans) -> list[OrphanFile]:
    metadata = f"{canonical_folder(location)}/metadata/"
    return [
        OrphanFile(path=file.path, kind=_kind(file.path, metadata), bytes=file.bytes, modified_at=file.modified_at)
        for file in found.found
        if file.modified_at is not None
    ]


def _kind(path: str, metadata: str) -> OrphanKind:
    return "metadata" if path.startswith(metadata) else "data"
