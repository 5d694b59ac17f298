"""`doctor`: is everything that a lake needs there and in order, and how to mend what is not."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

from neve.catalog.files import local_path
from neve.config import load_settings
from neve.errors import NeveError
from neve.model.commands import neve
from neve.model.results import CheckRow
from neve.model.units import format_bytes
from neve.plan.tables import DELETING
from neve.services import repair as mend
from neve.services.context import Context
from neve.services.directory_tables.tables import damaged_directories

_LOW_DISK = 1024**3


def examine(context: Context, *, repair: bool = False, spark: bool = True) -> list[CheckRow]:
    """Every check, in the order in which one needs the other. With `repair`, what can be mended is.

    Without `spark`, only the lake is looked at: no Java, no jars, no session.
    """
    checks: list[Callable[[], Iterator[CheckRow]]] = [
        lambda: _catalog(context),
        lambda: _warehouse(context),
        lambda: _disk(context),
        lambda: _state(context, repair=repair),
        lambda: _runs(context, repair=repair),
        lambda: _registry(context, repair=repair),
        lambda: _strays(context),
        lambda: _holds(context, repair=repair),
    ]
    machine = examine_machine(env=context.env, repair=repair, tell=context.tell, context=context) if spark else []
    return [*machine, *(row for check in checks for row in _guarded(check))]


def examine_machine(
    *,
    env: Mapping[str, str],
    repair: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    context: Context | None = None,
) -> list[CheckRow]:
    """The checks that need no lake: Java, jars, the class archive, and whether Spark starts."""
    if context is not None:
        return list(_engine(context, repair=repair))
    with tempfile.TemporaryDirectory(prefix="neve-doctor-") as folder:
        loaded = load_settings(Path(folder), flags={}, env={})
        scratch = Context(loaded, env=env, tell=tell)
        try:
            return list(_engine(scratch, repair=repair))
        finally:
            scratch.close()


def _engine(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    from neve.engine.java import find_java

    try:
        java = find_java(context.env)
    except NeveError as exc:
        yield _failed("java", exc)
        return
    yield CheckRow(check="java", state="ok", detail=f"Java {java.version} in {java.home}")
    jars = yield from _jars(context, repair=repair)
    if not jars:
        return
    yield from _archive(context, repair=repair)
    yield from _guarded(lambda: _spark(context), name="spark")


def _jars(context: Context, *, repair: bool) -> Generator[CheckRow, None, bool]:
    try:
        missing = context.session.jars().missing
        if missing and repair:
            context.session.fetch_jars()
            yield CheckRow(check="jars", state="repaired", detail=f"fetched {', '.join(missing)}")
            return True
    except NeveError as exc:
        yield _failed("jars", exc)
        return False
    if missing:
        yield CheckRow(
            check="jars", state="failed", detail=f"missing: {', '.join(missing)}", fix="neve doctor --repair"
        )
        return False
    yield CheckRow(check="jars", state="ok", detail=f"{len(context.session.jars().paths)} jars")
    return True


def _archive(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    path = context.session.archive()
    if path.is_file():
        yield CheckRow(check="class archive", state="ok", detail=format_bytes(path.stat().st_size))
    elif repair:
        from neve.services.warmup import build_class_archive

        yield from _guarded(lambda: build_class_archive(context), name="class archive")
    else:
        yield CheckRow(
            check="class archive",
            state="warning",
            detail="none: Spark starts slower than it could",
            fix="neve doctor --repair",
        )


def _spark(context: Context) -> Iterator[CheckRow]:
    version = context.session.spark.version
    yield CheckRow(
        check="spark", state="ok", detail=f"Spark {version} starts on {context.loaded.settings.spark.master}"
    )


def _catalog(context: Context) -> Iterator[CheckRow]:
    names = context.catalog.tables()
    broken = 0
    for name in names:
        try:
            facts = context.catalog.facts(name)
            if DELETING in facts.properties:
                yield CheckRow(
                    check="catalog",
                    state="warning",
                    detail=f"{name} is being deleted, or was when the process that did it died",
                    fix=neve("table", "delete", name.short, "--force"),
                )
        except NeveError as exc:
            broken += 1
            yield CheckRow(
                check="catalog",
                state="failed",
                detail=f"{name}: {exc.message}",
                fix=f"restore the file, or: {neve('table', 'delete', name.short, '--force')}",
            )
    if not broken:
        kind = context.loaded.settings.catalog.type
        yield CheckRow(check="catalog", state="ok", detail=f"{kind}, {len(names)} tables, all readable")


def _warehouse(context: Context) -> Iterator[CheckRow]:
    probe = f"{context.loaded.warehouse_location}/.neve-probe-{uuid.uuid4().hex}"
    files = context.catalog.files
    files.write_new(probe, b"neve")
    same = files.read(probe) == b"neve"
    files.remove(probe)
    gone = not files.exists(probe)
    place = context.loaded.warehouse_location
    if same and gone:
        yield CheckRow(check="warehouse", state="ok", detail=f"put, get and delete work in {place}")
    else:
        yield CheckRow(
            check="warehouse", state="failed", detail=f"a file written to {place} did not come back as it was"
        )


def _disk(context: Context) -> Iterator[CheckRow]:
    place = local_path(context.loaded.warehouse_location)
    if place is None:
        return
    free = shutil.disk_usage(place).free
    yield CheckRow(
        check="disk",
        state="ok" if free > _LOW_DISK else "warning",
        detail=f"{format_bytes(free)} free",
        fix=None if free > _LOW_DISK else "free some space: commits fail on a full disk",
    )


def _state(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    from neve.services.trash import empty_expired_trash

    yield CheckRow(check="state", state="ok", detail=f"schema version {context.store.schema_version()}")
    expired = context.store.trash.expired(context.clock())
    if expired and repair:
        yield CheckRow(check="trash", state="repaired", detail=f"emptied of {', '.join(empty_expired_trash(context))}")
    elif expired:
        yield CheckRow(
            check="trash",
            state="warning",
            detail=f"{len(expired)} tables are past their time",
            fix="neve doctor --repair",
        )


def _runs(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    dead = mend.dead_runs(context)
    if dead and repair:
        yield CheckRow(check="runs", state="repaired", detail="; ".join(mend.settle(context, run) for run in dead))
    elif dead:
        names = ", ".join(f"{run.kind} {run.table_name or ''} ({run.run_id})" for run in dead)
        yield CheckRow(check="runs", state="warning", detail=f"died on the way: {names}", fix="neve doctor --repair")
    else:
        yield CheckRow(check="runs", state="ok", detail="none died on the way")


def _registry(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    damaged = damaged_directories(context)
    for name, exc in damaged.items():
        yield CheckRow(check="registry", state="failed", detail=exc.message, fix=neve("table", "delete", name.short))
    gaps = mend.registry_gaps(context)
    if gaps and repair:
        yield CheckRow(check="registry", state="repaired", detail=", ".join(mend.reconcile_registry(context)))
    elif gaps:
        yield CheckRow(
            check="registry",
            state="warning",
            detail=f"not in line with the catalog: {', '.join(gaps)}",
            fix="neve doctor --repair",
        )
    elif not damaged:
        yield CheckRow(check="registry", state="ok", detail="in line with the catalog")


def _strays(context: Context) -> Iterator[CheckRow]:
    for folder in mend.stray_folders(context):
        yield CheckRow(
            check="warehouse",
            state="warning",
            detail=f"{folder} belongs to no table",
            fix="neve table register NAME METADATA_LOCATION, or remove the folder",
        )


def _holds(context: Context, *, repair: bool) -> Iterator[CheckRow]:
    from neve.services.dynamic.holds import left_over, remove_left_over

    found = left_over(context)
    if found and repair:
        yield CheckRow(check="tags", state="repaired", detail="; ".join(remove_left_over(context)))
    elif found:
        names = ", ".join(map(str, found))
        detail = f"tags of dynamic tables that are gone keep snapshots of {names}"
        yield CheckRow(check="tags", state="warning", detail=detail, fix="neve doctor --repair")


def _guarded(check: Callable[[], Iterator[CheckRow]], *, name: str = "lake") -> Iterator[CheckRow]:
    """A check that breaks is a finding, not the end of the examination."""
    try:
        yield from check()
    except NeveError as exc:
        yield _failed(name, exc)


def _failed(check: str, exc: NeveError) -> CheckRow:
    return CheckRow(check=check, state="failed", detail=exc.message, fix=exc.hint)
