"""Which run reads and writes what, told as OpenLineage events to whoever the settings name. Off without a receiver.

Nothing here may fail or hold up the work: what cannot be found out is left out of the event, and nobody waits for
the sending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from neve.catalog.files import local_path
from neve.errors import NeveError
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.runs import Run, RunState
from neve.observe.openlineage import Dataset, EventType, Work, as_event
from neve.services.context import Context

READING = frozenset({"compact", "rewrite_deletes", "delete_rows", "update_rows", "upsert_rows", "dedupe_rows"})
"""Runs that read the table which they write."""
KINDS = READING | {"refresh", "ingest", "expire", "manifests", "stats"}
"""Runs that are told: those that change or look after rows and files, by hand or by the worker."""

Datasets = tuple[list[Dataset], list[Dataset]]
"""What is read, and what is written."""

_TYPES: Mapping[RunState, EventType] = {
    "running": "START",
    "succeeded": "COMPLETE",
    "cancelled": "ABORT",
    "skipped": "ABORT",
}
_PARENT: ContextVar[tuple[str, str] | None] = ContextVar("neve_parent", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What a run reads beside its own table: tables at a snapshot, files, and the query over them."""

    tables: Mapping[TableName, int | None] = field(default_factory=dict)
    files: Sequence[str] = ()
    query: str | None = None


def tell_run(context: Context, run: Run, reads: Reads | None = None) -> None:
    """A run that begins, or as it ended."""
    if context.events is None or run.kind not in KINDS or run.table_name is None:
        return
    table = TableName.parse(run.table_name)
    work = Work(
        run_id=run.run_id,
        namespace=_namespace(context),
        name=f"{run.kind}.{table}",
        kind=run.kind,
        query=reads.query if reads else None,
        parent=_PARENT.get(),
    )

    def found() -> Datasets:
        return _inputs(context, run, table, reads), [_table(context, table, run.snapshot_after, written=True)]

    _tell(context, _TYPES.get(run.state, "FAIL"), work, found, error=run.error_message)


@contextmanager
def job_of_worker(
    context: Context, job_id: str, action: str, tables: Sequence[TableName]
) -> Iterator[Callable[[str, str | None], None]]:
    """A job of the worker; runs that begin within are parts of it. What it gives is to hear the end of each table."""
    name = f"worker.{action.replace(' ', '.')}.{tables[0]}"
    work = Work(run_id=job_id, namespace=_namespace(context), name=name, kind="worker")
    ends: list[tuple[EventType, str | None]] = []

    def ended(state: str, error: str | None) -> None:
        if state != "succeeded":
            ends.append(("FAIL" if state == "failed" else "ABORT", error))

    def found() -> Datasets:
        return [], [_table(context, table) for table in tables]

    token = _PARENT.set((job_id, name))
    try:
        _tell(context, "START", work, found)
        yield ended
    finally:
        _PARENT.reset(token)
        kind, error = max(ends, key=lambda end: end[0] == "FAIL", default=("COMPLETE", None))
        _tell(context, kind, work, found, error=error)


def _tell(
    context: Context,
    kind: EventType,
    work: Work,
    found: Callable[[], Datasets],
    *,
    error: str | None = None,
) -> None:
    if context.events is None:
        return
    try:
        inputs, outputs = found()
        context.events.send(as_event(kind, context.clock(), work, inputs=inputs, outputs=outputs, error=error))
    except Exception as exc:  # noqa: BLE001 - nothing about an event may stop the work
        context.tell(f"an event of {work.name} could not be made: {type(exc).__name__}")


def _inputs(context: Context, run: Run, table: TableName, reads: Reads | None) -> list[Dataset]:
    own = {table: run.snapshot_before} if run.kind in READING else {}
    tables = {**own, **(reads.tables if reads else {})}
    files = [Dataset(namespace=space, name=name) for space, name in map(_place, reads.files if reads else ())]
    return [*(_table(context, name, snapshot) for name, snapshot in tables.items()), *files]


def _table(context: Context, name: TableName, snapshot: int | None = None, *, written: bool = False) -> Dataset:
    plain = Dataset(namespace=_namespace(context), name=str(name), version=None if snapshot is None else str(snapshot))
    try:
        facts = context.catalog.facts(name)
    except NeveError:
        return _folder(context, name, plain)
    columns = [(column.name, str(column.type)) for column in facts.columns]
    found = replace(plain, columns=columns, location=_place(facts.location))
    return _with_figures(found, facts, snapshot) if written and snapshot is not None else found


def _with_figures(found: Dataset, facts: TableFacts, snapshot: int) -> Dataset:
    made = facts.snapshot(snapshot)
    summary = made.summary if made is not None else {}
    rows, size, files = (
        int(summary[key]) if summary.get(key, "").isdecimal() else None
        for key in ("added-records", "added-files-size", "added-data-files")
    )
    return replace(found, rows=rows, bytes=size, files=files)


def _folder(context: Context, name: TableName, plain: Dataset) -> Dataset:
    """A directory table, or one that cannot be read now."""
    from neve.services.directory_tables.tables import contents, find

    try:
        table = find(context, name)
        if table is None:
            return plain
        columns = [(column.name, column.type) for column in contents(context, table).ledger.columns]
    except NeveError:
        return plain
    return replace(plain, columns=columns, location=_place(table.location))


def _namespace(context: Context) -> str:
    return context.loaded.settings.openlineage.namespace


def _place(location: str) -> tuple[str, str]:
    """Where a file or folder lies, as OpenLineage names places.

    >>> _place("s3a://bucket/a/b"), _place("file:///a/b")
    (('s3://bucket', 'a/b'), ('file', '/a/b'))
    """
    if (path := local_path(location)) is not None:
        return "file", str(path)
    parts = urlsplit(location)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/")
