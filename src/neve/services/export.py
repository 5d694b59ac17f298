"""Rows of a table as plain files in a folder of their own, which is complete or not there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.catalog.files import Files, local_path
from neve.errors import InvalidInput, NotEmpty, Refused, StorageError, nearest
from neve.model.names import TableName
from neve.model.results import Receipt
from neve.plan.folders import overlap
from neve.plan.moments import find_snapshot
from neve.services.adopt import absolute_location
from neve.services.context import Context
from neve.services.readers import reading
from neve.services.runs import Progress, receipt_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("parquet", "csv")
_SUCCESS = "_SUCCESS"
_OURS = re.compile(r"_SUCCESS\Z|part-[^/]*\.(?:parquet|csv)\Z")


def export_table(
    context: Context,
    name: TableName,
    folder: str,
    *,
    format: str = "parquet",  # noqa: A002 - the word that users say
    where: str | None = None,
    as_of: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
) -> Receipt:
    """Writes a table's rows beside the folder, then moves them into place as one.

    Parquet keeps every type. CSV (RFC 4180, with a header, UTC times) tells NULL, which is nothing, from the empty
    string, which is ""; binary is hexadecimal, and nested columns are refused. `overwrite` replaces an earlier export
    and nothing else. A dry run makes every check, counts, and writes nothing.

    Raises:
        NotEmpty: the folder holds something.
        InvalidQuery: `where` is not one boolean expression.
    """
    if format not in FORMATS:
        raise InvalidInput(f"cannot export as {format!r}", hint=nearest(format, FORMATS) or "parquet or csv")
    facts = context.catalog.facts(name)
    snapshot = None if as_of is None else find_snapshot(facts, as_of)
    target = absolute_location(folder)
    _check_target(context, target, overwrite=overwrite)
    from neve.engine.formats import flat
    from neve.engine.transfer import read_rows

    frame = read_rows(context.session.spark, name, snapshot_id=None if snapshot is None else snapshot.id, where=where)
    if format == "csv":
        flat(frame)
    asked: dict[str, JsonValue] = {"folder": target, "format": format, "where": where}
    if snapshot is not None:
        asked["snapshot"] = snapshot.id
    if dry_run:
        details: dict[str, JsonValue] = {**asked, "rows": frame.count()}
        return Receipt(run_id=None, action="export", table=str(name), dry_run=True, details=details)
    read = {} if snapshot is None else {name: [snapshot.id]}
    with recorded(context, "export", name, plan=asked) as run, reading(context, read, purpose="export"):
        run.details = {**asked, **_write(context, frame, target, run, format=format, overwrite=overwrite)}
    return receipt_of(run)


def settle_export(context: Context, run_id: str, plan: Mapping[str, object]) -> bool:
    """Clears up after an export that died; whether its folder is complete all the same."""
    target = str(plan["folder"])
    staging = staging_folder(context, target, run_id)
    aside = _aside(staging)
    if local_path(target) is None:
        return _settle_upload(context.catalog.files, staging, target)
    made = not staging.exists() and (Path(target) / _SUCCESS).exists()
    if aside.exists() and not Path(target).exists():
        aside.rename(target)
    for left in (staging, aside):
        shutil.rmtree(left, ignore_errors=True)
    return made


def _settle_upload(files: Files, staging: Path, target: str) -> bool:
    made = (staging / _SUCCESS).exists() and files.exists(f"{target}/{_SUCCESS}")
    if not made and staging.exists():
        for part in staging.glob("part-*"):
            files.remove(f"{target}/{part.name}")
    shutil.rmtree(staging, ignore_errors=True)
    return made


def staging_folder(context: Context, target: str, run_id: str) -> Path:
    """Where a run writes before its folder is complete: hidden beside the folder, or in the lake when that is on S3."""
    path = local_path(target)
    return (context.loaded.root / ".neve" if path is None else path.parent) / f".neve-{run_id}"


def _aside(staging: Path) -> Path:
    """Where an earlier export waits until the new one is in its place."""
    return staging.with_name(f"{staging.name}-old")


def _check_target(context: Context, target: str, *, overwrite: bool) -> None:
    if overlap(target, context.loaded.warehouse_location):
        raise Refused(f"{target} belongs to the lake's own warehouse", hint="choose a folder outside it")
    held = _held(context, target)
    if not held:
        return
    foreign = [entry for entry in held if not _OURS.match(entry)]
    if not overwrite:
        raise NotEmpty(f"{target} is not empty: it holds {held[0]}", hint="choose a new folder")
    if foreign or _SUCCESS not in held:
        raise NotEmpty(
            f"{target} is not a complete export: it holds {(foreign or held)[0]}",
            hint="--overwrite replaces an earlier export and nothing else",
        )


def _held(context: Context, target: str) -> list[str]:
    """What lies in a folder, by relative path; nothing when it does not exist."""
    from pyarrow.fs import FileSelector, FileType

    filesystem, root = context.catalog.files.filesystem(target)
    try:
        if filesystem.get_file_info(root).type == FileType.File:
            raise NotEmpty(f"{target} is a file", hint="choose a new folder")
        found = filesystem.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    except OSError as exc:
        raise StorageError(f"cannot look into {target}: {exc}") from exc
    return sorted(info.path.removeprefix(root).lstrip("/") for info in found)


def _write(
    context: Context,
    frame: DataFrame,
    target: str,
    run: Progress,
    *,
    format: str,  # noqa: A002
    overwrite: bool,
) -> dict[str, JsonValue]:
    from neve.engine.transfer import write_csv, write_parquet

    staging = staging_folder(context, target, run.run_id)
    try:
        rows = (write_csv if format == "csv" else write_parquet)(frame, str(staging))
        sizes = _tidy(staging)
        if local_path(target) is None:
            upload(context.catalog.files, staging, target, overwrite=overwrite)
        else:
            _move(staging, Path(target), overwrite=overwrite)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return {"rows": rows, "files": len(sizes), "bytes": sum(sizes)}


def _tidy(staging: Path) -> list[int]:
    """Takes Hadoop's checksums away; the sizes of the data files."""
    for checksum in staging.glob(".*.crc"):
        checksum.unlink()
    return [file.stat().st_size for file in sorted(staging.glob("part-*"))]


def _move(staging: Path, target: Path, *, overwrite: bool) -> None:
    """A rename, so that the folder is complete from the moment it is there; somebody else's new files stop it."""
    aside = _aside(staging)
    if overwrite and target.exists():
        target.rename(aside)
    try:
        staging.rename(target)
    except OSError as exc:
        if aside.exists():
            aside.rename(target)
        raise NotEmpty(f"cannot move the export to {target}: {exc.strerror}", hint="choose a new folder") from exc
    shutil.rmtree(aside, ignore_errors=True)


def upload(files: Files, staging: Path, target: str, *, overwrite: bool) -> None:
    """S3 has no rename: `_SUCCESS` goes last, and what was copied before a failure is taken away again."""
    from pyarrow.fs import LocalFileSystem, copy_files

    filesystem, root = files.filesystem(target)
    if overwrite:
        files.remove(f"{target}/{_SUCCESS}")
        files.remove_tree(target)
    parts = sorted((file.name for file in staging.iterdir()), key=lambda file: (file == _SUCCESS, file))
    try:
        for part in parts:
            copy_files(
                str(staging / part),
                f"{root}/{part}",
                source_filesystem=LocalFileSystem(),
                destination_filesystem=filesystem,
            )
    except OSError as exc:
        with suppress(StorageError):
            files.remove_tree(target)
        raise StorageError(f"cannot write to {target}: {exc}") from exc
